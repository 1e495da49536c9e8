"""A real PostgreSQL for every test that wants one: an embedded server, a template, a clone each."""

import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest

from bot.store import embedded
from bot.store.database import Database, libpq_url, sqlalchemy_url
from bot.store.migrate import upgrade

_FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of an embedded server for this session. It forgets everything in a crash: it may."""
    folder = Path(tempfile.mkdtemp(prefix="ultracode-test-"))
    folder.chmod(0o711)  # as root the server runs as a user of its own
    try:
        yield embedded.start(folder, options=_FAST)
    finally:
        embedded.remove(folder)
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def template_database(postgres_server: str) -> str:
    """The name of a database with the whole schema, to be cloned."""
    upgrade(postgres_server)
    name = sqlalchemy_url(postgres_server).database
    assert name is not None
    return name


@pytest.fixture
def database_url(postgres_server: str, template_database: str) -> Iterator[str]:
    """The URL of a migrated database that only this test uses."""
    name = f"test_{uuid.uuid4().hex}"
    url = sqlalchemy_url(postgres_server)
    admin = libpq_url(url.set(database="postgres"))
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(f'create database "{name}" template "{template_database}"'.encode())
        try:
            yield url.set(database=name).render_as_string(hide_password=False)
        finally:
            connection.execute(f'drop database "{name}" with (force)'.encode())


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """The same as an open `Database`."""
    async with Database(database_url) as opened:
        yield opened
