"""Workspaces, freezing and composing, against plain Git on two real repositories.

The repositories are source distributions of released packages, a small and a large one, served by
the loopback GitHub as Git over HTTP. Four workers get workspaces at once, each changes a file, all
are frozen, one candidate is composed. Plain Git does the like: `git worktree add` four times, four
full clones, and copying the files into a work tree for `git add -A` and `git commit`.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from pydantic import SecretStr

from bot.github.client import GitHubClient
from bot.tokens import InstallationCredentials
from evals.bench.row import Goal, Row
from evals.drive import commit_all, git
from evals.real import load_release
from evals.stage import PYTHON, Stage, free_port, plain_environment
from workspace.artifacts import FolderArtifacts
from workspace.contracts import Candidate, CommitTemplate, RepoRef, RunPin, Scope, WorkKey
from workspace.sandbox.backend import Sandbox
from workspace.sandbox.local import LocalSandbox
from workspace.service import Workshop

RELEASES = (("cachetools", "5.4.0"), ("django", "5.2.8"))
WORKERS = 4
ROUNDS = 3


async def measure_workspaces() -> list[Row]:
    """Measure both repositories, one after the other."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="ultracode-bench-") as place:
        for name, version in RELEASES:
            repository = await asyncio.to_thread(make_repository, name, version, Path(place))
            async with hosted(name, repository) as site:
                rows += await _measure(name, repository, site)
    return rows


def make_repository(name: str, version: str, folder: Path) -> Path:
    """Return a Git repository of a release, with four files more for the workers to change."""
    release = load_release(name, version, folder)
    for number in range(WORKERS):
        (release / f"worker-{number}.txt").write_text("before\n")
    git(folder, "init", "-q", "-b", "main", str(release))
    commit_all(release, f"{name} {version}")
    return release


@dataclass
class Site:
    """A hosted repository and a workshop that may clone it."""

    workshop: Workshop
    pin: RunPin
    token: str


@contextlib.asynccontextmanager
async def hosted(
    name: str, repository: Path, *, sandbox: Sandbox | None = None
) -> AsyncIterator[Site]:
    """Serve a repository on the loopback GitHub; open a workshop with the App's tokens."""
    with tempfile.TemporaryDirectory(prefix=f"ultracode-bench-{name}-") as place:
        folder = Path(place)
        world = Stage(folder=folder, environment=plain_environment(), web_port=free_port())
        try:
            await _serve_repository(world, repository)
            async with _open_site(world, repository, folder, sandbox or LocalSandbox()) as site:
                yield site
        finally:
            await world.close()


async def _serve_repository(world: Stage, repository: Path) -> None:
    hosting = ("--repo", f"someone/project={repository}", "--port", "0")
    nobody = ("--webhook-url", "http://127.0.0.1:9/none")
    world.github = await world.announce(
        "github", *PYTHON, "evals.loopback", *hosting, *nobody, "--json"
    )


@contextlib.asynccontextmanager
async def _open_site(
    world: Stage, repository: Path, folder: Path, sandbox: Sandbox
) -> AsyncIterator[Site]:
    github = world.github
    key = await asyncio.to_thread(Path(github["private_key_path"]).read_text)
    client = GitHubClient(
        app_id=github["app_id"], private_key=SecretStr(key), api_url=github["api_url"]
    )
    credentials = InstallationCredentials(client)
    workshop = Workshop(
        folder / "data",
        credentials=credentials,
        artifacts=FolderArtifacts(folder / "artifacts"),
        sandbox=sandbox,
        allow_loopback_http=True,
    )
    seen = await _look_up(world)
    credentials.covers(seen["id"], github["installation_id"])
    pin = RunPin(
        run_id="benchbench",
        repo=RepoRef(id=seen["id"], url=seen["clone_url"]),
        base_ref="refs/heads/main",
        original_base_sha=git(repository, "rev-parse", "HEAD"),
        commit=_template(),
    )
    try:
        yield Site(workshop, pin, world.person("writer").token)
    finally:
        await workshop.close()
        await sandbox.close()
        await client.aclose()


async def _look_up(world: Stage) -> dict[str, Any]:
    """Return what GitHub says of the repository to somebody who can read it."""
    person = world.person("writer")
    headers = {"Authorization": f"Bearer {person.token}"}
    async with httpx.AsyncClient(headers=headers, trust_env=False) as client:
        answer = await client.get(f"{person.api}/repos/{person.repository}")
    found: dict[str, Any] = answer.raise_for_status().json()
    return found


def _template() -> CommitTemplate:
    return CommitTemplate(
        author_name="Bench", author_email="bench@example.invalid", committed_at=1, message="Bench\n"
    )


# --- measuring ----------------------------------------------------------------------------------


