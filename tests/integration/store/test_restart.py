"""The database goes away and comes back, under everything that talks to it."""

import asyncio
import hashlib
import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import text

from bot.queue import Queue
from bot.store import embedded
from bot.store.database import Database
from bot.store.inbox import PostgresInbox
from bot.store.migrate import upgrade
from bot.store.runs import RunStore
from evals.database_faults import DatabaseFaults, How
from tests.integration.store.make import make_run
from tests.integration.store.queue_worker import FAST, Recorder
from webhooks.inbox import Accepted, Delivery, Duplicate

pytestmark = pytest.mark.postgres


@pytest.fixture
def own_folder() -> Iterator[Path]:
    """A data folder with a server of its own, to be mistreated."""
    folder = Path(tempfile.mkdtemp(prefix="ultracode-restart-"))
    folder.chmod(0o711)
    yield folder
    embedded.remove(folder)
    shutil.rmtree(folder)


@pytest.fixture
def own_url(own_folder: Path) -> str:
    url = embedded.start(own_folder)
    upgrade(url)
    return url


async def restart(folder: Path, how: How) -> None:
    await DatabaseFaults(folder, "").restart(how)


@asynccontextmanager
async def serving(queue: Queue, recorder: Recorder) -> AsyncIterator[None]:
    stop = asyncio.Event()
    worker = asyncio.create_task(queue.serve(recorder, jobs=2, stop=stop))
    try:
        yield
    finally:
        stop.set()
        await worker


async def until(recorder: Recorder, line: str, times: int = 1) -> None:
    async with asyncio.timeout(60):
        while True:
            if recorder.lines().count(line) >= times:
                return
            await asyncio.sleep(0.05)


def delivery(number: int) -> Delivery:
    body = f"body {number}".encode()
    return Delivery(
        delivery_id=str(uuid.uuid4()),
        event_name="issue_comment",
        action="created",
        installation_id=None,
        repository_id=None,
        body_sha256=hashlib.sha256(body).hexdigest(),
        body=body,
        received_at=datetime.now(UTC),
    )


class Patient(Recorder):
    """Handlers whose runs go on only when the test lets them."""

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        self.go = asyncio.Event()

    async def advance_run(self, run_id: str) -> None:
        self.record(f"begin {run_id}")
        await self.go.wait()
        self.record(f"end {run_id}")


@pytest.mark.parametrize("how", ["fast", "immediate"])
async def test_a_worker_outlasts_a_restart_of_the_database(
    own_folder: Path, own_url: str, tmp_path: Path, how: How
) -> None:
    """After the database was restarted, the job in hand is completed, and new ones are done."""
    recorder = Patient(tmp_path / "jobs")
    async with Queue(own_url, timing=FAST) as queue, serving(queue, recorder):
        await queue.defer_advance("run1")
        await until(recorder, "begin run1")
        await restart(own_folder, how)
        recorder.go.set()
        await until(recorder, "end run1")
        await queue.defer_advance("run2")
        await until(recorder, "end run2")


async def test_a_worker_is_woken_again_after_a_restart(
    own_folder: Path, own_url: str, tmp_path: Path
) -> None:
    """Both queues listen again for new jobs and aborts, on new connections, when it is back."""
    recorder = Recorder(tmp_path / "jobs")
    listening = text("select count(*) from pg_stat_activity where query ilike 'listen %'")
    async with Queue(own_url, timing=FAST) as queue, serving(queue, recorder):
        await queue.defer_advance("run1")
        await until(recorder, "end run1")
        await restart(own_folder, "fast")
        async with Database(own_url) as database, asyncio.timeout(60):
            while True:
                async with database.begin() as tx:
                    if (await tx.execute(listening)).scalar_one() == 2:
                        break
                await asyncio.sleep(0.05)


@pytest.mark.parametrize("how", ["fast", "immediate"])
async def test_what_was_accepted_is_there_after_a_restart(
    own_folder: Path, own_url: str, tmp_path: Path, how: How
) -> None:
    """Deliveries that arrive while the database is restarted are answered once it is back."""
    sent = [delivery(number) for number in range(40)]
    recorder = Recorder(tmp_path / "jobs")
    async with Database(own_url) as database, PostgresInbox(database) as inbox:
        before = [await inbox.accept(each, None) for each in sent[:20]]
        answers = asyncio.gather(*(inbox.accept(each, None) for each in sent[20:]))
        await restart(own_folder, how)
        after = await answers
        assert set(map(type, before)) == {Accepted}
        assert set(map(type, after)) <= {Accepted, Duplicate}  # committed before, answered after
    async with Queue(own_url, timing=FAST) as queue, serving(queue, recorder):
        for each in sent:
            await until(recorder, f"deliver {each.delivery_id}")
    assert len(recorder.lines()) == len(sent)


async def test_a_pool_replaces_the_connections_a_restart_cut(
    own_folder: Path, own_url: str
) -> None:
    """The first use of the store after a restart works."""
    async with Database(own_url) as database:
        runs = RunStore(database)
        run = await make_run(runs)
        await restart(own_folder, "fast")
        assert (await runs.get(run.run_id)).run_id == run.run_id
