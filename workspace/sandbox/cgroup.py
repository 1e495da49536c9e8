"""Control groups: the only limits that hold for all processes of a command together.

In: where the kernel mounts its hierarchies and which group this process is in. Out: one group per
command, with memory, process and processor limits, its peak use, and one write that kills
everything in it. Pure v2, pure v1 and the hybrid of both are supported; what is missing is named.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

CONTROLLERS = ("memory", "pids", "cpu")
PREFIX = "ultracode-job-"
_PERIOD_MICROSECONDS = 100_000
_REMOVE_SECONDS = 2.0


class CgroupMissing(Exception):
    """No group can be made here: the message says which controller is missing and why."""


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """One mounted hierarchy and the folder in it that belongs to this process's group."""

    version: int
    controllers: frozenset[str]
    folder: Path


@dataclass(frozen=True, slots=True)
class Usage:
    """What the group used, and how often the kernel killed one of its processes for memory."""

    peak_memory_bytes: int | None
    oom_kills: int


def load_hierarchies() -> list[Hierarchy]:
    """Every hierarchy this process is in."""
    proc = Path("/proc/self")
    return parse_hierarchies((proc / "cgroup").read_text(), (proc / "mountinfo").read_text())


def parse_hierarchies(cgroup: str, mountinfo: str) -> list[Hierarchy]:
    """The same from the texts of /proc/self/cgroup and mountinfo (man 7 cgroups, man 5 proc)."""
    groups = {}
    for line in cgroup.splitlines():
        _, names, path = line.split(":", 2)
        groups[names] = path
    mounts = list(_parse_mounts(mountinfo))
    found = []
    for names, path in groups.items():
        version = 1 if names else 2
        for kind, root, mount_point, options in mounts:
            wanted = names.split(",")
            if kind != ("cgroup" if names else "cgroup2"):
                continue
            if names and not set(wanted) <= options:
                continue
            folder = _below(mount_point, root, path)
            if folder.is_dir():
                found.append(Hierarchy(version, _controllers(version, wanted, folder), folder))
                break
    return found


def _parse_mounts(mountinfo: str) -> Iterator[tuple[str, str, Path, set[str]]]:
    for line in mountinfo.splitlines():
        before, after = line.split(" - ", 1)
        _, _, _, root, mount_point, *_ = before.split(" ")
        kind, _, options = after.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            yield kind, root, Path(mount_point), set(options.split(","))


def _below(mount_point: Path, root: str, path: str) -> Path:
    """Where the group `path` is seen when only `root` and what is below it is mounted."""
    if root not in ("/", path) and path.startswith(root + "/"):
        path = path[len(root) :]
    elif root == path:
        path = "/"
    return mount_point / path.lstrip("/")


def _controllers(version: int, names: list[str], folder: Path) -> frozenset[str]:
    if version == 1:
        return frozenset(names) & frozenset(CONTROLLERS)
    return frozenset((folder / "cgroup.controllers").read_text().split()) & frozenset(CONTROLLERS)


def launch_prefixes() -> list[tuple[str, ...]]:
    """Commands that run their arguments where groups can be made, best first.

    Under systemd one's own group comes from it (systemd.io/CGROUP_DELEGATION); everywhere else, and
    in a service with `Delegate=yes`, from the group this process is in.
    """
    here: tuple[str, ...] = ()
    if not Path("/run/systemd/system").is_dir() or _is_delegated():
        return [here]
    who = () if os.geteuid() == 0 else ("--user",)
    scope = ("systemd-run", *who, "--scope", "--quiet", "--collect", "-p", "Delegate=yes", "--")
    return [scope, here]


def session_environment() -> dict[str, str]:
    """What `systemd-run --user` needs to find the user's service manager."""
    runtime = f"/run/user/{os.geteuid()}"
    return {"XDG_RUNTIME_DIR": runtime, "DBUS_SESSION_BUS_ADDRESS": f"unix:path={runtime}/bus"}


def _is_delegated() -> bool:
    """Whether systemd has marked this process's group as left to its owner."""
    for hierarchy in load_hierarchies():
        for name in ("user.delegate", "trusted.delegate"):
            with contextlib.suppress(OSError):
                return os.getxattr(hierarchy.folder, name) == b"1"
    return False


@dataclass(frozen=True, slots=True)
class Place:
    """The folders in which groups are made: one per hierarchy that limits or kills."""

    hierarchies: tuple[Hierarchy, ...]

    @classmethod
    def prepare(cls) -> Self:
        """Find them and make sure groups with limits can be made in them.

        Raises:
            CgroupMissing: a controller is not there, or this user may not make groups.
        """
        return cls.of(load_hierarchies())

    @classmethod
    def of(cls, hierarchies: Iterable[Hierarchy]) -> Self:
        """As `prepare`, in these hierarchies."""
        useful = tuple(h for h in hierarchies if h.controllers or h.version == 2)  # noqa: PLR2004 - the version's number
        here = frozenset[str]().union(*(h.controllers for h in useful))
        if missing := [name for name in CONTROLLERS if name not in here]:
            raise CgroupMissing(f"control groups offer no {', '.join(missing)} here")
        for hierarchy in useful:
            if not os.access(hierarchy.folder, os.W_OK):
                raise CgroupMissing(f"{hierarchy.folder} is not delegated to this user")
            if hierarchy.version == 2:  # noqa: PLR2004 - the version's number
                _enable(hierarchy)
        return cls(useful)

    def group(self, name: str) -> "Group":
        """The group of that name; `create` makes it."""
        return Group({h: h.folder / (PREFIX + name) for h in self.hierarchies})

    def names(self) -> set[str]:
        """Names of the groups that exist, whoever made them."""
        return {
            folder.name.removeprefix(PREFIX)
            for hierarchy in self.hierarchies
            for folder in hierarchy.folder.glob(PREFIX + "*")
        }


