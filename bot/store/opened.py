"""The database of these settings: DATABASE_URL, or the embedded server in the data folder.

In: settings. Out: a URL that works while the context is open. Several processes may share one
embedded server; whoever leaves last stops it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bot.settings import Settings
from bot.store.embedded import embedded
from bot.store.schema import is_current


@asynccontextmanager
async def open_database(settings: Settings) -> AsyncIterator[str]:
    """Give the URL of a database whose tables are up to date.

    Raises:
        EmbeddedDatabaseError: There is no DATABASE_URL and the embedded server does not start.
    """
    async with reach_database(settings) as url:
        if not await asyncio.to_thread(is_current, url):
            from bot.store.migrate import upgrade  # noqa: PLC0415 - Alembic is heavy, a look is not

            await asyncio.to_thread(upgrade, url)
        yield url


@asynccontextmanager
async def reach_database(settings: Settings) -> AsyncIterator[str]:
    """Give the URL of the database as it is; its tables may be behind this version."""
    if settings.database_url is not None:
        yield settings.database_url.get_secret_value()
        return
    async with embedded(settings.data_dir) as url:
        yield url
