"""Small pages to read: a repository, an issue, a pull request with its tabs, a check run.

In: a browser's GET. Out: HTML from the templates beside this file. What a person does on a page is
in `forms.py`. Whoever looks at a page sees everything: the stage has no secrets from its director.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, HTMLResponse, PlainTextResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from evals.loopback import checks, issues, protection, pulls, statuses, words
from evals.loopback.errors import GitHubError, not_found
from evals.loopback.git_output import FileChange
from evals.loopback.people import Person
from evals.loopback.shapes.users import ghost, moment
from evals.loopback.state import (
    Account,
    CheckRun,
    Issue,
    PullRequest,
    Repository,
)
from evals.loopback.story import story_of
from evals.loopback.world import World

router = APIRouter()
REMEMBERED = "acting_as"
_FOLDER = Path(__file__).with_name("templates")
_POLICY = "default-src 'none'; style-src 'self'; frame-ancestors 'none'; form-action 'self'"


def _login(account: Account | None) -> str:
    return (ghost() if account is None or account.deleted else account).login


_TEMPLATES = Environment(
    loader=FileSystemLoader(_FOLDER),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters |= {
    "markdown": words.html_of,
    "visible": words.visible,
    "login": _login,
    "moment": moment,
}


def repository_of(world: World, owner: str, name: str) -> Repository:
    """The repository of a page's address; 404 without one."""
    found = world.repository(owner, name) or world.formerly(owner, name)
    if found is None:
        raise not_found()
    return found


def show(
    request: Request, template: str, *, status: int = 200, leads_to: str = "", **facts: Any
) -> HTMLResponse:
    """One page, with what every page needs; its forms may end at `leads_to`, besides here."""
    story = story_of(request)
    people: list[Person] = [p for p in story.people.values() if not p.account.deleted]
    html = _TEMPLATES.get_template(template).render(
        people=people,
        acting_as=request.cookies.get(REMEMBERED, "writer"),
        path=request.url.path,
        **facts,
    )
    elsewhere = urlsplit(leads_to)
    policy = f"{_POLICY} {elsewhere.scheme}://{elsewhere.netloc}" if leads_to else _POLICY
    return HTMLResponse(html, status, {"Content-Security-Policy": policy})


def show_refusal(request: Request, problem: GitHubError) -> HTMLResponse:
    """Why something did not happen, in GitHub's words."""
    details = [str(error) for error in problem.errors or []]
    return show(request, "refusal.html", status=problem.status, problem=problem, details=details)


@router.get("/_loopback/style.css")
async def style() -> FileResponse:
    """The one style sheet."""
    return FileResponse(_FOLDER / "style.css", media_type="text/css")


@router.get("/_loopback")
async def home(request: Request) -> Response:
    """All repositories."""
    live = [r for r in story_of(request).world.repositories.values() if not r.deleted]
    return show(request, "home.html", repositories=live)


@router.get("/{owner}/{name}/issues")
@router.get("/{owner}/{name}/pulls")
@router.get("/{owner}/{name}")
async def repository_page(request: Request, owner: str, name: str) -> Response:
    """A repository: its branches, issues and pull requests."""
    repository = repository_of(story_of(request).world, owner, name)
    branches = await repository.git.refs("refs/heads/")
    tips = [await repository.git.commit(sha) for sha in branches.values()]
    shown = [
        (ref.removeprefix("refs/heads/"), tip) for ref, tip in zip(branches, tips, strict=True)
    ]
    newest = list(reversed(repository.issues.values()))
    return show(
        request, "repository.html", repository=repository, branches=shown, conversations=newest
    )


@router.get("/{owner}/{name}/issues/{number}")
async def issue_page(request: Request, owner: str, name: str, number: int) -> Response:
    """An issue with its comments."""
    issue = _issue(request, owner, name, number)
    if issue.pull is not None:
        return await pull_page(request, owner, name, number)
    return show(request, "issue.html", repository=issue.repository, issue=issue)


def _issue(request: Request, owner: str, name: str, number: int) -> Issue:
    return issues.find(repository_of(story_of(request).world, owner, name), number)


def _pull(request: Request, owner: str, name: str, number: int) -> PullRequest:
    return pulls.find(repository_of(story_of(request).world, owner, name), number)


@router.get("/{owner}/{name}/pull/{number}.diff")
async def pull_diff(request: Request, owner: str, name: str, number: int) -> Response:
    """What a pull request changes, as text."""
    pull = _pull(request, owner, name, number)
    start = await pull.repository.git.merge_base(pull.base_sha, pull.head_sha)
    return PlainTextResponse(
        await pull.repository.git.text("diff", start or pull.base_sha, pull.head_sha)
    )


