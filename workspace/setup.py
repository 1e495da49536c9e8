"""Dependencies: installed once by policy's `setup` command, sealed, and mounted at /deps.

In: the command, its named input files as the base commit has them, and what it may reach. Out: a
folder that nothing changes any more, and its seal, which enters every run key.

The convention a `setup` command can rely on:

- it starts in a throw-away folder that holds its inputs and nothing else of the repository;
- what it leaves in `$ULTRACODE_DEPS` (`/deps`) is kept, and suites find it at the same path;
- `pip install …` without a target goes to `/deps/python` (`PIP_TARGET`), which suites have on
  `PYTHONPATH`; a `node_modules` it leaves beside its inputs is moved to `/deps/node_modules`, which
  suites find as their own; programs in `/deps/bin`, `/deps/python/bin` and
  `/deps/node_modules/.bin` are on `PATH`.
"""

import asyncio
import contextlib
import platform
import secrets
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from workspace.contracts import RepositoryId, RunPin, Setup, Sha256
from workspace.digest import canonical_digest
from workspace.environment import measure_toolchain, setup_environment
from workspace.globs import parse_glob
from workspace.locks import exclusive
from workspace.registries import rules_of
from workspace.registry_bridge import through_proxy
from workspace.registry_proxy import Upstream, run_registry_proxy
from workspace.sandbox.backend import DEPS, Job, Limits, Outcome, ReadOnlyMount, Sandbox
from workspace.sealing import (
    SealedDependencies,
    SetupFailed,
    lay_fallback,
    load_none,
    load_sealed,
    seal_folder,
)
from workspace.tree_entries import Entries, TreeStore

SETUP_VERSION: Final = 1
INPUTS: Final = PurePosixPath("/inputs")
_SCRIPT: Final = """
mkdir "$HOME/inputs" && cp -R "$ULTRACODE_INPUTS/." "$HOME/inputs" && cd "$HOME/inputs" || exit
sh -c "$1" || exit
[ ! -d node_modules ] || mv node_modules "$ULTRACODE_DEPS/node_modules"
"""
_LOG_TAIL: Final = 4000
_REMEMBERED: Final = 64


