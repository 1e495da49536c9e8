"""A journal of every REST and GraphQL exchange, so that a test can ask what was said.

In: the calls that pass. Out: the last exchanges, oldest first, with method, path, bodies and who
spoke. Tokens are not kept. The layer stands behind the faults: what never arrived is not here.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_KEPT = 20_000
_BODY_BYTES = 2_000_000


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """One request and its answer; `path` is without Enterprise prefix, with names for ids."""

    method: str
    path: str
    query: str
    status: int  # 0 when there was no answer
    asked: bytes
    answered: bytes
    json: bool  # whether the answer says that it is JSON


def new_journal() -> deque[Exchange]:
    """An empty journal that forgets the oldest when it is full."""
    return deque(maxlen=_KEPT)


class Journaling:
    """The ASGI layer that keeps exchanges."""

    def __init__(self, app: ASGIApp, journal: deque[Exchange]) -> None:
        self.app = app
        self._journal = journal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a call on and keep what was said."""
        if scope["type"] != "http" or not is_api(scope["path"]):
            await self.app(scope, receive, send)
            return
        asked, answered = bytearray(), bytearray()
        start: Message = {"status": 0, "headers": []}

        async def hear() -> Message:
            message = await receive()
            asked.extend(message.get("body", b"")[:_BODY_BYTES])
            return message

        async def say(message: Message) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
            answered.extend(message.get("body", b"")[:_BODY_BYTES])
            await send(message)

        try:
            await self.app(scope, hear, say)
        finally:
            headers = {name.lower(): value for name, value in start["headers"]}
            self._journal.append(
                Exchange(
                    method=scope["method"],
                    path=scope["path"],
                    query=scope["query_string"].decode(),
                    status=start["status"],
                    asked=bytes(asked),
                    answered=bytes(answered),
                    json=b"json" in headers.get(b"content-type", b""),
                )
            )


def is_api(path: str) -> bool:
    """Whether a path (without Enterprise prefix) belongs to REST or GraphQL."""
    if path.endswith("/installations/new"):
        return False  # a page beside `/apps/{slug}`
    return path == "/" or path.split("/", 2)[1] in _API


_API = frozenset(
    {
        "app",
        "app-manifests",
        "applications",
        "apps",
        "graphql",
        "installation",
        "meta",
        "orgs",
        "rate_limit",
        "repos",
        "repositories",
        "user",
        "users",
        "zen",
    }
)
