"""Misbehaviour on demand: 5xx, 429, secondary limits, answers that never come, stale reads.

In: rules by method and path pattern, each with a number of times. Out: an ASGI layer around the
whole GitHub that makes the next matching calls go wrong.
"""

from __future__ import annotations

import asyncio
import fnmatch
import json
import socket
import struct
from collections import deque
from dataclasses import dataclass
from typing import Literal, get_args

from starlette.types import ASGIApp, Message, Receive, Scope, Send

Kind = Literal[
    "error",  # answer `status` and do nothing
    "rate_limited",  # 429 with Retry-After
    "secondary_limit",  # 403 with Retry-After
    "secondary_limit_bare",  # 403 without any header that says how long
    "error_after",  # do it, then answer `status`
    "timeout",  # do nothing and never answer
    "timeout_after",  # do it, then never answer
    "reset",  # close the connection without doing it
    "reset_after",  # do it, then close the connection
    "delay",  # wait `seconds`, then do it
    "stale",  # repeat the last good answer to the same GET
]
KINDS: tuple[str, ...] = get_args(Kind)
_SECONDARY = (
    "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
)


@dataclass(kw_only=True, eq=False)
class Fault:
    """What goes wrong with the next `times` calls that match, after `skip` that do not."""

    kind: Kind
    method: str = "*"
    path: str = "*"  # shell pattern over the path, without the Enterprise prefix
    times: int = 1
    skip: int = 0
    status: int = 502
    seconds: float = 0.0
    hits: int = 0

    def takes(self, method: str, path: str) -> bool:
        """Whether this call goes wrong; counts it."""
        fits = fnmatch.fnmatch(method, self.method) and fnmatch.fnmatch(path, self.path)
        if not fits or self.times <= 0:
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        self.times -= 1
        self.hits += 1
        return True


@dataclass
class _Answer:
    messages: list[Message]

    async def send(self, send: Send) -> None:
        for message in self.messages:
            await send(message)


class Misbehaving:
    """The ASGI layer that applies faults; the switchboard never goes wrong."""

    def __init__(self, app: ASGIApp, faults: list[Fault]) -> None:
        self.app = app
        self._faults = faults
        self._seen: dict[str, _Answer] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a call on, unless a fault takes it."""
        if scope["type"] != "http" or scope["path"].startswith("/_loopback"):
            await self.app(scope, receive, send)
            return
        fault = next((f for f in self._faults if f.takes(scope["method"], scope["path"])), None)
        if fault is None:
            await self._remembering(scope, receive, send)
            return
        await self._wrong(fault, scope, receive, send)

    async def _wrong(self, fault: Fault, scope: Scope, receive: Receive, send: Send) -> None:
        if fault.kind == "delay":
            heard = await _heard(receive)  # whoever asked may be gone when it is done
            await asyncio.sleep(fault.seconds)
            await self.app(scope, heard, send)
        elif fault.kind == "stale":
            known = self._seen.get(_key(scope))
            await (known.send(send) if known else self.app(scope, receive, send))
        elif fault.kind in ("error_after", "timeout_after", "reset_after"):
            await self._after(fault, scope, receive, send)
        elif fault.kind == "reset":
            await _hang_up(receive)
        elif fault.kind == "timeout":
            while (await receive())["type"] != "http.disconnect":
                pass
        else:
            await _refusal(fault).send(send)

    async def _after(self, fault: Fault, scope: Scope, receive: Receive, send: Send) -> None:
        """The call takes effect, and the caller does not learn it."""

        async def swallow(_message: Message) -> None:
            return None

        await self.app(scope, receive, swallow)
        if fault.kind == "error_after":
            await _refusal(fault).send(send)
            return
        if fault.kind == "timeout_after":
            await asyncio.sleep(fault.seconds or 3600)
        await _hang_up(receive)

    async def _remembering(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a call on, keeping good answers to GETs for later staleness."""
        messages: list[Message] = []

        async def keep(message: Message) -> None:
            messages.append(message)
            await send(message)

        is_get = scope["method"] == "GET"
        await self.app(scope, receive, keep if is_get else send)
        if is_get and messages and messages[0].get("status") == 200:  # noqa: PLR2004
            self._seen[_key(scope)] = _Answer(messages)


async def _heard(receive: Receive) -> Receive:
    """The whole request, read now and told again later."""
    messages: deque[Message] = deque()
    more = True
    while more:
        messages.append(await receive())
        more = bool(messages[-1].get("more_body"))

    async def tell() -> Message:
        return messages.popleft() if messages else await receive()

    return tell


async def _hang_up(receive: Receive) -> None:
    """Reset the connection without a word, which ASGI has no message for.

    uvicorn hands out `receive` as a method of the object that owns the connection.
    """
    transport: asyncio.Transport = receive.__self__.transport  # type: ignore[attr-defined]
    line = transport.get_extra_info("socket")
    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
    await asyncio.sleep(0.01)  # lets uvicorn notice that nobody waits for an answer


def _key(scope: Scope) -> str:
    return f"{scope['path']}?{scope['query_string'].decode()}"


def _refusal(fault: Fault) -> _Answer:
    status, message, retry = fault.status, "Server Error", None
    if fault.kind == "rate_limited":
        status, message, retry = 429, "API rate limit exceeded", fault.seconds
    elif fault.kind.startswith("secondary_limit"):
        bare = fault.kind.endswith("bare")
        status, message, retry = 403, _SECONDARY, None if bare else fault.seconds
    body = json.dumps({"message": message, "documentation_url": "https://docs.github.com/rest"})
    headers = [(b"content-type", b"application/json; charset=utf-8")]
    if retry is not None:
        headers.append((b"retry-after", str(int(retry)).encode()))
    start: Message = {"type": "http.response.start", "status": status, "headers": headers}
    return _Answer([start, {"type": "http.response.body", "body": body.encode()}])
