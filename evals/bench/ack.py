"""The durable ack: verify, store row and job in one commit, answer; against Probot and PostgreSQL.

Probot answers without storing anything, so being level with it means that durability is free. The
database's own commit rate is the other bound: what eight connections commit that do nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import statistics
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg

from bot.store.database import libpq_url
from evals.bench.bare_stage import bare_stage, private_key
from evals.bench.deliveries import SECRET, comment_requests
from evals.bench.load import Load, fire
from evals.bench.row import Goal, Row
from evals.stage import Stage, free_port

CONNECTIONS = 8
WINDOWS = 5
COMMIT_SECONDS = 3.0
OURS, PROBOTS = "/webhooks/github", "/api/github/webhooks"
_ACCEPTED = {202, 200}
_HERE = Path(__file__).parent / "probot"
_CACHE = Path(".ultracode/npm/probot")


async def measure_ack(deliveries: int = 10_000) -> list[Row]:
    """Fire deliveries at both in turn; count afterwards what was stored."""
    window = deliveries // WINDOWS
    async with bare_stage() as world, probot() as port:
        await world.start_web()
        await _warm_up(world.web_port, port)
        ours: list[Load] = []
        theirs: list[Load] = []
        for _ in range(WINDOWS):
            ours.append(await fire(world.web_port, comment_requests(window, OURS)))
            theirs.append(await fire(port, comment_requests(window, PROBOTS)))
        commits = await _commit_rate(world)
        stored, jobs = await _count(world)
    sent = window * WINDOWS + _WARM
    _expect_answers(ours, theirs, sent, stored, jobs)
    rate, peer = _rate(ours), _rate(theirs)
    p99 = statistics.median(load.percentile(99) for load in ours) * 1000
    return [
        Row(
            "durable ack",
            "Probot, which stores nothing",
            rate,
            peer,
            "acks/s",
            Goal(1, at_most=False),
        ),
        Row("durable ack", "the database's own commits", rate, commits, "per second"),
        Row(
            "durable ack, 99th percentile",
            "50 ms",
            p99,
            50.0,
            "ms",
            Goal(1),
            note=f"{sent} sent, {stored} stored, {jobs} jobs: none lost, none doubled",
        ),
    ]


_WARM = 400


async def _warm_up(web: int, port: int) -> None:
    await fire(web, comment_requests(_WARM, OURS))
    await fire(port, comment_requests(_WARM, PROBOTS))


def _rate(loads: list[Load]) -> float:
    return statistics.median(load.rate for load in loads)


def _expect_answers(
    ours: list[Load], theirs: list[Load], sent: int, stored: int, jobs: int
) -> None:
    for load in (*ours, *theirs):
        if set(load.statuses) - _ACCEPTED:
            raise RuntimeError(f"not every delivery was answered well: {dict(load.statuses)}")
    if not sent == stored == jobs:
        raise RuntimeError(f"{sent} were sent, {stored} stored, {jobs} have a job")


async def _count(world: Stage) -> tuple[int, int]:
    url = libpq_url(world.environment["DATABASE_URL"])
    async with await psycopg.AsyncConnection.connect(url) as connection:
        found = await connection.execute(
            "select (select count(*) from deliveries), (select count(*) from procrastinate_jobs)"
        )
        row = await found.fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


async def _commit_rate(world: Stage) -> float:
    """Commits a second of eight connections that insert a row of the same size."""
    url = libpq_url(world.environment["DATABASE_URL"])
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute("create table bench_commits (body bytea)")
    body = os.urandom(14_000)
    ends = time.monotonic() + COMMIT_SECONDS

    async def commit() -> int:
        count = 0
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            while time.monotonic() < ends:
                await connection.execute("insert into bench_commits values (%b)", (body,))
                count += 1
        return count

    return sum(await asyncio.gather(*(commit() for _ in range(CONNECTIONS)))) / COMMIT_SECONDS


@contextlib.asynccontextmanager
async def probot() -> AsyncIterator[int]:
    """Run the smallest Probot App; give its port."""
    await asyncio.to_thread(_install)
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        "node",
        "app.js",
        cwd=_CACHE,
        env={
            "PATH": os.environ.get("PATH", os.defpath),  # noqa: TID251 - the stage is no production code
            "NODE_ENV": "production",
            "LOG_LEVEL": "fatal",
            "APP_ID": "1",
            "PRIVATE_KEY": private_key().decode(),
            "WEBHOOK_SECRET": SECRET,
            "PORT": str(port),
            "HOST": "127.0.0.1",
        },
    )
    try:
        await _until_open(port, process)
        yield port
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


def _install() -> None:
    """Install the locked packages beside the project, once."""
    _CACHE.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json", "app.js"):
        shutil.copy(_HERE / name, _CACHE / name)
    if not (_CACHE / "node_modules").is_dir():
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--silent"], cwd=_CACHE, check=True)


async def _until_open(port: int, process: asyncio.subprocess.Process) -> None:
    for _ in range(300):
        if process.returncode is not None:
            break
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        await asyncio.sleep(0.1)
    raise RuntimeError("Probot did not start")
