"""The finished pieces of one run, as values. In: a key and a type. Out: what was worked out once.

`bot.store.pieces` keeps JSON under keys; here a piece has a type, and is worked out only when it is
not stored, so that a step that runs again repeats nothing. What another version of the bot stored
is never guessed at: it is read where its contract version is known, or refused in words.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog
from pydantic import BaseModel, ValidationError

from bot.errors import UnreadablePiece
from bot.store.pieces import Piece as StoredPiece
from bot.store.pieces import Pieces
from workspace.contracts import CONTRACT_VERSION, READABLE_CONTRACTS

log = structlog.get_logger()

Piece = TypeVar("Piece", bound=BaseModel)


class RunPieces:
    """The finished pieces of one run, as values: each worked out once, however often steps run."""

    def __init__(self, pieces: Pieces, run_id: str, epoch: int, *, for_show: bool = False) -> None:
        self._pieces = pieces
        self._run_id = run_id
        self._epoch = epoch
        self._for_show = for_show

    def for_show(self) -> RunPieces:
        """Return the same pieces for whoever only shows them: one that cannot be read is missing.

        Nothing may be decided or worked out by these.
        """
        return RunPieces(self._pieces, self._run_id, self._epoch, for_show=True)

    async def load(self, key: str, kind: type[Piece]) -> Piece | None:
        """Return a stored piece, or None.

        Raises:
            UnreadablePiece: Another version of the bot stored it, in a way this one does not know.
        """
        stored = await self._pieces.load(self._run_id, key)
        if stored is None:
            return None
        try:
            return self._read(stored, kind)
        except UnreadablePiece:
            if self._for_show:
                return None
            raise

    async def demand(self, key: str, kind: type[Piece]) -> Piece:
        """Return a piece that must be there. Raises LookupError naming it when it is not."""
        piece = await self.load(key, kind)
        if piece is None:
            raise LookupError(f"run {self._run_id} has no piece {key!r}")
        return piece

    async def once(
        self, key: str, kind: type[Piece], work: Callable[[], Awaitable[Piece]]
    ) -> Piece:
        """Return the stored piece, or work it out and store it. Raises StaleEpoch when fenced."""
        stored = await self.load(key, kind)
        if stored is not None:
            return stored
        value = await work()
        await self._pieces.save(
            self._run_id,
            key,
            value.model_dump(mode="json"),
            epoch=self._epoch,
            contract_version=CONTRACT_VERSION,
        )
        return value

    def _read(self, stored: StoredPiece, kind: type[Piece]) -> Piece:
        if stored.contract_version in READABLE_CONTRACTS:
            try:
                return kind.model_validate(stored.value)
            except ValidationError as error:
                broken = error.error_count()
                log.warning("a piece does not keep its contract", key=stored.key, errors=broken)
        raise UnreadablePiece(self._run_id, stored.key)
