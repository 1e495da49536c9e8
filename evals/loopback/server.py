"""The one FastAPI application: REST, GraphQL, Git over HTTP, pages, behind limits and faults.

In: a world and its helpers. Out: an ASGI application. On Enterprise Server REST lives under
`/api/v3` and GraphQL at `/api/graphql`; everywhere `/repositories/{id}/…` means the same as
`/repos/{owner}/{name}/…`.
"""

from __future__ import annotations

import re
import secrets

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.middleware.base import RequestResponseEndpoint
from starlette.types import ASGIApp, Receive, Scope, Send

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
from evals.loopback.deliveries import Webhooks
from evals.loopback.errors import GitHubError, not_found
from evals.loopback.faults import Misbehaving
from evals.loopback.git_http import HookServer
from evals.loopback.journal import Journal, is_api
from evals.loopback.limits import Limits
from evals.loopback.manifests import Registrations
from evals.loopback.served import Served
from evals.loopback.signin import SignIns
from evals.loopback.state import World

_BY_ID = re.compile(r"^/repositories/(\d+)(?=/|$)")


def create_app(world: World, webhooks: Webhooks, hooks: HookServer) -> Served:
    """Put all faces and layers together."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.state.world = world
    app.state.webhooks = webhooks
    app.state.hooks = hooks
    app.state.registrations = Registrations()
    app.state.signins = SignIns()
    app.state.limits = limits = Limits(world)
    for part in (apps, users, checks, protection, git_data, repositories, issues, pulls):
        app.include_router(part.router)
    app.include_router(graphql.router)
    for part in (control, doors, git_http, forms, pages):
        app.include_router(part.router)
    app.add_exception_handler(GitHubError, _refused)
    app.add_exception_handler(RequestValidationError, _unknown_path)
    app.add_exception_handler(HTTPException, _unknown_path)
    app.middleware("http")(_as_github)
    journal = Journal(app)
    faulty = Misbehaving(journal)
    return Served(app, _Paths(world, faulty), faulty, journal, limits)


async def _as_github(request: Request, call_next: RequestResponseEndpoint) -> Response:
    """Count against the limits and put GitHub's headers on every REST answer."""
    path = request.url.path
    if not is_api(path):
        return await call_next(request)
    limits: Limits = request.app.state.limits
    try:
        headers = limits.spend(_actor(request), request.method, path)
        answer = await call_next(request)
    except GitHubError as refusal:
        headers, answer = {}, await _refused(request, refusal)
    for name, value in headers.items():
        answer.headers.setdefault(name, value)
    answer.headers["X-GitHub-Request-Id"] = secrets.token_hex(10).upper()
    answer.headers["X-GitHub-Media-Type"] = "github.v3; format=json"
    version = request.headers.get("x-github-api-version")
    if version:
        answer.headers["X-GitHub-Api-Version-Selected"] = version
    return answer


def _actor(request: Request) -> Actor:
    value = request.headers.get("authorization", "").partition(" ")[2].strip()
    try:
        return actor_of_token(request.app.state.world, value) if value else Actor()
    except GitHubError:
        return Actor()


async def _refused(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, GitHubError)
    if "text/html" in request.headers.get("accept", "") and not is_api(request.url.path):
        return pages.show_refusal(request, problem)
    return JSONResponse(problem.body(), problem.status, problem.headers)


async def _unknown_path(_request: Request, problem: Exception) -> Response:
    """What is no number where one belongs, or no route at all, is simply not there."""
    status = getattr(problem, "status_code", 404)
    refusal = not_found() if status in (404, 405) else GitHubError(status, "Error")
    return JSONResponse(refusal.body(), refusal.status)


class _Paths:
    """Takes the Enterprise prefix off, and turns ids into names, before anything else looks."""

    def __init__(self, world: World, app: ASGIApp) -> None:
        self.world = world
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the call on under the path that the routes know."""
        if scope["type"] == "http":
            path = self._named(self._unprefixed(scope["path"]))
            scope = {
                **scope,
                "path": path,
                "raw_path": path.encode(),
                "original_path": scope["path"],
            }
        await self.app(scope, receive, send)

    def _unprefixed(self, path: str) -> str:
        if not self.world.enterprise:
            return path
        if path == "/api/graphql":
            return "/graphql"
        if path.startswith("/api/v3"):
            return path.removeprefix("/api/v3") or "/"
        return f"/_not_here{path}" if is_api(path) and path != "/" else path

    def _named(self, path: str) -> str:
        match = _BY_ID.match(path)
        repository = self.world.repositories.get(int(match[1])) if match else None
        if match is None or repository is None or repository.deleted:
            return path
        return f"/repos/{repository.full_name}{path[match.end() :]}"
