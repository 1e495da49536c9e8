"""The public keys evidence was signed with. In: a worker's key. Out: all of them, for readers.

Why: only workers hold the private key, and the web role publishes the public ones. A key stays
listed after it was rotated out: what it signed is still to be verified.
"""

from typing import Final

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert

from bot.store.database import Database
from bot.store.tables import signing_keys
from workspace.signing import key_id

#: Where the web role publishes them.
KEYS_PATH: Final = "/.well-known/ultracode-keys.json"


class SigningKeys:
    """The public keys of this server's workers, 32 bytes each (Ed25519)."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def record(self, public_key: bytes) -> None:
        """Note that a worker signs with this key from now on."""
        async with self._database.begin() as tx:
            await tx.execute(
                insert(signing_keys)
                .values(key_id=key_id(public_key), public_key=public_key)
                .on_conflict_do_nothing()
            )

    async def load_all(self) -> tuple[bytes, ...]:
        """Return every key that was ever used, the newest first."""
        newest_first = select(signing_keys.c.public_key).order_by(
            signing_keys.c.first_used_at.desc(), signing_keys.c.key_id
        )
        async with self._database.begin() as tx:
            return tuple(bytes(key) for key in (await tx.execute(newest_first)).scalars())