def _enable(hierarchy: Hierarchy) -> None:
    """Hand the controllers on to the groups below: v2 lets only a group without processes do so."""
    control = hierarchy.folder / "cgroup.subtree_control"
    wanted = " ".join(f"+{name}" for name in sorted(hierarchy.controllers))
    if hierarchy.controllers <= set(control.read_text().split()):
        return
    try:
        control.write_text(wanted)
    except OSError:
        _move_processes(hierarchy.folder)
        try:
            control.write_text(wanted)
        except OSError as error:
            raise CgroupMissing(f"{control} refuses {wanted}: {error.strerror}") from error


def _move_processes(folder: Path) -> None:
    leaf = folder / "ultracode-main"
    with contextlib.suppress(OSError):
        leaf.mkdir(exist_ok=True)
        for pid in (folder / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                (leaf / "cgroup.procs").write_text(pid)


@dataclass(frozen=True, slots=True)
class Group:
    """One command's group in every hierarchy."""

    folders: dict[Hierarchy, Path]

    def create(self) -> None:
        """Make it, with the limits that are the same for all.

        Raises:
            OSError: the kernel refuses.
        """
        for hierarchy, folder in self.folders.items():
            folder.mkdir()
            for name, value in _FOR_ALL if "memory" in hierarchy.controllers else ():
                if (folder / name).exists():
                    with contextlib.suppress(OSError):  # not every kernel can
                        _write(folder / name, value)

    def limit(self, *, memory_bytes: int, processes: int, cpus: float) -> None:
        """Set its limits, before anything but the starter is in it.

        Raises:
            OSError: the kernel refuses a limit.
        """
        for hierarchy, folder in self.folders.items():
            for name, value in limits_of(
                hierarchy, memory_bytes=memory_bytes, processes=processes, cpus=cpus
            ):
                _write(folder / name, value)
            if "memory" in hierarchy.controllers and hierarchy.version == 1:
                with contextlib.suppress(OSError):  # not every kernel accounts for swap
                    _write(folder / "memory.memsw.limit_in_bytes", str(memory_bytes))

    def add(self, pid: int) -> None:
        """Put a process in."""
        for folder in self.folders.values():
            _write(folder / "cgroup.procs", str(pid))

    def kill(self) -> None:
        """Kill everything in it at once; where the kernel cannot, one by one until none is left."""
        for folder in self.folders.values():
            if (folder / "cgroup.kill").exists():
                _write(folder / "cgroup.kill", "1")
                return
        deadline = time.monotonic() + _REMOVE_SECONDS
        while (pids := self.pids()) and time.monotonic() < deadline:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.001)

    def pids(self) -> list[int]:
        """Processes in it."""
        pids: set[int] = set()
        for folder in self.folders.values():
            with contextlib.suppress(FileNotFoundError):
                pids.update(int(pid) for pid in _read(folder / "cgroup.procs").split())
        return sorted(pids)

    def usage(self) -> Usage:
        """What it used so far."""
        peak, kills = None, 0
        for hierarchy, folder in self.folders.items():
            if "memory" not in hierarchy.controllers:
                continue
            v1 = hierarchy.version == 1
            peak_file = folder / ("memory.max_usage_in_bytes" if v1 else "memory.peak")
            with contextlib.suppress(OSError):
                peak = int(_read(peak_file))
            events = _read(folder / ("memory.oom_control" if v1 else "memory.events"))
            counts = dict(line.split() for line in events.splitlines())
            kills = int(counts.get("oom_kill", 0))
        return Usage(peak, kills)

    def remove(self) -> None:
        """Take it away; what is still in it is killed first.

        Raises:
            OSError: something in it cannot be killed.
        """
        deadline = time.monotonic() + _REMOVE_SECONDS
        for folder in self.folders.values():
            while True:
                try:
                    folder.rmdir()
                except FileNotFoundError:
                    break
                except OSError:
                    if time.monotonic() > deadline:
                        raise
                    self.kill()
                    time.sleep(0.001)


def limits_of(
    hierarchy: Hierarchy, *, memory_bytes: int, processes: int, cpus: float
) -> Iterator[tuple[str, str]]:
    """Files of a group and what to write into them, for what the hierarchy limits."""
    quota = str(max(1000, int(cpus * _PERIOD_MICROSECONDS)))
    if "memory" in hierarchy.controllers:
        name = "memory.limit_in_bytes" if hierarchy.version == 1 else "memory.max"
        yield name, str(memory_bytes)
    if "pids" in hierarchy.controllers:
        yield "pids.max", str(processes)
    if "cpu" in hierarchy.controllers and hierarchy.version == 1:
        yield "cpu.cfs_period_us", str(_PERIOD_MICROSECONDS)
        yield "cpu.cfs_quota_us", quota
    elif "cpu" in hierarchy.controllers:
        yield "cpu.max", f"{quota} {_PERIOD_MICROSECONDS}"


_SOCKET_BYTES = 64 * 1024 * 1024
_FOR_ALL = (
    ("memory.kmem.tcp.limit_in_bytes", str(_SOCKET_BYTES)),  # v1 counts sockets' buffers apart
    ("memory.swap.max", "0"),
    ("memory.oom.group", "1"),
)


def _read(file: Path) -> str:
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = b""
        while chunk := os.read(descriptor, 65536):
            found += chunk
        return found.decode()
    finally:
        os.close(descriptor)


def _write(file: Path, value: str) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, value.encode())
    finally:
        os.close(descriptor)
