"""The finished pieces of one run, as values. In: a key and a type. Out: what was worked out once.

`bot.store.pieces` keeps JSON under keys; here a piece has a type, and is worked out only when it is
not stored, so that a step that runs again repeats nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from pydantic import BaseModel

from bot.store.pieces import Pieces
from workspace.contracts import CONTRACT_VERSION

Piece = TypeVar("Piece", bound=BaseModel)


class RunPieces:
    """The finished pieces of one run, as values: each worked out once, however often steps run."""

    def __init__(self, pieces: Pieces, run_id: str, epoch: int) -> None:
        self._pieces = pieces
        self._run_id = run_id
        self._epoch = epoch

    async def load(self, key: str, kind: type[Piece]) -> Piece | None:
        """Return a stored piece, or None."""
        stored = await self._pieces.load(self._run_id, key)
        return None if stored is None else kind.model_validate(stored.value)

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
