"""Keeps one command: prepares its layers, starts bubblewrap, watches, kills, cleans up, reports.

A keeper is a process of its own, forked by the launcher. It holds everything a command needs
outside: its mount namespace, user id and control group. It ends when the bot closes the job's
socket, for whatever reason, and takes all of that with it.
"""

import contextlib
import dataclasses
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from workspace.sandbox import layers, syscalls, writeback
from workspace.sandbox.cgroup import Group, Place
from workspace.sandbox.layers import Identity, Stage
from workspace.sandbox.order import Order, Report
from workspace.sandbox.running import Channels, Command, SetupFailed, Starter
from workspace.sandbox.slots import NoSlot, held_slot
from workspace.sandbox.writeback import Held

_OWN_PROCESSES = 3  # bubblewrap outside, its init inside, and a fork about to become either
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_TIDYING = 4  # the part of the files that a full workspace has for tidying: each deletion takes one


class Stopped(Exception):
    """The bot no longer wants the result."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What all keepers of a launcher share."""

    place: Place | None
    candidates: list[int]
    """User ids for commands, when started as root."""
    launcher: int
    """The launcher's process id."""
    stopping: int
    """End of file when the launcher stops."""
    program: bytes
    """The system call filter."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything a command needs that takes time and does not depend on the command."""

    identity: Identity
    stage: int
    own_files: int | None
    """The user namespace that shows the bot's own files as the command's; None if not needed."""
    starter: Starter


def keep(settings: Settings, name: str, take: Callable[[], list[int]]) -> None:
    """Prepare, take one order, run it to its end and report.

    `take` blocks until there is an order: its file, the job's socket and the output pipe; nothing
    when the launcher stops.
    """
    syscalls.die_with_parent(settings.launcher)
    syscalls.adopt_orphans()
    with contextlib.ExitStack() as stack:
        prepared, problem = _try_to_prepare(settings, name, stack)
        if descriptors := take():
            order = _load_order(descriptors[0])
            job = socket.socket(fileno=descriptors[1])
            channels = Channels(job, descriptors[2], settings.stopping)
            report = _report(order, channels, prepared) if prepared else Report(error=problem)
    if descriptors:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            job.sendall(report.encode())
            job.shutdown(socket.SHUT_RDWR)


def _try_to_prepare(
    settings: Settings, name: str, stack: contextlib.ExitStack
) -> tuple[Prepared | None, str]:
    try:
        identity = stack.enter_context(_identity(settings))
        group = stack.enter_context(_group(settings.place, name))
        own = (os.geteuid(), os.getegid())
        own_files = layers.map_owner(own, identity) if identity.is_slot else None
        layers.enter_namespace(identity)
        stage = layers.build_stage(identity)
        return Prepared(identity, stage, own_files, Starter(group, identity, settings.program)), ""
    except (OSError, SetupFailed, NoSlot) as error:
        return None, str(error)


@contextlib.contextmanager
def _identity(settings: Settings) -> Iterator[Identity]:
    uid, gid = os.geteuid(), os.getegid()
    if uid:
        yield Identity(uid, gid, is_slot=False)
        return
    with held_slot(settings.candidates) as slot:
        yield Identity(slot, slot, is_slot=True)


@contextlib.contextmanager
def _group(place: Place | None, name: str) -> Iterator[Group | None]:
    if place is None:
        yield None
        return
    group = place.group(name)
    try:
        group.create()
        yield group
    finally:
        with contextlib.suppress(OSError):  # the launcher tries again when we have ended
            group.remove()


def _load_order(descriptor: int) -> Order:
    with open(descriptor, "rb") as file:
        return Order.decode(file.read())


def _report(order: Order, channels: Channels, prepared: Prepared) -> Report:
    if not all(_is_same(*seen) for seen in order.seen):
        return Report(error="the host's mounts have changed", is_stale=True)
    try:
        return _run(order, channels, prepared)
    except (OSError, SetupFailed, writeback.TooDeep) as error:
        return Report(error=str(error))
    except Stopped:
        return Report(ending="killed")


def _is_same(path: str, device: int, inode: int) -> bool:
    """Whether a path leads where the bot said: our namespace is as old as we are."""
    with contextlib.suppress(OSError):
        found = Path(path).stat()
        return (found.st_dev, found.st_ino) == (device, inode)
    return False


def _run(order: Order, channels: Channels, prepared: Prepared) -> Report:
    if prepared.starter.group:
        prepared.starter.group.limit(
            memory_bytes=order.memory_bytes,
            processes=order.processes + _OWN_PROCESSES,
            cpus=order.cpus,
        )
    workspace = os.open(order.workspace, _FOLDER)
    lay_at = _lies_at(workspace)
    scratch = os.open(order.scratch, _FOLDER) if order.scratch else None
    held = _load_held(order, workspace)
    stage = layers.mount_stage(
        prepared.identity,
        prepared.stage,
        workspace,
        [source for source, _ in order.mounts],
    )
    _show_workspace(order, prepared, stage)
    layers.limit(
        size=max(0, order.disk_bytes - held.size),
        files=max(order.files // _TIDYING, order.files - held.files),
    )
    report = Command(order, channels, prepared.starter).run(stage)
    if report.ending == "killed":
        return report
    if not order.read_only and _lies_at(workspace) != lay_at:
        gone = "the workspace was taken away while the command ran: it is somebody else's by now"
        return dataclasses.replace(report, not_kept=gone)
    return _keep_files(order, report, stage, scratch, held, channels)


def _show_workspace(order: Order, prepared: Prepared, stage: Stage) -> None:
    if order.overlay:
        with contextlib.suppress(OSError):  # then this kernel or file system has none to offer
            return layers.lay_over(stage, prepared.identity, prepared.own_files)
    layers.limit(size=order.disk_bytes, files=order.files)
    return layers.copy_in(stage, prepared.identity)


def _load_held(order: Order, workspace: int) -> Held:
    """What the writable workspace holds already: as estimated, or measured where that matters.

    Raises:
        SetupFailed: so much more than it may hold that no command of ours can have written it.
    """
    if order.read_only:
        return Held()
    if order.held:
        held = Held(*order.held)
        if 2 * held.size < order.disk_bytes and 2 * held.files < order.files:
            return held
    held = writeback.measure(workspace)
    for what, most, found in (
        ("bytes", order.disk_bytes, held.size),
        ("files", order.files, held.files),
    ):
        if found > 2 * most:
            raise SetupFailed(f"the workspace holds {found} {what}, and may hold {most}")
    return held


def _lies_at(folder: int) -> Path:
    """Where an open folder lies now; Linux follows it through renames (proc_pid_fd(5))."""
    return Path(f"/proc/self/fd/{folder}").readlink()


def _keep_files(
    order: Order, report: Report, stage: Stage, scratch: int | None, held: Held, channels: Channels
) -> Report:
    """Bring back what the command wrote, unless the bot stops waiting."""

    def go_on() -> None:
        if channels.told_to_stop(0):
            raise Stopped

    try:
        if not order.read_only:
            grown = layers.write_back(stage, go_on)
            held = Held(held.size + grown.size, held.files + grown.files)
        if scratch is not None:
            layers.hand_out(scratch, go_on)
    except (OSError, writeback.TooDeep) as error:
        return dataclasses.replace(report, not_kept=str(error))
    return dataclasses.replace(report, held=(max(0, held.size), max(0, held.files)))
