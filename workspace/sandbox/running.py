"""Starts bubblewrap, watches it, and sees to it that nothing it started is left alive.

In: an order, its prepared stage and its control group. Out: how the command ended. Runs in a
keeper.

The process that becomes bubblewrap is forked ahead of time: putting a process into a control group
makes the kernel wait for all processors, which would be a third of a command's start.
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

_SHELL = ("/bin/sh", "-c", 'exec "$@"', "sh")
"""Ends with 126 or 127 where execve fails, which bubblewrap would report as 1. A command that is
a shell's already, as all of agents' and suites' are, does so by itself."""
_OOM_POLL_SECONDS = 0.1
_DEATH_SECONDS = 5.0
_OPEN_FILES = 4096
_OOM_SCORE = "500"  # of man 5 proc: when the host itself runs out, commands go before the bot
_LONGEST = 8 * 1024 * 1024


class SetupFailed(Exception):
    """The command could not be started: the message says why."""


@dataclass(frozen=True, slots=True)
class Channels:
    """What ties one command to the outside."""

    job: socket.socket
    """End of file, or a message that names the ending: kill the command."""
    output: int
    stopping: int
    """End of file when the launcher stops: kill the command."""

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


class Starter:
    """A process in its control group, as its user, that becomes bubblewrap when told to."""

    def __init__(self, group: Group | None, identity: Identity, program: bytes) -> None:
        """Fork it; `program` is the system call filter.

        Raises:
            SetupFailed: it could not take its place.
        """
        self.group = group
        self._program = program
        self._told, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        if not self.pid:
            self._told.close()
            _wait_and_become(theirs, group, identity)
        theirs.close()
        if (answer := self._told.recv(4096)) != b"ready":
            raise SetupFailed(answer.decode() or "the command's process died")

    def start(self, order: Order, stage: Stage, output: int) -> int:
        """Become bubblewrap; returns the descriptor on which it tells the command's exit code."""
        status, told = os.pipe()
        shell = () if order.command[:1] == ["/bin/sh"] else _SHELL
        command = [order.bubblewrap, "--args", str(view.OPTIONS), "--", *shell, *order.command]
        given = [
            output,
            told,
            _in_memory(command),
            _in_memory(view.options(order, stage)),
            _in_memory(self._program),
        ]
        socket.send_fds(self._told, [str(order.file_bytes).encode()], given)
        for descriptor in given:
            os.close(descriptor)
        return status


def _wait_and_become(told: socket.socket, group: Group | None, identity: Identity) -> NoReturn:
    """In the fork: take place, wait, and never come back."""
    try:
        keeper = os.getppid()
        os.setsid()
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE)
        if group:
            group.add(os.getpid())
        if identity.is_slot:
            os.setgroups([])
            os.setresgid(*[identity.gid] * 3)
            os.setresuid(*[identity.uid] * 3)
        syscalls.die_with_parent(keeper)
        syscalls.forbid_new_privileges()
        told.sendall(b"ready")
        message, descriptors, _, _ = socket.recv_fds(told, 64, 5)
        if message:
            _become(int(message), *descriptors)
    except BaseException as error:  # noqa: BLE001 - a fork never returns
        with contextlib.suppress(OSError):
            told.sendall(str(error).encode())
    finally:
        os._exit(1)


def _become(
    file_bytes: int, output: int, status: int, command: int, options: int, program: int
) -> None:
    for kind, value in (
        (resource.RLIMIT_FSIZE, file_bytes),
        (resource.RLIMIT_CORE, 1),  # seccomp.py says why 1
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
    ):
        hard = resource.getrlimit(kind)[1]
        limit = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (limit, limit))
    words = os.read(command, _LONGEST).split(b"\0")
    null = os.open(os.devnull, os.O_RDONLY)
    places = (
        (null, 0), (output, 1), (output, 2),
        (options, view.OPTIONS), (program, view.PROGRAM), (status, view.STATUS),
    )  # fmt: skip
    for descriptor, place in places:
        os.dup2(descriptor, place)
    os.closerange(3, view.OPTIONS)
    os.closerange(view.STATUS + 1, _OPEN_FILES)
    os.execve(words[0], words, {})  # noqa: S606 - no shell is wanted


class Command:
    """One started command, until the death of its last process."""

    def __init__(self, order: Order, channels: Channels, starter: Starter) -> None:
        self._order = order
        self._channels = channels
        self._starter = starter
        self._group = starter.group

    def run(self, stage: Stage) -> Report:
        """Start it and wait for its end.

        Raises:
            SetupFailed: bubblewrap could not start it.
            OSError: the kernel refused something on the way.
        """
        started = time.monotonic()
        status = self._starter.start(self._order, stage, self._channels.output)
        ending = self._watch(started + self._order.wall_seconds)
        wall_seconds = time.monotonic() - started
        bubblewrap_exited = self._end_all()
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

    def _watch(self, deadline: float) -> Ending:
        """Wait until it ends by itself or has to be ended."""
        pidfd = os.pidfd_open(self._starter.pid)
        try:
            while (left := deadline - time.monotonic()) > 0:
                reason = self._channels.told_to_stop(min(left, _OOM_POLL_SECONDS), pidfd)
                if reason:
                    return reason
                if _has_ended(self._starter.pid):
                    return "exit"
                if self._group and self._group.usage().oom_kills:
                    return "oom"
            return "timeout"
        finally:
            os.close(pidfd)

    def _end_all(self) -> bool:
        """Kill whatever is left; True when bubblewrap itself had ended without being killed.

        Killing bubblewrap's processes ends the process namespace and so everything in it; orphans
        are ours (`adopt_orphans`). The control group comes first, as it is one blow.

        Raises:
            SetupFailed: something survives, so nothing here can be trusted.
        """
        exited = False
        deadline = time.monotonic() + _DEATH_SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(ChildProcessError):
                while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                    if ended[0] == self._starter.pid:
                        exited = os.WIFEXITED(ended[1])
            children = _children()
            if not children and not (self._group and self._group.pids()):
                return exited
            if self._group:
                self._group.kill()
            for child in children:
                os.kill(child, signal.SIGKILL)
            time.sleep(0.001)
        raise SetupFailed("a process of the command cannot be killed")


def _in_memory(content: bytes | list[str]) -> int:
    """A file that exists only as a descriptor, to be read from its start."""
    if isinstance(content, list):
        content = "\0".join(content).encode(errors="surrogateescape")
    descriptor = os.memfd_create("ultracode")
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _has_ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _children() -> list[int]:
    with open(f"/proc/self/task/{os.getpid()}/children", "rb", buffering=0) as file:
        tasks = file.read()
    return [int(pid) for pid in tasks.split()]


def _parse_status(descriptor: int) -> int | None:
    """The command's exit code as bubblewrap tells it; None when it never got so far."""
    with open(descriptor, "rb") as status:
        for line in status.read().splitlines():
            with contextlib.suppress(ValueError, KeyError, TypeError):
                return int(json.loads(line)["exit-code"])
    return None
