"""The span of a webhook. In: requests to the web role. Out: the same, as roots of traces.

Added only where a collector is named, so that others' deliveries are acknowledged as fast as ever.
"""

from __future__ import annotations

import re
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bot.tracing import span

_WEBHOOKS: Final = "/webhooks/github"
_DELIVERY_ID: Final = re.compile(r"[0-9a-fA-F-]{36}")
_EVENT: Final = re.compile(r"[a-z_]{1,40}")


class TracedWebhook:
    """An ASGI layer that opens a span around each delivery."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and note how it was answered."""
        if scope["type"] != "http" or scope["path"] != _WEBHOOKS:
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = {
            "delivery_id": _fitting(_DELIVERY_ID, headers.get("x-github-delivery", "")).lower(),
            "github_event": _fitting(_EVENT, headers.get("x-github-event", "")),
        }
        with span("webhook", kind="server", **given) as webhook:

            async def noted(message: Message) -> None:
                if message["type"] == "http.response.start":
                    webhook.note(http__response__status_code=message["status"])
                await send(message)

            await self._app(scope, receive, noted)


def _fitting(form: re.Pattern[str], value: str) -> str:
    """Return what looks as it should: whoever sent it may be anybody."""
    return value if form.fullmatch(value) else ""
