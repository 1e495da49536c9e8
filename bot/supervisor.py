"""The parent of `ultracode serve`. In: commands. Out: they run until we are told to stop.

Why: a worker may end by itself, even with exit code 0, when the database restarts; whatever ends is
started again, with a growing delay if it keeps ending. On SIGTERM or SIGINT everybody gets SIGTERM
and some seconds to hand over; a second signal, or the end of that time, kills. If this process is
killed, the kernel kills the children (Linux), so that a restarted service finds its port free.
"""

import asyncio
import contextlib
import ctypes
import logging
import os
import signal
import sys
import time
from asyncio.subprocess import Process
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

_LOG: Final = logging.getLogger(__name__)

_PR_SET_PDEATHSIG: Final = 1
_FIRST_DELAY_SECONDS: Final = 0.1
_LONGEST_DELAY_SECONDS: Final = 10.0
_HEALTHY_AFTER_SECONDS: Final = 10.0

#: How a child says that starting it again is of no use: it printed a sentence for the operator.
EXIT_REFUSED: Final = 2


@dataclass(frozen=True, slots=True)
class Child:
    """One process to keep running: its name for logs, its command, its whole environment."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)


async def supervise(children: Sequence[Child], *, drain_seconds: float = 10) -> int:
    """Keep these processes running until SIGTERM or SIGINT, or until one refuses to start.

    Args:
        children: What to run. They inherit folder and output, and nothing else.
        drain_seconds: How long they may take to end after SIGTERM.

    Returns:
        The exit code for this process: 0, or EXIT_REFUSED.
    """
    supervisor = _Supervisor(drain_seconds)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, supervisor.on_signal)
    try:
        async with asyncio.TaskGroup() as group:
            for child in children:
                group.create_task(supervisor.keep_running(child))
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
    return supervisor.exit_code


class _Supervisor:
    """What the children of one `supervise` share: whether to stop, and how."""

    def __init__(self, drain_seconds: float) -> None:
        self.exit_code = 0
        self._drain_seconds = drain_seconds
        self._stop = asyncio.Event()
        self._kill = asyncio.Event()

    def on_signal(self) -> None:
        """Drain at the first signal, kill at the second."""
        (self._kill if self._stop.is_set() else self._stop).set()

    async def keep_running(self, child: Child) -> None:
        """Start a child again whenever it ends, until we stop."""
        delay = _FIRST_DELAY_SECONDS
        while not self._stop.is_set():
            started_at = time.monotonic()
            code = await self._run_once(child)
            if self._stop.is_set():
                return
            if code == EXIT_REFUSED:
                self.exit_code = EXIT_REFUSED
                self._stop.set()
                return
            if time.monotonic() - started_at > _HEALTHY_AFTER_SECONDS:
                delay = _FIRST_DELAY_SECONDS
            _LOG.warning("%s ended (%s); it starts again in %.1f s", child.name, code, delay)
            await _first_of(self._stop.wait(), asyncio.sleep(delay))
            delay = min(2 * delay, _LONGEST_DELAY_SECONDS)

    async def _run_once(self, child: Child) -> int:
        process = await asyncio.create_subprocess_exec(
            *child.command,
            env=child.environment,
            stdin=asyncio.subprocess.DEVNULL,
            process_group=0,  # Ctrl-C in a terminal reaches us alone
            preexec_fn=_die_with_parent(os.getpid()),
        )
        try:
            await _first_of(process.wait(), self._stop.wait())
        finally:
            await self._end(process)
        return await process.wait()

    async def _end(self, process: Process) -> None:
        """Ask a child to end, and make it."""
        if process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await _first_of(process.wait(), self._kill.wait(), asyncio.sleep(self._drain_seconds))
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()


def _die_with_parent(parent: int) -> Any:
    """What a child does before it becomes its command: ask the kernel to be killed with us."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # we died before the kernel was asked
            os._exit(1)

    return ask


async def _first_of(*waits: Any) -> None:
    """Wait until one of these has happened; forget the others."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
