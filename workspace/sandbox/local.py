"""No sandbox at all: the command runs as this user, on this host.

Only for repositories the operator trusts as much as the bot itself (`ULTRACODE_TRUST=trusted`). It
still ends the process group at the wall clock, at the output cap and on cancel, and it still says
truthfully how the command ended; it isolates nothing, and its guarantees say so.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from workspace.sandbox.backend import (
    DEPS,
    OUT,
    Job,
    OnOutput,
    Outcome,
    SandboxError,
    Termination,
)
from workspace.sandbox.environment import fixed_environment
from workspace.sandbox.guarantees import GUARANTEES
from workspace.sandbox.leftovers import own_folder
from workspace.sandbox.output import OutputPipe

HELD = frozenset({"file_size_capped", "output_capped", "wall_time_capped", "no_core_dumps"})
_LIMITED = 'ulimit -c 0; ulimit -f "$1" && shift && exec "$@"'
_BLOCK = 512  # the unit of `ulimit -f`, POSIX


class LocalSandbox:
    """Runs jobs as plain processes. Isolates nothing."""

    name = "local"
    options: tuple[str, ...] = ("--sandbox=local",)

    @property
    def guarantees(self) -> Mapping[str, bool]:
        """Only the few that need no isolation hold."""
        return {name: name in HELD for name in GUARANTEES}

    async def run(self, job: Job, *, on_output: OnOutput | None = None) -> Outcome:
        """Run one command as this user; see `Sandbox.run`."""
        if job.image:
            raise SandboxError(f"the image {job.image} needs ULTRACODE_SANDBOX=container")
        with _places(job) as places:
            return await _run(job, places, on_output)

    async def close(self) -> None:
        """Nothing is kept running."""


@contextlib.contextmanager
def _places(job: Job) -> Iterator[dict[str, Path]]:
    """Where /ws, /deps, /out and HOME really are for this job."""
    with own_folder() as own:
        home = own / "home"
        home.mkdir()
        workspace = job.workspace
        if job.read_only:
            workspace = own / "ws"
            shutil.copytree(job.workspace, workspace, symlinks=True)
        out = job.scratch or own / "out"
        out.mkdir(exist_ok=True)
        places = {str(job.workspace_at): workspace, str(OUT): out, "HOME": home}
        if job.deps:
            places[str(DEPS)] = job.deps
        places |= {str(mount.target): mount.source for mount in job.read_only_mounts}
        yield {name: path.resolve() for name, path in places.items()}


async def _run(job: Job, places: dict[str, Path], on_output: OnOutput | None) -> Outcome:
    started = time.monotonic()
    limits = job.limits
    with OutputPipe(
        kept_bytes=limits.kept_bytes, most=limits.output_bytes, on_output=on_output
    ) as pipe:
        process = _start(job, places, pipe.write_end)
        pipe.close_write_end()
        try:
            termination = await _ended(process.pid, pipe, limits.wall_seconds)
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
        pipe.drain()
    return Outcome(
        exit_code=(code if code >= 0 else 128 - code) if termination == "exit" else None,
        termination=termination,
        output=pipe.capture.text(),
        output_size=pipe.capture.size,
        peak_memory_bytes=None,
        wall_seconds=time.monotonic() - started,
    )


def _start(job: Job, places: dict[str, Path], output: int) -> subprocess.Popen[bytes]:
    blocks = str(max(1, job.limits.file_bytes // _BLOCK))
    words = (_translate(word, places) for word in job.command)
    return subprocess.Popen(
        ["/bin/sh", "-c", _LIMITED, "sh", blocks, *words],
        cwd=places[str(job.workspace_at)] / job.workdir,
        env=_environment(job, places),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )


async def _ended(pid: int, pipe: OutputPipe, wall_seconds: float) -> Termination:
    """Wait for the command's own end, the output cap or the wall clock, whichever comes first."""
    loop = asyncio.get_running_loop()
    exited: asyncio.Future[bool] = loop.create_future()
    pidfd = os.pidfd_open(pid)
    loop.add_reader(pidfd, lambda: None if exited.done() else exited.set_result(True))
    try:
        async with asyncio.timeout(wall_seconds):
            await asyncio.wait([exited, pipe.done], return_when=asyncio.FIRST_COMPLETED)
            if pipe.done.done() and not pipe.done.result():
                return "output_limit"
            await exited
    except TimeoutError:
        return "timeout"
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)
    return "exit"


def _environment(job: Job, places: dict[str, Path]) -> dict[str, str]:
    given = {
        name: ":".join(_translate(part, places) for part in value.split(":"))
        for name, value in job.env.items()
    }
    return fixed_environment(home=str(places["HOME"])) | given


def _translate(word: str, places: dict[str, Path]) -> str:
    """A path as a sandbox shows it (/ws/…, /deps/…, /out/…), where it is on this host."""
    for inside, real in places.items():
        if word == inside or word.startswith(inside + "/"):
            return str(real) + word[len(inside) :]
    return word
