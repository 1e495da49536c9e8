"""Tokens: narrow, short-lived, minted once. In: who asks and what for. Out: one token's text.

Why: a token that can do less loses less, and ten callers at once must not mint ten. Time is counted
by the process's own monotonic clock, so that a wrong wall clock neither keeps a dead token nor
drops a living one; a token that GitHub refuses is dropped by whoever notices.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

Json = dict[str, Any]

#: GitHub's installation tokens last an hour; a push that starts late must still end in time.
LIFETIME_SECONDS: Final = 45 * 60


class Purpose(Enum):
    """What a token is for, and so which permissions it is asked with."""

    READ = "read"
    TALK = "talk"
    CODE = "code"
    GIT_READ = "git_read"
    GIT_WRITE = "git_write"
    LIST = "list"

    @property
    def permissions(self) -> Mapping[str, str]:
        """The permissions asked of GitHub, by its names."""
        return _PERMISSIONS[self]


_PERMISSIONS: Final[Mapping[Purpose, Mapping[str, str]]] = {
    Purpose.READ: {
        "administration": "read",
        "checks": "read",
        "contents": "read",
        "issues": "read",
        "metadata": "read",
        "pull_requests": "read",
        "statuses": "read",
    },
    Purpose.TALK: {
        "checks": "write",
        "contents": "read",
        "issues": "write",
        "metadata": "read",
        "pull_requests": "write",
    },
    Purpose.CODE: {"contents": "write", "metadata": "read", "pull_requests": "write"},
    Purpose.GIT_READ: {"contents": "read", "metadata": "read"},
    Purpose.GIT_WRITE: {"contents": "write", "metadata": "read"},
    Purpose.LIST: {"metadata": "read"},
}


@dataclass(frozen=True, slots=True)
class Grant:
    """One installation, one repository (None: all it covers), one purpose."""

    installation_id: int
    repository_id: int | None
    purpose: Purpose


@dataclass(slots=True)
class _Entry:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    token: str = field(default="", repr=False)
    expires_at: float = 0.0


class Tokens:
    """The tokens of one client: nothing is shared with other clients or addresses."""

    def __init__(self, mint: Callable[[Grant], Awaitable[str]]) -> None:
        self._mint = mint
        self._entries: dict[Grant, _Entry] = {}

    async def get(self, grant: Grant) -> str:
        """Return a living token, minting at most one however many ask at once."""
        entry = self._entries.setdefault(grant, _Entry())
        async with entry.lock:
            if time.monotonic() >= entry.expires_at:
                entry.token = await self._mint(grant)
                entry.expires_at = time.monotonic() + LIFETIME_SECONDS
                self._forget_expired()
            return entry.token

    def drop(self, grant: Grant, token: str) -> None:
        """Forget a token GitHub refused, unless a newer one has taken its place."""
        entry = self._entries.get(grant)
        if entry is not None and entry.token == token:
            entry.expires_at = 0.0

    def _forget_expired(self) -> None:
        now = time.monotonic()
        expired = [
            grant
            for grant, entry in self._entries.items()
            if entry.expires_at <= now and not entry.lock.locked()
        ]
        for grant in expired:
            del self._entries[grant]