async def _measure(name: str, repository: Path, site: Site) -> list[Row]:
    """Take the medians of a few rounds of ours and of plain Git's, in turn."""
    await site.workshop.prepare(site.pin, ())
    with tempfile.TemporaryDirectory(prefix="ultracode-plain-") as place:
        ours, theirs = Times(), Times()
        for number in range(ROUNDS):
            await _our_round(site, number, ours)
            await asyncio.to_thread(_plain_round, repository, Path(place), number, theirs)
        clones = await asyncio.to_thread(_clone_four, site, Path(place))
    files = len(git(repository, "ls-files").splitlines())
    note = f"{files} files"
    return [
        Row(
            f"{name}: 4 workspaces, cold",
            "git worktree add x4",
            ours.first("open"),
            theirs.median("open"),
            "s",
            note=note,
        ),
        Row(
            f"{name}: 4 workspaces, pooled",
            "git worktree add x4",
            ours.rest("open"),
            theirs.median("open"),
            "s",
            Goal(1),
        ),
        Row(
            f"{name}: 4 workspaces, pooled", "git clone x4", ours.rest("open"), clones, "s", Goal(1)
        ),
        Row(
            f"{name}: freeze of 4",
            "git add -A, write-tree x4",
            ours.median("freeze"),
            theirs.median("freeze"),
            "s",
        ),
        Row(
            f"{name}: compose",
            "copy, git add -A, commit",
            ours.median("compose"),
            theirs.median("compose"),
            "s",
        ),
    ]


@dataclass
class Times:
    """Seconds taken, by what was done."""

    taken: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    @contextlib.contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Take the time of a block."""
        started = time.perf_counter()
        yield
        self.taken[name].append(time.perf_counter() - started)

    def median(self, name: str) -> float:
        """Median of all rounds."""
        return statistics.median(self.taken[name])

    def first(self, name: str) -> float:
        """The first round's, when nothing was there to reuse."""
        return self.taken[name][0]

    def rest(self, name: str) -> float:
        """Median of all rounds but the first."""
        return statistics.median(self.taken[name][1:])


async def _our_round(site: Site, number: int, times: Times) -> None:
    pin = site.pin.model_copy(update={"run_id": f"benchbench{number}"})
    base = pin.original_base_sha
    shop = site.workshop
    scopes = [
        Scope(task_id=f"task-{n}", read_only=False, write_globs=(f"worker-{n}.txt",))
        for n in range(WORKERS)
    ]
    keys = [WorkKey(run_id=pin.run_id, round=0, task_id=scope.task_id) for scope in scopes]
    work = list(zip(scopes, keys, strict=True))
    with times.of("open"):
        tools = await asyncio.gather(
            *(shop.create_worker(pin, s, key=k, parent=base, suites=()) for s, k in work)
        )
    for n, tool in enumerate(tools):
        await tool.write_file(f"worker-{n}.txt", f"after {number}\n")
    with times.of("freeze"):
        records = await asyncio.gather(
            *(shop.inspect_and_freeze(pin, s, key=k, parent=base) for s, k in work)
        )
    with times.of("compose"):
        candidate = await shop.compose(pin, records, round=0, parent=base)
    if not isinstance(candidate, Candidate) or len(candidate.changed_files) != WORKERS:
        raise RuntimeError(f"the candidate is not what the workers wrote: {candidate}")


def _plain_round(repository: Path, place: Path, number: int, times: Times) -> None:
    trees = [place / f"tree-{n}" for n in range(WORKERS)]
    with times.of("open"):
        _at_once(
            lambda tree: git(repository, "worktree", "add", "-q", "--detach", str(tree)), trees
        )
    for n, tree in enumerate(trees):
        (tree / f"worker-{n}.txt").write_text(f"after {number}\n")
    with times.of("freeze"):
        _at_once(lambda tree: (git(tree, "add", "-A"), git(tree, "write-tree")), trees)
    with times.of("compose"):
        for n in range(1, WORKERS):
            shutil.copy(trees[n] / f"worker-{n}.txt", trees[0])
        git(trees[0], "add", "-A")
        git(trees[0], "commit", "-q", "-m", "All of it")
    for tree in trees:
        git(repository, "worktree", "remove", "--force", str(tree))


def _clone_four(site: Site, place: Path) -> float:
    url = site.pin.repo.url.replace("://", f"://x-access-token:{site.token}@", 1)
    started = time.perf_counter()
    _at_once(lambda n: git(place, "clone", "-q", url, str(place / f"clone-{n}")), range(WORKERS))
    return time.perf_counter() - started


def _at_once(work: Callable[[Any], object], items: Iterable[Any]) -> None:
    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(work, items))
