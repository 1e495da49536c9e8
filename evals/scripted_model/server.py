"""The scripted model's HTTP face: OpenAI's Responses API on loopback, answered from a script.

Comes in: requests of the real ``openai`` client (and so of real Agno agents). Goes out: what the
script says, refusals in the provider's form, and faults on demand. ``GET /_script/requests``
tells tests what was asked. It exists so that agents, tools, prompts and output schemas are
exercised for real, with only the mind replaced.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
import socket
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from evals.scripted_model.answer import Unscripted, build_response, failed_response, stream_events
from evals.scripted_model.items import Item, RequestRefused
from evals.scripted_model.request import ModelRequest, parse_request
from evals.scripted_model.script import Fault, FaultKind, Script, Turn

HANG_SECONDS: Final = 600.0  # how long a scripted timeout holds the connection
KEPT_BODIES: Final = 500
KEPT_CONVERSATIONS: Final = 500
_ERROR_TYPES: Final = {401: "invalid_request_error", 429: "rate_limit_error"}
_SERVER_ERROR: Final = 500


@dataclass(frozen=True)
class Asked:
    """One request as the server saw it.

    ``turn`` counts from 0; ``outcome`` is ``answered``, ``refused``, ``unscripted``, ``gone``
    (the client left before the answer) or ``fault <kind>``.
    """

    role: str | None
    task: str | None
    round: int | None
    turn: int
    outcome: str
    detail: str = ""


class ScriptedModel:
    """One server: its script, its key and what it was asked.

    Attributes:
        base_url, api_key: what a client needs; base_url is set once it listens.
        received: how many requests came, those still without answer included.
        asked: every request that was dealt with. bodies: the JSON of the last accepted ones.
    """

    def __init__(self, script: Script, *, api_key: str | None = None) -> None:
        self.script = script
        self.api_key = api_key or f"sk-scripted-{secrets.token_urlsafe(12)}"
        self.base_url = ""
        self.received = 0
        self.asked: list[Asked] = []
        self.bodies: deque[Mapping[str, Any]] = deque(maxlen=KEPT_BODIES)
        self._conversations: dict[str, tuple[Item, ...]] = {}
        self._faults_done: Counter[tuple[object, ...]] = Counter()
        self._changed = asyncio.Event()
        self.app = Starlette(
            routes=[
                Route("/v1/responses", self._respond, methods=["POST"]),
                Route("/v1/models", self._list_models),
                Route("/v1/models/{model}", self._show_model),
                Route("/_script/requests", self._show_requests),
            ]
        )

    def play(self, script: Script) -> None:
        """Play another script from now on, and forget what was asked before."""
        self.script = script
        self.asked.clear()
        self._faults_done.clear()

    def count(
        self, role: str | None = None, task: str | None = None, round_: int | None = None
    ) -> int:
        """How many requests came for this role, task and round; None means any."""
        return sum(
            role in (None, a.role) and task in (None, a.task) and round_ in (None, a.round)
            for a in self.asked
        )

    async def until(self, condition: Callable[[ScriptedModel], bool]) -> None:
        """Wait until a condition on what was received and asked holds."""
        while not condition(self):
            await self._changed.wait()

    # --- routes -----------------------------------------------------------------------------------

    async def _respond(self, http: Request) -> Response:
        self.received += 1
        self._tell()
        try:
            self._authenticate(http)
            body = _decoded(await http.body())
            request = parse_request(body, models=self.script.models, stored=self._conversations)
        except RequestRefused as refused:
            self._add(Asked(None, None, None, 0, "refused", refused.message))
            return _error(refused.status, refused.message, refused.param, refused.code)
        self.bodies.append(body)
        try:
            turn = self.turn_of(request)
            return await self._perform(http, request, turn)
        except Unscripted as unscripted:
            message = f"{_place(request)}: {unscripted}"
            self._note(request, "unscripted", message)
            return _error(422, message, None, "unscripted_request")

    async def _list_models(self, http: Request) -> Response:
        try:
            self._authenticate(http)
        except RequestRefused as refused:
            return _error(refused.status, refused.message, refused.param, refused.code)
        return JSONResponse({"object": "list", "data": [_model(m) for m in self.script.models]})

    async def _show_model(self, http: Request) -> Response:
        model = http.path_params["model"]
        try:
            self._authenticate(http)
        except RequestRefused as refused:
            return _error(refused.status, refused.message, refused.param, refused.code)
        if model not in self.script.models:
            return _error(404, f"The model '{model}' does not exist.", "model", "model_not_found")
        return JSONResponse(_model(model))

    async def _show_requests(self, _: Request) -> Response:
        keys = Counter((a.role, a.task, a.round) for a in self.asked)
        counts = [
            {"role": role, "task": task, "round": round_, "requests": number}
            for (role, task, round_), number in keys.items()
        ]
        return JSONResponse(
            {
                "total": len(self.asked),
                "counts": counts,
                "requests": [asdict(a) for a in self.asked],
            }
        )

    # --- one answer -------------------------------------------------------------------------------

    def _authenticate(self, http: Request) -> None:
        header = http.headers.get("authorization", "")
        if not header.startswith("Bearer ") or not hmac.compare_digest(
            header.removeprefix("Bearer ").encode(), self.api_key.encode()
        ):
            raise RequestRefused("Incorrect API key provided.", code="invalid_api_key", status=401)

    def script_for(self, request: ModelRequest) -> Script:
        """Return the script that answers a request; a subclass may keep several."""
        del request
        return self.script

    def turn_of(self, request: ModelRequest) -> Turn:
        """Return the turn that answers a request. Raises Unscripted."""
        if request.role is None:
            raise Unscripted("No instructions begin with 'Role: …'.")
        entry = self.script_for(request).entry(request.role, request.task, request.round)
        if entry is None:
            raise Unscripted("No entry of the script answers this request.")
        turn = entry.turn(request.turn)
        if turn is None:
            raise Unscripted(f"The script ends after {len(entry.turns)} turns.")
        return turn

    async def _perform(self, http: Request, request: ModelRequest, turn: Turn) -> Response:
        fault = self._next_fault(request, turn)
        if fault and fault.kind == "timeout":
            gone = await _wait_or_gone(http, HANG_SECONDS)
        else:
            gone = turn.delay_seconds > 0 and await _wait_or_gone(http, turn.delay_seconds)
        if gone and fault is None:
            self._note(request, "gone")
            return Response(status_code=499)
        if fault:
            self._note(request, f"fault {fault.kind}")
            return _faulty(fault, request)
        response = build_response(request, turn)
        self._note(request, "answered")
        self._remember(request, response)
        if request.stream:
            return StreamingResponse(stream_events(response), media_type="text/event-stream")
        return JSONResponse(response, headers={"x-request-id": f"req_{secrets.token_hex(8)}"})

    def _next_fault(self, request: ModelRequest, turn: Turn) -> Fault | None:
        """The fault this request meets: each is used up its number of times, in order."""
        key = (request.role, request.task, request.round, request.turn)
        done = self._faults_done[key]
        for fault in turn.faults:
            if fault.times == "always" or done < fault.times:
                self._faults_done[key] += 1
                return fault
            done -= fault.times
        return None

    def _remember(self, request: ModelRequest, response: Mapping[str, Any]) -> None:
        if not request.store:
            return
        self._conversations[response["id"]] = (*request.items, *response["output"])
        while len(self._conversations) > KEPT_CONVERSATIONS:
            self._conversations.pop(next(iter(self._conversations)))

    def _note(self, request: ModelRequest, outcome: str, detail: str = "") -> None:
        self._add(Asked(request.role, request.task, request.round, request.turn, outcome, detail))

    def _add(self, asked: Asked) -> None:
        self.asked.append(asked)
        self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


@asynccontextmanager
async def running(
    script: Script, *, port: int = 0, api_key: str | None = None
) -> AsyncIterator[ScriptedModel]:
    """Serve a script on loopback for the length of the block; port 0 takes a free one."""
    model = ScriptedModel(script, api_key=api_key)
    async with serving(model, port=port):
        yield model


@asynccontextmanager
async def serving(model: ScriptedModel, *, port: int = 0) -> AsyncIterator[None]:
    """Serve a model on loopback for the length of the block; port 0 takes a free one."""
    listener = socket.create_server(("127.0.0.1", port))
    model.base_url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    config = uvicorn.Config(
        model.app,
        log_config=None,
        log_level="critical",  # a cut connection is part of the script, not worth a traceback
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield
    finally:
        server.should_exit = True
        await task
        listener.close()


# --- small pieces ---------------------------------------------------------------------------------


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError as error:
        raise RequestRefused("We could not parse the JSON body of your request.") from error


def _place(request: ModelRequest) -> str:
    return f"role {request.role}, task {request.task}, round {request.round}, turn {request.turn}"


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "scripted"}


def _error(
    status: int,
    message: str,
    param: str | None = None,
    code: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    kind = "server_error" if status >= _SERVER_ERROR else "invalid_request_error"
    error = {
        "message": message,
        "type": _ERROR_TYPES.get(status, kind),
        "param": param,
        "code": code,
    }
    return JSONResponse({"error": error}, status, headers=dict(headers or {}))


def _faulty(fault: Fault, request: ModelRequest) -> Response:
    kind: FaultKind = fault.kind
    if isinstance(kind, int):
        wait = fault.retry_after_seconds
        headers = {} if wait is None else {"retry-after-ms": str(int(wait * 1000))}
        return _error(kind, f"The script answers {kind} here.", headers=headers)
    if kind == "garbage":
        return Response("<html>a proxy in the way</html>", media_type="application/json")
    if kind == "failed":
        return JSONResponse(failed_response(request))
    return _CutShort()  # also for a timeout that was waited out


class _CutShort(Response):
    """Promises a long body, sends a little of it, and ends."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        headers = [(b"content-type", b"application/json"), (b"content-length", b"4096")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b'{"id": "resp_', "more_body": True})
        raise ConnectionAbortedError


async def _wait_or_gone(http: Request, seconds: float) -> bool:
    """Wait; True as soon as the client has gone."""
    leaving = asyncio.ensure_future(_until_disconnect(http))
    try:
        await asyncio.wait_for(asyncio.shield(leaving), seconds)
    except TimeoutError:
        return False
    finally:
        leaving.cancel()
    return True


async def _until_disconnect(http: Request) -> None:
    while (await http.receive())["type"] != "http.disconnect":
        pass
