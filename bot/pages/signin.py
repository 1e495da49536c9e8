"""Signing in with GitHub through the App: the web flow with PKCE, bound to one browser, used once.

In: a browser that wants to read evidence. Out: a session whose GitHub token stays on the server,
sealed (bot/store/browser_sessions.py). The state that GitHub carries back must be the one this very
browser holds in a cookie, is good for ten minutes, and is used up by its first return.
https://docs.github.com/apps/creating-github-apps/authenticating-with-a-github-app/generating-a-user-access-token-for-a-github-app
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from datetime import timedelta
from typing import Final
from urllib.parse import urlencode

from pydantic import BaseModel, ConfigDict, SecretStr

from bot.pages.viewer import GitHubSays, Viewer
from bot.store.browser_sessions import BrowserSessions

BEGUN_LIFE: Final = timedelta(minutes=10)
SESSION_LIFE: Final = timedelta(hours=8)  # GitHub's user tokens live as long
#: Where people may be sent after signing in: pages of ours and nothing else.
_NEXT: Final = re.compile(r"/(?:runs/[a-z0-9]{8,40})?")


class SignInClient(BaseModel):
    """The App as GitHub's sign-in knows it. `web_url` is where people meet GitHub."""

    model_config = ConfigDict(frozen=True)

    client_id: str
    client_secret: SecretStr
    web_url: str
    public_url: str

    @property
    def callback(self) -> str:
        """Where GitHub sends people back to."""
        return f"{self.public_url}/auth/callback"

    @property
    def secure(self) -> bool:
        """Whether cookies may travel over HTTPS only."""
        return self.public_url.startswith("https:")


class Begun(BaseModel):
    """A sign-in that was begun, as the browser keeps it sealed."""

    model_config = ConfigDict(frozen=True)

    state: str
    verifier: str
    next: str


class Session(BaseModel):
    """Who signed in, and the token that asks GitHub in their name."""

    model_config = ConfigDict(frozen=True)

    id: int
    login: str
    token: str


class SignInFailed(Exception):
    """The sign-in cannot be completed; begin again. Says nothing that GitHub or a browser sent."""


def safe_next(wanted: str | None) -> str:
    """Return where to go after signing in: a page of ours, `/` for anything else."""
    return wanted if wanted and _NEXT.fullmatch(wanted) else "/"


class SignIn:
    """Begins and completes sign-ins, and knows who a browser is."""

    def __init__(self, client: SignInClient, sessions: BrowserSessions, github: GitHubSays) -> None:
        self.client = client
        self._sessions = sessions
        self._github = github

    def begin(self, wanted: str | None) -> tuple[str, str]:
        """Return the address to send the browser to, and what it is to keep in a cookie."""
        begun = Begun(
            state=secrets.token_urlsafe(32),
            verifier=secrets.token_urlsafe(48),
            next=safe_next(wanted),
        )
        query = {
            "client_id": self.client.client_id,
            "redirect_uri": self.client.callback,
            "state": begun.state,
            "code_challenge": _challenge(begun.verifier),
            "code_challenge_method": "S256",
        }
        address = f"{self.client.web_url}/login/oauth/authorize?{urlencode(query)}"
        return address, self._sessions.seal(begun.model_dump_json().encode())

    async def complete(self, *, kept: str | None, state: str, code: str) -> tuple[str, str]:
        """Return where to go, and the secret of the new session for the browser's cookie.

        Raises:
            SignInFailed: Another browser's, an old or a used sign-in, or GitHub refused the code.
        """
        opened = self._sessions.unseal(kept, BEGUN_LIFE) if kept else None
        if opened is None:
            raise SignInFailed
        begun = Begun.model_validate_json(opened)
        if not hmac.compare_digest(begun.state.encode(), state.encode()):
            raise SignInFailed
        if not await self._sessions.use_up(begun.state, BEGUN_LIFE):
            raise SignInFailed
        token = await self._github.token_for(self.client, code=code, verifier=begun.verifier)
        account = await self._github.account_of(token) if token else None
        if token is None or account is None:
            raise SignInFailed
        session = Session(id=account.id, login=account.login, token=token)
        content = session.model_dump_json().encode()
        return begun.next, await self._sessions.keep(content, SESSION_LIFE)

    async def viewer(self, secret: str | None) -> Viewer | None:
        """Return who a browser is; None when it has not signed in."""
        content = await self._sessions.read(secret) if secret else None
        if content is None:
            return None
        session = Session.model_validate_json(content)
        return Viewer(id=session.id, login=session.login, token=SecretStr(session.token))

    async def sign_out(self, secret: str | None) -> None:
        """Forget a browser's session."""
        if secret:
            await self._sessions.forget(secret)


def _challenge(verifier: str) -> str:
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")
