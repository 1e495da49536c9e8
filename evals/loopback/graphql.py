"""GraphQL: the few things REST cannot do, parsed, validated and executed by graphql-core.

In: `POST /graphql` with a query over `schema.graphql`. Out: GitHub's answers, 200 with `errors` for
what is refused. Unknown fields fail validation, so a query that works here names real fields.
https://docs.github.com/graphql
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import graphql
from fastapi import APIRouter
from fastapi.responses import JSONResponse

from evals.loopback import graphql_views as views
from evals.loopback import issues, pulls, reviews
from evals.loopback.api.call import Call, Caller
from evals.loopback.auth import can_see
from evals.loopback.errors import GitHubError, not_found
from evals.loopback.state import Issue, Json, PullRequest, Repository, ReviewThread, node_id

router = APIRouter()
_SCHEMA = graphql.build_schema(Path(__file__).with_name("schema.graphql").read_text())
_TYPES = {401: "UNAUTHENTICATED", 403: "FORBIDDEN", 404: "NOT_FOUND", 422: "UNPROCESSABLE"}
Node = Repository | Issue | PullRequest | ReviewThread


@router.post("/graphql")
async def execute(call: Caller) -> JSONResponse:
    """Run one query or mutation."""
    call.actor.who()
    values = await call.values()
    source, variables = values.text("query"), values.all.get("variables") or {}
    try:
        document = graphql.parse(source)
    except graphql.GraphQLSyntaxError as problem:
        return JSONResponse({"errors": [_error(problem)]})
    problems: Sequence[graphql.GraphQLError] = graphql.validate(_SCHEMA, document)
    if problems:
        return JSONResponse({"errors": [_error(problem) for problem in problems]})
    result = graphql.execute(
        _SCHEMA,
        document,
        root_value=_root(call),
        context_value=call,
        variable_values=variables,
        operation_name=values.maybe_text("operationName"),
    )
    outcome = result if isinstance(result, graphql.ExecutionResult) else await result
    body: Json = {"data": outcome.data}
    if outcome.errors:
        body["errors"] = [_error(problem) for problem in outcome.errors]
    return JSONResponse(body)


def _error(problem: graphql.GraphQLError) -> Json:
    shown: Json = dict(problem.formatted)
    cause = problem.original_error
    if isinstance(cause, GitHubError):
        shown["type"] = _TYPES.get(cause.status, "INTERNAL")
        shown["message"] = _words(cause)
    return shown


def _words(refusal: GitHubError) -> str:
    details = [error for error in refusal.errors or [] if isinstance(error, str)]
    return details[0] if details else refusal.message


# --- queries ---


def _root(call: Call) -> dict[str, Any]:
    return {
        "viewer": lambda _info: views.actor(call.actor.who()),
        "rateLimit": lambda _info: views.rate_limit(call.world),
        "node": lambda _info, id: _view(call, _node(call, id)),  # noqa: A006 - GitHub's name
        "repository": lambda _info, owner, name, **_: _repository(call, owner, name),
        **{name: _mutation(call, act) for name, act in _MUTATIONS.items()},
    }


def _repository(call: Call, owner: str, name: str) -> Json:
    repository = call.world.repository(owner, name) or call.world.formerly(owner, name)
    if repository is None or not can_see(call.world, call.actor, repository):
        message = f"Could not resolve to a Repository with the name '{owner}/{name}'."
        raise GitHubError(404, message)
    return views.repository(call, repository)


def _node(call: Call, wanted: str) -> Node:
    """Whatever has that global id, if the speaker may see its repository."""
    for repository in call.world.repositories.values():
        if not can_see(call.world, call.actor, repository):
            continue
        if wanted == node_id("R", repository.id):
            return repository
        for issue in repository.issues.values():
            found = _node_of_issue(issue, wanted)
            if found is not None:
                return found
    raise GitHubError(404, f"Could not resolve to a node with the global id of '{wanted}'")


def _node_of_issue(issue: Issue, wanted: str) -> Node | None:
    if issue.pull is None:
        return issue if wanted == node_id("I", issue.id) else None
    if wanted == node_id("PR", issue.pull.id):
        return issue.pull
    threads = issue.pull.threads.values()
    return next((t for t in threads if wanted == node_id("PRRT", t.id)), None)


def _view(call: Call, node: Node) -> Json:
    if isinstance(node, Repository):
        return views.repository(call, node)
    if isinstance(node, Issue):
        return views.issue(call, node)
    if isinstance(node, PullRequest):
        return views.pull(call, node)
    return views.thread(call, node)


# --- mutations ---

_Act = Callable[[Call, Json], Awaitable[Json]]


def _mutation(call: Call, act: _Act) -> Callable[..., Awaitable[Json]]:
    async def run(_info: object, input: Json) -> Json:  # noqa: A002 - GitHub's name
        return {"clientMutationId": input.get("clientMutationId"), **await act(call, input)}

    return run


def _pull(call: Call, values: Json) -> PullRequest:
    found = _node(call, values["pullRequestId"])
    if not isinstance(found, PullRequest):
        raise not_found()
    return found


async def _ready(call: Call, values: Json) -> Json:
    found = _pull(call, values)
    await pulls.set_draft(call.world, call.actor, found, draft=False)
    return {"pullRequest": views.pull(call, found)}


async def _draft(call: Call, values: Json) -> Json:
    found = _pull(call, values)
    await pulls.set_draft(call.world, call.actor, found, draft=True)
    return {"pullRequest": views.pull(call, found)}


def _resolution(*, resolved: bool) -> _Act:
    async def act(call: Call, values: Json) -> Json:
        found = _node(call, values["threadId"])
        if not isinstance(found, ReviewThread):
            raise not_found()
        reviews.resolve(call.world, call.actor, found, resolved=resolved)
        return {"thread": views.thread(call, found)}

    return act


def _issue(call: Call, values: Json) -> Issue:
    found = _node(call, values["issueId"])
    if not isinstance(found, Issue):
        raise not_found()
    return found


async def _transfer(call: Call, values: Json) -> Json:
    to = _node(call, values["repositoryId"])
    if not isinstance(to, Repository):
        raise not_found()
    moved = issues.transfer(call.world, call.actor, _issue(call, values), to)
    return {"issue": views.issue(call, moved)}


async def _delete(call: Call, values: Json) -> Json:
    gone = _issue(call, values)
    issues.delete(call.world, call.actor, gone)
    return {"repository": views.repository(call, gone.repository)}


_MUTATIONS: dict[str, _Act] = {
    "markPullRequestReadyForReview": _ready,
    "convertPullRequestToDraft": _draft,
    "resolveReviewThread": _resolution(resolved=True),
    "unresolveReviewThread": _resolution(resolved=False),
    "transferIssue": _transfer,
    "deleteIssue": _delete,
}
