"""The web role: webhooks in, 202 out, and what an operator asks of a web server.

In: settings. Out: a FastAPI application. It verifies, stores and enqueues; it imports no agent and
opens no sandbox, and calls neither GitHub nor a model while it answers a webhook.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI, Response
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from bot.observability import configure_logging
from bot.pages.door import PagesDoor
from bot.settings import Settings, load_settings
from bot.store.database import Database
from bot.store.inbox import PostgresInbox
from bot.store.opened import open_database
from bot.store.signing_keys import KEYS_PATH, SigningKeys
from bot.traced_webhook import TracedWebhook
from bot.tracing import tracing
from webhooks.server import webhook_router
from workspace.signing import public_key_document

DRAIN_SECONDS = 10


def create_app(
    settings: Settings, database: Database, *, pages: PagesDoor | None = None
) -> FastAPI:
    """Return the application of the web role over an open database."""
    inbox = PostgresInbox(database)
    pages = pages or PagesDoor(settings, database)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with inbox, aclosing(pages):
            yield

    app = FastAPI(title="Ultracode bot", lifespan=lifespan, docs_url=None, redoc_url=None)
    if settings.otel_exporter_otlp_endpoint is not None:
        app.add_middleware(TracedWebhook)
    app.include_router(webhook_router(secrets=settings.webhook_secrets(), inbox=inbox))

    app.router.routes += pages.routes()
    keys = SigningKeys(database)

    @app.get(KEYS_PATH, include_in_schema=False)
    async def signing_keys(response: Response) -> dict[str, Any]:
        """The public keys that evidence of this server was ever signed with, newest first."""
        response.headers["Cache-Control"] = "public, max-age=300"
        return public_key_document(await keys.load_all())

    @app.get("/healthz", include_in_schema=False)
    async def healthz() -> dict[str, str]:
        """Whether this process answers."""
        return {"status": "ok"}

    @app.get("/readyz", include_in_schema=False)
    async def readyz(response: Response) -> dict[str, str]:
        """Whether this process can store a delivery."""
        try:
            async with database.begin() as tx:
                await tx.execute(text("select 1"))
        except (SQLAlchemyError, OSError):
            response.status_code = 503
            return {"status": "the database does not answer"}
        return {"status": "ok"}

    return app


async def serve_web(*, host: str, port: int, agentos: bool = False) -> None:
    """Run the web role until it is told to stop; with `agentos`, runs can be read over its API."""
    settings = load_settings()
    configure_logging()
    if agentos:
        settings.agentos_verification()
    async with AsyncExitStack() as kept:
        kept.enter_context(tracing(settings, "web"))
        url = await kept.enter_async_context(open_database(settings))
        database = await kept.enter_async_context(Database(url))
        pages = PagesDoor(settings, database)
        app = create_app(settings, database, pages=pages)
        if agentos:
            from bot.agentos import add_agentos  # noqa: PLC0415 - seconds that only this option costs

            add_agentos(app, settings, url)
        config = uvicorn.Config(
            app,
            host=host,
            port=port,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # nothing here asks who called
            timeout_graceful_shutdown=DRAIN_SECONDS,
        )
        await _Server(config, pages).serve()


class _Server(uvicorn.Server):
    """Uvicorn waits for open answers when told to stop: pages that follow a run end at once."""

    def __init__(self, config: uvicorn.Config, pages: PagesDoor) -> None:
        super().__init__(config)
        self._pages = pages

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop."""
        self._pages.stop()
        super().handle_exit(sig, frame)
