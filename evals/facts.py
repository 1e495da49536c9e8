"""What is there, after whatever happened: on GitHub, in the database, on this machine.

In: an open stage. Out: plain facts for `invariants.py`. GitHub is asked over HTTP and tells its
refs from bare repositories; what a crash may leave behind is read from `/proc`, from the bot's
folders and from the control groups. Our tables are only ever one of two sides of a comparison.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from pydantic import SecretStr
from sqlalchemy import text

from bot.github.marks import Marks
from bot.store.database import Database
from evals.people import NeverHappened
from evals.stage import Stage

Json = dict[str, Any]

SETTLE_SECONDS = 120.0
LOOK_SECONDS = 0.3
CGROUPS = Path("/sys/fs/cgroup")

_RUNS = text(
    "select run_id, repository_id, issue_number, trigger_kind, state, epoch, branch"
    " from runs order by run_id"
)
_EVENTS = text(
    "select run_id, detail from events where kind = 'state' and run_id is not null"
    " order by sequence"
)
_STALE_WRITES = text(
    "select run_id, key from pieces join runs using (run_id) where pieces.epoch > runs.epoch"
    " union all select scope, key from effects join runs on scope = run_id"
    " where effects.epoch > runs.epoch"
)
_ACTIVE = "('accepted', 'planning', 'working', 'approved', 'promoting', 'cancelling', 'stale')"
_JOBLESS = text(
    f"select run_id from runs where state in {_ACTIVE} and not exists (select from"  # noqa: S608 - a constant of ours
    " procrastinate_jobs job where job.lock = runs.run_id and job.status in ('todo', 'doing'))"
)
_BUSY = text(
    "select (select count(*) from procrastinate_jobs where status = 'doing'"  # noqa: S608 - a constant of ours
    "   or (status = 'todo' and (scheduled_at is null or scheduled_at < now()))),"
    f" (select count(*) from runs where state in {_ACTIVE}),"
    " (select count(*) from deliveries where outcome is null)"
)


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Everything invariants speak of. Ids are GitHub's; SHAs are full."""

    bot: str
    github: Json
    deliveries: list[Json]
    histories: dict[str, list[Json]]
    parents: dict[str, list[str]]
    received: frozenset[str] = frozenset()
    runs: list[Json] = field(default_factory=list)
    steps: list[Json] = field(default_factory=list)
    stale_writes: list[str] = field(default_factory=list)
    jobless: list[str] = field(default_factory=list)
    status_marks: dict[str, str] = field(default_factory=dict)
    leases: list[str] = field(default_factory=list)
    processes: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)


async def settled(stage: Stage, *, seconds: float = SETTLE_SECONDS) -> None:
    """Wait until GitHub has nothing on its way and the bot has nothing left to do.

    Raises:
        NeverHappened: it is still busy after `seconds`; the message says with what.
    """
    async with Database(stage.environment["DATABASE_URL"], pool_size=1) as database:
        try:
            async with asyncio.timeout(seconds):
                await _quiet(stage, database)
        except TimeoutError:
            raise NeverHappened(f"after {seconds:.0f} s there was still work to do") from None


async def _quiet(stage: Stage, database: Database) -> None:
    calm = 0
    async with _github(stage) as github:
        while calm < 2:  # noqa: PLR2004 - a webhook of the last effect may just be on its way
            (await github.post("/_loopback/settle", timeout=60)).raise_for_status()
            async with database.begin() as tx:
                busy = (await tx.execute(_BUSY)).one()
            calm = 0 if any(busy) else calm + 1
            await asyncio.sleep(LOOK_SECONDS)


async def gather(stage: Stage, *, pids: Iterable[int] = ()) -> Facts:
    """Collect the facts of a settled stage.

    Args:
        stage: the stage.
        pids: every worker process there ever was, by which control groups are attributed.
    """
    github, deliveries = await _state(stage), await _deliveries(stage)
    marks = Marks(SecretStr(stage.environment["GITHUB_WEBHOOK_SECRET"]))
    histories, parents = await _commits(stage, github)
    stored = await _stored(stage)
    return Facts(
        bot=f"{stage.github['app_slug']}[bot]",
        github=github,
        deliveries=deliveries,
        histories=histories,
        parents=parents,
        status_marks={run["run_id"]: marks.mark(run["run_id"], "status") for run in stored["runs"]},
        leases=_leases(stage),
        processes=_left_processes(stage),
        groups=_left_groups(pids),
        **stored,
    )


