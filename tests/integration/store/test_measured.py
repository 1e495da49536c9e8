"""What workers count, brought together in the database."""

from __future__ import annotations

from bot.github.rate import RateBudget
from bot.measures import Measures
from bot.store.database import Database
from bot.store.measured import load_measured


async def measured(database: Database) -> dict[tuple[str, str], float]:
    """Return all numbers by name and subject."""
    async with database.begin() as tx:
        return {(row.name, row.subject): row.value for row in await load_measured(tx)}


async def test_counts_of_workers_add_up(database: Database) -> None:
    """Two workers' counts are summed; what was written once is not written again."""
    one, other = Measures(), Measures()
    one.add("sandbox_seconds", "exit", 1.5)
    one.add("sandbox_seconds", "exit", 0.5)
    other.add("sandbox_seconds", "exit", 4)
    other.add("sandbox_seconds", "timeout", 8)
    for worker in (one, other, one):
        await worker.flush(database)
    assert await measured(database) == {
        ("sandbox_seconds", "exit"): 6,
        ("sandbox_seconds", "timeout"): 8,
    }


async def test_the_last_budget_seen_counts(database: Database) -> None:
    """What GitHub still allows is what it said last, for each installation and resource."""
    measures = Measures()
    for left in (5000, 4990):
        measures.note_budget(RateBudget(7, "core", 5000, left, 1_800_000_000))
        await measures.flush(database)
    measures.note_budget(RateBudget(None, "core", 5000, 3, 1_800_000_000))
    await measures.flush(database)
    found = await measured(database)
    assert found["github_remaining", "7:core"] == 4990
    assert found["github_remaining", "app:core"] == 3


async def test_what_could_not_be_written_is_written_later(database: Database) -> None:
    """A database that is away loses no count."""
    measures = Measures()
    measures.add("sandbox_commands", "exit", 1)
    async with Database("postgresql://nobody@127.0.0.1:1/nowhere") as away:
        await measures.flush(away)
    measures.add("sandbox_commands", "exit", 2)
    await measures.flush(database)
    assert await measured(database) == {("sandbox_commands", "exit"): 3}
