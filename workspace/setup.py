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
import hashlib
import os
import platform
import secrets
import shutil
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Final

import orjson

from workspace.contracts import RunPin, SandboxLimits, Setup, Sha256
from workspace.digest import canonical_digest
from workspace.environment import FALLBACK, setup_environment
from workspace.errors import WorkspaceRefusal
from workspace.globs import parse_glob
from workspace.locks import exclusive
from workspace.registries import rules_of
from workspace.registry_proxy import RunningProxy, Upstream, run_registry_proxy
from workspace.sandbox.backend import DEPS, Job, Limits, Outcome, ReadOnlyMount, Sandbox
from workspace.tree_entries import Entries, TreeStore

SETUP_VERSION: Final = 1
INPUTS: Final = PurePosixPath("/inputs")
_SOCKET: Final = PurePosixPath("/registries.sock")
_AUTHORITY: Final = PurePosixPath("/registries.pem")
_PROXY_PORT: Final = 3128
_SCRIPT: Final = """
mkdir "$HOME/inputs" && cp -R "$ULTRACODE_INPUTS/." "$HOME/inputs" && cd "$HOME/inputs" || exit
sh -c "$1" || exit
[ ! -d node_modules ] || mv node_modules "$ULTRACODE_DEPS/node_modules"
"""
#: Runs a command beside a listener on its own loopback, which leads to the proxy's socket.
_BRIDGE: Final = f"""
import asyncio, contextlib, sys

async def copy(reader, writer):
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()

async def welcome(reader, writer):
    with contextlib.suppress(OSError), contextlib.closing(writer):
        to, out = await asyncio.open_unix_connection("{_SOCKET}")
        with contextlib.closing(out):
            await asyncio.gather(copy(reader, out), copy(to, writer))

async def main():
    async with await asyncio.start_server(welcome, "127.0.0.1", {_PROXY_PORT}):
        process = await asyncio.create_subprocess_exec(*sys.argv[1:])
        return await process.wait()

sys.exit(asyncio.run(main()))
"""
_LOG_TAIL: Final = 4000


class SetupFailed(WorkspaceRefusal):
    """The set-up command did not end well; the message is for people, `log` is its output."""

    def __init__(self, sentence: str, log: bytes = b"") -> None:
        """Keep the end of the output beside the sentence."""
        super().__init__(sentence)
        self.log = log


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedDependencies:
    """What set-up installed; without a set-up, only what every suite has."""

    folder: Path
    """On the host; suites see it read-only at /deps."""
    seal: Sha256 | None
    """Over the key and the content: equal seals mean equal files, compiled ones aside.

    None without a set-up.
    """
    importable: tuple[str, ...]
    """Top-level Python modules among them, so that a candidate's new module cannot hide one."""

    @property
    def has_node_modules(self) -> bool:
        """Whether there are packages for Node."""
        return (self.folder / "node_modules").is_dir()


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

    async def seal(self, pin: RunPin) -> SealedDependencies:
        """Return the run's dependencies, installing them unless they are there.

        Raises:
            SetupFailed: The base lacks an input, or the command failed.
            SandboxError: The sandbox failed, or may not open the network that policy names.
        """
        if pin.setup is None:
            return await asyncio.to_thread(_load_none, self._folder / "none")
        inputs = await self._inputs(pin, pin.setup)
        key = dependency_key(pin.repo.id, pin.setup, pin.sandbox, inputs)
        home = self._folder / str(pin.repo.id) / key
        async with exclusive(home.with_suffix(".lock")):
            if not (home / "seal.json").exists():
                await self._install(pin, pin.setup, inputs, home)
            return await asyncio.to_thread(_load, home)

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

    async def _install(self, pin: RunPin, setup: Setup, inputs: Entries, home: Path) -> None:
        staging = self._temporary / secrets.token_hex(8)
        folders = {name: staging / name for name in ("inputs", "deps")}
        try:
            await asyncio.to_thread(_make_folders, staging, *folders.values())
            await asyncio.to_thread(_lay_fallback, folders["deps"])
            tree = await self._trees.write_tree(pin.repo.id, inputs)
            await self._trees.checkout(pin.repo.id, tree, folders["inputs"])
            await self._run(pin, setup, **folders)
            await asyncio.to_thread(_seal, staging, home)
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
                outcome = await self._sandbox.run(_through(proxy, job))
            refused = proxy.refused
        else:  # nothing to open, or `local`, which denies no network: under trust only
            outcome, refused = await self._sandbox.run(job), []
        if outcome.termination != "exit" or outcome.exit_code != 0:
            raise SetupFailed(_failure_sentence(outcome, refused), outcome.output[-_LOG_TAIL:])