# --- GitHub -------------------------------------------------------------------------------------


def _github(stage: Stage) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=stage.github["url"], timeout=30, trust_env=False)


async def _state(stage: Stage) -> Json:
    """What GitHub holds, of the repositories in which anything happened."""
    async with _github(stage) as github:
        state: Json = (await github.get("/_loopback/state")).raise_for_status().json()
    return {name: held for name, held in state.items() if held["issues"]}


async def _deliveries(stage: Stage) -> list[Json]:
    async with _github(stage) as github:
        answer = await github.get("/_loopback/deliveries")
        found: list[Json] = answer.raise_for_status().json()
        return found


async def journal(stage: Stage) -> list[Json]:
    """Return every call the API answered so far."""
    async with _github(stage) as github:
        answer = await github.get("/_loopback/journal")
        found: list[Json] = answer.raise_for_status().json()
        return found


async def _commits(
    stage: Stage, github: Json
) -> tuple[dict[str, list[Json]], dict[str, list[str]]]:
    """The history of each default branch, and the parents of every pull request's head."""
    histories: dict[str, list[Json]] = {}
    parents: dict[str, list[str]] = {}
    for name, held in github.items():
        person = stage.person("admin", name)
        histories[name] = [_commit(raw) for raw in await person.commits(held["default_branch"])]
        for issue in held["issues"]:
            if issue["pull"]:
                sha = issue["pull"]["head_sha"]
                newest = (await person.commits(sha))[0]
                parents[sha] = _commit(newest)["parents"]
    return histories, parents


def _commit(raw: Json) -> Json:
    return {
        "sha": raw["sha"],
        "parents": [parent["sha"] for parent in raw["parents"]],
        "by": raw["commit"]["author"]["name"],
    }


# --- the database -------------------------------------------------------------------------------


async def _stored(stage: Stage) -> Json:
    url = stage.environment["DATABASE_URL"]
    async with Database(url, pool_size=1) as database, database.begin() as tx:
        guids = (await tx.execute(text("select delivery_id from deliveries"))).scalars()
        return {
            "received": frozenset(guids),
            "runs": [row._asdict() for row in await tx.execute(_RUNS)],
            "steps": [{"run_id": run, **detail} for run, detail in await tx.execute(_EVENTS)],
            "stale_writes": [f"{run} {key}" for run, key in await tx.execute(_STALE_WRITES)],
            "jobless": list((await tx.execute(_JOBLESS)).scalars()),
        }


# --- this machine -------------------------------------------------------------------------------


def _leases(stage: Stage) -> list[str]:
    """Workspaces on loan, or doomed and not yet wiped, below the bot's folder."""
    data = Path(stage.environment["ULTRACODE_DATA_DIR"])
    found = (*data.glob("workspaces/*/leased/*"), *data.glob("workspaces/*/doomed/*"))
    return sorted(str(path.relative_to(data)) for path in found)


def _left_processes(stage: Stage) -> list[str]:
    """Commands that work in a folder of the bot's data, or belong to nobody of this stage."""
    data = stage.environment["ULTRACODE_DATA_DIR"]
    return [line for pid in _pids() if (line := _working_below(pid, data))]


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - names only


def _working_below(pid: int, folder: str) -> str | None:
    """The command of a process whose working folder or arguments are below a folder."""
    try:
        where = os.readlink(f"/proc/{pid}/cwd")  # noqa: PTH115 - a magic link, not a path
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
        zombie = ") Z " in Path(f"/proc/{pid}/stat").read_text()
    except (OSError, UnicodeDecodeError):
        return None
    if zombie or not (where.startswith(folder) or folder in command):
        return None
    return f"{pid} {command[:120]}"


def _left_groups(pids: Iterable[int]) -> list[str]:
    """Control groups of these workers in which something still runs though the worker is dead."""
    owners = tuple(f"ultracode-job-{pid}-" for pid in pids if not Path(f"/proc/{pid}").exists())
    if not owners:
        return []
    found = (path for path in CGROUPS.glob("**/ultracode-job-*") if path.name.startswith(owners))
    return sorted(str(path) for path in found if _members(path))


def _members(group: Path) -> str:
    try:
        return (group / "cgroup.procs").read_text().strip()
    except OSError:
        return ""
