"""The small interface every sandbox stands behind.

In: a `Job`, one command over one workspace with its limits. Out: an `Outcome`, which says how the
command ended and why, what it printed and what it used. Agents' commands and suites both go through
here, so nothing a repository holds or a model writes ever runs anywhere else.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Literal, Protocol

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

Termination = Literal["exit", "timeout", "oom", "output_limit", "killed"]
"""Why a command ended: by itself, at the wall clock, out of memory, printing too much, or killed
from outside (cancelled, or by somebody on the host)."""

Setting = Literal["auto", "bubblewrap", "container", "local"]
Trust = Literal["untrusted", "trusted"]
OnOutput = Callable[[bytes], None]
"""Called with each chunk as it is printed, on the event loop; it must not block."""

WORKSPACE = PurePosixPath("/ws")
"""Where the command finds `Job.workspace`, whatever its path on the host."""
DEPS = PurePosixPath("/deps")
"""Where the command finds `Job.deps`, read-only; where the setup phase puts them."""
OUT = PurePosixPath("/out")
"""Where the command may leave files for `Job.scratch`."""


class SandboxError(Exception):
    """The sandbox itself failed: nothing is known about the command's result."""


class SandboxUnavailable(SandboxError):
    """No sandbox that may be used here: names what is missing and how to get it."""


class WorkspaceNotKept(SandboxError):
    """The command ended, but what it wrote could not be brought back whole: wipe the workspace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one command may use; every one of them is enforced from outside the command.

    `disk_bytes` and `files` cap the writable workspace as a whole (what it held before included)
    and everything else the command writes. Files written count as memory too until the command
    ends, so a command that writes a lot needs `memory_bytes` for it.
    """

    wall_seconds: float = 600.0
    memory_bytes: int = 2 * GIB
    cpus: float = 2.0
    processes: int = 512
    disk_bytes: int = 2 * GIB
    files: int = 200_000
    file_bytes: int = GIB
    output_bytes: int = 64 * MIB
    kept_bytes: int = MIB
    """Of the output: the first and the last half of this many bytes are kept."""

    def __post_init__(self) -> None:
        """Refuse limits that are none.

        Raises:
            ValueError: a limit is zero or negative.
        """
        for name in self.__slots__:
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be greater than zero")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOnlyMount:
    """A host file or folder shown to the command, read-only, at an absolute path of its own."""

    source: Path
    target: PurePosixPath

    def __post_init__(self) -> None:
        """Refuse targets where a planted link or a hidden system file could do harm.

        Raises:
            ValueError: the target is not absolute, not plain, or lies in a folder we own.
        """
        parts = self.target.parts
        reserved = {"ws", "out", "proc", "dev", "sys", "etc", "usr", "tmp", "bin", "sbin"}
        if not self.target.is_absolute() or ".." in parts or len(parts) < 2:  # noqa: PLR2004 - "/" and a name
            raise ValueError(f"a mount needs a plain absolute path inside: {self.target}")
        if parts[1] in reserved or parts[1].startswith("lib"):
            raise ValueError(f"nothing may be mounted below /{parts[1]}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One command over one workspace, without any network.

    Nobody else may change the workspace while the job runs.

    The command sees the workspace at `/ws`, `deps` at `/deps`, `scratch` at `/out`, each toolchain
    at its own host path, and `env` on top of a small fixed environment. `command[0]` is looked up
    in PATH; one that is not found ends with exit code 127, one killed by signal N with 128 + N.
    """

    command: tuple[str, ...]
    workspace: Path
    workspace_at: PurePosixPath = WORKSPACE
    """`/ws`, or `/deps` for the setup phase, whose workspace is what it installs."""
    read_only: bool = False
    """The workspace is only the lower layer: writes work, and are thrown away."""
    env: Mapping[str, str] = field(default_factory=dict)
    deps: Path | None = None
    limits: Limits = field(default_factory=Limits)
    image: str | None = None
    """The container image to run in; only the `container` sandbox has any."""
    workdir: str = "."
    """Where to start, below the workspace."""
    scratch: Path | None = None
    """A host folder that receives the regular files the command leaves in `/out`."""
    toolchains: tuple[Path, ...] = ()
    """Host folders with interpreters that live outside /usr."""
    read_only_mounts: tuple[ReadOnlyMount, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a job that could not mean what it says.

        Raises:
            ValueError: an empty command, a NUL byte, or a workdir that leaves the workspace.
        """
        if not self.command or not self.command[0]:
            raise ValueError("a job needs a command")
        words = [*self.command, self.workdir, *self.env, *self.env.values()]
        if any("\0" in word for word in words):
            raise ValueError("a NUL byte cannot be part of a command or its environment")
        if any(not name or "=" in name for name in self.env):
            raise ValueError("a name in the environment is empty or holds '='")
        if self.workspace_at not in (WORKSPACE, DEPS) or (self.deps and self.workspace_at == DEPS):
            raise ValueError(f"a workspace is at {WORKSPACE}, or at {DEPS} when it has no deps")
        workdir = PurePosixPath(self.workdir)
        if workdir.is_absolute() or ".." in workdir.parts:
            raise ValueError(f"workdir must stay below the workspace: {self.workdir}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a command ended. `exit_code` is None unless it ended by itself."""

    exit_code: int | None
    termination: Termination
    output: bytes
    """Standard output and error as they came, with a note where the middle was left out."""
    output_size: int
    """Bytes printed in all."""
    peak_memory_bytes: int | None
    """None where nothing measures it."""
    wall_seconds: float


class Sandbox(Protocol):
    """Runs jobs. Cancelling the task that awaits `run` kills the whole tree within a second."""

    @property
    def name(self) -> str:
        """`bubblewrap`, `container` or `local`."""
        ...

    @property
    def options(self) -> tuple[str, ...]:
        """What `python -m workspace.sandbox` is told to use this one."""
        ...

    @property
    def guarantees(self) -> Mapping[str, bool]:
        """What the self-test showed to hold, by name; recorded in the evidence."""
        ...

    async def run(self, job: Job, *, on_output: OnOutput | None = None) -> Outcome:
        """Run one command to its end.

        Raises:
            SandboxError: the sandbox failed, not the command.
            WorkspaceNotKept: the command ended, its writes could not be kept.
        """
        ...

    async def close(self) -> None:
        """End what the sandbox itself keeps running; jobs still running are killed."""
        ...
