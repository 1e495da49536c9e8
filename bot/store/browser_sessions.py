"""Browsers that signed in. In: a secret only the browser holds. Out: what was sealed under it.

Why: a viewer's GitHub token must be at rest nowhere in the clear, in no URL and in no cookie. The
row's key is a digest of the browser's secret, and its content is encrypted with a key made from
that secret *and* the server's: neither the database nor a stolen cookie jar alone opens it. A used
sign-in leaves a row as well, so that the same one never works twice, on any replica.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from datetime import timedelta
from typing import Final

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from pydantic import SecretStr
from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert

from bot.store.database import Database
from bot.store.tables import browser_sessions

_SECRET_BYTES: Final = 32


class BrowserSessions:
    """Sealed content by the secret of a browser. Times are the database's."""

    def __init__(self, database: Database, server_secret: SecretStr) -> None:
        self._database = database
        self._server_secret = server_secret.get_secret_value().encode()

    async def keep(self, content: bytes, life: timedelta) -> str:
        """Seal content for so long; return the secret that opens it again."""
        secret = secrets.token_urlsafe(_SECRET_BYTES)
        sealed = self._box(secret).encrypt(content)
        await self._insert(_key(secret), sealed, life)
        return secret

    async def read(self, secret: str) -> bytes | None:
        """Return what was sealed under a secret; None when unknown, expired or not ours."""
        wanted = select(browser_sessions.c.sealed).where(
            browser_sessions.c.key == _key(secret), browser_sessions.c.expires_at > func.now()
        )
        async with self._database.begin() as tx:
            sealed = (await tx.execute(wanted)).scalar_one_or_none()
        if sealed is None:
            return None
        try:
            return self._box(secret).decrypt(sealed)
        except InvalidToken:
            return None

    async def forget(self, secret: str) -> None:
        """Sign a browser out."""
        async with self._database.begin() as tx:
            await tx.execute(delete(browser_sessions).where(browser_sessions.c.key == _key(secret)))

    async def use_up(self, nonce: str, life: timedelta) -> bool:
        """Whether this is the first use of a nonce; `life` is how long a second one is refused."""
        return await self._insert(_key(f"used:{nonce}"), b"", life)

    def seal(self, content: bytes) -> str:
        """Encrypt something a browser keeps for a moment, such as a sign-in that was begun."""
        return self._box("").encrypt(content).decode()

    def unseal(self, sealed: str, life: timedelta) -> bytes | None:
        """Return what `seal` was given; None when it is older than `life` or was tampered with."""
        try:
            return self._box("").decrypt(sealed, ttl=int(life.total_seconds()))
        except InvalidToken:
            return None

    async def _insert(self, key: str, sealed: bytes, life: timedelta) -> bool:
        """Insert a row, and delete those whose time is over: nothing else has to."""
        expired = delete(browser_sessions).where(browser_sessions.c.expires_at < func.now())
        fresh = (
            insert(browser_sessions)
            .values(key=key, sealed=sealed, expires_at=func.now() + life)
            .on_conflict_do_nothing()
            .returning(browser_sessions.c.key)
        )
        async with self._database.begin() as tx:
            await tx.execute(expired)
            return (await tx.execute(fresh)).first() is not None

    def _box(self, secret: str) -> Fernet:
        derive = HKDF(SHA256(), length=32, salt=None, info=b"ultracode browser session")
        key = derive.derive(self._server_secret + b"\0" + secret.encode())
        return Fernet(base64.urlsafe_b64encode(key))


def _key(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
