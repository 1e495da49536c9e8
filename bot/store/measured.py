"""What workers counted. In: sums and last values. Out: the same, over all workers.

Why: a table of its own, since nothing decides by it: no run's row is locked for a number on a
dashboard, and it may be emptied at any time.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import insert

from bot.store.database import Database, Transaction
from bot.store.tables import measures


@dataclass(frozen=True, slots=True)
class Measured:
    """One number: a sum when it `adds` to what is there, else the last value seen."""

    name: str
    subject: str
    value: float
    adds: bool = False


async def keep_measured(database: Database, rows: Sequence[Measured]) -> None:
    """Add sums and replace last values; in one order, so that no two workers block each other."""
    async with database.begin() as tx:
        for row in sorted(rows, key=lambda row: (row.name, row.subject)):
            fresh = insert(measures).values(name=row.name, subject=row.subject, value=row.value)
            value = measures.c.value + fresh.excluded.value if row.adds else fresh.excluded.value
            await tx.execute(
                fresh.on_conflict_do_update(
                    index_elements=[measures.c.name, measures.c.subject],
                    set_={"value": value, "updated_at": func.now()},
                )
            )


async def load_measured(tx: Transaction) -> list[Measured]:
    """Return everything that was ever counted."""
    found = await tx.execute(select(measures.c.name, measures.c.subject, measures.c.value))
    return [Measured(name, subject, value) for name, subject, value in found]
