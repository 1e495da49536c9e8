"""Ten thousand runs that wait for a review: they must cost no ack, no resume and no memory.

The same is measured before and after they are put into the database: the ack of deliveries, the
time from an approval to the merged branch, and the memory of the web and the worker process.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psycopg

from bot.store.database import libpq_url
from evals.bench.deliveries import comment_requests
from evals.bench.load import fire
from evals.bench.row import Goal, Row
from evals.demo import HERE, make_repository
from evals.stage import Stage, stage
from evals.story import ENDED, Story

RUNS = 10_000
DELIVERIES = 800
REPOSITORIES = ("octo/before", "octo/after")
_FILL = """
insert into runs (run_id, repository_id, installation_id, issue_number, trigger_kind, trigger_id,
                  requester_id, requester_login, state, request, base_ref, base_sha, candidate_id,
                  candidate_sha, pull_number, branch, deadline_at)
select 'waiting' || n, 900000 + n / 100, 900000, n, 'comment', n::text, 1, 'somebody',
       'awaiting_review', json_build_object('request', repeat('words ', 300)), 'refs/heads/main',
       md5(n::text) || '00000000', 'candidate' || n, md5(n::text) || '00000000', n,
       'ultracode/' || n, now() + interval '7 days'
from generate_series(1, %(runs)s) as n
"""


@dataclass(frozen=True)
class Seen:
    """What was measured: acks a second, seconds from approval to merge, bytes."""

    acks: float
    resume: float
    memory: int


async def measure_waiting() -> list[Row]:
    """Measure before, put the runs in, measure again."""
    with tempfile.TemporaryDirectory(prefix="ultracode-bench-") as place:
        shop = await asyncio.to_thread(make_repository, Path(place) / "shop")
        hosts = dict.fromkeys(REPOSITORIES, shop)
        async with stage(hosts, HERE / "script.yaml") as world:
            before = await _look(world, REPOSITORIES[0])
            await _fill(world)
            after = await _look(world, REPOSITORIES[1])
    grown = max(after.memory - before.memory, 1) / 1e6
    return [
        Row(
            "answers to comments not for the bot, 10,000 waiting",
            "none waiting",
            after.acks,
            before.acks,
            "acks/s",
            Goal(0.9, at_most=False),
        ),
        Row(
            "approval → merged, 10,000 waiting",
            "none waiting",
            after.resume,
            before.resume,
            "s",
            Goal(1.15),
        ),
        Row(
            "memory for 10,000 waiting runs",
            "20 MB",
            grown,
            20.0,
            "MB",
            Goal(1),
            note="web and worker",
        ),
    ]


async def _look(world: Stage, repository: str) -> Seen:
    secret = world.github["webhook_secret"]
    requests = comment_requests(DELIVERIES, "/webhooks/github", secret=secret, words="ultracode")
    resume = await _resume_seconds(world, repository)
    await fire(world.web_port, requests[: DELIVERIES // 4])
    load = await fire(world.web_port, requests[DELIVERIES // 4 :])
    memory = sum(_resident_bytes(world.parts[name].process.pid) for name in ("web", "worker"))
    return Seen(load.rate, resume, memory)


async def _resume_seconds(world: Stage, repository: str) -> float:
    """Let a run come to its review, then time the way from the approval to its end."""
    writer = world.person("writer", repository)
    issue = await writer.open_issue("Totals are off by a cent", "")
    await writer.comment(issue, "/ultracode Fix how prices and discounts are rounded.")
    story = Story(world)
    run = await story.run_of(issue, repository)
    await story.follow(run["run_id"], until=frozenset({"awaiting_review"}))
    pull = next(pull for pull in await writer.pulls() if not pull["draft"])
    reviewer = world.person("second_writer", repository)
    started = time.perf_counter()
    await reviewer.review(pull["number"], "APPROVE")
    ended = await story.follow(run["run_id"], until=ENDED)
    if ended["state"] != "promoted":
        raise RuntimeError(f"the run ended {ended['state']}: {ended['sentence']}")
    return time.perf_counter() - started


async def _fill(world: Stage) -> None:
    url = libpq_url(world.environment["DATABASE_URL"])
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute(_FILL, {"runs": RUNS})
        await connection.execute("analyze runs")


def _resident_bytes(pid: int) -> int:
    """Return the resident memory of a process (source: proc(5), /proc/pid/status)."""
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024
