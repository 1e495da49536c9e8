"""The container sandbox: Docker or Podman, for hosts on which bubblewrap cannot start.

In: jobs. Out: outcomes. Files travel as streams, never as mounts of the workspace, so that it works
with sibling containers too (an engine whose file system is not the bot's); only `deps`, toolchains
and read-only mounts are shown by path, which such an engine must know as well.

One container per job. Its first process belongs to root inside, holds the capabilities to kill and
to read and no other, and obeys its standard input: told that the command has ended it kills all
that is left and streams the files out, and at end of file, which also comes when the bot dies, it
ends, and the kernel ends everything with it. Commands run beside it as an ordinary user who can
neither signal nor trace it. The image needs `sh` and `tar`.
"""

import asyncio
import contextlib
import os
import secrets
import shutil
import tempfile
import time
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from workspace.sandbox import archive, seccomp, writeback
from workspace.sandbox.backend import (
    DEPS,
    OUT,
    Job,
    OnOutput,
    Outcome,
    SandboxError,
    SandboxUnavailable,
    Termination,
    WorkspaceNotKept,
)
from workspace.sandbox.environment import PATH, fixed_environment
from workspace.sandbox.leftovers import own_folder
from workspace.sandbox.output import OutputPipe
from workspace.sandbox.started import started_at
from workspace.sandbox.writeback import Copier, TooDeep

DEFAULT_IMAGE = "docker.io/library/python:3-slim"
USER = 65532
"""The "nonroot" of distroless images: no account of a usual host, and mapped in every container."""
_ENGINES = ("podman", "docker")
_NAME = "ultracode-job-"
_FIRST_PROCESS = """
cd / && chmod 1777 "$@" tmp
echo ready
while read -r word; do
  kill -9 -1
  memory=/sys/fs/cgroup/memory
  for file in "$memory.events" "$memory/memory.oom_control" "$memory.peak" \
    "$memory/memory.max_usage_in_bytes"; do
    if [ -r "$file" ]; then
      while read -r line; do echo "${file##*/} $line"; done < "$file"
    fi
  done
  echo quiet
  [ "$word" = files ] || exit
  exec tar -c -f - -C / "$@"
done
"""
_TEMPORARY = "/tmp"  # noqa: S108 - the container's own
_CHUNK = 1024 * 1024
_START_SECONDS = 60.0
_COPY_SECONDS = 120.0
_ENGINE_SECONDS = 20.0
_OPEN_FILES = 4096
_SMALL = 64 * 1024 * 1024
_COMMAND = """
exec 2> /dev/null
"$@" 2>&1
code=$?
kill -9 -1
exit $code
"""
"""Both streams in one, in the order they were printed; then the end of whatever the command left,
which would keep the engine waiting at its end of the stream."""
_SHELL = ("/bin/sh", "-c", _COMMAND, "sh")


