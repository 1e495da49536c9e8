"""One row of a benchmark: what was measured, against what, and the ratio of the two."""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Goal:
    """What the ratio should be: at most, or at least, a number."""

    limit: float
    at_most: bool = True

    def met(self, ratio: float) -> bool:
        """Whether a ratio reaches the goal."""
        return ratio <= self.limit if self.at_most else ratio >= self.limit

    def __str__(self) -> str:
        return f"{'≤' if self.at_most else '≥'} {self.limit:g}"


@dataclass(frozen=True)
class Row:
    """One comparison. `ours` and `theirs` are in `unit`; `ratio` is ours ÷ theirs."""

    name: str
    against: str
    ours: float
    theirs: float
    unit: str
    goal: Goal | None = None
    note: str = ""

    @property
    def ratio(self) -> float:
        """Ours over theirs."""
        return round(self.ours / self.theirs, 3) if self.theirs else 0.0

    def as_json(self) -> dict[str, object]:
        """Return the row for programs."""
        return {
            "name": self.name,
            "against": self.against,
            "ours": round(self.ours, 4),
            "theirs": round(self.theirs, 4),
            "unit": self.unit,
            "ratio": self.ratio,
            "goal": str(self.goal) if self.goal else None,
            "goal_met": self.goal.met(self.ratio) if self.goal else None,
            "note": self.note,
        }


async def seconds_of(work: Callable[[], Awaitable[object]]) -> float:
    """Return how long a piece of work takes."""
    started = time.perf_counter()
    await work()
    return time.perf_counter() - started


async def medians(rounds: int, *sides: Callable[[], Awaitable[object]]) -> list[float]:
    """Return the median seconds of each side, the sides measured in turn."""
    taken: list[list[float]] = [[] for _ in sides]
    for _ in range(rounds):
        for side, seconds in zip(sides, taken, strict=True):
            seconds.append(await seconds_of(side))
    return [statistics.median(seconds) for seconds in taken]
