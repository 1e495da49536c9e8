"""Forks one keeper per command: a small process of its own, started once per bot process.

In: orders on a socket, each with three descriptors (the order, the job's socket, the output pipe).
It exists because starting a command takes a fork, mounts and a change of user, none of which a
large threaded process should do to itself, and because bubblewrap must be started by a thread that
lives. It imports only the standard library, keeps no secret and ends with the bot.
"""

import itertools
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

_PAUSE_SECONDS = 0.1
"""Before another keeper takes the place of one that died waiting."""


def main() -> None:
    """Serve orders on the socket whose descriptor is the first argument, until the bot ends."""
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        place, problem = Place.prepare(), None
    except (CgroupMissing, OSError) as error:
        place, problem = None, str(error)
    stopping, stop = os.pipe()
    candidates = [] if os.geteuid() else load_candidates()
    settings = Settings(place, candidates, os.getpid(), stopping)
    control.sendall(Ready(no_cgroups=problem).encode())
    _serve(control, settings, stop)
    os.close(stop)
    with suppress(ChildProcessError):
        while True:
            os.wait()


def _serve(control: socket.socket, settings: Settings, stop: int) -> None:
    """Have one keeper waiting for the next order until the bot closes the socket."""
    taken, take = os.pipe()
    started = started_at(os.getpid())
    for number in itertools.count(1):
        pid = os.fork()
        if not pid:
            os.close(stop)
            _keep(control, take, settings, f"{settings.launcher}-{started}-{number}")
        keeper = os.pidfd_open(pid)
        poll = select.poll()
        poll.register(control, 0)  # POLLHUP alone, which need not be asked for
        poll.register(taken, select.POLLIN)
        poll.register(keeper, select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll()}
        os.close(keeper)
        if taken in ready:
            os.read(taken, 1)
        elif control.fileno() in ready:
            return
        else:
            time.sleep(_PAUSE_SECONDS)


def _keep(control: socket.socket, take: int, settings: Settings, name: str) -> None:
    def take_order() -> list[int]:
        message, descriptors, _, _ = socket.recv_fds(control, 1, 3)
        control.close()
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)  # noqa: FBT003 - it takes no keyword
        if message:
            os.write(take, b"t")
        return descriptors

    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        keep(settings, name, take_order)
    except BaseException:  # noqa: BLE001 - a fork never returns
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(0)
