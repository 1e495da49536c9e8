"""The evidence pages as an application. In: settings, an open database. Out: what `PagesDoor` runs.

Without a client id, a client secret and PUBLIC_URL nobody can sign in, and no page is shown.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

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
from bot.settings import Settings
from bot.store.browser_sessions import BrowserSessions
from bot.store.database import Database


class PagesApplication:
    """The pages' routes, and how everything that is wrong is answered: as if it were not there."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._site = site_of(settings, database)
        self.app = FastAPI(title="Evidence", docs_url=None, redoc_url=None, openapi_url=None)
        self.app.include_router(pages_router(self._site))
        for hidden in (Hidden, RequestValidationError, HTTPException):
            self.app.add_exception_handler(hidden, answer_hidden)
        self.app.add_exception_handler(NotSignedIn, answer_not_signed_in)

    def stop(self) -> None:
        """End the streams."""
        self._site.stopping.set()

    async def aclose(self) -> None:
        """Close the connections to GitHub."""
        await self._site.github.aclose()


def site_of(settings: Settings, database: Database) -> Site:
    """Return what the pages need."""
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
