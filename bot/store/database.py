"""The connection to PostgreSQL. In: a URL. Out: an async engine, and transactions on it.

Why: every write of ours is one short transaction. Methods of the store take `tx`: the caller's
transaction, where several writes (a run and its job, say) must stand or fall together; without it
they open their own.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

import psycopg
from sqlalchemy import URL, make_url
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

#: One transaction on one connection. It commits when its `async with` ends without an error.
Transaction = AsyncConnection


class Database:
    """An async engine on the bot's database; `async with` closes its connections at the end."""

    def __init__(self, url: str, *, pool_size: int = 10) -> None:
        """Open nothing yet.

        Args:
            url: `postgresql://`, `postgres://` or `postgresql+psycopg://`.
            pool_size: Connections kept open; as many again may be opened for a moment.
        """
        self.url = sqlalchemy_url(url)
        self.engine = create_engine(url, pool_size=pool_size)

    @property
    def conninfo(self) -> str:
        """The same address as libpq spells it, for psycopg and procrastinate."""
        return libpq_url(self.url)

    @asynccontextmanager
    async def begin(self, tx: Transaction | None = None) -> AsyncIterator[Transaction]:
        """Join the caller's transaction, or open one of our own."""
        if tx is not None:
            yield tx
            return
        async with self.engine.begin() as connection:
            yield connection

    async def close(self) -> None:
        """Close every connection that is not in use."""
        await self.engine.dispose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def create_engine(url: str, *, pool_size: int = 10, read_only: bool = False) -> AsyncEngine:
    """An engine that replaces dead connections and never shows a statement's values.

    Values are people's words and models' output: they belong in no log and no error. With
    `read_only` PostgreSQL refuses every statement that would change something.
    """
    address = sqlalchemy_url(url)
    if read_only:
        given = str(address.query.get("options", ""))
        options = f"{given} -c default_transaction_read_only=on".strip()
        address = address.update_query_dict({"options": options})
    return create_async_engine(
        address,
        pool_size=pool_size,
        max_overflow=pool_size,
        pool_pre_ping=True,
        hide_parameters=True,
        connect_args={"connect_timeout": 10},
    )


def sqlalchemy_url(url: str) -> URL:
    """The URL with the driver we use, whichever way it was spelt."""
    return make_url(url.replace("postgres://", "postgresql://", 1)).set(
        drivername="postgresql+psycopg"
    )


def libpq_url(url: URL | str) -> str:
    """The URL as libpq spells it (it holds the password: for connecting, not for showing)."""
    plain = make_url(url).set(drivername="postgresql")
    return plain.render_as_string(hide_password=False)


async def driver_connection(tx: Transaction) -> psycopg.AsyncConnection:
    """The psycopg connection under a transaction, so that procrastinate can join it."""
    raw = await tx.get_raw_connection()
    connection = raw.driver_connection
    if not isinstance(connection, psycopg.AsyncConnection):
        raise TypeError("the engine does not use psycopg")
    return connection
