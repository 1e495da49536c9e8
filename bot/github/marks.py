"""Marks in our own comments: how an interrupted attempt finds what it had written.

In: what a comment is for. Out: an HTML comment holding an HMAC of it. Writers can edit our comments
and anybody can copy a mark, so a mark is only ever looked for in comments of this App, and only to
find a comment, never as state.
"""

from __future__ import annotations

import hashlib
import hmac

from pydantic import SecretStr


class Marks:
    """Makes marks under a secret of this server."""

    def __init__(self, secret: SecretStr) -> None:
        seed = secret.get_secret_value().encode()
        self._key = hmac.digest(seed, b"ultracode comment marks", hashlib.sha256)

    def mark(self, scope: str, key: str) -> str:
        """Return the mark of one comment."""
        name = f"{scope}\n{key}".encode()
        return f"<!-- ultracode {hmac.digest(self._key, name, hashlib.sha256).hex()[:32]} -->"

    def signed(self, text: str, scope: str, key: str) -> str:
        """Return the text with its mark at the end."""
        return f"{text}\n\n{self.mark(scope, key)}\n"
