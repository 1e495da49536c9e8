"""Issues, comments, labels, reactions: https://docs.github.com/rest/issues and /rest/reactions."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from evals.loopback import issues, shapes
from evals.loopback.api.call import At, Repo
from evals.loopback.auth import demand
from evals.loopback.errors import invalid_field, not_found
from evals.loopback.state import Comment, Issue, Json, Label, ReviewComment

router = APIRouter()
_AT = "/repos/{owner}/{name}"


@router.get(_AT + "/issues")
async def list_issues(at: Repo) -> JSONResponse:
    """Issues and pull requests, newest first; open ones unless asked otherwise."""
    at.demand("issues", "read")
    state, labels = at.filter("state", "open"), set(filter(None, at.filter("labels").split(",")))
    found = [
        issue
        for issue in reversed(at.repository.issues.values())
        if state in ("all", issue.state) and labels <= {label.name for label in issue.labels}
    ]
    return at.paged(found, lambda issue: shapes.issue(at.world, issue))


@router.post(_AT + "/issues", status_code=201)
async def create_issue(at: Repo) -> Json:
    """Open an issue."""
    values = await at.values()
    labels = [
        item["name"] if isinstance(item, dict) else item for item in values.all.get("labels") or []
    ]
    issue = issues.open_issue(
        at.world,
        at.actor,
        at.repository,
        title=values.text("title"),
        body=values.maybe_text("body"),
        labels=labels,
    )
    return shapes.issue(at.world, issue)


@router.get(_AT + "/issues/comments")
async def list_all_comments(at: Repo) -> JSONResponse:
    """Every comment of the repository, oldest first."""
    at.demand("issues", "read")
    every = [c for issue in at.repository.issues.values() for c in issue.comments.values()]
    return at.paged(sorted(every, key=lambda c: c.id), lambda c: shapes.comment(at.world, c))


@router.get(_AT + "/issues/{number}")
async def get_issue(at: Repo, number: int) -> Json:
    """One issue or pull request."""
    _demand_read(at)
    return shapes.issue(at.world, issues.find(at.repository, number))


def _demand_read(at: At) -> None:
    both = ("issues", "pull_requests")
    demand(at.world, at.actor, at.repository, both, "read", "read")


@router.patch(_AT + "/issues/{number}")
async def edit_issue(at: Repo, number: int) -> Json:
    """Change title, body, labels, state."""
    values = await at.values()
    issue = issues.find(at.repository, number)
    issues.demand_edit(at.world, at.actor, issue)
    issues.edit(
        at.world,
        at.actor,
        issue,
        title=values.maybe_text("title"),
        body=values.maybe_text("body"),
    )
    if "labels" in values.all:
        issues.set_labels(at.world, at.actor, issue, await at.list_or_field("labels"))
    state = values.maybe_text("state")
    if state == "closed":
        issues.close(at.world, at.actor, issue, values.maybe_text("state_reason"))
    elif state == "open":
        issues.reopen(at.world, at.actor, issue)
    elif state is not None:
        raise invalid_field("Issue", "state")
    return shapes.issue(at.world, issue)


@router.put(_AT + "/issues/{number}/lock", status_code=204)
async def lock_issue(at: Repo, number: int) -> Response:
    """Let only writers comment."""
    values = await at.values()
    reason = values.maybe_text("lock_reason")
    issues.lock(at.world, at.actor, issues.find(at.repository, number), reason)
    return Response(status_code=204)


@router.delete(_AT + "/issues/{number}/lock", status_code=204)
async def unlock_issue(at: Repo, number: int) -> Response:
    """Let everybody comment again."""
    issues.unlock(at.world, at.actor, issues.find(at.repository, number))
    return Response(status_code=204)


# --- comments ---


@router.get(_AT + "/issues/{number}/comments")
async def list_comments(at: Repo, number: int) -> JSONResponse:
    """The comments of one issue, oldest first."""
    _demand_read(at)
    found = list(issues.find(at.repository, number).comments.values())
    return at.paged(found, lambda comment: shapes.comment(at.world, comment))


@router.post(_AT + "/issues/{number}/comments", status_code=201)
async def create_comment(at: Repo, number: int) -> Json:
    """Say something."""
    values = await at.values()
    issue = issues.find(at.repository, number)
    return shapes.comment(at.world, issues.comment(at.world, at.actor, issue, values.text("body")))


@router.get(_AT + "/issues/comments/{number}")
async def get_comment(at: Repo, number: int) -> Json:
    """One comment."""
    _demand_read(at)
    return shapes.comment(at.world, issues.find_comment(at.repository, number))


@router.patch(_AT + "/issues/comments/{number}")
async def edit_comment(at: Repo, number: int) -> Json:
    """Change a comment."""
    values = await at.values()
    comment = issues.find_comment(at.repository, number)
    issues.edit_comment(at.world, at.actor, comment, values.text("body"))
    return shapes.comment(at.world, comment)


@router.delete(_AT + "/issues/comments/{number}", status_code=204)
async def delete_comment(at: Repo, number: int) -> Response:
    """Remove a comment."""
    issues.delete_comment(at.world, at.actor, issues.find_comment(at.repository, number))
    return Response(status_code=204)


# --- labels ---


@router.get(_AT + "/labels")
async def list_repository_labels(at: Repo) -> JSONResponse:
    """The labels that the repository knows."""
    at.demand("issues", "read")
    return at.paged(list(at.repository.labels.values()), lambda label: _label(at, label))


@router.post(_AT + "/labels", status_code=201)
async def create_label(at: Repo) -> Json:
    """Make a label."""
    at.demand("issues", "write", "write")
    values = await at.values()
    name = values.text("name")
    if name.casefold() in at.repository.labels:
        raise invalid_field("Label", "name", "already_exists")
    label = issues.label_named(at.world, at.repository, name)
    label.color = values.maybe_text("color") or label.color
    label.description = values.maybe_text("description")
    return _label(at, label)


@router.get(_AT + "/labels/{label}")
async def get_label(at: Repo, label: str) -> Json:
    """One label."""
    at.demand("issues", "read")
    if label.casefold() not in at.repository.labels:
        raise not_found()
    return _label(at, at.repository.labels[label.casefold()])


@router.get(_AT + "/issues/{number}/labels")
async def list_labels(at: Repo, number: int) -> JSONResponse:
    """The labels of one issue."""
    _demand_read(at)
    return at.paged(issues.find(at.repository, number).labels, lambda label: _label(at, label))


@router.post(_AT + "/issues/{number}/labels")
async def add_labels(at: Repo, number: int) -> JSONResponse:
    """Put labels on."""
    issue = issues.find(at.repository, number)
    issues.add_labels(at.world, at.actor, issue, await at.list_or_field("labels"))
    return at.paged(issue.labels, lambda label: _label(at, label))


@router.put(_AT + "/issues/{number}/labels")
async def set_labels(at: Repo, number: int) -> JSONResponse:
    """Make exactly these the labels."""
    issue = issues.find(at.repository, number)
    issues.set_labels(at.world, at.actor, issue, await at.list_or_field("labels"))
    return at.paged(issue.labels, lambda label: _label(at, label))


@router.delete(_AT + "/issues/{number}/labels/{label}")
async def remove_label(at: Repo, number: int, label: str) -> JSONResponse:
    """Take one label off."""
    issue = issues.find(at.repository, number)
    issues.remove_label(at.world, at.actor, issue, label)
    return at.paged(issue.labels, lambda one: _label(at, one))


def _label(at: At, label: Label) -> Json:
    return shapes.label(at.world, at.repository, label)


# --- reactions ---

_Reactable = Issue | Comment | ReviewComment


def _reactable(at: At, kind: str, number: int) -> _Reactable:
    if kind == "comments":
        return issues.find_comment(at.repository, number)
    if kind == "issues":
        return issues.find(at.repository, number)
    for pull in at.repository.pulls():
        for comment in pull.review_comments():
            if comment.id == number:
                return comment
    raise not_found()


def _reaction_routes(prefix: str, kind: str) -> None:
    @router.get(f"{_AT}{prefix}/{{number}}/reactions")
    async def list_reactions(at: Repo, number: int) -> JSONResponse:
        at.demand("metadata", "read")
        on = _reactable(at, kind, number)
        return at.paged(on.reactions, lambda one: shapes.reaction(at.world, one))

    @router.post(f"{_AT}{prefix}/{{number}}/reactions")
    async def create_reaction(at: Repo, number: int) -> JSONResponse:
        values = await at.values()
        on = _reactable(at, kind, number)
        reaction, new = issues.react(at.world, at.actor, on, values.text("content"))
        return JSONResponse(shapes.reaction(at.world, reaction), 201 if new else 200)

    @router.delete(f"{_AT}{prefix}/{{number}}/reactions/{{reaction}}", status_code=204)
    async def delete_reaction(at: Repo, number: int, reaction: int) -> Response:
        issues.unreact(at.world, at.actor, _reactable(at, kind, number), reaction)
        return Response(status_code=204)


_reaction_routes("/issues/comments", "comments")
_reaction_routes("/issues", "issues")
_reaction_routes("/pulls/comments", "review comments")
