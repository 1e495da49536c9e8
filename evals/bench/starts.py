"""How soon the bot is there: `ultracode --help`, and the web role ready to take a delivery.

Against a second, and half a second, of wall time; and against a bare Python that imports FastAPI.
"""

from __future__ import annotations

import asyncio
import subprocess
import time
from functools import partial

from evals.bench.bare_stage import bare_stage
from evals.bench.row import Goal, Row, medians
from evals.stage import PYTHON, ULTRACODE, Stage

ROUNDS = 5


async def measure_starts() -> list[Row]:
    """Start each a few times, in turn with a bare interpreter."""
    help_page = [*ULTRACODE, "--help"]
    bare = [PYTHON[0], "-c", "import typer"]
    shown, floor = await medians(ROUNDS, partial(_run, help_page), partial(_run, bare))
    async with bare_stage() as world:
        await _ready(world)  # migrates
        seconds = sorted([await _ready(world) for _ in range(ROUNDS)])[ROUNDS // 2]
    return [
        Row("ultracode --help", "half a second", shown, 0.5, "s", Goal(1)),
        Row("ultracode --help", "python that imports typer", shown, floor, "s"),
        Row("web role ready", "one second", seconds, 1.0, "s", Goal(1)),
    ]


async def _run(command: list[str]) -> None:
    await asyncio.to_thread(subprocess.run, command, check=True, stdout=subprocess.DEVNULL)


async def _ready(world: Stage) -> float:
    started = time.perf_counter()
    part = await world.start_web()
    seconds = time.perf_counter() - started
    await part.stop()
    return seconds