class Dependencies:
    """Sealed dependencies of all repositories, below one folder of the data directory."""

    def __init__(
        self,
        folder: Path,
        *,
        sandbox: Sandbox,
        trees: TreeStore,
        temporary: Path,
        upstream: Upstream | None = None,
    ) -> None:
        """Keep dependencies below `folder`.

        Args:
            folder: Shared by all processes of this machine.
            sandbox: Where set-up runs; one that denies no network gives set-up the host's.
            trees: The mirror's objects.
            temporary: A folder of this process, on the same file system, removed when it is gone.
            upstream: How registries are reached; None: as this host reaches the internet.
        """
        self._folder = folder
        self._temporary = temporary
        self._upstream = upstream
        self._sandbox = sandbox
        self._trees = trees
        self._known: dict[tuple[object, ...], SealedDependencies] = {}

    async def seal(self, pin: RunPin) -> SealedDependencies:
        """Return the run's dependencies, installing them unless they are there.

        Raises:
            SetupFailed: The base lacks an input, or the command failed.
            SandboxError: The sandbox failed, or may not open the network that policy names.
        """
        if pin.setup is None:
            return await asyncio.to_thread(load_none, self._folder / "none")
        asked = (pin.repo.id, pin.original_base_sha, pin.setup, pin.sandbox.image)
        known = self._known.get(asked)
        if known is None or not known.folder.is_dir():
            known = await self._seal(pin, pin.setup)
            self._known[asked] = known
            if len(self._known) > _REMEMBERED:
                del self._known[next(iter(self._known))]
        return known

    async def _seal(self, pin: RunPin, setup: Setup) -> SealedDependencies:
        inputs = await self._inputs(pin, setup)
        tools = {"sandbox": self._sandbox.name, **await self._measure(setup, pin.sandbox.image)}
        key = dependency_key(pin.repo.id, setup, pin.sandbox.image, inputs, tools)
        home = self._folder / str(pin.repo.id) / key
        async with exclusive(home.with_suffix(".lock")):
            if not (home / "seal.json").exists():
                await self._install(pin, setup, inputs, home)
            return await asyncio.to_thread(load_sealed, home)

    async def tidy(self, *, older_than_seconds: float) -> None:
        """Remove dependencies that no run has asked for since."""
        for path in await asyncio.to_thread(lambda: list(self._folder.glob("*/*/seal.json"))):
            async with exclusive(path.parent.with_suffix(".lock")):
                await asyncio.to_thread(_remove_unused, path.parent, older_than_seconds)

    async def _inputs(self, pin: RunPin, setup: Setup) -> Entries:
        base = await self._trees.entries(pin.repo.id, pin.original_base_sha)
        found: Entries = {}
        for text in setup.inputs:
            pattern = parse_glob(text)
            matching = {
                path: entry
                for path, entry in base.items()
                if entry.is_file and pattern.matches(path)
            }
            if not matching:
                raise SetupFailed(f"the base commit has no file for the set-up input {text}")
            found |= matching
        return found

    async def _measure(self, setup: Setup, image: str | None) -> dict[str, str]:
        """Return what the programs are that set-up names: an upgrade of them installs anew."""
        empty = self._temporary / secrets.token_hex(8)
        await asyncio.to_thread(_make_folders, empty)
        try:
            measured = await measure_toolchain(self._sandbox, empty, [setup.run], image=image)
        finally:
            await asyncio.to_thread(_remove, empty)
        return measured[setup.run]

    async def _install(self, pin: RunPin, setup: Setup, inputs: Entries, home: Path) -> None:
        staging = self._temporary / secrets.token_hex(8)
        folders = {name: staging / name for name in ("inputs", "deps")}
        try:
            await asyncio.to_thread(_make_folders, staging, *folders.values())
            await asyncio.to_thread(lay_fallback, folders["deps"])
            tree = await self._trees.write_tree(pin.repo.id, inputs)
            await self._trees.checkout(pin.repo.id, tree, folders["inputs"])
            await self._run(pin, setup, **folders)
            await asyncio.to_thread(seal_folder, staging, home)
        finally:
            await asyncio.to_thread(_remove, staging)

    async def _run(self, pin: RunPin, setup: Setup, *, inputs: Path, deps: Path) -> None:
        job = Job(
            command=("/bin/sh", "-c", _SCRIPT, "setup", setup.run),
            workspace=deps,
            workspace_at=DEPS,
            read_only_mounts=(ReadOnlyMount(source=inputs, target=INPUTS),),
            env={**setup_environment(), "ULTRACODE_INPUTS": str(INPUTS)},
            image=pin.sandbox.image,
            limits=Limits(
                wall_seconds=setup.timeout_seconds,
                memory_bytes=pin.sandbox.memory_bytes,
                cpus=pin.sandbox.cpus,
                disk_bytes=pin.sandbox.disk_bytes,
            ),
        )
        if setup.network and self._sandbox.guarantees.get("network_denied", True):
            rules = rules_of(setup.network)
            async with run_registry_proxy(rules, inputs.parent, self._upstream) as proxy:
                outcome = await self._sandbox.run(through_proxy(proxy, job))
            refused = proxy.refused
        else:  # nothing to open, or `local`, which denies no network: under trust only
            outcome, refused = await self._sandbox.run(job), []
        if outcome.termination != "exit" or outcome.exit_code != 0:
            raise SetupFailed(_failure_sentence(outcome, refused), outcome.output[-_LOG_TAIL:])


def _failure_sentence(outcome: Outcome, refused: Sequence[str]) -> str:
    ended = (
        f"set-up ended with exit code {outcome.exit_code}"
        if outcome.termination == "exit"
        else f"set-up was ended by its limits: {outcome.termination}"
    )
    return f"{ended}; not passed on: {refused[0]}" if refused else ended


def dependency_key(
    repository: RepositoryId,
    setup: Setup,
    image: str | None,
    inputs: Entries,
    tools: Mapping[str, str],
) -> Sha256:
    """Return the key under which dependencies are kept: all that set-up can depend on."""
    return canonical_digest(
        {
            "version": SETUP_VERSION,
            "repository": repository,
            "command": setup.run,
            "network": sorted(setup.network),
            "image": image,
            "tools": dict(tools),
            "architecture": platform.machine(),
            "inputs": {path: [*entry] for path, entry in inputs.items()},
        }
    )


def _make_folders(*folders: Path) -> None:
    for folder in folders:
        folder.mkdir(parents=True, mode=0o755)


def _remove_unused(home: Path, older_than_seconds: float) -> None:
    with contextlib.suppress(FileNotFoundError):
        if time.time() - (home / "seal.json").stat().st_mtime > older_than_seconds:
            _remove(home)


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
