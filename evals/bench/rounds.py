"""A whole round of four workers with an instant model, and how much faster four are than one.

The round is timed by the run's own pieces, from the stored plan to the published round. Its floor
is the same Git, suite and sandbox work done through the workshop alone: no agents, no database, no
GitHub. The second row gives each model turn one second, as a real model takes.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import yaml

from bot.store.database import Database
from bot.store.pieces import Pieces
from evals.bench.row import Goal, Row
from evals.bench.workspaces import RELEASES, WORKERS, Site, hosted, make_repository
from evals.drive import POLICY, commit_all
from evals.real import plan_of, script_of, worker_entry
from evals.stage import Stage, stage
from evals.story import Story
from workspace.contracts import Candidate, Scope, Suite, WorkKey
from workspace.sandbox.bubblewrap import BubblewrapSandbox

ROUNDS = 3
TURNS = 8
SUITE = "PYTHONPATH=src python3 -m unittest discover -s tests -t ."
REPOSITORY = "someone/project"


async def measure_round() -> list[Row]:
    """Let the bot do a round a few times, then the workshop alone."""
    with tempfile.TemporaryDirectory(prefix="ultracode-bench-") as place:
        repository = await asyncio.to_thread(_with_policy, Path(place))
        async with _bot(repository, Path(place), _round_script()) as world:
            taken = [await _round_seconds(world) for _ in range(ROUNDS + 1)][1:]
        async with hosted("round", repository, sandbox=BubblewrapSandbox()) as site:
            floor = [await _floor_seconds(site, number) for number in range(ROUNDS + 1)][1:]
    ours, theirs = statistics.median(taken), statistics.median(floor)
    note = "plan stored → round published; the suite is the package's own"
    against = "its Git, suite and sandbox work alone"
    return [Row("a round of 4 workers", against, ours, theirs, "s", Goal(1.3), note=note)]


async def measure_workers() -> list[Row]:
    """Time one worker, then four side by side, each with the same number of slow turns."""
    seconds = []
    for workers in (1, WORKERS):
        with tempfile.TemporaryDirectory(prefix="ultracode-bench-") as place:
            repository = await asyncio.to_thread(_with_policy, Path(place))
            async with _bot(repository, Path(place), _slow_script(workers)) as world:
                seconds.append(await _work_seconds(world))
    one, four = seconds
    note = f"speed-up {WORKERS * one / four:.2f} of {WORKERS}"
    goal = Goal(round(1 / 3.5, 3))
    return [Row("4 workers, 1 s a turn", "4 x one worker", four, WORKERS * one, "s", goal, note)]


# --- the bot ------------------------------------------------------------------------------------


def _with_policy(folder: Path) -> Path:
    """Return a repository of a small release that the bot may work on."""
    repository = make_repository(*RELEASES[0], folder)
    policy = {
        "version": 1,
        "bases": ["main"],
        "suites": {"unit": {"run": SUITE, "required": True}},
        "limits": {"concurrent_runs": 4},
    }
    (repository / POLICY).parent.mkdir(exist_ok=True)
    (repository / POLICY).write_text(yaml.safe_dump(policy, sort_keys=False))
    commit_all(repository, "Say how candidates are judged")
    return repository


@contextlib.asynccontextmanager
async def _bot(repository: Path, folder: Path, script: dict[str, Any]) -> AsyncIterator[Stage]:
    file = folder / "script.yaml"
    file.write_text(yaml.safe_dump(script))
    async with stage({REPOSITORY: repository}, file) as world:
        yield world


def _files(workers: int = WORKERS) -> dict[str, str]:
    return {f"worker-{number}.txt": "after\n" for number in range(workers)}


def _round_script(workers: int = WORKERS) -> dict[str, Any]:
    """Return what the model says: a plan, a file each, and that all is well."""
    files = _files(workers)
    names = {f"task-{number}": [path] for number, path in enumerate(files)}
    judged = [
        entry for entry in script_of(dict(files))["entries"] if entry["role"] not in _OWN_ROLES
    ]
    plan = {"role": "planner", "turns": [{"output": plan_of(names)}]}
    return {
        "entries": [plan, *(worker_entry(n, p, dict(files)) for n, p in names.items()), *judged]
    }


_OWN_ROLES = {"planner", "worker"}


def _slow_script(workers: int) -> dict[str, Any]:
    """Return the same with more turns for each worker, and a second for each of them."""
    script = _round_script(workers)
    look = {"tool": "read_file", "arguments": {"path": "README.rst"}}
    for entry in script["entries"]:
        if entry["role"] == "worker":
            looks = [{"calls": [look]} for _ in range(TURNS - len(entry["turns"]))]
            entry["turns"] = [turn | {"delay_seconds": 1.0} for turn in (*looks, *entry["turns"])]
    return script


async def _pieces_of_a_run(world: Stage) -> dict[str, float]:
    """Live through one run until it waits for a review; return when each piece was stored."""
    writer = world.person("writer", REPOSITORY)
    issue = await writer.open_issue("Change the files", "")
    await writer.comment(issue, "/ultracode Change the files.")
    story = Story(world)
    run = await story.run_of(issue, REPOSITORY)
    run = await story.follow(run["run_id"], until=frozenset({"awaiting_review", "failed"}))
    if run["state"] != "awaiting_review":
        raise RuntimeError(f"the run ended {run['state']}: {run['sentence']}")
    async with Database(world.environment["DATABASE_URL"], pool_size=1) as database:
        pieces = await Pieces(database).load_all(run["run_id"])
    return {key: piece.created_at.timestamp() for key, piece in pieces.items()}


async def _round_seconds(world: Stage) -> float:
    stored = await _pieces_of_a_run(world)
    return stored["result:0"] - stored["plan:0"]


async def _work_seconds(world: Stage) -> float:
    stored = await _pieces_of_a_run(world)
    records = [at for key, at in stored.items() if key.startswith("worker:0:")]
    return max(records) - stored["plan:0"]


# --- its floor ----------------------------------------------------------------------------------


async def _floor_seconds(site: Site, number: int) -> float:
    """Do by the workshop alone what a round does; return how long it took."""
    pin = site.pin.model_copy(update={"run_id": f"benchfloor{number}"})
    suite = Suite(id="unit", run=SUITE)
    shop, base = site.workshop, pin.original_base_sha
    await shop.prepare(pin, (suite,))
    started = time.perf_counter()
    records = await asyncio.gather(
        *(_worker(site, pin, f"task-{n}", path) for n, path in enumerate(_files()))
    )
    candidate = await shop.compose(pin, records, round=0, parent=base)
    if not isinstance(candidate, Candidate):
        raise TypeError(f"the workers are in each other's way: {candidate}")
    report = await shop.test(pin, candidate, (suite,))
    if not report.passed:
        raise RuntimeError("the suite failed")
    await shop.evidence(pin, candidate, report, {}, lineage={})
    await shop.publish_branch(pin, f"ultracode/{number}-bench", candidate.sha, expected=None)
    return time.perf_counter() - started


async def _worker(site: Site, pin: Any, task: str, path: str) -> Any:
    scope = Scope(task_id=task, read_only=False, write_globs=(path,))
    key = WorkKey(run_id=pin.run_id, round=0, task_id=task)
    shop, base = site.workshop, pin.original_base_sha
    tools = await shop.create_worker(pin, scope, key=key, parent=base, suites=())
    await tools.write_file(path, "after\n")
    return await shop.inspect_and_freeze(pin, scope, key=key, parent=base)
