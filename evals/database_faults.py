"""What an operator, or a failing machine, does to an embedded PostgreSQL: restarts, stuck commits.

In: the folder of the server. Out: a server that went away and came back, or one whose commits are
flushed and not yet acknowledged, as when a replica that must confirm them does not answer.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psycopg

from bot.store import embedded
from bot.store.embedded_home import Home, locate_home, write_configuration

How = Literal["fast", "immediate"]
_SIGNALS = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}
_GONE_SECONDS = 30
_LOOK_SECONDS = 0.02
_NOBODY = {"synchronous_standby_names": "nobody"}
_STUCK = "select count(*) from pg_stat_activity where wait_event = 'SyncRep' and query ilike %s"


@dataclass(frozen=True)
class DatabaseFaults:
    """A hand on the embedded server of one folder."""

    folder: Path
    url: str

    async def restart(self, how: How) -> None:
        """Stop the server as its operator would, wait until it is gone, and start it again."""
        await self.stop(how)
        await self.start()

    async def start(self) -> None:
        """Start the server again, as it is configured by default."""
        await asyncio.to_thread(embedded.start, self.folder)

    async def stop(self, how: How) -> None:
        """Stop the server and wait until it is gone."""
        os.kill(self._pid(), _SIGNALS[how])
        async with asyncio.timeout(_GONE_SECONDS):
            while self._pid_file.exists():  # noqa: ASYNC110 - another process removes it
                await asyncio.sleep(_LOOK_SECONDS)

    @asynccontextmanager
    async def stuck_commits(self) -> AsyncIterator[None]:
        """Within the block every commit is on disk and nobody is told so."""
        await self._configure(_NOBODY)
        try:
            yield
        finally:
            if self._pid_file.exists():
                await self._configure({})

    async def committing(self, statement: str) -> None:
        """Wait until a statement like this one is in the middle of its commit."""
        async with await psycopg.AsyncConnection.connect(self.url, autocommit=True) as connection:
            while True:
                found = await (await connection.execute(_STUCK, [f"%{statement}%"])).fetchone()
                if found and found[0]:
                    return
                await asyncio.sleep(_LOOK_SECONDS)

    async def _configure(self, options: dict[str, str]) -> None:
        write_configuration(self._home, options)
        os.kill(self._pid(), signal.SIGHUP)
        async with await psycopg.AsyncConnection.connect(self.url, autocommit=True) as connection:
            wanted = (options.get("synchronous_standby_names", ""),)
            while True:
                shown = await connection.execute("show synchronous_standby_names")
                if await shown.fetchone() == wanted:
                    return
                await asyncio.sleep(_LOOK_SECONDS)

    def _pid(self) -> int:
        return int(self._pid_file.read_text().split("\n")[0])

    @property
    def _pid_file(self) -> Path:
        return self._home.cluster / "postmaster.pid"

    @property
    def _home(self) -> Home:
        return locate_home(self.folder, embedded._can_enter)  # noqa: SLF001 - where the server is
