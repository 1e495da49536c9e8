"""What only a worker sees, kept for `/metrics`. In: counts as they happen. Out: rows, now and then.

Why: the web role answers `/metrics`, in another process or on another machine. Most of what it
shows stands in PostgreSQL anyway; the rest is gathered here and written in one statement every few
seconds, and only when there is something: a worker that is killed loses that much of a count.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from typing import Final

import structlog
from sqlalchemy.exc import SQLAlchemyError

from bot.github.rate import RateBudget
from bot.store.database import Database
from bot.store.measured import Measured, keep_measured

EVERY_SECONDS: Final = 15.0

log = structlog.get_logger()


class Measures:
    """Counts of one process since they were last written."""

    def __init__(self) -> None:
        self._added: dict[tuple[str, str], float] = defaultdict(float)
        self._noted: dict[tuple[str, str], float] = {}

    def add(self, name: str, subject: str, amount: float) -> None:
        """Count something that happened; `subject` says of what kind it was."""
        self._added[name, subject] += amount

    def note(self, name: str, subject: str, value: float) -> None:
        """Keep the last value of something that rises and falls."""
        self._noted[name, subject] = value

    def note_budget(self, budget: RateBudget) -> None:
        """Keep what GitHub still lets an installation ask."""
        about = f"{budget.installation_id or 'app'}:{budget.resource}"
        self.note("github_limit", about, budget.limit)
        self.note("github_remaining", about, budget.remaining)
        self.note("github_resets_at", about, budget.resets_at)

    async def flush(self, database: Database) -> None:
        """Write what was gathered; when that fails it is written with the next."""
        added, self._added = self._added, defaultdict(float)
        noted, self._noted = self._noted, {}
        if not added and not noted:
            return
        rows = [Measured(name, about, value, adds=True) for (name, about), value in added.items()]
        rows += [Measured(name, about, value, adds=False) for (name, about), value in noted.items()]
        try:
            await keep_measured(database, rows)
        except (SQLAlchemyError, OSError) as error:
            log.warning("measures are written later", error=type(error).__name__)
            for key, amount in added.items():
                self._added[key] += amount
            self._noted = noted | self._noted


async def flush_forever(measures: Measures, database: Database, stop: asyncio.Event) -> None:
    """Write every few seconds until told to stop; what comes after is the closer's to write."""
    while not stop.is_set():
        await measures.flush(database)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), EVERY_SECONDS)
