"""From "put in" to "started": our queue against procrastinate alone, on one database.

Each side has a worker that waits; jobs are put in one at a time, as deliveries come. What is
measured is the time from just before the job is deferred to the first line of its task.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import time
from collections.abc import Awaitable, Callable

from procrastinate import App, PsycopgConnector

from bot.queue import Queue
from bot.store.database import libpq_url
from bot.store.migrate import upgrade
from evals.bench.bare_stage import bare_stage
from evals.bench.row import Goal, Row

JOBS = 100
_PAUSE_SECONDS = 0.02


class Clock:
    """Takes the time at which a job starts. Handlers of our queue, and a task of the other's."""

    def __init__(self) -> None:
        self.started: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    async def handle_delivery(self, delivery_id: str) -> None:  # noqa: ARG002 - given by the queue
        """Say when a job started."""
        self.started.set_result(time.perf_counter())

    async def advance_run(self, run_id: str) -> None:
        """Not measured."""

    async def clean_up_run(self, run_id: str) -> None:
        """Not measured."""

    async def give_up(self, task: str, argument: str, reason: str) -> None:
        """Not measured."""


async def measure_jobs() -> list[Row]:
    """Run one side, then the other, each with a worker of its own."""
    async with bare_stage() as world:
        url = world.environment["DATABASE_URL"]
        await asyncio.to_thread(upgrade, url)
        ours = await _ours(url)
        theirs = await _theirs(url)
    return [Row("job put in → started", "procrastinate alone", ours, theirs, "ms", Goal(1.5))]


async def _ours(url: str) -> float:
    clock = Clock()
    stop = asyncio.Event()
    async with Queue(url) as queue:
        serving = asyncio.create_task(queue.serve(clock, jobs=2, stop=stop))
        await asyncio.sleep(1)
        median = await _median(clock, lambda: queue.defer_delivery("bench"))
        stop.set()
        await serving
    return median


async def _theirs(url: str) -> float:
    clock = Clock()
    app = App(connector=PsycopgConnector(conninfo=libpq_url(url)))

    @app.task(name="bench", queue="bench")
    async def bench() -> None:
        await clock.handle_delivery("bench")

    async with app.open_async():
        working = asyncio.create_task(
            app.run_worker_async(queues=["bench"], concurrency=8, install_signal_handlers=False)
        )
        await asyncio.sleep(1)
        median = await _median(clock, bench.defer_async)
        working.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await working
    return median


async def _median(clock: Clock, defer: Callable[[], Awaitable[object]]) -> float:
    """Return the median milliseconds from putting a job in to its start."""
    taken = []
    for _ in range(JOBS):
        await asyncio.sleep(_PAUSE_SECONDS)
        clock.started = asyncio.get_running_loop().create_future()
        put_in = time.perf_counter()
        await defer()
        taken.append(await clock.started - put_in)
    return statistics.median(taken) * 1000
