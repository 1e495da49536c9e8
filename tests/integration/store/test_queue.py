import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import text

from bot.errors import BotError, RetryLater, StaleEpoch
from bot.queue import Depth, Queue
from bot.store.database import Database
from tests.integration.store.queue_worker import FAST, Recorder

pytestmark = pytest.mark.postgres


class Told(Recorder):
    """Handlers that do what the test tells them."""

    def __init__(self, file: Path, advance: Callable[[str], Awaitable[None]]) -> None:
        super().__init__(file)
        self._advance = advance

    async def advance_run(self, run_id: str) -> None:
        self.record(f"begin {run_id}")
        await self._advance(run_id)


@pytest.fixture
async def queue(database_url: str) -> AsyncIterator[Queue]:
    async with Queue(database_url, timing=FAST) as opened:
        yield opened


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(tmp_path / "jobs")


@asynccontextmanager
async def serving(queue: Queue, handlers: Recorder) -> AsyncIterator[None]:
    """A worker in this process, stopped gracefully at the end."""
    stop = asyncio.Event()
    worker = asyncio.create_task(queue.serve(handlers, jobs=4, stop=stop))
    try:
        yield
    finally:
        stop.set()
        await worker


async def until(recorder: Recorder, *lines: str) -> None:
    """Wait until these lines were recorded, in this order, among others."""
    async with asyncio.timeout(30):
        while True:
            rest = iter(recorder.lines())
            if all(line in rest for line in lines):
                return
            await asyncio.sleep(0.02)


async def settled(queue: Queue, expected: Depth) -> None:
    """Wait until so many jobs wait, run and failed."""
    async with asyncio.timeout(30):
        while True:
            if await queue.depth() == expected:
                return
            await asyncio.sleep(0.02)


async def test_jobs_are_done_and_leave_nothing_behind(queue: Queue, recorder: Recorder) -> None:
    """Each kind of job reaches its handler with its id, and is gone afterwards."""
    async with serving(queue, recorder):
        await queue.defer_delivery("guid")
        await queue.defer_advance("run1")
        await queue.defer_clean_up("run2")
        for line in ("deliver guid", "end run1", "clean run2"):
            await until(recorder, line)
        await settled(queue, Depth(0, 0, 0))


async def test_a_job_stands_and_falls_with_its_transaction(
    queue: Queue, database: Database
) -> None:
    """A job deferred in a transaction that is rolled back was never there."""

    async def defer(*, fail: bool) -> None:
        async with database.begin() as tx:
            await queue.defer_advance("run1", tx=tx)
            await queue.defer_clean_up("run1", tx=tx)
            if fail:
                raise BotError

    with pytest.raises(BotError):
        await defer(fail=True)
    assert await queue.depth() == Depth(0, 0, 0)
    await defer(fail=False)
    assert await queue.depth() == Depth(2, 0, 0)


async def test_jobs_of_one_run_never_overlap(queue: Queue, tmp_path: Path) -> None:
    """Three jobs of one run are done one after the other, while another run goes on beside."""
    busy: set[str] = set()
    release = asyncio.Event()

    async def advance(run_id: str) -> None:
        assert run_id not in busy
        busy.add(run_id)
        if busy == {"run1", "run2"}:
            release.set()
        await release.wait()
        busy.discard(run_id)

    handlers = Told(tmp_path / "jobs", advance)
    for run_id in ("run1", "run1", "run1", "run2"):
        await queue.defer_advance(run_id)
    async with serving(queue, handlers):
        await settled(queue, Depth(0, 0, 0))
    assert handlers.lines().count("begin run1") == 3


async def test_clean_up_goes_before_what_else_waits_for_the_run(
    queue: Queue, recorder: Recorder
) -> None:
    """A cancelled run is cleaned up first, even when another job of it is delayed."""
    await queue.defer_advance("run1", delay_seconds=3600)
    await queue.defer_clean_up("run1")
    async with serving(queue, recorder):
        await until(recorder, "clean run1")
    assert await queue.depth() == Depth(1, 0, 0)


async def test_a_delayed_job_holds_up_no_other_of_its_run(queue: Queue, recorder: Recorder) -> None:
    """An approval is looked at although an earlier job of its run waits for GitHub's patience."""
    await queue.defer_advance("run1", delay_seconds=3600)
    await queue.defer_advance("run1", quick=True)
    async with serving(queue, recorder):
        await until(recorder, "end run1")
    assert await queue.depth() == Depth(1, 0, 0)


async def test_an_error_is_tried_again_later(
    queue: Queue, database: Database, tmp_path: Path
) -> None:
    """A job that fails is put back with a delay, not lost and not hammered."""

    async def fail(_run_id: str) -> None:
        raise BotError("GitHub answered 502")

    handlers = Told(tmp_path / "jobs", fail)
    await queue.defer_advance("run1")
    async with serving(queue, handlers):
        await until(handlers, "begin run1")
        await settled(queue, Depth(1, 0, 0))
    async with database.begin() as tx:
        delayed = text("select scheduled_at > now() from procrastinate_jobs where attempts = 1")
        assert (await tx.execute(delayed)).scalar_one()
    assert handlers.lines() == ["begin run1"]


