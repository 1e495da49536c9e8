"""Check runs, check suites, statuses: https://docs.github.com/rest/checks and /rest/commits."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from evals.loopback import checks, shapes, statuses
from evals.loopback.api.call import At, Repo
from evals.loopback.errors import GitHubError
from evals.loopback.shapes.repositories import api_of
from evals.loopback.state import CheckRun, CheckSuite, Json

router = APIRouter()
_AT = "/repos/{owner}/{name}"


@router.post(_AT + "/check-runs", status_code=201)
async def create_run(at: Repo) -> Json:
    """Make a check run."""
    values = await at.values()
    run = await checks.create_run(at.world, at.actor, at.repository, values.all)
    return shapes.check_run(at.world, at.repository, run)


@router.get(_AT + "/check-runs/{number}")
async def get_run(at: Repo, number: int) -> Json:
    """One check run."""
    at.demand("checks", "read")
    return shapes.check_run(at.world, at.repository, checks.find_run(at.repository, number))


@router.patch(_AT + "/check-runs/{number}")
async def update_run(at: Repo, number: int) -> Json:
    """Change a check run."""
    values = await at.values()
    run = checks.find_run(at.repository, number)
    await checks.update_run(at.world, at.actor, at.repository, run, values.all)
    return shapes.check_run(at.world, at.repository, run)


@router.get(_AT + "/check-runs/{number}/annotations")
async def list_annotations(at: Repo, number: int) -> JSONResponse:
    """The annotations of a check run."""
    at.demand("checks", "read")
    run = checks.find_run(at.repository, number)
    blob = f"{api_of(at.world, at.repository)}/contents"
    href = f"?ref={run.suite.head_sha}"
    return at.paged(
        run.annotations, lambda one: {**one, "blob_href": f"{blob}/{one['path']}{href}"}
    )


@router.post(_AT + "/check-runs/{number}/rerequest", status_code=201)
async def rerequest_run(at: Repo, number: int) -> Json:
    """Press "Re-run" on one check."""
    run = checks.find_run(at.repository, number)
    checks.rerequest_run(at.world, at.actor, at.repository, run)
    return {}


@router.get(_AT + "/check-suites/{number}")
async def get_suite(at: Repo, number: int) -> Json:
    """One check suite."""
    at.demand("checks", "read")
    return await _suite(at, checks.find_suite(at.repository, number))


@router.get(_AT + "/check-suites/{number}/check-runs")
async def list_suite_runs(at: Repo, number: int) -> JSONResponse:
    """The runs of one suite."""
    at.demand("checks", "read")
    return _runs(at, checks.find_suite(at.repository, number).runs)


@router.post(_AT + "/check-suites/{number}/rerequest", status_code=201)
async def rerequest_suite(at: Repo, number: int) -> Json:
    """Press "Re-run all"."""
    suite = checks.find_suite(at.repository, number)
    await checks.rerequest_suite(at.world, at.actor, at.repository, suite)
    return {}


@router.get(_AT + "/commits/{revision:path}/check-runs")
async def list_runs(at: Repo, revision: str) -> JSONResponse:
    """Check runs on a commit; the newest of each name and App unless `filter=all`."""
    at.demand("checks", "read")
    sha = await _commit(at, revision)
    every = [run for run in at.repository.check_runs() if run.suite.head_sha == sha]
    found = every if at.filter("filter") == "all" else checks.latest_runs(at.repository, sha)
    return _runs(at, found)


def _runs(at: At, runs: list[CheckRun]) -> JSONResponse:
    name, status, app = at.filter("check_name"), at.filter("status"), at.filter("app_id")
    found = [
        run
        for run in runs
        if name in ("", run.name)
        and status in ("", run.status)
        and app in ("", str(run.suite.app.id))
    ]
    return at.paged(
        found, lambda run: shapes.check_run(at.world, at.repository, run), wrapped="check_runs"
    )


@router.get(_AT + "/commits/{revision:path}/check-suites")
async def list_suites(at: Repo, revision: str) -> JSONResponse:
    """Check suites on a commit."""
    at.demand("checks", "read")
    sha, app = await _commit(at, revision), at.filter("app_id")
    suites = [suite for suite in at.repository.suites.values() if suite.head_sha == sha]
    found = [suite for suite in suites if app in ("", str(suite.app.id))]
    shown = {suite.id: await _suite(at, suite) for suite in found}
    return at.paged(found, lambda suite: shown[suite.id], wrapped="check_suites")


async def _suite(at: At, suite: CheckSuite) -> Json:
    head = await at.repository.git.commit(suite.head_sha)
    return shapes.check_suite(at.world, at.repository, suite, head)


# --- statuses ---


@router.post(_AT + "/statuses/{sha}", status_code=201)
async def create_status(at: Repo, sha: str) -> Json:
    """Set the status of a commit in one context."""
    values = await at.values()
    status = await statuses.set_status(at.world, at.actor, at.repository, sha, values.all)
    return shapes.commit_status(at.world, at.repository, status)


@router.get(_AT + "/commits/{revision:path}/statuses")
async def list_statuses(at: Repo, revision: str) -> JSONResponse:
    """Every status ever set on a commit, newest first."""
    at.demand("statuses", "read")
    sha = await _commit(at, revision)
    found = [status for status in reversed(at.repository.statuses) if status.sha == sha]
    return at.paged(found, lambda one: shapes.commit_status(at.world, at.repository, one))


@router.get(_AT + "/commits/{revision:path}/status")
async def combined_status(at: Repo, revision: str) -> Json:
    """The newest status of every context, and what they make together."""
    at.demand("statuses", "read")
    sha = await _commit(at, revision)
    latest = statuses.latest(at.repository, sha)
    states = {"failure" if s.state == "error" else s.state for s in latest}
    worst = next((s for s in ("failure", "pending", "success") if s in states), "pending")
    api = api_of(at.world, at.repository)
    shown = [shapes.commit_status(at.world, at.repository, status) for status in latest]
    return {
        "state": worst,
        "statuses": [{k: v for k, v in one.items() if k != "creator"} for one in shown],
        "sha": sha,
        "total_count": len(latest),
        "repository": shapes.minimal_repository(at.world, at.repository),
        "commit_url": f"{api}/commits/{sha}",
        "url": f"{api}/commits/{sha}/status",
    }


async def _commit(at: At, revision: str) -> str:
    sha = await at.repository.git.resolve(revision)
    if sha is None:
        raise GitHubError(422, f"No commit found for SHA: {revision}")
    return sha
