"""The door before AgentOS: it lets people read, and nothing else.

In: every request to the web role when it runs with `--agentos`. Out: our own addresses answered as
without it, what `READABLE` names answered by AgentOS, everything else refused.

Why: by AgentOS's own rules the owner of a paused run may confirm it, with another output if she
likes, and a route it has no scope for is open to every valid token (ARCHITECTURE.md, "AgentOS").
Here it is the other way round: what the table does not name is refused, whoever asks and whatever a
later release adds.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Match, compile_path
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from bot.operators import scopes_of, verified_bearer
from bot.settings import TokenVerification

#: Reads whatever it is of everybody's runs; it opens nothing that is not in the table.
ADMIN_SCOPE: Final = "agent_os:admin"

DECIDED_ON_GITHUB: Final = (
    "This API only shows runs. What starts, continues, changes or ends one is decided on GitHub: "
    "comment on its issue, or review its pull request."
)
UNKNOWN_CALLER: Final = (
    "Send a bearer token that is signed for this server (RS256, its audience and issuer) and has "
    "not expired."
)
NOBODY: Final = "The token's subject must be a GitHub account: github:<numeric id>."

_PERSON: Final = re.compile(r"github:[1-9][0-9]{0,18}")


class Readable:
    """One address that may be read: its method, its path, and the scope that a token needs."""

    def __init__(self, method: str, path: str, scope: str) -> None:
        self.method = method
        self.path = path
        self.scope = scope
        self._pattern, _, _ = compile_path(path)

    def matches(self, method: str, path: str) -> bool:
        """Whether a request asks for this."""
        return method == self.method and self._pattern.fullmatch(path) is not None


#: List, read, trace. AgentOS checks scopes again; for the two addresses of a workflow's runs it
#: wants `workflows:run` as well, which starts nothing here. Sessions show the same runs without it.
READABLE: Final = (
    Readable("GET", "/config", "config:read"),
    Readable("GET", "/workflows", "workflows:read"),
    Readable("GET", "/workflows/{workflow_id}", "workflows:read"),
    Readable("GET", "/workflows/{workflow_id}/runs", "workflows:read"),
    Readable("GET", "/workflows/{workflow_id}/runs/{run_id}", "workflows:read"),
    Readable("GET", "/sessions", "sessions:read"),
    Readable("GET", "/sessions/{session_id}", "sessions:read"),
    Readable("GET", "/sessions/{session_id}/runs", "sessions:read"),
    Readable("GET", "/sessions/{session_id}/run-previews", "sessions:read"),
    Readable("GET", "/sessions/{session_id}/runs/{run_id}", "sessions:read"),
    Readable("GET", "/traces", "traces:read"),
    Readable("GET", "/traces/filter-schema", "traces:read"),
    Readable("GET", "/traces/{trace_id}", "traces:read"),
    Readable("GET", "/trace_session_stats", "traces:read"),
    Readable("POST", "/traces/search", "traces:read"),
)


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a request goes no further."""

    status: HTTPStatus
    sentence: str

    def response(self) -> JSONResponse:
        """Return the answer, in the form that AgentOS's own refusals have."""
        unknown = self.status == HTTPStatus.UNAUTHORIZED
        headers = {"WWW-Authenticate": "Bearer"} if unknown else None
        return JSONResponse({"detail": self.sentence}, self.status, headers)


def decide_reading(
    method: str, path: str, authorization: str, verification: TokenVerification
) -> Refused | None:
    """Decide on a request for AgentOS; None lets it through.

    Who brings no token of ours learns nothing, not even what there is.
    """
    claims = verified_bearer(authorization, verification)
    if claims is None:
        return Refused(HTTPStatus.UNAUTHORIZED, UNKNOWN_CALLER)
    readable = next((each for each in READABLE if each.matches(method, path)), None)
    if readable is None:
        return Refused(HTTPStatus.FORBIDDEN, DECIDED_ON_GITHUB)
    if not _PERSON.fullmatch(str(claims["sub"])):
        return Refused(HTTPStatus.FORBIDDEN, NOBODY)
    if not _includes(scopes_of(claims), readable.scope):
        return Refused(HTTPStatus.FORBIDDEN, f"The token lacks the scope {readable.scope}.")
    return None


def _includes(scopes: Collection[str], wanted: str) -> bool:
    return wanted in scopes or ADMIN_SCOPE in scopes


class ReadOnlyDoor:
    """The outermost middleware: nothing reaches AgentOS, or its middlewares, but through here."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        own: Sequence[BaseRoute],
        own_app: ASGIApp,
        verification: TokenVerification,
    ) -> None:
        """Stand before an application.

        Args:
            app: AgentOS and all that it put around the application.
            own: Our own routes. They have their own ways to know who asks.
            own_app: The application as it answered them before AgentOS was added: webhooks are
                not to wait for AgentOS's middlewares, nor pages to get its cross-origin headers.
            verification: How tokens are verified.
        """
        self._app = app
        self._own = own
        self._own_app = own_app
        self._verification = verification

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif any(route.matches(scope)[0] is not Match.NONE for route in self._own):
            await self._own_app(scope, receive, send)
        elif scope["type"] == "websocket":
            refused = Refused(HTTPStatus.FORBIDDEN, DECIDED_ON_GITHUB).response()
            await WebSocket(scope, receive, send).send_denial_response(refused)
        else:
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        authorization = Headers(scope=scope).get("authorization", "")
        refused = decide_reading(scope["method"], scope["path"], authorization, self._verification)
        await (refused.response() if refused else self._app)(scope, receive, send)
