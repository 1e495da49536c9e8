"""What GitHub says about a viewer. In: their token. Out: who they are, what they may read.

Why apart from `bot.github`: these calls are made with a person's token, never the App's, so GitHub
itself decides what they see. A positive answer is kept for a minute; a refusal is asked again each
time, and so is a repository that does not exist, so that neither time nor words tell them apart.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import httpx
from pydantic import SecretStr

if TYPE_CHECKING:
    from bot.pages.signin import SignInClient

CACHE_SECONDS: Final = 60.0
_CACHE_SIZE: Final = 10_000
_TIMEOUT_SECONDS: Final = 10.0
NO_REPOSITORY: Final = 0


@dataclass(frozen=True, slots=True)
class Viewer:
    """Somebody who signed in."""

    id: int
    login: str
    token: SecretStr


@dataclass(frozen=True, slots=True)
class ViewerAccount:
    """An account by its numeric id."""

    id: int
    login: str


@dataclass
class GitHubSays:
    """Asks GitHub with viewers' tokens. Whatever goes wrong is a refusal."""

    api_url: str
    _client: httpx.AsyncClient = field(init=False)
    _allowed: OrderedDict[tuple[int, int], float] = field(default_factory=OrderedDict)

    def __post_init__(self) -> None:
        """Open one pool of connections; redirects are never followed: a token stays here."""
        self._client = httpx.AsyncClient(
            timeout=_TIMEOUT_SECONDS, follow_redirects=False, trust_env=False
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def token_for(self, client: SignInClient, *, code: str, verifier: str) -> str | None:
        """Return the user token for a code; None when GitHub refuses."""
        said = await self._json(
            "POST",
            f"{client.web_url}/login/oauth/access_token",
            headers={"accept": "application/json"},
            data={
                "client_id": client.client_id,
                "client_secret": client.client_secret.get_secret_value(),
                "code": code,
                "redirect_uri": client.callback,
                "code_verifier": verifier,
            },
        )
        token = said.get("access_token")
        return token if isinstance(token, str) and token else None

    async def account_of(self, token: str) -> ViewerAccount | None:
        """Return whose token it is."""
        said = await self._json("GET", f"{self.api_url}/user", headers=_bearer(token))
        number, login = said.get("id"), said.get("login")
        if not isinstance(number, int) or not isinstance(login, str):
            return None
        return ViewerAccount(number, login)

    async def may_read(self, viewer: Viewer, repository_id: int) -> bool:
        """Whether GitHub shows this repository to this viewer."""
        key = (viewer.id, repository_id)
        if self._allowed.get(key, 0.0) > time.monotonic():
            return True
        said = await self._json(
            "GET",
            f"{self.api_url}/repositories/{repository_id}",
            headers=_bearer(viewer.token.get_secret_value()),
        )
        allowed = said.get("id") == repository_id != NO_REPOSITORY
        if allowed:
            self._allowed[key] = time.monotonic() + CACHE_SECONDS
            while len(self._allowed) > _CACHE_SIZE:
                self._allowed.popitem(last=False)
        return allowed

    async def _json(self, method: str, url: str, **asked: Any) -> dict[str, Any]:
        try:
            response = await self._client.request(method, url, **asked)
            said = response.json() if response.is_success else {}
        except (httpx.HTTPError, ValueError):
            return {}
        return said if isinstance(said, dict) else {}


def _bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}", "accept": "application/vnd.github+json"}
