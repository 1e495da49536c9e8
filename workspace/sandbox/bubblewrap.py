"""The bubblewrap sandbox: one host, no daemon, as root or as an ordinary user.

In: jobs. Out: outcomes. This half lives in the bot's process: it talks to the launcher, reads what
commands print and decides when that is too much. The other half (`launcher`, `keeper`, `running`)
does everything that touches namespaces, users and control groups.
"""

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from workspace.sandbox import seccomp
from workspace.sandbox.backend import (
    DEPS,
    Job,
    OnOutput,
    Outcome,
    SandboxError,
    SandboxUnavailable,
    WorkspaceNotKept,
)
from workspace.sandbox.cgroup import launch_prefixes, session_environment
from workspace.sandbox.environment import PATH, fixed_environment
from workspace.sandbox.order import Order, Ready, Report
from workspace.sandbox.output import OutputPipe

_ROOT = str(Path(__file__).resolve().parents[2])
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from workspace.sandbox.launcher import main; main()"
)
_START_SECONDS = 20.0
_DEATH_SECONDS = 10.0
_REMEMBERED = 1024


class Launcher:
    """The launcher process of this bot process, and the socket it takes orders on."""

    def __init__(self, prefix: tuple[str, ...] = ()) -> None:
        """Start it; `prefix` is a command that runs its arguments in a delegated control group.

        Raises:
            SandboxUnavailable: it does not start.
        """
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        arguments = [sys.executable, "-I", "-S", "-B", "-c", _PROGRAM, _ROOT, str(theirs.fileno())]
        with theirs:
            self._process = subprocess.Popen(
                [*prefix, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={"LC_ALL": "C.UTF-8", "PATH": PATH} | (session_environment() if prefix else {}),
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self.pid = self._process.pid
        self._control.settimeout(_START_SECONDS)
        try:
            self._control.sendall(seccomp.load_program())
            self.ready = Ready.decode(self._control.recv(65536))
        except (OSError, ValueError) as error:
            self.close()
            raise SandboxUnavailable(f"the sandbox launcher does not start: {error}") from error

    def is_alive(self) -> bool:
        """Whether nobody has killed it."""
        return self._process.poll() is None

    def send(self, order: Order, job: socket.socket, output: int) -> None:
        """Hand over one order.

        Raises:
            OSError: the launcher is gone.
        """
        file = os.memfd_create("order")
        try:
            os.write(file, order.encode())
            os.lseek(file, 0, os.SEEK_SET)
            socket.send_fds(self._control, [b"j"], [file, job.fileno(), output])
        finally:
            os.close(file)

    def close(self) -> None:
        """End it and whatever it still keeps."""
        self._control.close()
        try:
            self._process.wait(_DEATH_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _start_launcher() -> Launcher:
    """A launcher where control groups can be made, or else one where they cannot."""
    *better, last = launch_prefixes()
    for prefix in better:
        with contextlib.suppress(SandboxUnavailable, OSError):
            launcher = Launcher(prefix)
            if launcher.ready.no_cgroups is None:
                return launcher
            launcher.close()
    return Launcher(last)


class BubblewrapSandbox:
    """Runs jobs under bubblewrap."""

    name = "bubblewrap"
    options: tuple[str, ...] = ("--sandbox=bubblewrap",)

    def __init__(self, *, overlay: bool = True) -> None:
        """`overlay=False` copies workspaces instead, as kernels without overlays need it.

        Raises:
            SandboxUnavailable: bubblewrap is not installed.
        """
        found = shutil.which("bwrap", path=PATH)
        if not found:
            raise SandboxUnavailable(
                "bubblewrap is not installed: `apt install bubblewrap` (or your system's package)"
            )
        self._bubblewrap = found
        self._overlay = overlay
        self._launcher: Launcher | None = None
        self._starting = threading.Lock()
        self._held: OrderedDict[Path, tuple[int, int]] = OrderedDict()
        self.guarantees: Mapping[str, bool] = {}

    async def run(self, job: Job, *, on_output: OnOutput | None = None) -> Outcome:
        """Run one command; see `Sandbox.run`."""
        if job.image:
            raise SandboxError(f"the image {job.image} needs ULTRACODE_SANDBOX=container")
        order = self._order(job)
        report, pipe = await self._attempt(order, job, on_output)
        if report.is_stale:  # the next keeper is younger than whatever was mounted since
            report, pipe = await self._attempt(order, job, on_output)
        return self._outcome(job, report, pipe)

    async def _attempt(
        self, order: Order, job: Job, on_output: OnOutput | None
    ) -> tuple[Report, OutputPipe]:
        limits = job.limits
        ours, theirs = socket.socketpair()
        ours.settimeout(0)
        with (
            ours,
            OutputPipe(
                kept_bytes=limits.kept_bytes, most=limits.output_bytes, on_output=on_output
            ) as pipe,
        ):
            with theirs:
                await self._send(order, theirs, pipe.write_end)
            pipe.close_write_end()
            report = await _reported(ours, pipe)
            pipe.drain()
        return report, pipe

    async def missing(self) -> str:
        """What this host does not offer it, in the kernel's words; empty when it offers all."""
        launcher = await asyncio.to_thread(self._started)
        return launcher.ready.no_cgroups or ""

    async def close(self) -> None:
        """End the launcher and what it still runs."""
        launcher, self._launcher = self._launcher, None
        if launcher:
            await asyncio.to_thread(launcher.close)

    async def _send(self, order: Order, job: socket.socket, output: int) -> None:
        """Hand an order to the launcher, to a new one if somebody killed the last.

        Raises:
            SandboxError: it was killed at this very moment.
        """
        launcher = self._launcher
        if not launcher or not launcher.is_alive():
            launcher = await asyncio.to_thread(self._started)
        try:
            launcher.send(order, job, output)
        except OSError as error:
            raise SandboxError(f"the sandbox launcher was killed: {error}") from error

    def _started(self) -> Launcher:
        with self._starting:
            if self._launcher and not self._launcher.is_alive():
                self._launcher.close()
                self._launcher = None
            if not self._launcher:
                self._launcher = _start_launcher()
            return self._launcher

    def _order(self, job: Job) -> Order:
        limits = job.limits
        workspace = str(job.workspace.absolute())
        scratch = str(job.scratch.absolute()) if job.scratch else None
        mounts = [(path.absolute(), str(path)) for path in job.toolchains]
        if job.deps:
            mounts.append((job.deps.absolute(), str(DEPS)))
        mounts += [(m.source.absolute(), str(m.target)) for m in job.read_only_mounts]
        paths = [job.workspace.absolute(), *(source for source, _ in mounts)]
        if job.scratch:
            paths.append(job.scratch.absolute())
        return Order(
            bubblewrap=self._bubblewrap,
            command=list(job.command),
            environment=fixed_environment(home="/home/sandbox") | dict(job.env),
            workspace=workspace,
            workspace_at=str(job.workspace_at),
            workdir=job.workdir,
            read_only=job.read_only,
            scratch=scratch,
            mounts=[(str(source), target) for source, target in mounts],
            seen=_seen(paths),
            wall_seconds=limits.wall_seconds,
            memory_bytes=limits.memory_bytes,
            cpus=limits.cpus,
            processes=limits.processes,
            disk_bytes=limits.disk_bytes,
            files=limits.files,
            file_bytes=limits.file_bytes,
            held=self._held.get(job.workspace),
            overlay=self._overlay,
        )

    def _outcome(self, job: Job, report: Report, pipe: OutputPipe) -> Outcome:
        if report.held and not job.read_only:
            self._held[job.workspace] = report.held
            self._held.move_to_end(job.workspace)
            while len(self._held) > _REMEMBERED:
                self._held.popitem(last=False)
        if report.error:
            said = pipe.capture.text().decode(errors="replace").strip()
            raise SandboxError(f"{report.error}: {said}" if said else report.error)
        if report.not_kept:
            self._held.pop(job.workspace, None)
            raise WorkspaceNotKept(report.not_kept)
        return Outcome(
            exit_code=report.exit_code,
            termination=report.ending,
            output=pipe.capture.text(),
            output_size=pipe.capture.size,
            peak_memory_bytes=report.peak_memory_bytes,
            wall_seconds=report.wall_seconds,
        )


def _seen(paths: Iterable[Path]) -> list[tuple[str, int, int]]:
    """Device and inode of each path.

    Raises:
        SandboxError: one is not there.
    """
    found = []
    for path in paths:
        try:
            status = path.stat()
        except OSError as error:
            raise SandboxError(f"{path}: {error.strerror}") from error
        found.append((str(path), status.st_dev, status.st_ino))
    return found


async def _reported(ours: socket.socket, pipe: OutputPipe) -> Report:
    """The keeper's report; asks it to kill the command when that prints too much or is cancelled.

    Raises:
        SandboxError: the keeper ended without a word.
    """
    loop = asyncio.get_running_loop()
    answer = asyncio.create_task(_read_all(ours))
    either: list[asyncio.Future[Any]] = [answer, pipe.done]
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if pipe.done.done() and not pipe.done.result():
            await loop.sock_sendall(ours, b"output_limit")
        message = await answer
    finally:
        if not answer.done():
            with contextlib.suppress(OSError):
                ours.shutdown(socket.SHUT_WR)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(answer, _DEATH_SECONDS)
    if not message:
        raise SandboxError("the sandbox was killed from outside")
    return Report.decode(message)


async def _read_all(ours: socket.socket) -> bytes:
    loop = asyncio.get_running_loop()
    message = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := await loop.sock_recv(ours, 65536):
            message += chunk
    return message
