"""bubblewrap's arguments for one command: everything it sees, and nothing else.

In: an order and the stage its layers were prepared on. Out: the options, to be passed through
`--args` so that neither paths nor environment show in the host's process list.
"""

import os
from pathlib import PurePosixPath

from workspace.sandbox.layers import STAGE, Stage
from workspace.sandbox.order import Order

OPTIONS, PROGRAM, STATUS = 200, 201, 202  # above whatever else may be open
"""Descriptors bubblewrap is started with: these options, the system call filter, its status."""
_ISOLATED = (
    "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts",
    "--unshare-cgroup-try", "--disable-userns", "--uid", "1000", "--gid", "1000", "--clearenv",
    "--hostname", "sandbox", "--die-with-parent", "--new-session", "--cap-drop", "ALL",
)  # fmt: skip
_MERGED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_HOME = "/home/sandbox"


def options(order: Order, stage: Stage) -> list[str]:
    """The options of `bwrap`, without the command."""
    return [
        *_ISOLATED,
        *_system(),
        *("--bind", f"{STAGE}/tmp", "/tmp"),  # noqa: S108 - the command's own
        *("--bind", f"{STAGE}/home", _HOME, "--bind", f"{STAGE}/out", "/out"),
        *("--bind", f"{STAGE}/ws", order.workspace_at),
        *_shown(order, stage),
        *_guarded_init(),
        *("--remount-ro", "/dev", "--remount-ro", "/"),
        *("--chdir", str(PurePosixPath(order.workspace_at) / order.workdir)),
        *_environment(order),
        *("--seccomp", str(PROGRAM), "--json-status-fd", str(STATUS)),
    ]


def _system() -> list[str]:
    found = ["--ro-bind", "/usr", "/usr"]
    for name in _MERGED:
        if os.path.islink(f"/{name}"):
            found += ["--symlink", os.readlink(f"/{name}"), f"/{name}"]
        elif os.path.isdir(f"/{name}"):
            found += ["--ro-bind", f"/{name}", f"/{name}"]
    found += ["--ro-bind", f"{STAGE}/etc", "/etc", "--proc", "/proc", "--dev", "/dev"]
    return [*found, "--bind", f"{STAGE}/shm", "/dev/shm"]  # noqa: S108 - the command's own


def _guarded_init() -> list[str]:
    """Nobody writes into the memory of bubblewrap's init, which reports the exit code.

    It runs as the command's own user, and system calls that could are filtered already.
    """
    found = []
    for memory in ("/proc/1/mem", "/proc/1/task/1/mem"):
        found += ["--ro-bind", "/dev/null", memory]
    return found


def _shown(order: Order, stage: Stage) -> list[str]:
    found = []
    for (_, inside), staged in zip(order.mounts, stage.mounts, strict=True):
        found += ["--ro-bind", staged, inside]
    return found


def _environment(order: Order) -> list[str]:
    found = []
    for name, value in order.environment.items():
        found += ["--setenv", name, value]
    return found
