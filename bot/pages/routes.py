"""The addresses of the evidence pages. In: a browser. Out: pages, events, attachments, or nothing.

Who is not signed in is sent to sign in, whatever the address; who may not read the repository gets
the very answer of a run that does not exist. Nothing here writes but sessions.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Annotated, Final

from fastapi import APIRouter, Cookie, Header, Path, Request, Response
from fastapi.responses import HTMLResponse, PlainTextResponse, RedirectResponse, StreamingResponse

from bot.metrics import CONTENT_TYPE_LATEST, exposed
from bot.operators import Operators
from bot.pages.rendering import render
from bot.pages.run_page import RunPages
from bot.pages.signin import BEGUN_LIFE, SESSION_LIFE, SignIn, SignInFailed
from bot.pages.viewer import NO_REPOSITORY, GitHubSays, Viewer
from bot.store.database import Database
from bot.store.runs import Run
from bot.store.server_facts import load_run_lists, load_server_facts

LOOK_SECONDS: Final = 1.0
STREAM_SECONDS: Final = 600
MOST_STREAMS: Final = 200
SESSION_COOKIE: Final = "ultracode_session"
BEGUN_COOKIE: Final = "ultracode_signin"

RunId = Annotated[str, Path(pattern=r"^[a-z0-9]{8,40}$")]
Digest = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]
SessionCookie = Annotated[str | None, Cookie(alias=SESSION_COOKIE, max_length=200)]
BegunCookie = Annotated[str | None, Cookie(alias=BEGUN_COOKIE, max_length=4_000)]

STRICT: Final = {
    "content-security-policy": "default-src 'none'; style-src 'self'; script-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-robots-tag": "noindex",
}
_STATIC: Final = {"page.css": "text/css", "live.js": "text/javascript"}


class Hidden(Exception):
    """There is nothing here, or nothing for this viewer: both are answered alike."""


class NotSignedIn(Exception):
    """Nobody is known to this browser; `wanted` is where it was going."""

    def __init__(self, wanted: str) -> None:
        super().__init__(wanted)
        self.wanted = wanted


@dataclass
class Site:
    """What the pages need. Without `signin` nobody can sign in, and nothing is shown."""

    database: Database
    pages: RunPages
    operators: Operators
    github: GitHubSays
    signin: SignIn | None
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    streams: int = 0

    async def viewer(self, secret: str | None, wanted: str) -> Viewer:
        """Return who is asking. Raises NotSignedIn, and Hidden where nobody can sign in."""
        if self.signin is None:
            raise Hidden
        viewer = await self.signin.viewer(secret)
        if viewer is None:
            raise NotSignedIn(wanted)
        return viewer

    async def readable(self, viewer: Viewer, run_id: str) -> Run:
        """Return a run this viewer may read. Raises Hidden for all others, known or not.

        Operators are asked no less: who runs a server may not see every repository. GitHub is
        asked whether there is a run or not, so that time tells no more than words.
        """
        run = await self.pages.find(run_id)
        repository = run.repository_id if run else NO_REPOSITORY
        allowed = await self.github.may_read(viewer, repository)
        if run is None or not allowed:
            raise Hidden
        return run


def pages_router(site: Site) -> APIRouter:
    """Return the routes of the evidence pages over what they need."""
    router = APIRouter(include_in_schema=False)
    _add_run_routes(router, site)
    _add_signin_routes(router, site)
    _add_operator_routes(router, site)

    @router.get("/static/{name}")
    async def static(name: str) -> Response:
        """The style sheet and the one script."""
        if name not in _STATIC:
            raise Hidden
        content = files("bot.pages").joinpath("static", name).read_bytes()
        headers = {**STRICT, "cache-control": "public, max-age=3600"}
        return Response(content, media_type=_STATIC[name], headers=headers)

    return router


# --- runs ---------------------------------------------------------------------------------------


def _add_run_routes(router: APIRouter, site: Site) -> None:
    @router.get("/runs/{run_id}")
    async def show_run(run_id: RunId, ultracode_session: SessionCookie = None) -> Response:
        """One run, as far as it came."""
        viewer = await site.viewer(ultracode_session, f"/runs/{run_id}")
        run = await site.readable(viewer, run_id)
        return _page("run.html", viewer=viewer, page=await site.pages.load(run))

    @router.get("/runs/{run_id}/events")
    async def follow_run(run_id: RunId, ultracode_session: SessionCookie = None) -> Response:
        """A server-sent event each time the page of a run would look different."""
        viewer = await site.viewer(ultracode_session, f"/runs/{run_id}")
        run = await site.readable(viewer, run_id)
        if site.streams >= MOST_STREAMS:
            return PlainTextResponse(
                "Too many pages are open.", 503, {**STRICT, "retry-after": "60"}
            )
        return StreamingResponse(
            _changes(site, run.run_id), media_type="text/event-stream", headers=STRICT
        )

    @router.get("/runs/{run_id}/artifacts/{sha256}")
    async def download(
        run_id: RunId, sha256: Digest, ultracode_session: SessionCookie = None
    ) -> Response:
        """Bytes of this run by their digest, as an attachment no browser will interpret."""
        viewer = await site.viewer(ultracode_session, f"/runs/{run_id}")
        run = await site.readable(viewer, run_id)
        content = await site.pages.artifact(run, sha256)
        if content is None:
            raise Hidden
        headers = {
            **STRICT,
            "content-security-policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
            "content-disposition": f'attachment; filename="{sha256}.txt"',
        }
        return Response(content, media_type="text/plain; charset=utf-8", headers=headers)


async def _changes(site: Site, run_id: str) -> AsyncIterator[str]:
    """Look once a second; end with the run, with the server, or after ten minutes."""
    site.streams += 1
    try:
        last = ""
        yield "retry: 3000\n\n"
        for _ in range(int(STREAM_SECONDS / LOOK_SECONDS)):
            version = await site.pages.version(run_id)
            yield f"data: {version}\n\n" if version != last else ": still here\n\n"
            last = version
            try:
                await asyncio.wait_for(site.stopping.wait(), LOOK_SECONDS)
            except TimeoutError:
                continue
            return
    finally:
        site.streams -= 1


# --- signing in ---------------------------------------------------------------------------------


def _add_signin_routes(router: APIRouter, site: Site) -> None:
    @router.get("/auth/login")
    async def begin(next: str | None = None) -> Response:  # noqa: A002 - its name in the address
        """Send a browser to GitHub."""
        if site.signin is None:
            raise Hidden
        address, kept = site.signin.begin(next)
        answer = RedirectResponse(address, 303, headers=STRICT)
        life = int(BEGUN_LIFE.total_seconds())
        _set_cookie(answer, site.signin, BEGUN_COOKIE, kept, life)
        return answer

    @router.get("/auth/callback")
    async def complete(
        state: str = "", code: str = "", ultracode_signin: BegunCookie = None
    ) -> Response:
        """Take a browser back from GitHub, once."""
        if site.signin is None:
            raise Hidden
        try:
            address, secret = await site.signin.complete(
                kept=ultracode_signin, state=state[:200], code=code[:200]
            )
        except SignInFailed:
            failed = _page(
                "notice.html",
                status=400,
                viewer=None,
                title="You are not signed in",
                words="This sign-in was refused, is too old, or was begun in another browser.",
                link=("/auth/login", "Sign in with GitHub"),
            )
            failed.delete_cookie(BEGUN_COOKIE, path="/auth")
            return failed
        answer = RedirectResponse(address, 303, headers=STRICT)
        answer.delete_cookie(BEGUN_COOKIE, path="/auth")
        _set_cookie(answer, site.signin, SESSION_COOKIE, secret, int(SESSION_LIFE.total_seconds()))
        return answer

    @router.post("/auth/logout")
    async def sign_out(
        ultracode_session: SessionCookie = None,
        sec_fetch_site: Annotated[str, Header()] = "same-origin",
    ) -> Response:
        """Forget this browser's session."""
        if site.signin is None or sec_fetch_site not in {"same-origin", "none"}:
            raise Hidden
        await site.signin.sign_out(ultracode_session)
        answer = _page(
            "notice.html",
            viewer=None,
            title="You are signed out",
            words="This browser may not read evidence any more.",
            link=("/auth/login", "Sign in with GitHub"),
        )
        answer.delete_cookie(SESSION_COOKIE, path="/")
        return answer


