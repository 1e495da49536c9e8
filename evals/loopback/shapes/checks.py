"""Check suites, check runs and commit statuses as JSON."""

from __future__ import annotations

from evals.loopback.git_output import GitCommit
from evals.loopback.shapes.apps import app
from evals.loopback.shapes.commits import head_commit
from evals.loopback.shapes.pulls import pull_minimal
from evals.loopback.shapes.repositories import api_of, html_of, minimal_repository
from evals.loopback.shapes.users import moment, user
from evals.loopback.state import (
    CheckRun,
    CheckSuite,
    CommitStatus,
    Json,
    Repository,
    node_id,
)
from evals.loopback.world import World

_WORST_FIRST = (
    "action_required",
    "timed_out",
    "cancelled",
    "failure",
    "stale",
    "neutral",
    "success",
    "skipped",
)


def suite_status(record: CheckSuite) -> tuple[str, str | None]:
    """The status of a suite, and its conclusion once every run is completed."""
    if not record.runs:
        return "queued", None
    if any(run.status != "completed" for run in record.runs):
        return "in_progress", None
    conclusions = {run.conclusion for run in record.runs}
    return "completed", next(word for word in _WORST_FIRST if word in conclusions)


def check_run(world: World, repository: Repository, record: CheckRun) -> Json:
    """A `check-run`."""
    url = f"{api_of(world, repository)}/check-runs/{record.id}"
    page = f"{html_of(world, repository)}/runs/{record.id}"
    return {
        "id": record.id,
        "name": record.name,
        "node_id": node_id("CR", record.id),
        "head_sha": record.suite.head_sha,
        "external_id": record.external_id,
        "url": url,
        "html_url": page,
        "details_url": record.details_url or page,
        "status": record.status,
        "conclusion": record.conclusion,
        "started_at": moment(record.started_at),
        "completed_at": moment(record.completed_at),
        "output": {
            "title": record.title,
            "summary": record.summary,
            "text": record.text,
            "annotations_count": len(record.annotations),
            "annotations_url": f"{url}/annotations",
        },
        "check_suite": {"id": record.suite.id},
        "app": app(world, record.suite.app),
        "pull_requests": pulls_at(world, repository, record.suite.head_sha),
    }


def check_run_event(world: World, repository: Repository, record: CheckRun) -> Json:
    """A check run as webhooks carry it: with more of its suite, and its buttons."""
    status, conclusion = suite_status(record.suite)
    suite: Json = {
        "id": record.suite.id,
        "node_id": node_id("CS", record.suite.id),
        "head_branch": record.suite.head_branch,
        "head_sha": record.suite.head_sha,
        "status": status,
        "conclusion": conclusion,
        "url": f"{api_of(world, repository)}/check-suites/{record.suite.id}",
        "before": record.suite.before,
        "after": record.suite.head_sha,
        "pull_requests": pulls_at(world, repository, record.suite.head_sha),
        "app": app(world, record.suite.app),
        "created_at": moment(record.suite.created_at),
        "updated_at": moment(record.suite.updated_at),
    }
    return {
        **check_run(world, repository, record),
        "check_suite": suite,
        "actions": record.actions,
    }


def short_branch(world: World, repository: Repository, ref: str, sha: str) -> Json:
    """A `short-branch`."""
    name = ref.removeprefix("refs/heads/")
    return {
        "name": name,
        "commit": {"sha": sha, "url": f"{api_of(world, repository)}/commits/{sha}"},
        "protected": name in repository.protections,
    }


def pulls_at(world: World, repository: Repository, sha: str) -> list[Json]:
    """Open pull requests whose head is that commit."""
    found = (p for p in repository.pulls() if p.open and p.head_sha == sha)
    return [pull_minimal(world, pull) for pull in found]


def check_suite(world: World, repository: Repository, record: CheckSuite, head: GitCommit) -> Json:
    """A `check-suite`."""
    status, conclusion = suite_status(record)
    api = api_of(world, repository)
    return {
        "id": record.id,
        "node_id": node_id("CS", record.id),
        "head_branch": record.head_branch,
        "head_sha": record.head_sha,
        "status": status,
        "conclusion": conclusion,
        "url": f"{api}/check-suites/{record.id}",
        "before": record.before,
        "after": record.head_sha,
        "pull_requests": pulls_at(world, repository, record.head_sha),
        "app": app(world, record.app),
        "repository": minimal_repository(world, repository),
        "created_at": moment(record.created_at),
        "updated_at": moment(record.updated_at),
        "head_commit": head_commit(head),
        "latest_check_runs_count": len(record.runs),
        "check_runs_url": f"{api}/check-suites/{record.id}/check-runs",
        "rerequestable": True,
        "runs_rerequestable": True,
    }


def commit_status(world: World, repository: Repository, record: CommitStatus) -> Json:
    """A `status`."""
    return {
        "url": f"{api_of(world, repository)}/statuses/{record.sha}",
        "avatar_url": f"{world.url}/avatars/u/{record.creator.id}",
        "id": record.id,
        "node_id": node_id("SC", record.id),
        "state": record.state,
        "description": record.description,
        "target_url": record.target_url,
        "context": record.context,
        "created_at": moment(record.created_at),
        "updated_at": moment(record.created_at),
        "creator": user(world, record.creator),
    }