@router.get("/{owner}/{name}/pull/{number}")
async def pull_page(request: Request, owner: str, name: str, number: int) -> Response:
    """The conversation of a pull request, its reviews, and what it waits for."""
    pull = _pull(request, owner, name, number)
    world = story_of(request).world
    return show(
        request,
        "conversation.html",
        **await _about(world, pull),
        timeline=_timeline(pull),
        objections=await protection.objections_to_merge(world, pull) if pull.open else [],
    )


async def _about(world: World, pull: PullRequest) -> dict[str, Any]:
    return {
        "repository": pull.repository,
        "issue": pull.issue,
        "pull": pull,
        "facts": await pulls.facts(world, pull),
        "runs": _runs(pull.repository, pull.head_sha),
    }


def _runs(repository: Repository, sha: str) -> list[CheckRun]:
    return sorted(checks.latest_runs(repository, sha), key=lambda run: run.name)


def _timeline(pull: PullRequest) -> list[tuple[str, Any]]:
    """Comments and reviews in the order they came."""
    said = [(c.created_at, c.id, "comment", c) for c in pull.issue.comments.values()]
    given = [
        (review.submitted_at, review.id, "review", review)
        for review in pull.reviews.values()
        if review.submitted_at is not None
    ]
    return [(kind, item) for _, _, kind, item in sorted([*said, *given], key=lambda x: x[:2])]


@router.get("/{owner}/{name}/pull/{number}/files")
async def files_page(request: Request, owner: str, name: str, number: int) -> Response:
    """What a pull request changes, and the form to review it."""
    pull = _pull(request, owner, name, number)
    git = pull.repository.git
    start = await git.merge_base(pull.base_sha, pull.head_sha) or pull.base_sha
    files = await git.changes(start, pull.head_sha)
    shown = [(file, _lines(file)) for file in files]
    return show(request, "files.html", **await _about(story_of(request).world, pull), files=shown)


def _lines(file: FileChange) -> list[tuple[str, str]]:
    """Each line of a patch with its kind: added, removed, hunk or context."""
    kinds = {"+": "added", "-": "removed", "@": "hunk"}
    return [(kinds.get(line[:1], "context"), line) for line in (file.patch or "").split("\n")]


@router.get("/{owner}/{name}/pull/{number}/checks")
async def checks_page(request: Request, owner: str, name: str, number: int) -> Response:
    """The check runs and statuses at a pull request's head."""
    pull = _pull(request, owner, name, number)
    said = statuses.latest(pull.repository, pull.head_sha)
    about = await _about(story_of(request).world, pull)
    return show(request, "checks.html", **about, statuses=said)


@router.get("/{owner}/{name}/runs/{number}")
async def run_page(request: Request, owner: str, name: str, number: int) -> Response:
    """One check run with all that it says."""
    repository = repository_of(story_of(request).world, owner, name)
    run = checks.find_run(repository, number)
    found = [p for p in repository.pulls() if p.head_sha == run.suite.head_sha]
    return show(request, "run.html", repository=repository, run=run, pulls=found)


@router.get("/{owner}/{name}/commit/{sha}")
async def commit_page(request: Request, owner: str, name: str, sha: str) -> Response:
    """One commit with its files."""
    repository = repository_of(story_of(request).world, owner, name)
    git = repository.git
    full = await git.resolve(sha)
    if full is None:
        raise not_found()
    commit = await git.commit(full)
    parent = commit.parents[0] if commit.parents else await git.write_tree(None, {})
    files = [(file, _lines(file)) for file in await git.changes(parent, full)]
    runs = _runs(repository, full)
    return show(
        request, "commit.html", repository=repository, commit=commit, files=files, runs=runs
    )


@router.get("/{owner}/{name}/blob/{place:path}")
@router.get("/{owner}/{name}/raw/{place:path}")
async def blob_page(request: Request, owner: str, name: str, place: str) -> Response:
    """A file as text, at `branch-or-sha/path`; branch names may hold slashes."""
    git = repository_of(story_of(request).world, owner, name).git
    parts = place.split("/")
    for length in range(1, len(parts)):
        commit = await git.resolve("/".join(parts[:length]))
        entry = commit and await git.entry(commit, "/".join(parts[length:]))
        if entry and entry.type == "blob":
            data = await git.object(entry.sha)
            return PlainTextResponse(data.decode(errors="replace"))
    raise not_found()
