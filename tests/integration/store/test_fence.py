import contextlib
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from bot.errors import StaleEpoch
from bot.store.database import Database, create_engine
from bot.store.fence import holding, install_fence
from bot.store.runs import RunStore
from tests.integration.store.make import make_run

pytestmark = pytest.mark.postgres


@pytest.fixture
async def foreign_engine(database: Database) -> AsyncIterator[AsyncEngine]:
    """An engine such as Agno's, on the same database, with the fence installed."""
    engine = install_fence(create_engine(database.url.render_as_string(hide_password=False)))
    async with engine.begin() as connection:
        await connection.execute(text("create table sessions (word text)"))
    yield engine
    await engine.dispose()


async def write(engine: AsyncEngine, word: str) -> None:
    async with engine.begin() as connection:
        await connection.execute(text("insert into sessions values (:word)"), {"word": word})


async def write_and_swallow(engine: AsyncEngine, word: str) -> None:
    """Write as Agno does: an error of the database is logged and forgotten."""
    with contextlib.suppress(Exception):
        await write(engine, word)


async def words(engine: AsyncEngine) -> list[str]:
    async with engine.begin() as connection:
        return list((await connection.execute(text("select word from sessions"))).scalars())


async def test_a_foreign_engine_is_fenced_too(
    foreign_engine: AsyncEngine, database: Database
) -> None:
    """A worker that lost its run cannot write through Agno's engine either, even if it swallows."""
    runs = RunStore(database)
    run = await make_run(runs)
    old, new = await runs.claim(run.run_id), await runs.claim(run.run_id)
    assert old
    assert new
    with holding(run.run_id, new.epoch):
        await write(foreign_engine, "new")
    with holding(run.run_id, old.epoch), pytest.raises(StaleEpoch):
        await write_and_swallow(foreign_engine, "old")
    assert await words(foreign_engine) == ["new"]


async def test_a_stale_worker_cannot_even_read(
    foreign_engine: AsyncEngine, database: Database
) -> None:
    """It is stopped at its first transaction, whatever that does."""
    runs = RunStore(database)
    run = await make_run(runs)
    with holding(run.run_id, 41), pytest.raises(StaleEpoch):
        await words(foreign_engine)


async def test_nothing_is_checked_without_a_claim(foreign_engine: AsyncEngine) -> None:
    """Reading for display, outside of any run, works."""
    await write(foreign_engine, "free")
    assert await words(foreign_engine) == ["free"]
