"""Forks one keeper per command: a small process of its own, started once per bot process.

In: on a socket, the system call filter, then orders, each with three descriptors (the order, the
job's socket, the output pipe).
It exists because starting a command takes a fork, mounts and a change of user, none of which a
large threaded process should do to itself, and because bubblewrap must be started by a thread that
lives. It imports only the standard library, keeps no secret and ends with the bot.
"""

import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress

from workspace.sandbox.cgroup import CgroupMissing, Place
from workspace.sandbox.keeper import Settings, keep
from workspace.sandbox.order import Ready
from workspace.sandbox.slots import load_candidates
from workspace.sandbox.started import started_at

_COURTESY_SECONDS = 0.02
_LONGEST_PROGRAM = 64 * 1024
_PAUSE_SECONDS = 0.1
"""Before another keeper takes the place of one that died waiting."""


def main() -> None:
    """Serve orders on the socket whose descriptor is the first argument, until the bot ends."""
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    program = control.recv(_LONGEST_PROGRAM)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        place, problem = Place.prepare(), None
        _remove_orphans(place)
    except (CgroupMissing, OSError) as error:
        place, problem = None, str(error)
    stopping, stop = os.pipe()
    candidates = [] if os.geteuid() else load_candidates()
    settings = Settings(place, candidates, os.getpid(), stopping, program)
    control.sendall(Ready(no_cgroups=problem).encode())
    keepers = Keepers(control, settings, stop)
    keepers.serve()
    os.close(stop)
    keepers.wait()


def _remove_orphans(place: Place) -> None:
    """Remove the groups of launchers that are no more, with whatever still runs in them."""
    for name in place.names():
        pid, started, _ = name.split("-")
        if str(started_at(int(pid))) != started:
            with suppress(OSError):
                place.group(name).remove()


class Keepers:
    """The keepers of one launcher: one that waits for the next order, and those that are busy."""

    def __init__(self, control: socket.socket, settings: Settings, stop: int) -> None:
        self._control = control
        self._settings = settings
        self._stop = stop
        self._taken, self._take = os.pipe()
        self._died, died = os.pipe()
        os.set_blocking(died, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(died, warn_on_full_buffer=False)
        self._names: dict[int, str] = {}
        self._started = started_at(os.getpid())
        self._number = 0

    def serve(self) -> None:
        """Have one keeper waiting for the next order until the bot closes the socket."""
        poll = select.poll()
        poll.register(self._control, 0)  # POLLHUP alone, which need not be asked for
        poll.register(self._taken, select.POLLIN)
        poll.register(self._died, select.POLLIN)
        waiting = self._fork()
        while self._control.fileno() not in (ready := dict(poll.poll())):
            ended = self._reap() if self._died in ready else set()
            if select.select([self._taken], [], [], 0)[0]:  # what ended may have been taken first
                os.read(self._taken, 1)
                # The command that was taken starts first, unless another one waits already.
                select.select([self._control], [], [], _COURTESY_SECONDS)
                waiting = self._fork()
            elif waiting in ended:
                time.sleep(_PAUSE_SECONDS)
                waiting = self._fork()

    def wait(self) -> None:
        """Wait for all of them to end, and clean up after them."""
        while self._names:
            pid, _ = os.wait()
            self._forget(pid)

    def _reap(self) -> set[int]:
        ended = set()
        os.read(self._died, 4096)
        with suppress(ChildProcessError):
            while pid := os.waitpid(-1, os.WNOHANG)[0]:
                self._forget(pid)
                ended.add(pid)
        return ended

    def _forget(self, pid: int) -> None:
        """Remove the group of a keeper that could not do so itself, because it was killed."""
        name = self._names.pop(pid, None)
        if name and self._settings.place:
            with suppress(OSError):
                self._settings.place.group(name).remove()

    def _fork(self) -> int:
        self._number += 1
        name = f"{self._settings.launcher}-{self._started}-{self._number}"
        pid = os.fork()
        if not pid:
            self._keep(name)
        self._names[pid] = name
        return pid

    def _keep(self, name: str) -> None:
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.close(self._stop)
            keep(self._settings, name, self._take_order)
        except BaseException:  # noqa: BLE001 - a fork never returns
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(0)

    def _take_order(self) -> list[int]:
        message, descriptors, _, _ = socket.recv_fds(self._control, 1, 3)
        self._control.close()
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)  # noqa: FBT003 - it takes no keyword
        if message:
            os.write(self._take, b"t")
        return descriptors
