"""Signing people in through an App: GitHub's OAuth web flow, with PKCE.

In: `/login/oauth/authorize` in a browser, then `/login/oauth/access_token` from the App's server.
Out: a code that is good once, for ten minutes; a user token that may do what both the person and
the App may. Errors come as GitHub sends them: 200 with `error`.
https://docs.github.com/apps/creating-github-apps/authenticating-with-a-github-app/generating-a-user-access-token-for-a-github-app
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from evals.loopback.auth import mint_user_token
from evals.loopback.state import (
    Account,
    App,
    Json,
    Token,
)
from evals.loopback.world import World

_CODE_LIFE = timedelta(minutes=10)
_TOKEN_LIFE = timedelta(hours=8)
_REFRESH_SECONDS = 15_897_600  # six months


@dataclass(frozen=True)
class Consent:
    """What a person agreed to, until the App's server fetches the token."""

    app: App
    account: Account
    redirect_uri: str
    challenge: str | None
    given_at: datetime


@dataclass
class SignIns:
    """Codes and refresh tokens that were given out."""

    codes: dict[str, Consent] = field(default_factory=dict)
    refreshing: dict[str, tuple[App, Account]] = field(default_factory=dict)

    def consent(
        self, world: World, app: App, account: Account, *, redirect_uri: str, challenge: str | None
    ) -> str:
        """A person agrees; the code for the App's server."""
        code = secrets.token_hex(10)
        self.codes[code] = Consent(app, account, redirect_uri, challenge, world.now())
        return code

    def token(self, world: World, values: dict[str, str]) -> Json:
        """What `/login/oauth/access_token` answers."""
        app = _app(world, values)
        if app is None:
            return _error("incorrect_client_credentials", "The client_id or secret is incorrect.")
        if values.get("grant_type") == "refresh_token":
            known = self.refreshing.pop(values.get("refresh_token", ""), None)
            if known is None or known[0] is not app:
                return _error("bad_refresh_token", "The refresh token is incorrect or expired.")
            return self._granted(world, app, known[1])
        return self._for_code(world, app, values)

    def _for_code(self, world: World, app: App, values: dict[str, str]) -> Json:
        given = self.codes.pop(values.get("code", ""), None)
        if given is None or given.app is not app or world.now() - given.given_at > _CODE_LIFE:
            return _error("bad_verification_code", "The code passed is incorrect or expired.")
        if values.get("redirect_uri", given.redirect_uri) != given.redirect_uri:
            return _error("redirect_uri_mismatch", "The redirect_uri does not match.")
        if given.challenge and not _proves(given.challenge, values.get("code_verifier", "")):
            return _error("bad_verification_code", "The code verifier does not match.")
        return self._granted(world, app, given.account)

    def _granted(self, world: World, app: App, account: Account) -> Json:
        token: Token = mint_user_token(world, account, app=app)
        token.expires_at = world.now() + _TOKEN_LIFE
        refresh = f"ghr_{secrets.token_urlsafe(54)}"
        self.refreshing[refresh] = (app, account)
        return {
            "access_token": token.value,
            "expires_in": int(_TOKEN_LIFE.total_seconds()),
            "refresh_token": refresh,
            "refresh_token_expires_in": _REFRESH_SECONDS,
            "token_type": "bearer",
            "scope": "",
        }


def redirect_for(app: App, wanted: str | None) -> str | None:
    """Where the person is sent back: only below an address that was registered."""
    if not app.callback_urls:
        return None
    if wanted is None:
        return app.callback_urls[0]
    fits = any(wanted == known or wanted.startswith(f"{known}/") for known in app.callback_urls)
    return wanted if fits else None


def app_of_client(world: World, client_id: str) -> App | None:
    """The App of a client id."""
    return next((app for app in world.apps.values() if app.client_id == client_id), None)


def _app(world: World, values: dict[str, str]) -> App | None:
    app = app_of_client(world, values.get("client_id", ""))
    given = values.get("client_secret", "")
    return app if app and hmac.compare_digest(app.client_secret, given) else None


def _proves(challenge: str, verifier: str) -> bool:
    digest = hashlib.sha256(verifier.encode()).digest()
    return hmac.compare_digest(base64.urlsafe_b64encode(digest).decode().rstrip("="), challenge)


def _error(name: str, words: str) -> Json:
    return {"error": name, "error_description": words, "error_uri": "https://docs.github.com/apps"}
