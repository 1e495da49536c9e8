"""Workers that are there at once and die where they are told: `python -m evals.crash_worker`.

In: one line of JSON on standard input for each worker wanted: at which crash points it shall die,
and where to note what it passed. Out: its process id as a line, and another line when it has ended.
The imports of a worker take seconds; this process does them once and forks before it opens any
connection, so that a killed worker is replaced within moments. One worker at a time.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
import sys
import traceback
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NoReturn

from bot.queue import Timing
from bot.store.crashpoints import watch
from bot.worker import serve_worker

#: A lost worker is noticed within some three seconds, not eight: a matrix has many to lose.
FAST: Final = Timing(poll=0.3, heartbeat=0.6, stall=2.5, grace=1.5)
_PR_SET_PDEATHSIG: Final = 1


def main() -> None:
    """Fork a worker for each line, and tell how it ended."""
    for line in sys.stdin:
        wanted = json.loads(line)
        pid = os.fork()
        if pid == 0:
            be_worker(Deaths(**wanted))
        print(json.dumps({"pid": pid}), flush=True)
        _, status = os.waitpid(pid, 0)
        print(json.dumps({"ended": os.waitstatus_to_exitcode(status)}), flush=True)


@dataclass(frozen=True)
class Deaths:
    """At which points a worker dies: all, or `points` only, but those of `spare`.

    Of several workers that share the points among them, number `share[0]` of `share[1]` takes those
    whose name hashes to it. Every passage is noted in the file `passed`.
    """

    passed: str
    points: list[str] | None = None
    spare: list[str] = field(default_factory=list)
    share: tuple[int, int] = (0, 1)

    def at(self, name: str) -> bool:
        """Whether the worker dies at this point."""
        if name in self.spare or (self.points is not None and name not in self.points):
            return False
        mine, workers = self.share
        return zlib.crc32(name.encode()) % workers == mine


def be_worker(deaths: Deaths) -> NoReturn:
    """Serve until told to stop, or until a point is passed at which to die."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    notes = Path(deaths.passed).open("a", buffering=1)  # noqa: SIM115 - open until the process ends

    def pass_point(name: str) -> None:
        dies = deaths.at(name)
        notes.write(f"{'killed' if dies else 'passed'} {name}\n")
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)

    watch(pass_point)
    code = 0
    try:
        asyncio.run(serve_worker(FAST))
    except BaseException:  # noqa: BLE001 - a fork must never return into its parent's code
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
