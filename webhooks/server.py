"""`POST /webhooks/github`. In: an HTTP request. Out: a stored delivery, and GitHub's answer.

Nothing is believed before the signature is checked, nothing is kept that the bot will not act on,
and nothing is answered 202 before it is durable. Other answers: 200 taken before, or a ping; 204
nothing the bot acts on; 400 not JSON, or without GitHub's headers; 401 not signed; 408 too slow;
413 too large; 415 not application/json; 503 not stored, come again. GitHub waits ten seconds and
never comes again by itself, so nothing here takes long: no call to GitHub, no model, no Markdown.

Source: https://docs.github.com/webhooks/webhook-events-and-payloads#delivery-headers
"""

import asyncio
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus

import structlog
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import SecretStr
from starlette.requests import ClientDisconnect

from webhooks.events import Event
from webhooks.inbox import Accepted, Delivery, Inbox
from webhooks.parser import Ignored, NotJson, Routing, Unparsed, parse_event, read_routing
from webhooks.signature import SIGNATURE_HEADER, is_signed

MAX_BYTES = 25 * 1024 * 1024
"""GitHub's own cap for a payload."""
READ_SECONDS = 9.0
"""GitHub gives up after ten; a sender slower than that is not GitHub."""
INBOX_SECONDS = 8.0
RETRY_AFTER_SECONDS = 30

_GUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_logger = structlog.get_logger(__name__)

Secrets = Sequence[SecretStr] | Callable[[], Sequence[SecretStr]]


def webhook_router(
    *,
    secrets: Secrets,
    inbox: Inbox,
    max_bytes: int = MAX_BYTES,
    read_seconds: float = READ_SECONDS,
    inbox_seconds: float = INBOX_SECONDS,
) -> APIRouter:
    """The route, to be included in the web application.

    `secrets` are the webhook's current secret and, during rotation, the previous one; a callable is
    asked for every request.

    Raises:
        ValueError: no secret, or an empty one, was given: everybody could sign.
    """
    if not callable(secrets) and not (secrets and all(map(SecretStr.get_secret_value, secrets))):
        raise ValueError("the webhook needs a secret that is not empty")
    bounds = _Bounds(max_bytes, read_seconds, inbox_seconds)

    async def receive_delivery(request: Request) -> Response:
        """Take one delivery of GitHub's."""
        current = secrets() if callable(secrets) else secrets
        try:
            body = await _read_signed_body(request, current, bounds)
            return await _take(request, body, inbox, bounds)
        except _RefusedError as refused:
            _logger.info("delivery refused", status=int(refused.status), reason=str(refused))
            return _answer(refused.status, str(refused), refused.headers)

    router = APIRouter()
    # A plain route: FastAPI's own machinery takes as long again as all the rest of an answer.
    router.add_route(
        "/webhooks/github", receive_delivery, methods=["POST"], include_in_schema=False
    )
    return router


@dataclass(frozen=True, slots=True)
class _Bounds:
    max_bytes: int
    read_seconds: float
    inbox_seconds: float


class _RefusedError(Exception):
    """This request is answered with a status and a sentence, and leaves nothing behind."""

    def __init__(self, status: HTTPStatus, sentence: str, **headers: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class _UnreadError(_RefusedError):
    """Refused before the body was read; the connection is closed, so that nobody reads it."""

    def __init__(self, status: HTTPStatus, sentence: str) -> None:
        super().__init__(status, sentence, Connection="close")


def _answer(status: HTTPStatus, outcome: str, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse({"outcome": outcome}, status_code=status, headers=headers)


# --- From the request to a body GitHub signed ------------------------------------------------


async def _read_signed_body(
    request: Request, secrets: Sequence[SecretStr], bounds: _Bounds
) -> bytes:
    signature = request.headers.get(SIGNATURE_HEADER)
    if signature is None:
        raise _UnreadError(HTTPStatus.UNAUTHORIZED, f"{SIGNATURE_HEADER} is missing")
    content_type = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        raise _UnreadError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "set the webhook's content type to application/json",
        )
    body = await _read_body(request, bounds)
    if not is_signed(body, signature, secrets):
        raise _RefusedError(HTTPStatus.UNAUTHORIZED, "the signature does not match the body")
    return body


async def _read_body(request: Request, bounds: _Bounds) -> bytes:
    """Read no more than is allowed, and no longer."""
    too_large = _UnreadError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"more than {bounds.max_bytes} bytes"
    )
    declared = request.headers.get("Content-Length", "")
    if declared.isdecimal() and int(declared) > bounds.max_bytes:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(bounds.read_seconds):
            async for chunk in request.stream():
                body += chunk
                if len(body) > bounds.max_bytes:
                    raise too_large
    except TimeoutError:
        raise _UnreadError(HTTPStatus.REQUEST_TIMEOUT, "the body came too slowly") from None
    except ClientDisconnect:
        raise _UnreadError(HTTPStatus.BAD_REQUEST, "the body is incomplete") from None
    return bytes(body)


# --- From a signed body to the inbox ---------------------------------------------------------


async def _take(request: Request, body: bytes, inbox: Inbox, bounds: _Bounds) -> Response:
    received_at = datetime.now(UTC)
    name = request.headers.get("X-GitHub-Event", "")
    delivery_id = request.headers.get("X-GitHub-Delivery", "").lower()
    if not name or not _GUID.fullmatch(delivery_id):
        raise _RefusedError(
            HTTPStatus.BAD_REQUEST, "X-GitHub-Event or X-GitHub-Delivery is missing or malformed"
        )
    if name == "ping":
        return _answer(HTTPStatus.OK, "pong")
    parsed = parse_event(name, body)
    if isinstance(parsed, NotJson):
        raise _RefusedError(HTTPStatus.BAD_REQUEST, parsed.reason)
    if isinstance(parsed, Ignored):
        return Response(status_code=HTTPStatus.NO_CONTENT)
    event, reason = (None, parsed.reason) if isinstance(parsed, Unparsed) else (parsed, None)
    routing = Routing.of(event) if event else read_routing(body)
    delivery = Delivery(
        delivery_id=delivery_id,
        event_name=name,
        action=routing.action,
        installation_id=routing.installation_id,
        repository_id=routing.repository_id,
        body_sha256=hashlib.sha256(body).hexdigest(),
        body=body,
        received_at=received_at,
        unparsed_reason=reason,
    )
    return await _hand_over(delivery, event, inbox, bounds)


async def _hand_over(
    delivery: Delivery, event: Event | None, inbox: Inbox, bounds: _Bounds
) -> Response:
    log = _logger.bind(delivery_id=delivery.delivery_id, github_event=delivery.event_name)
    try:
        async with asyncio.timeout(bounds.inbox_seconds):
            answer = await inbox.accept(delivery, event)
    except Exception as error:  # noqa: BLE001 - the boundary: whatever broke, GitHub is told to come again
        # The error's text may quote the statement and with it the body: its kind has to do.
        log.error("inbox failed", error=type(error).__name__)  # noqa: TRY400
        raise _RefusedError(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "not stored, come again",
            Retry_After=str(RETRY_AFTER_SECONDS),
        ) from None
    if isinstance(answer, Accepted):
        log.info("delivery accepted", action=delivery.action, unparsed=delivery.unparsed_reason)
        return _answer(HTTPStatus.ACCEPTED, "accepted")
    log.info("delivery seen before")
    return _answer(HTTPStatus.OK, "seen before")
