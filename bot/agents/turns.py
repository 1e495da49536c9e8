"""Keeps the finished turns of agents, so that a run taken over does not pay for them again.

Comes in: what an agent's conversation has grown by, as JSON. Goes out: the same, in order, to
whoever takes the run over. It exists because Agno keeps nothing of a conversation before its end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from bot.errors import UnreadablePiece
from bot.store.pieces import Pieces
from workspace.contracts import CONTRACT_VERSION, READABLE_CONTRACTS

Turn = Mapping[str, Any]


class TurnLog(Protocol):
    """The finished turns of all agents of one run."""

    async def load(self, session: str) -> Sequence[Turn]:
        """The turns of one conversation, oldest first."""
        ...

    async def append(self, session: str, number: int, turn: Turn) -> None:
        """Keep the turn of this number, counted from 0. Must not return before it is kept."""
        ...


class NoTurns:
    """Keeps nothing: a conversation that breaks off starts anew."""

    async def load(self, session: str) -> Sequence[Turn]:
        """Nothing."""
        del session
        return ()

    async def append(self, session: str, number: int, turn: Turn) -> None:
        """Forget it."""


class PieceTurns:
    """Keeps turns as pieces of the run, insert-once and fenced by the writer's epoch."""

    def __init__(self, pieces: Pieces, run_id: str, epoch: int) -> None:
        self._pieces = pieces
        self._run_id = run_id
        self._epoch = epoch

    async def load(self, session: str) -> Sequence[Turn]:
        """See `TurnLog.load`."""
        turns: list[Turn] = []
        while True:
            piece = await self._pieces.load(self._run_id, _key(session, len(turns)))
            if piece is None:
                return turns
            if piece.contract_version not in READABLE_CONTRACTS:
                raise UnreadablePiece(self._run_id, piece.key)
            turns.append(piece.value)

    async def append(self, session: str, number: int, turn: Turn) -> None:
        """See `TurnLog.append`."""
        await self._pieces.save(
            self._run_id,
            _key(session, number),
            turn,
            epoch=self._epoch,
            contract_version=CONTRACT_VERSION,
        )


def _key(session: str, number: int) -> str:
    return f"turn:{session}:{number:04}"
