"""What the bot tells the launcher about one command, and what it is told back: plain JSON.

Both sides are ours; the launcher's needs only the standard library, so that it starts at once.
"""

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, Literal, Self

Ending = Literal["exit", "timeout", "oom", "output_limit", "killed"]


class _Message:
    def encode(self) -> bytes:
        names = [field.name for field in dataclasses.fields(self)]  # type: ignore[arg-type]
        return json.dumps({name: getattr(self, name) for name in names}).encode()

    @classmethod
    def decode(cls, message: bytes) -> Self:
        fields: dict[str, Any] = json.loads(message)
        return cls(**fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order(_Message):
    """One command, its view of the host, its limits."""

    bubblewrap: str
    command: list[str]
    environment: dict[str, str]
    workspace: str
    workspace_at: str
    workdir: str
    read_only: bool
    scratch: str | None
    mounts: list[tuple[str, str]]
    """Host path and path inside."""
    seen: list[tuple[str, int, int]]
    """Each host path above as the bot sees it: path, device, inode."""
    wall_seconds: float
    memory_bytes: int
    cpus: float
    processes: int
    disk_bytes: int
    files: int
    file_bytes: int
    held: tuple[int, int] | None
    """Bytes and files the workspace is known to hold; None has it measured."""
    overlay: bool = True
    """False: copy the workspace, as where overlays cannot be had."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(_Message):
    """How it ended, or what went wrong with the sandbox itself."""

    ending: Ending = "killed"
    exit_code: int | None = None
    peak_memory_bytes: int | None = None
    wall_seconds: float = 0.0
    held: tuple[int, int] | None = None
    error: str | None = None
    """The sandbox failed: nothing is known about the command."""
    is_stale: bool = False
    """The keeper saw other mounts than the bot: nothing was started, another one will do."""
    not_kept: str | None = None
    """The command ended, but its writes could not be brought back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready(_Message):
    """The launcher runs; `no_cgroups` says why commands cannot be limited together, if so."""

    no_cgroups: str | None