class ContainerSandbox:
    """Runs jobs in containers of an engine on this host."""

    name = "container"

    def __init__(self, *, image: str = DEFAULT_IMAGE, runtime: str | None = None) -> None:
        """`runtime` is passed to the engine (`runsc` for gVisor); `Job.image` overrides `image`.

        Raises:
            SandboxUnavailable: neither Podman nor Docker is installed.
        """
        found = next((path for e in _ENGINES if (path := shutil.which(e, path=PATH))), None)
        if not found:
            raise SandboxUnavailable("neither podman nor docker is installed")
        self._engine = found
        self._is_podman = Path(found).name == "podman"
        self._image = image
        self._runtime = runtime
        self._has_reaped = False
        chosen = () if runtime is None else (f"--runtime={runtime}",)
        self.options: tuple[str, ...] = ("--sandbox=container", f"--image={image}", *chosen)
        self.guarantees: Mapping[str, bool] = {}

    async def run(self, job: Job, *, on_output: OnOutput | None = None) -> Outcome:
        """Run one command; see `Sandbox.run`."""
        name = f"{_NAME}{os.getpid()}-{started_at(os.getpid())}-{secrets.token_hex(8)}"
        if not self._has_reaped:
            self._has_reaped = True
            await self._reap()
        async with self._container(job, name) as first:
            await self._copy_in(job, name)
            started = time.monotonic()
            termination, code, pipe = await self._execute(job, name, on_output)
            seconds = time.monotonic() - started
            wants_files = bool(job.scratch) or not job.read_only
            facts = await _quiet(first, b"files" if wants_files else b"nothing")
            if facts is None:
                return await self._killed(name, pipe, seconds)
            if wants_files:
                await _copy_out(first, job)
        if termination in ("exit", "timeout") and facts.get("oom_kill", 0):
            termination = "oom"
        return Outcome(
            exit_code=code if termination == "exit" else None,
            termination=termination,
            output=pipe.capture.text(),
            output_size=pipe.capture.size,
            peak_memory_bytes=facts.get("peak"),
            wall_seconds=seconds,
        )

    async def missing(self) -> str:
        """What the engine says when it cannot be used; empty when it can."""
        process = await self._start("info", stdout=DEVNULL, stderr=PIPE)
        _, said = await process.communicate()
        return said.decode(errors="replace").strip() if process.returncode else ""

    async def close(self) -> None:
        """Nothing is kept running between jobs."""

    @contextlib.asynccontextmanager
    async def _container(self, job: Job, name: str) -> AsyncIterator[Process]:
        """The container of one job, with nothing but its first process; gone afterwards."""
        with own_folder() as own, tempfile.TemporaryFile() as errors:
            profile = own / "seccomp.json"
            profile.write_text(seccomp.container_profile())
            arguments = self._arguments(job, name, str(profile))
            # **[ran]** conmon 2.1 leaves a file `oom` where it was started
            first = await self._start(*arguments, stdin=PIPE, stdout=PIPE, stderr=errors, cwd=own)
            try:
                assert first.stdout
                async with asyncio.timeout(_START_SECONDS):
                    if await first.stdout.readline() != b"ready\n":
                        errors.seek(0)
                        said = errors.read(2000).decode(errors="replace").strip()
                        raise SandboxError(f"no container starts: {said}")
                yield first
            finally:
                await asyncio.shield(self._end(first, name))

    async def _end(self, first: Process, name: str) -> None:
        """End of file is what the first process ends at; the engine is asked when that fails.

        Whatever it still prints is read: until then neither its client nor asyncio sees its end.
        """
        assert first.stdin
        assert first.stdout
        first.stdin.close()
        draining = asyncio.create_task(_drain(first.stdout))
        if not await _ends(first, 1):
            await self._ask("kill", name)
        await self._ask("rm", "--force", name)
        if not await _ends(first, 1):
            first.kill()  # only the engine's client is left
            await first.wait()
        draining.cancel()

    async def _ask(self, *words: str) -> str:
        """What the engine answers; nothing when it does not in time."""
        process = await self._start(*words, stdout=PIPE, stderr=DEVNULL)
        try:
            async with asyncio.timeout(_ENGINE_SECONDS):
                answer, _ = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            return ""
        return answer.decode(errors="replace")

    async def _killed(self, name: str, pipe: OutputPipe, seconds: float) -> Outcome:
        """The whole container ended before it was told to: for memory, or by somebody's hand."""
        answer = await self._ask("inspect", "--format", "{{.State.OOMKilled}}", name)
        return Outcome(
            exit_code=None,
            termination="oom" if answer.strip() == "true" else "killed",
            output=pipe.capture.text(),
            output_size=pipe.capture.size,
            peak_memory_bytes=None,
            wall_seconds=seconds,
        )

    async def _reap(self) -> None:
        """Remove the containers of bots that are no more."""
        names = await self._ask("ps", "-a", "--filter", f"name={_NAME}", "--format", "{{.Names}}")
        for name in names.split():
            pid, started, *_ = name.removeprefix(_NAME).split("-")
            if str(started_at(int(pid))) != started:
                await self._ask("rm", "--force", name)

    def _arguments(self, job: Job, name: str, profile: str) -> list[str]:
        limits = job.limits
        room = min(limits.disk_bytes, limits.memory_bytes // 2)  # files are memory: leave some
        small = min(_SMALL, room // 4)
        return [
            *("run", "--interactive", "--name", name, "--hostname", "sandbox"),
            *("--pull", "never", "--network", "none", "--read-only", "--cap-drop", "ALL"),
            *("--cap-add", "KILL", "--cap-add", "DAC_READ_SEARCH"),
            *("--security-opt", "no-new-privileges"),
            *("--security-opt", f"seccomp={profile}"),
            *("--memory", str(limits.memory_bytes), "--memory-swap", str(limits.memory_bytes)),
            *("--cpus", str(limits.cpus), "--pids-limit", str(limits.processes + 8)),
            *("--shm-size", str(small), "--ulimit", f"fsize={limits.file_bytes}"),
            *("--ulimit", "core=1:1", "--ulimit", f"nofile={_OPEN_FILES}:{_OPEN_FILES}"),
            *("--ulimit", f"nproc={_OPEN_FILES}:{_OPEN_FILES}"),
            *self._room(str(job.workspace_at), room, limits.files),
            *self._room(str(OUT), small, limits.files),
            *self._room(_TEMPORARY, small, limits.files),
            *(() if self._runtime is None else ("--runtime", self._runtime)),
            *(("--read-only-tmpfs=false",) if self._is_podman else ()),
            *_mounts(job),
            *(job.image or self._image, "/bin/sh", "-c", _FIRST_PROCESS, "sh"),
            *(job.workspace_at.name, OUT.name),
        ]

    def _room(self, target: str, size: int, files: int) -> tuple[str, str]:
        own = "notmpcopyup" if self._is_podman else f"nr_inodes={files}"  # each lacks the other's
        return ("--tmpfs", f"{target}:rw,nosuid,nodev,exec,mode=1777,size={size},{own}")

    async def _copy_in(self, job: Job, name: str) -> None:
        """Unpack the workspace inside, as the command's user.

        Raises:
            SandboxError: it does not fit, or the image has no tar.
        """
        reading, writing = os.pipe()
        words = ("tar", "-x", "-f", "-", "-C", str(job.workspace_at))
        process = await self._inside(name, words, stdin=reading, stdout=DEVNULL, stderr=PIPE)
        os.close(reading)
        packing = asyncio.create_task(asyncio.to_thread(_pack, job.workspace, writing))
        async with asyncio.timeout(_COPY_SECONDS):
            _, said = await process.communicate()
            await asyncio.gather(packing, return_exceptions=process.returncode != 0)
        if process.returncode:
            raise SandboxError(f"the workspace cannot be copied in: {said.decode()[-500:]}")

    async def _execute(
        self, job: Job, name: str, on_output: OnOutput | None
    ) -> tuple[Termination, int | None, OutputPipe]:
        limits = job.limits
        environment = fixed_environment(home=_TEMPORARY) | dict(job.env)
        variables = [f"--env={name}={value}" for name, value in environment.items()]
        with OutputPipe(
            kept_bytes=limits.kept_bytes, most=limits.output_bytes, on_output=on_output
        ) as pipe:
            process = await self._inside(
                name,
                (*_SHELL, *job.command),
                f"--workdir={job.workspace_at / job.workdir}",
                *variables,
                stdin=DEVNULL,
                stdout=pipe.write_end,
                stderr=STDOUT,
            )
            pipe.close_write_end()
            try:
                termination = await _ended(process, pipe, limits.wall_seconds)
            finally:
                if process.returncode is None:
                    process.kill()
                await process.wait()
            pipe.drain()
        return termination, process.returncode, pipe

    async def _inside(
        self, name: str, words: tuple[str, ...], *options: str, **streams: int
    ) -> Process:
        user = f"--user={USER}:{USER}"
        return await self._start("exec", "--interactive", user, *options, name, *words, **streams)

    async def _start(self, *words: str, **streams: object) -> Process:
        return await asyncio.create_subprocess_exec(
            self._engine,
            *words,
            start_new_session=True,
            **({"stdin": DEVNULL} | streams),  # type: ignore[arg-type]
        )


async def _drain(stream: asyncio.StreamReader) -> None:
    while await stream.read(_CHUNK):
        pass


async def _ends(process: Process, seconds: float) -> bool:
    """Whether a process ends in time."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await process.wait()
    return process.returncode is not None


def _mounts(job: Job) -> list[str]:
    shown = [(path, str(path)) for path in job.toolchains]
    if job.deps:
        shown.append((job.deps, str(DEPS)))
    shown += [(mount.source, str(mount.target)) for mount in job.read_only_mounts]
    return [f"--volume={source}:{target}:ro" for source, target in shown]


def _pack(folder: Path, descriptor: int) -> None:
    with open(descriptor, "wb") as stream:
        archive.pack(folder, stream, owner=USER)


async def _copy_out(first: Process, job: Job) -> None:
    """Bring back what was written, as the first process streams it.

    Raises:
        WorkspaceNotKept: it cannot be, or is more than it may be.
    """
    assert first.stdout
    reading, writing = os.pipe()
    replacing = asyncio.create_task(asyncio.to_thread(_replace, reading, job))
    try:
        while chunk := await first.stdout.read(_CHUNK):
            await asyncio.to_thread(_write, writing, chunk)
    except BrokenPipeError:
        pass  # whoever unpacks has given up, and says why
    finally:
        os.close(writing)
        await _outlast(replacing)
    try:
        await replacing
    except (OSError, TooDeep) as error:
        raise WorkspaceNotKept(str(error)) from error


async def _outlast(task: asyncio.Task[None]) -> None:
    """Wait for what works in a thread, cancelled or not: a thread cannot be ended."""
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def _write(descriptor: int, chunk: bytes) -> None:
    while chunk:
        chunk = chunk[os.write(descriptor, chunk) :]


def _replace(descriptor: int, job: Job) -> None:
    """Unpack what came out, then make workspace and scratch folder what they should be."""
    limits = job.limits
    with open(descriptor, "rb") as stream, own_folder() as fresh:
        most = limits.disk_bytes + _SMALL
        archive.unpack(stream, fresh, most_bytes=most, most_files=limits.files)
        if not job.read_only:
            _mirror(fresh / job.workspace_at.name, job.workspace, whole=True)
        if job.scratch:
            _mirror(fresh / OUT.name, job.scratch, whole=False)


def _mirror(fresh: Path, target: Path, *, whole: bool) -> None:
    """Make the target hold what is fresh; `whole`: and nothing else, links and FIFOs included."""
    status = target.stat()
    copier = Copier(owner=(status.st_uid, status.st_gid), only_files=not whole)
    with writeback.opened(str(fresh)) as source, writeback.opened(str(target)) as folder:
        before = writeback.take_snapshot(folder) if whole else {}
        copier.copy_folder(source, folder)
        copier.remove_missing(folder, before)


async def _quiet(first: Process, word: bytes) -> dict[str, int] | None:
    """Have everything but the first process killed; what the kernel counted until then.

    `word` says what the first process does next: stream the files, or end. None when it is gone.
    """
    assert first.stdin
    assert first.stdout
    facts: dict[str, int] = {}
    with contextlib.suppress(ConnectionError):
        first.stdin.write(word + b"\n")
        await first.stdin.drain()
    while line := (await first.stdout.readline()).decode():
        if line == "quiet\n":
            return facts
        words = line.split()
        with contextlib.suppress(ValueError, IndexError):
            name = "peak" if words[0] in ("memory.peak", "memory.max_usage_in_bytes") else words[-2]
            facts[name] = int(words[-1])
    return None


async def _ended(process: Process, pipe: OutputPipe, wall_seconds: float) -> Termination:
    """Wait for the command's own end, the output cap or the wall clock, whichever comes first."""
    waiting = asyncio.create_task(process.wait())
    either: list[asyncio.Future[object]] = [waiting, pipe.done]  # type: ignore[list-item]
    try:
        async with asyncio.timeout(wall_seconds):
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if pipe.done.done() and not pipe.done.result():
                return "output_limit"
            await waiting
    except TimeoutError:
        return "timeout"
    finally:
        waiting.cancel()
    return "exit"
