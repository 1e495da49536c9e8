"""The web role: webhooks in, 202 out, and what an operator asks of a web server.

In: settings. Out: a FastAPI application. It verifies, stores and enqueues; it imports no agent and
opens no sandbox, and calls neither GitHub nor a model while it answers a webhook.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from fastapi import FastAPI, Response
from fastapi.exceptions import RequestValidationError
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from bot.observability import configure_logging
from bot.operators import Operators
from bot.pages.routes import (
    Hidden,
    NotSignedIn,
    Site,
    answer_hidden,
    answer_not_signed_in,
    pages_router,
)
from bot.pages.run_page import RunPages
from bot.pages.signin import SignIn, SignInClient
from bot.pages.viewer import GitHubSays
from bot.proof import artifacts_of
from bot.settings import Settings, load_settings
from bot.store.browser_sessions import BrowserSessions
from bot.store.database import Database
from bot.store.inbox import PostgresInbox
from bot.store.opened import open_database
from bot.store.signing_keys import KEYS_PATH, SigningKeys
from webhooks.server import webhook_router
from workspace.signing import public_key_document

DRAIN_SECONDS = 10


def create_app(settings: Settings, database: Database) -> FastAPI:
    """Return the application of the web role over an open database."""
    inbox = PostgresInbox(database)
    site = site_of(settings, database)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with inbox, site.opened():
            yield

    app = FastAPI(title="Ultracode bot", lifespan=lifespan, docs_url=None, redoc_url=None)
    app.include_router(webhook_router(secrets=settings.webhook_secrets(), inbox=inbox))
    app.include_router(pages_router(site))
    app.add_exception_handler(Hidden, answer_hidden)
    app.add_exception_handler(RequestValidationError, answer_hidden)
    app.add_exception_handler(NotSignedIn, answer_not_signed_in)

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


def site_of(settings: Settings, database: Database) -> Site:
    """Return what the evidence pages need; without client id, secret and address none is shown."""
    github = GitHubSays(settings.github_api_url.rstrip("/"))
    return Site(
        database=database,
        pages=RunPages(database, artifacts_of(settings)),
        operators=Operators(settings),
        github=github,
        signin=signin_of(settings, database, github),
    )


def signin_of(settings: Settings, database: Database, github: GitHubSays) -> SignIn | None:
    """Return GitHub's sign-in, where the operator has set it up."""
    secret, public_url = settings.github_client_secret, settings.public_url
    if settings.github_client_id is None or secret is None or public_url is None:
        return None
    client = SignInClient(
        client_id=settings.github_client_id,
        client_secret=secret,
        web_url=web_url_of(settings.github_api_url),
        public_url=public_url.rstrip("/"),
    )
    return SignIn(client, BrowserSessions(database, secret), github)


def web_url_of(api_url: str) -> str:
    """Return where people meet the GitHub of an API address.

    https://docs.github.com/enterprise-server/rest/enterprise-admin: REST below /api/v3 of the host.
    """
    parts = urlsplit(api_url)
    host = parts.netloc.removeprefix("api.") if parts.netloc == "api.github.com" else parts.netloc
    return f"{parts.scheme}://{host}"


async def serve_web(*, host: str, port: int) -> None:
    """Run the web role until it is told to stop."""
    settings = load_settings()
    configure_logging()
    async with open_database(settings) as url, Database(url) as database:
        config = uvicorn.Config(
            create_app(settings, database),
            host=host,
            port=port,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # nothing here asks who called
            timeout_graceful_shutdown=DRAIN_SECONDS,
        )
        await uvicorn.Server(config).serve()
