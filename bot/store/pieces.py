"""Finished pieces of work. In: a run, a key, a value. Out: the value that was stored first.

Why: Agno saves nothing in the middle of a run. What a step has finished (the plan, a worker's
record, a candidate, a report, …) is kept here, one insert each, so that whoever takes the run over
repeats none of it: this is the truth a restart replays from. A piece is written once and never
changed; the run's epoch fences the write.
"""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row, select
from sqlalchemy.dialects.postgresql import insert

from bot.errors import PieceConflict
from bot.store.crashpoints import crashpoint
from bot.store.database import Database, Transaction
from bot.store.fence import guard
from bot.store.tables import pieces


@dataclass(frozen=True, slots=True)
class Piece:
    """One finished piece: a JSON value, and the version of the contract it was written under."""

    key: str
    value: Any
    epoch: int
    contract_version: int
    created_at: datetime


class Pieces:
    """The pieces of all runs. A key is `kind` or `kind:details`, such as `record:0:parser`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load(self, run_id: str, key: str, *, tx: Transaction | None = None) -> Piece | None:
        """The piece of this key, or None when it is not finished."""
        async with self._database.begin(tx) as connection:
            found = await connection.execute(
                _columns().where(pieces.c.run_id == run_id, pieces.c.key == key)
            )
            row = found.first()
        return None if row is None else _piece(row)

    async def load_all(self, run_id: str, *, tx: Transaction | None = None) -> dict[str, Piece]:
        """All finished pieces of a run by key, oldest first."""
        async with self._database.begin(tx) as connection:
            found = await connection.execute(
                _columns().where(pieces.c.run_id == run_id).order_by(pieces.c.created_at)
            )
            return {row.key: _piece(row) for row in found}

    async def save(
        self,
        run_id: str,
        key: str,
        value: Any,
        *,
        epoch: int,
        contract_version: int,
        tx: Transaction | None = None,
    ) -> Piece:
        """Store a finished piece, or find it stored.

        Args:
            run_id: The run.
            key: `kind` or `kind:details`; the kind names the crash points around the write.
            value: What `json` can write. It is read back as JSON gives it (tuples as lists).
            epoch: The writer's claim.
            contract_version: The version of the contract the value keeps.
            tx: The caller's transaction.

        Returns:
            The stored piece.

        Raises:
            StaleEpoch: The run has been claimed by somebody else since.
            PieceConflict: A different value is stored: the work was done twice.
        """
        kind = key.partition(":")[0]
        crashpoint(f"pieces.before_save:{kind}")
        async with self._database.begin(tx) as connection:
            await guard(connection, run_id, epoch)
            row = await connection.execute(
                insert(pieces)
                .values(
                    run_id=run_id,
                    key=key,
                    value=value,
                    epoch=epoch,
                    contract_version=contract_version,
                )
                .on_conflict_do_nothing()
                .returning(*_columns().selected_columns)
            )
            fresh = row.first()
            stored = _piece(fresh) if fresh else await self.load(run_id, key, tx=connection)
        crashpoint(f"pieces.after_save:{kind}")
        if stored is None:
            raise PieceConflict(f"The piece {key} of run {run_id} has vanished.")
        if fresh is None and stored.value != _as_json(value):
            raise PieceConflict(
                f"The piece {key} of run {run_id} is stored with a different value."
            )
        return stored


def _columns() -> Any:
    names = ("key", "value", "epoch", "contract_version", "created_at")
    return select(*(pieces.c[name] for name in names))


def _piece(row: Row[Any]) -> Piece:
    return Piece(**row._asdict())


def _as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))
