"""Only the worker that claimed a run last may write for it. In: run and epoch. Out: StaleEpoch.

Why: a worker that was suspended, or cut off from the database, wakes up believing that it still
has its run. Claiming bumps the run's epoch; every write takes the run's row `for share` where the
epoch is the writer's own, in the write's own transaction, so that no claim can come in between.

Agno writes through an engine of its own: `install_fence` puts the same check at the beginning of
each of its transactions, with the claim that this task holds.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, TextClause, event, text
from sqlalchemy.ext.asyncio import AsyncEngine

from bot.errors import StaleEpoch
from bot.store.database import Transaction

_CHECK: Final[TextClause] = text(
    "select 1 from runs where run_id = :run_id and epoch = :epoch for share"
)


@dataclass(frozen=True, slots=True)
class Hold:
    """A run this task works for, at the epoch its claim gave."""

    run_id: str
    epoch: int


_held: ContextVar[Hold | None] = ContextVar("held_run", default=None)


async def guard(tx: Transaction, run_id: str, epoch: int) -> None:
    """Keep the run at this epoch until the transaction ends.

    Raises:
        StaleEpoch: It is at another epoch already (a BaseException: it stops the worker).
    """
    if (await tx.execute(_CHECK, {"run_id": run_id, "epoch": epoch})).first() is None:
        raise StaleEpoch(run_id, epoch)


@contextmanager
def holding(run_id: str, epoch: int) -> Iterator[None]:
    """Fence what this task, and tasks it starts, write through an engine with `install_fence`."""
    token = _held.set(Hold(run_id, epoch))
    try:
        yield
    finally:
        _held.reset(token)


def install_fence(engine: AsyncEngine) -> AsyncEngine:
    """Check the held claim at the beginning of each transaction of this engine.

    The engine must be on the database that holds `runs`. Outside `holding` nothing is checked.

    Returns:
        The same engine.
    """

    @event.listens_for(engine.sync_engine, "begin")
    def check(connection: Connection) -> None:
        hold = _held.get()
        if hold is None:
            return
        found = connection.execute(_CHECK, {"run_id": hold.run_id, "epoch": hold.epoch})
        if found.first() is None:
            raise StaleEpoch(hold.run_id, hold.epoch)

    return engine
