"""Bring the database to the schema this version needs. In: a URL. Out: nothing, or an error.

Why: `ultracode serve` runs this at every start, on every replica, and `ultracode db upgrade` by
hand, so it happens under an advisory lock and does nothing where nothing is to be done. Our tables
are migrated by Alembic; procrastinate ships its schema and its own migrations as SQL, which are
applied here by name, so that a new version of it needs no migration of ours.
"""

from typing import Final

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, NullPool, create_engine, text

from bot.store.database import sqlalchemy_url
from bot.store.schema import MIGRATIONS, PROCRASTINATE_SQL, procrastinate_migrations

_LOCK: Final = 7_305_801_422  # any number, the same on every replica


def upgrade(url: str) -> None:
    """Migrate our tables and procrastinate's to what this version needs (blocking; at start)."""
    engine = create_engine(sqlalchemy_url(url), poolclass=NullPool, hide_parameters=True)
    with engine.begin() as connection:
        connection.execute(text("select pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        config = alembic_config()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        _upgrade_procrastinate(connection)
    engine.dispose()


def alembic_config() -> Config:
    """Where our migrations are."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")
    return config


def _upgrade_procrastinate(connection: Connection) -> None:
    """Apply procrastinate's schema, or the migrations that came after the last one applied.

    Its files are named by version and order (`03.04.00_50_post_….sql`), and schema.sql is what they
    add up to: https://procrastinate.readthedocs.io/en/stable/howto/production/migrations.html
    """
    names = procrastinate_migrations()
    connection.execute(
        text(
            "create table if not exists procrastinate_migrations"
            " (name text primary key, applied_at timestamptz not null default now())"
        )
    )
    applied = connection.execute(text("select max(name) from procrastinate_migrations")).scalar()
    if applied is None:
        _execute_script(connection, (PROCRASTINATE_SQL / "schema.sql").read_text())
        _record(connection, names[-1])
        return
    for name in (name for name in names if name > applied):
        _execute_script(connection, (PROCRASTINATE_SQL / "migrations" / name).read_text())
        _record(connection, name)


def _record(connection: Connection, name: str) -> None:
    connection.execute(
        text("insert into procrastinate_migrations (name) values (:name)"), {"name": name}
    )


def _execute_script(connection: Connection, script: str) -> None:
    """Run many statements as they stand: no parameters, so that `%` means nothing."""
    driver = connection.connection.driver_connection
    if driver is None:
        raise RuntimeError("the connection is closed")
    with driver.cursor() as cursor:
        cursor.execute(script.encode())
