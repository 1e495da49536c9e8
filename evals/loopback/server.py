"""The one FastAPI application: REST, GraphQL, Git over HTTP, pages, behind limits and faults.

In: a story, that is a world with people in it. Out: an ASGI application that serves it. The routes
are built once a process, since that takes longer than all else; which GitHub a request reached, it
carries with it. On Enterprise Server REST lives under `/api/v3` and GraphQL at `/api/graphql`;
everywhere `/repositories/{id}/…` means the same as `/repos/{owner}/{name}/…`.
"""

from __future__ import annotations

import re
import secrets
from functools import cache
from urllib.parse import urlsplit

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evals.loopback import control, doors, forms, git_http, graphql, pages
from evals.loopback.api import (
    apps,
    checks,
    git_data,
    issues,
    protection,
    pulls,
    repositories,
    users,
)
from evals.loopback.auth import Actor, actor_of_token
from evals.loopback.errors import GitHubError, not_found
from evals.loopback.faults import Misbehaving
from evals.loopback.journal import Journaling, is_api
from evals.loopback.story import SCOPE, Story
from evals.loopback.world import World

_BY_ID = re.compile(r"^/repositories/(\d+)(?=/|$)")


def serve(story: Story) -> ASGIApp:
    """The application of one GitHub, with all its layers."""
    counted = _AsGitHub(_routes())
    return _Paths(story, Misbehaving(Journaling(counted, story.exchanges), story.faults))


@cache
def _routes() -> FastAPI:
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    rest = (apps, users, checks, protection, git_data, repositories, issues, pulls)
    for part in (*rest, graphql, control, doors, git_http, forms, pages):
        app.include_router(part.router)
    app.add_exception_handler(GitHubError, _refused)
    app.add_exception_handler(RequestValidationError, _unknown_path)
    app.add_exception_handler(HTTPException, _unknown_path)
    return app


async def _refused(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, GitHubError)
    if "text/html" in request.headers.get("accept", "") and not is_api(request.url.path):
        return pages.show_refusal(request, problem)
    return JSONResponse(problem.body(), problem.status, problem.headers)


async def _unknown_path(request: Request, problem: Exception) -> Response:
    """What is no number where one belongs, or no route at all, is simply not there."""
    status = getattr(problem, "status_code", 404)
    refusal = not_found() if status in (404, 405) else GitHubError(status, "Error")
    return await _refused(request, refusal)


class _AsGitHub:
    """Counts REST calls against the limits and puts GitHub's headers on the answers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not is_api(scope["path"]):
            await self._app(scope, receive, send)
            return
        story, request = scope[SCOPE], Request(scope)
        try:
            headers = story.limits.spend(
                _actor(story.world, request), request.method, scope["path"]
            )
        except GitHubError as refusal:
            await JSONResponse(refusal.body(), refusal.status, refusal.headers)(
                scope, receive, send
            )
            return
        headers["X-GitHub-Request-Id"] = secrets.token_hex(10).upper()
        headers["X-GitHub-Media-Type"] = "github.v3; format=json"
        version = request.headers.get("x-github-api-version")
        if version:
            headers["X-GitHub-Api-Version-Selected"] = version

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(headers)
            await send(message)

        await self._app(scope, receive, answer)


def _actor(world: World, request: Request) -> Actor:
    value = request.headers.get("authorization", "").partition(" ")[2].strip()
    try:
        return actor_of_token(world, value) if value else Actor()
    except GitHubError:
        return Actor()


def _addressed_here(scope: Scope) -> bool:
    """Whether the browser was not led here by another site's name (DNS rebinding)."""
    host = Request(scope).headers.get("host", "")
    return urlsplit(f"//{host}").hostname in ("127.0.0.1", "::1", "localhost")


class _Paths:
    """Takes the Enterprise prefix off, and turns ids into names, before anything else looks."""

    def __init__(self, story: Story, app: ASGIApp) -> None:
        self._story = story
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the call on under the path that the routes know."""
        if scope["type"] == "http" and not _addressed_here(scope):
            refusal = GitHubError(421, "This GitHub answers to 127.0.0.1 and localhost only.")
            await JSONResponse(refusal.body(), refusal.status)(scope, receive, send)
            return
        if scope["type"] == "http":
            path = self._named(self._unprefixed(scope["path"]))
            told = {"path": path, "raw_path": path.encode(), "original_path": scope["path"]}
            scope = {**scope, **told, SCOPE: self._story}
        await self._app(scope, receive, send)

    def _unprefixed(self, path: str) -> str:
        if not self._story.world.enterprise:
            return path
        if path == "/api/graphql":
            return "/graphql"
        if path.startswith("/api/v3"):
            return path.removeprefix("/api/v3") or "/"
        return f"/_not_here{path}" if is_api(path) and path != "/" else path

    def _named(self, path: str) -> str:
        match = _BY_ID.match(path)
        repository = self._story.world.repositories.get(int(match[1])) if match else None
        if match is None or repository is None or repository.deleted:
            return path
        return f"/repos/{repository.full_name}{path[match.end() :]}"