async def test_a_job_that_keeps_failing_is_given_up(
    queue: Queue, database: Database, tmp_path: Path
) -> None:
    """After its last attempt people are told why, in the error's own words."""

    async def fail(_run_id: str) -> None:
        raise BotError("GitHub answered 502")

    handlers = Told(tmp_path / "jobs", fail)
    await queue.defer_advance("run1")
    async with database.begin() as tx:
        await tx.execute(text("update procrastinate_jobs set attempts = 7"))
    async with serving(queue, handlers):
        await until(handlers, "give up advance_run run1: GitHub answered 502")
        await settled(queue, Depth(0, 0, 1))


async def test_a_rate_limit_puts_the_job_back(
    queue: Queue, database: Database, tmp_path: Path
) -> None:
    """RetryLater, even out of a task group, delays the job as asked, without counting as failed."""

    async def wait_for_github(_run_id: str) -> None:
        async with asyncio.TaskGroup():
            raise RetryLater(600)

    handlers = Told(tmp_path / "jobs", wait_for_github)
    await queue.defer_advance("run1")
    async with serving(queue, handlers):
        await until(handlers, "begin run1")
        await settled(queue, Depth(1, 0, 0))
    async with database.begin() as tx:
        waiting = text(
            "select attempts, lock, extract(epoch from scheduled_at - now())"
            " from procrastinate_jobs"
        )
        attempts, lock, seconds = (await tx.execute(waiting)).one()
    assert (attempts, lock) == (0, "run1")
    assert 500 < seconds <= 600


async def test_a_worker_that_lost_its_run_ends_quietly(queue: Queue, tmp_path: Path) -> None:
    """A stale epoch ends the job without trying it again: somebody else has the run."""

    async def lose(run_id: str) -> None:
        async with asyncio.TaskGroup():
            raise StaleEpoch(run_id, 1)

    handlers = Told(tmp_path / "jobs", lose)
    await queue.defer_advance("run1")
    async with serving(queue, handlers):
        await until(handlers, "begin run1")
        await settled(queue, Depth(0, 0, 0))


async def test_aborting_a_run_cancels_its_task(queue: Queue, recorder: Recorder) -> None:
    """The task that advances an aborted run is cancelled; its waiting jobs are gone too."""
    await queue.defer_advance("slow1")
    await queue.defer_advance("slow1")
    async with serving(queue, recorder):
        await until(recorder, "begin slow1")
        await queue.abort_run("slow1")
        await settled(queue, Depth(0, 0, 1))
        await queue.defer_advance("run2")
        await until(recorder, "end run2")
    assert recorder.lines().count("begin slow1") == 1


async def test_a_stopped_worker_gives_its_job_back(
    queue: Queue, database_url: str, recorder: Recorder
) -> None:
    """On SIGTERM a job that does not finish in time is put back at once, for another worker."""
    await queue.defer_advance("slow1")
    async with worker_process(database_url, recorder.file) as worker:
        await until(recorder, "begin slow1")
        worker.terminate()
        assert await worker.wait() == 0
    assert await queue.depth() == Depth(1, 0, 0)


async def test_the_job_of_a_killed_worker_is_rescued(
    queue: Queue, database_url: str, recorder: Recorder
) -> None:
    """When a worker is killed, another one takes its job over."""
    await queue.defer_advance("slow1")
    async with worker_process(database_url, recorder.file) as worker:
        await until(recorder, "begin slow1")
        worker.kill()
        await worker.wait()
    async with serving(queue, recorder):
        await until(recorder, "begin slow1", "begin slow1")


async def test_a_job_that_kills_its_worker_each_time_is_given_up(
    queue: Queue, database: Database, database_url: str, recorder: Recorder
) -> None:
    """A job that takes its worker down again and again is not given to yet another one."""
    await queue.defer_advance("slow1")
    async with database.begin() as tx:
        await tx.execute(text("update procrastinate_jobs set attempts = 7"))
    async with worker_process(database_url, recorder.file) as worker:
        await until(recorder, "begin slow1")
        worker.kill()
        await worker.wait()
    async with serving(queue, recorder):
        await until(recorder, "give up advance_run slow1: its worker died each time")
    assert recorder.lines().count("begin slow1") == 1


async def test_a_worker_that_wakes_up_late_does_not_end_anothers_job(
    queue: Queue, database: Database, database_url: str, recorder: Recorder
) -> None:
    """A suspended worker whose job was taken over meanwhile leaves it alone when it wakes."""
    await queue.defer_advance("slow1")
    async with worker_process(database_url, recorder.file) as worker:
        await until(recorder, "begin slow1")
        worker.send_signal(signal.SIGSTOP)
        async with serving(queue, recorder):
            await until(recorder, "begin slow1", "begin slow1")
            worker.send_signal(signal.SIGCONT)
            worker.terminate()
            await worker.wait()
            async with database.begin() as tx:
                job = await tx.execute(text("select status, attempts from procrastinate_jobs"))
                assert list(job) == [("doing", 1)]  # given back once: by the rescue


@asynccontextmanager
async def worker_process(url: str, file: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """A worker in a process of its own, gone at the end."""
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.integration.store.queue_worker", url, str(file)
    )
    try:
        yield worker
    finally:
        if worker.returncode is None:
            worker.kill()
        await worker.wait()
