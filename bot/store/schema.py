"""Is the database at the schema this version needs? In: a URL. Out: yes or no, within moments.

Why: almost every start finds it so, and Alembic alone takes longer to import than all the rest of
the web role. `migrate` does what has to be done where the answer is no.
"""

from importlib.resources import files
from pathlib import Path
from typing import Final

import psycopg

from bot.store.database import libpq_url

MIGRATIONS: Final = Path(__file__).parent / "migrations"
PROCRASTINATE_SQL: Final = files("procrastinate") / "sql"

_APPLIED: Final = (
    "select (select version_num from alembic_version),"
    " (select max(name) from procrastinate_migrations)"
)


def newest_revision() -> str:
    """The revision of our newest migration; their files are named by revision, in order."""
    return max(path.name for path in (MIGRATIONS / "versions").glob("[0-9]*.py")).partition("_")[0]


def procrastinate_migrations() -> list[str]:
    """The names of procrastinate's own migrations, in order."""
    names = (file.name for file in (PROCRASTINATE_SQL / "migrations").iterdir())
    return sorted(name for name in names if name.endswith(".sql"))


def is_current(url: str) -> bool:
    """Whether nothing has to be migrated (blocking). Raises psycopg.Error where nobody answers."""
    with psycopg.connect(libpq_url(url), connect_timeout=10) as connection:
        try:
            applied = connection.execute(_APPLIED).fetchone()
        except psycopg.errors.UndefinedTable:
            return False
    return applied == (newest_revision(), procrastinate_migrations()[-1])
