"""A worker process for tests: writes one line per job to a file, and never finishes some of them.

`python -m tests.integration.store.queue_worker URL FILE`. Run ids that begin with `slow` never end.
"""

import asyncio
import signal
import sys
from pathlib import Path

from bot.queue import Queue, Timing

#: Noticing a lost worker within a second or so, for tests.
FAST = Timing(poll=0.1, heartbeat=0.2, stall=1.0, grace=0.3)


class Recorder:
    """Handlers that write down what they were asked to do."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def lines(self) -> list[str]:
        return self.file.read_text().splitlines() if self.file.exists() else []

    def record(self, line: str) -> None:
        with self.file.open("a") as file:
            file.write(line + "\n")

    async def handle_delivery(self, delivery_id: str) -> None:
        self.record(f"deliver {delivery_id}")

    async def advance_run(self, run_id: str) -> None:
        self.record(f"begin {run_id}")
        if run_id.startswith("slow"):
            await asyncio.Event().wait()
        self.record(f"end {run_id}")

    async def clean_up_run(self, run_id: str) -> None:
        self.record(f"clean {run_id}")

    async def give_up(self, task: str, argument: str, reason: str) -> None:
        self.record(f"give up {task} {argument}: {reason}")


async def main(url: str, file: Path) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with Queue(url, timing=FAST) as queue:
        await queue.serve(Recorder(file), jobs=2, stop=stop)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