def _through(proxy: RunningProxy, job: Job) -> Job:
    """Return the job with a way to the proxy, and clients told to take it."""
    address = f"http://127.0.0.1:{_PROXY_PORT}"
    mounts = (
        ReadOnlyMount(source=proxy.socket, target=_SOCKET),
        ReadOnlyMount(source=proxy.authority, target=_AUTHORITY),
    )
    proxies = ("HTTPS_PROXY", "https_proxy", "npm_config_https_proxy")
    trust = (
        *("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
        *("NODE_EXTRA_CA_CERTS", "npm_config_cafile", "CARGO_HTTP_CAINFO"),
    )
    return replace(
        job,
        command=("python3", "-I", "-c", _BRIDGE, *job.command),
        read_only_mounts=(*job.read_only_mounts, *mounts),
        env={
            **job.env,
            **dict.fromkeys(proxies, address),
            **dict.fromkeys(trust, str(_AUTHORITY)),
        },
    )


def _failure_sentence(outcome: Outcome, refused: Sequence[str]) -> str:
    ended = (
        f"set-up ended with exit code {outcome.exit_code}"
        if outcome.termination == "exit"
        else f"set-up was ended by its limits: {outcome.termination}"
    )
    return f"{ended}; not passed on: {refused[0]}" if refused else ended


def dependency_key(
    repository: int, setup: Setup, sandbox: SandboxLimits, inputs: Entries
) -> Sha256:
    """Return the key under which dependencies are kept: all that set-up can depend on."""
    return canonical_digest(
        {
            "version": SETUP_VERSION,
            "repository": repository,
            "command": setup.run,
            "network": sorted(setup.network),
            "image": sandbox.image,
            "architecture": platform.machine(),
            "inputs": {path: [*entry] for path, entry in inputs.items()},
        }
    )


def _make_folders(*folders: Path) -> None:
    for folder in folders:
        folder.mkdir(parents=True, mode=0o755)


def _lay_fallback(deps: Path) -> None:
    folder = deps / FALLBACK.name
    folder.mkdir(mode=0o755)
    python = folder / "python"
    python.write_text('#!/bin/sh\nexec python3 "$@"\n')
    python.chmod(0o555)


def _load_none(home: Path) -> SealedDependencies:
    """Return what suites have without a set-up."""
    if not home.exists():
        fresh = home.with_name(f".{home.name}.{secrets.token_hex(6)}")
        _make_folders(fresh)
        _lay_fallback(fresh)
        with contextlib.suppress(OSError):  # another was faster: its folder is the same
            fresh.rename(home)
        _remove(fresh)
    return SealedDependencies(folder=home, seal=None, importable=())


def _seal(staging: Path, home: Path) -> None:
    """Make the dependencies read-only, note their seal, and move them to where they stay."""
    deps = staging / "deps"
    content = _content_digest(deps)
    seal = {
        "seal": canonical_digest({"key": home.name, "content": content}),
        "importable": _importable(deps / "python"),
    }
    shutil.rmtree(staging / "inputs")
    _remove(home)
    (staging / "seal.json").write_bytes(orjson.dumps(seal))
    staging.rename(home)


def _load(home: Path) -> SealedDependencies:
    os.utime(home / "seal.json")
    seal = orjson.loads((home / "seal.json").read_bytes())
    return SealedDependencies(
        folder=home / "deps", seal=seal["seal"], importable=tuple(seal["importable"])
    )


def _content_digest(folder: Path) -> Sha256:
    """Return a digest over names, kinds, executable bits and contents; makes all of it read-only.

    Compiled Python is left out: its bytes differ between compilations of one source.
    """
    facts: dict[str, list[str]] = {}
    for path, status in _walk(folder):
        relative = path.relative_to(folder)
        if relative.suffix == ".pyc" and stat.S_ISREG(status.st_mode):
            path.chmod(0o444)
        elif stat.S_ISLNK(status.st_mode):
            facts[_name(relative)] = ["link", os.fsencode(path.readlink()).hex()]
        elif stat.S_ISREG(status.st_mode):
            executable = bool(status.st_mode & 0o111)
            path.chmod(0o555 if executable else 0o444)
            facts[_name(relative)] = ["program" if executable else "file", _file_digest(path)]
        else:
            raise SetupFailed(f"set-up left a special file: {_name(relative)}")
    return canonical_digest(facts)


def _walk(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for parent, folders, files in os.walk(folder):
        links = [name for name in folders if Path(parent, name).is_symlink()]
        for name in sorted([*files, *links]):
            path = Path(parent, name)
            yield path, path.lstat()
        Path(parent).chmod(0o755)


def _name(relative: Path) -> str:
    return os.fsencode(relative).decode("utf-8", "backslashreplace")


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _importable(folder: Path) -> list[str]:
    names = set()
    with contextlib.suppress(FileNotFoundError):
        for entry in os.scandir(folder):
            if entry.is_dir() or entry.name.endswith((".py", ".so")):
                names.add(entry.name.split(".", 1)[0])
    return sorted(name for name in names - {"bin", "__pycache__"} if name.isidentifier())


def _remove_unused(home: Path, older_than_seconds: float) -> None:
    with contextlib.suppress(FileNotFoundError):
        if time.time() - (home / "seal.json").stat().st_mtime > older_than_seconds:
            _remove(home)


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
