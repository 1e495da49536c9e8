"""Forks one keeper per command: a small process of its own, started once per bot process.

In: orders on a socket, each with three descriptors (the order, the job's socket, the output pipe).
It exists because starting a command takes a fork, mounts and a change of user, none of which a
large threaded process should do to itself, and because bubblewrap must be started by a thread that
lives. It imports only the standard library, keeps no secret and ends with the bot.
"""

import os
import signal
import socket
import sys
from contextlib import suppress

from workspace.sandbox.cgroup import CgroupMissing, Place
from workspace.sandbox.keeper import keep
from workspace.sandbox.order import Order, Ready
from workspace.sandbox.running import Channels
from workspace.sandbox.started import started_at


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
    control.sendall(Ready(no_cgroups=problem).encode())
    number = 0
    while descriptors := _receive(control):
        number += 1
        name = f"{os.getpid()}-{started_at(os.getpid())}-{number}"
        if not os.fork():
            os.close(stop)
            control.close()
            _keep(descriptors, stopping, place, name)
        for descriptor in descriptors:
            os.close(descriptor)
    os.close(stop)
    with suppress(ChildProcessError):
        while True:
            os.wait()


def _receive(control: socket.socket) -> list[int]:
    message, descriptors, _, _ = socket.recv_fds(control, 1, 3)
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - it takes no keyword
    return descriptors if message else []


def _keep(descriptors: list[int], stopping: int, place: Place | None, name: str) -> None:
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        order_file, job, output = descriptors
        with open(order_file, "rb") as file:
            order = Order.decode(file.read())
        channels = Channels(socket.socket(fileno=job), output, stopping, os.getppid())
        keep(order, channels, place, name)
    except BaseException:  # noqa: BLE001 - a fork never returns
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(0)