def _set_cookie(answer: Response, signin: SignIn, name: str, value: str, seconds: int) -> None:
    answer.set_cookie(
        name,
        value,
        max_age=seconds,
        path="/auth" if name == BEGUN_COOKIE else "/",
        secure=signin.client.secure,
        httponly=True,
        samesite="lax",
    )


# --- operators ----------------------------------------------------------------------------------


def _add_operator_routes(router: APIRouter, site: Site) -> None:
    @router.get("/")
    async def overview(ultracode_session: SessionCookie = None) -> Response:
        """Queue, runs, waiting reviews, failures and spend, for operators."""
        viewer = await site.viewer(ultracode_session, "/")
        if not site.operators.includes(viewer.id):
            raise Hidden
        facts = await load_server_facts(site.database)
        lists = await load_run_lists(site.database)
        return _page("overview.html", viewer=viewer, facts=facts, lists=lists)

    @router.get("/metrics")
    async def metrics(
        authorization: Annotated[str, Header()] = "", ultracode_session: SessionCookie = None
    ) -> Response:
        """What the database knows, for Prometheus with an operator's token."""
        viewer = await site.signin.viewer(ultracode_session) if site.signin else None
        if not site.operators.admits(authorization) and not (
            viewer and site.operators.includes(viewer.id)
        ):
            headers = {**STRICT, "www-authenticate": "Bearer"}
            return PlainTextResponse("An operator's token is needed.\n", 401, headers)
        facts = await load_server_facts(site.database)
        return Response(exposed(facts), media_type=CONTENT_TYPE_LATEST, headers=STRICT)


# --- answers ------------------------------------------------------------------------------------


def _page(template: str, *, status: int = 200, **values: object) -> HTMLResponse:
    return HTMLResponse(render(template, **values), status, headers=STRICT)


async def answer_hidden(_request: Request, _problem: Exception) -> Response:
    """Answer what is not there, and what is not for this viewer, in the same words."""
    return _page(
        "notice.html",
        status=404,
        viewer=None,
        title="There is nothing here",
        words="The address is wrong, or what it names is not for you to read.",
        link=None,
    )


async def answer_not_signed_in(request: Request, problem: Exception) -> Response:
    """Send a browser to sign in; whatever is no page is just told so."""
    wanted = problem.wanted if isinstance(problem, NotSignedIn) else "/"
    if request.url.path != wanted:
        return PlainTextResponse("Sign in first.\n", 401, STRICT)
    return RedirectResponse(f"/auth/login?next={wanted}", 303, headers=STRICT)
