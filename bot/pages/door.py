"""The door to the evidence pages. In: requests for their addresses. Out: the pages' own answers.

Why: pages need templates, tokens and a dozen modules that a webhook does not. They are imported at
the first request for one, so that the web role is ready to take deliveries as fast as without them,
and they are an application of their own, so that how they answer what is wrong stays theirs.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from bot.settings import Settings
from bot.store.database import Database

if TYPE_CHECKING:
    from bot.pages.application import PagesApplication

ADDRESSES: Final = (
    "/",
    "/metrics",
    "/runs/{rest:path}",
    "/auth/{rest:path}",
    "/static/{rest:path}",
)


class PagesDoor:
    """An ASGI application that becomes the evidence pages when somebody wants one."""

    def __init__(self, settings: Settings, database: Database) -> None:
        """Check what the pages need of the settings. Raises SettingsError."""
        settings.token_verification()
        self._settings = settings
        self._database = database
        self._opening = asyncio.Lock()
        self._opened: PagesApplication | None = None
        self._closed = False

    def routes(self) -> list[Route]:
        """Return the routes that lead here, whatever the method: the pages decide on those."""
        return [Route(path, self, include_in_schema=False) for path in ADDRESSES]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        async with self._opening:
            if self._opened is None:
                self._opened = await asyncio.to_thread(self._open)
                if self._closed:
                    self._opened.stop()
        await self._opened.app(scope, receive, send)

    def stop(self) -> None:
        """End the streams that would keep a server from stopping."""
        self._closed = True
        if self._opened is not None:
            self._opened.stop()

    async def aclose(self) -> None:
        """Close what was opened."""
        self.stop()
        if self._opened is not None:
            await self._opened.aclose()

    def _open(self) -> PagesApplication:
        from bot.pages.application import PagesApplication  # noqa: PLC0415 - see the docstring

        return PagesApplication(self._settings, self._database)
