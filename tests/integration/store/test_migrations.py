import asyncio
from importlib.resources import files

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, NullPool, create_engine, text

from bot.store.database import Database, sqlalchemy_url
from bot.store.migrate import alembic_config, upgrade
from bot.store.schema import is_current, newest_revision
from bot.store.tables import metadata

pytestmark = pytest.mark.postgres

OURS = set(metadata.tables)


def difference(connection: Connection) -> list[object]:
    context = MigrationContext.configure(
        connection,
        opts={
            "include_object": lambda thing, name, kind, *_: (
                (name if kind == "table" else thing.table.name) in OURS
            ),
            "compare_type": True,
            "compare_server_default": False,
        },
    )
    return list(compare_metadata(context, metadata))


def test_migrations_lead_to_the_tables_of_the_code(database_url: str) -> None:
    """A migrated database has exactly the tables, columns and indices that the code speaks of."""
    engine = create_engine(sqlalchemy_url(database_url), poolclass=NullPool)
    with engine.connect() as connection:
        assert difference(connection) == []
        revision = connection.execute(text("select version_num from alembic_version")).scalar()
    assert revision == newest_revision()
    assert revision == ScriptDirectory.from_config(alembic_config()).get_current_head()


async def test_replicas_may_migrate_at_the_same_moment(
    postgres_server: str, database: Database
) -> None:
    """Four replicas that start together on an empty database give one migrated database."""
    async with database.begin() as tx:
        await tx.execute(text("drop schema public cascade"))
        await tx.execute(text("create schema public"))
    url = database.url.render_as_string(hide_password=False)
    await asyncio.gather(*(asyncio.to_thread(upgrade, url) for _ in range(4)))
    async with database.begin() as tx:
        tables = text("select count(*) from runs union all select count(*) from procrastinate_jobs")
        assert list((await tx.execute(tables)).scalars()) == [0, 0]


async def test_a_database_is_current_when_nothing_is_to_be_migrated(database: Database) -> None:
    """An empty database, one behind ours, or one behind procrastinate's is not."""
    url = database.url.render_as_string(hide_password=False)
    assert is_current(url)
    for change, undo in [
        (
            "update alembic_version set version_num = '0001'",
            "update alembic_version set version_num = :x",
        ),
        ("delete from procrastinate_migrations", ""),
        ("drop table alembic_version", ""),
    ]:
        async with database.begin() as tx:
            await tx.execute(text(change))
        assert not is_current(url)
        if undo:
            async with database.begin() as tx:
                await tx.execute(text(undo), {"x": newest_revision()})
            assert is_current(url)


async def test_procrastinates_own_migrations_are_applied_once(database: Database) -> None:
    """A database at an older version of procrastinate gets what came since, and nothing twice."""
    shipped = sorted(
        file.name
        for file in (files("procrastinate") / "sql" / "migrations").iterdir()
        if file.name.endswith(".sql")
    )
    trigger = "procrastinate_trigger_status_events_update_v1"
    async with database.begin() as tx:
        applied = text("select name from procrastinate_migrations")
        assert list((await tx.execute(applied)).scalars()) == shipped[-1:]
        await tx.execute(text("update procrastinate_migrations set name = :n"), {"n": shipped[-2]})
        await tx.execute(text(f"drop trigger {trigger} on procrastinate_jobs"))
    url = database.url.render_as_string(hide_password=False)
    await asyncio.to_thread(upgrade, url)
    await asyncio.to_thread(upgrade, url)
    async with database.begin() as tx:
        assert sorted((await tx.execute(applied)).scalars()) == shipped[-2:]
        back = text("select count(*) from pg_trigger where tgname = :name")
        assert (await tx.execute(back, {"name": trigger})).scalar_one() == 1
