"""Starts bubblewrap, watches it, and sees to it that nothing it started is left alive.

In: an order, its prepared stage, user and control group. Out: how the command ended. Runs in a
keeper.
"""

import contextlib
import json
import os
import resource
import select
import signal
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, get_args

from workspace.sandbox import syscalls, view
from workspace.sandbox.cgroup import Group
from workspace.sandbox.layers import Identity, Stage
from workspace.sandbox.order import Ending, Order, Report

_SHELL = ("/bin/sh", "-c", 'exec "$@"', "sh")  # ends with 126 or 127 where execve fails
_OOM_POLL_SECONDS = 0.1
_DEATH_SECONDS = 5.0
_OPEN_FILES = 4096
_OOM_SCORE = "500"  # of man 5 proc: when the host itself runs out, commands go before the bot


class SetupFailed(Exception):
    """The command could not be started: the message says why."""


@dataclass(frozen=True, slots=True)
class Channels:
    """What ties a keeper to the outside."""

    job: socket.socket
    """End of file, or a message that names the ending: kill the command."""
    output: int
    stopping: int
    """End of file when the launcher stops: kill the command."""
    launcher: int
    """The launcher's process id."""

    def told_to_stop(self, seconds: float, *others: int) -> Ending | None:
        """Wait for word from outside, or for another descriptor to become readable."""
        poll = select.poll()
        for descriptor in (self.job.fileno(), self.stopping, *others):
            poll.register(descriptor, select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll(max(0, seconds) * 1000)}
        if self.job.fileno() in ready:
            reason = self.job.recv(64).decode()
            return reason if reason in get_args(Ending) else "killed"  # type: ignore[return-value]
        return "killed" if self.stopping in ready else None


class Command:
    """One started command, from fork to the death of its last process."""

    def __init__(
        self, order: Order, channels: Channels, group: Group | None, identity: Identity
    ) -> None:
        self._order = order
        self._channels = channels
        self._group = group
        self._identity = identity

    def run(self, stage: Stage) -> Report:
        """Start it and wait for its end.

        Raises:
            SetupFailed: bubblewrap could not start it.
            OSError: the kernel refused something on the way.
        """
        started = time.monotonic()
        status, told = os.pipe()
        program = _in_memory(bytes.fromhex(self._order.seccomp))
        arguments = view.arguments(self._order, stage, seccomp=program, status=told)
        options = _in_memory("\0".join(arguments).encode(errors="surrogateescape"))
        pid = os.fork()
        if not pid:
            self._become_bubblewrap(options, (options, program, told))
        os.close(told)
        os.close(self._channels.output)
        ending = self._watch(pid, started + self._order.wall_seconds)
        wall_seconds = time.monotonic() - started
        bubblewrap_exited = self._end_all(pid)
        exit_code = _parse_status(status)
        usage = self._group.usage() if self._group else None
        if usage and usage.oom_kills and ending == "exit":
            ending = "oom"
        if ending == "exit" and exit_code is None:
            if bubblewrap_exited:
                raise SetupFailed("bubblewrap could not start the command")
            ending = "killed"
        return Report(
            ending=ending,
            exit_code=exit_code if ending == "exit" else None,
            peak_memory_bytes=usage.peak_memory_bytes if usage else None,
            wall_seconds=wall_seconds,
        )

    def _watch(self, pid: int, deadline: float) -> Ending:
        """Wait until it ends by itself or has to be ended."""
        pidfd = os.pidfd_open(pid)
        try:
            while (left := deadline - time.monotonic()) > 0:
                reason = self._channels.told_to_stop(min(left, _OOM_POLL_SECONDS), pidfd)
                if reason:
                    return reason
                if _has_ended(pid):
                    return "exit"
                if self._group and self._group.usage().oom_kills:
                    return "oom"
            return "timeout"
        finally:
            os.close(pidfd)

    def _end_all(self, bubblewrap: int) -> bool:
        """Kill whatever is left; True when bubblewrap itself had ended without being killed.

        Killing bubblewrap's processes ends the process namespace and so everything in it; orphans
        are ours (`adopt_orphans`). The control group comes first, as it is one blow.

        Raises:
            SetupFailed: something survives, so nothing here can be trusted.
        """
        exited = False
        deadline = time.monotonic() + _DEATH_SECONDS
        while time.monotonic() < deadline:
            if self._group:
                self._group.kill()
            for child in _children():
                os.kill(child, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                    if ended[0] == bubblewrap:
                        exited = os.WIFEXITED(ended[1])
            if not _children() and not (self._group and self._group.pids()):
                return exited
            time.sleep(0.001)
        raise SetupFailed("a process of the command cannot be killed")

    def _become_bubblewrap(self, options: int, inherited: tuple[int, ...]) -> NoReturn:
        """In the fork: limits, group, user, and never back."""
        try:
            keeper = os.getppid()
            os.setsid()
            with contextlib.suppress(OSError):
                Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE)
            if self._group:
                self._group.add(os.getpid())
            self._limit()
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(self._channels.output, 1)
            os.dup2(self._channels.output, 2)
            for descriptor in inherited:
                os.set_inheritable(descriptor, True)  # noqa: FBT003 - it takes no keyword
            self._drop()
            syscalls.die_with_parent(keeper)
            syscalls.forbid_new_privileges()
            command = ["bwrap", "--args", str(options), "--", *_SHELL, *self._order.command]
            os.execve(self._order.bubblewrap, command, {})  # noqa: S606 - no shell is wanted
        except BaseException as error:  # noqa: BLE001 - a fork never returns
            os.write(2, f"{error}\n".encode())
        finally:
            os._exit(1)

    def _limit(self) -> None:
        for kind, value in (
            (resource.RLIMIT_FSIZE, self._order.file_bytes),
            (resource.RLIMIT_CORE, 1),  # seccomp.py says why 1
            (resource.RLIMIT_NOFILE, _OPEN_FILES),
        ):
            hard = resource.getrlimit(kind)[1]
            limit = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (limit, limit))

    def _drop(self) -> None:
        if self._identity.is_slot:
            os.setgroups([])
            os.setresgid(*[self._identity.gid] * 3)
            os.setresuid(*[self._identity.uid] * 3)


def _in_memory(content: bytes) -> int:
    """A file that exists only as a descriptor, to be read from its start."""
    descriptor = os.memfd_create("ultracode")
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _has_ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _children() -> list[int]:
    tasks = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return [int(pid) for pid in tasks.split()]


def _parse_status(descriptor: int) -> int | None:
    """The command's exit code as bubblewrap tells it; None when it never got so far."""
    with open(descriptor, "rb") as status:
        for line in status.read().splitlines():
            with contextlib.suppress(ValueError, KeyError, TypeError):
                return int(json.loads(line)["exit-code"])
    return None
