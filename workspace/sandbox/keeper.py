"""Keeps one command: prepares its layers, starts bubblewrap, watches, kills, cleans up, reports.

A keeper is a process of its own, forked by the launcher. It holds everything a command needs
outside: its mount namespace, user id and control group. It ends when the bot closes the job's
socket, for whatever reason, and takes all of that with it.
"""

import contextlib
import dataclasses
import os
from collections.abc import Iterator

from workspace.sandbox import layers, syscalls, writeback
from workspace.sandbox.cgroup import Group, Place
from workspace.sandbox.layers import Identity, Stage
from workspace.sandbox.order import Order, Report
from workspace.sandbox.running import Channels, Command, SetupFailed
from workspace.sandbox.slots import NoSlot, held_slot
from workspace.sandbox.writeback import Held

_OWN_PROCESSES = 3  # bubblewrap outside, its init inside, and a fork about to become either
_OWN_BYTES, _OWN_FILES = 1024 * 1024, 512  # what the stage itself holds in the tmpfs


class Stopped(Exception):
    """The bot no longer wants the result."""


def keep(order: Order, channels: Channels, place: Place | None, name: str) -> None:
    """Run one order to its end and report."""
    syscalls.die_with_parent(channels.launcher)
    syscalls.adopt_orphans()
    try:
        report = _report(order, channels, place, name)
    except (OSError, SetupFailed, NoSlot, writeback.TooDeep) as error:
        report = Report(error=str(error))
    except Stopped:
        report = Report(ending="killed")
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        channels.job.sendall(report.encode())


def _report(order: Order, channels: Channels, place: Place | None, name: str) -> Report:
    with _identity() as identity, _group(order, place, name) as group:
        layers.enter_namespace(identity)
        scratch = os.open(order.scratch, os.O_DIRECTORY) if order.scratch else None
        held = _load_held(order)
        stage = layers.prepare(
            identity,
            order.workspace,
            [source for source, _ in order.mounts],
            size=_left("bytes", order.disk_bytes, held.size) + _OWN_BYTES,
            files=_left("files", order.files, held.files) + _OWN_FILES,
        )
        _lay(order, stage, identity)
        report = Command(order, channels, group, identity).run(stage)
        if report.ending == "killed":
            return report
        return _keep_files(order, report, stage, scratch, held, channels)


@contextlib.contextmanager
def _identity() -> Iterator[Identity]:
    uid, gid = os.geteuid(), os.getegid()
    if uid:
        yield Identity(uid, gid, is_slot=False)
        return
    with held_slot() as slot:
        yield Identity(slot, slot, is_slot=True)


@contextlib.contextmanager
def _group(order: Order, place: Place | None, name: str) -> Iterator[Group | None]:
    if place is None:
        yield None
        return
    group = place.group(name)
    try:
        group.create(
            memory_bytes=order.memory_bytes,
            processes=order.processes + _OWN_PROCESSES,
            cpus=order.cpus,
        )
        yield group
    finally:
        group.remove()


def _load_held(order: Order) -> Held:
    """What the writable workspace holds already: as estimated, or measured where that matters."""
    if order.read_only or not order.overlay:
        return Held()
    if order.held:
        held = Held(*order.held)
        if 2 * held.size < order.disk_bytes and 2 * held.files < order.files:
            return held
    with writeback.opened(order.workspace) as folder:
        return writeback.measure(folder)


def _left(what: str, most: int, held: int) -> int:
    if held >= most:
        raise SetupFailed(f"the workspace already holds {held} of the {most} {what} it may hold")
    return most - held


def _lay(order: Order, stage: Stage, identity: Identity) -> None:
    if order.overlay:
        layers.lay_over(stage, identity)
    else:
        layers.copy_in(stage, identity)


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
