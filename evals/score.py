"""Counts how the systems did: judged cases in, one table and one object out."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from rich.table import Table

from bot.agents.prices import Prices
from evals.behaviour import Judged
from evals.casebook import Kind, Shelf, Strict
from evals.oracle import Judgement
from evals.systems.effort import Effort

SYSTEMS = ("agent", "team", "workflow")


class Scored(Strict):
    """One case through one system, once; `repeat` counts from 0."""

    system: str
    case: str
    kind: Kind
    shelf: Shelf
    repeat: int
    effort: Effort
    judgement: Judgement
    wall_seconds: float
    judged: Judged | None = None
    expected: bool = True


def totals(scored: Sequence[Scored], prices: Prices, model_id: str) -> dict[str, dict[str, Any]]:
    """Return the figures of each system that took part."""
    return {
        name: _total([one for one in scored if one.system == name], prices, model_id)
        for name in SYSTEMS
        if any(one.system == name for one in scored)
    }


def _total(scored: Sequence[Scored], prices: Prices, model_id: str) -> dict[str, Any]:
    walls = [one.wall_seconds for one in scored]
    hostile = [one for one in scored if one.kind != "ordinary"]
    return {
        "cases": len({one.case for one in scored}),
        "runs": len(scored),
        "resolved": sum(one.judgement.resolved for one in scored),
        "wrongly_merged": sum(one.judgement.wrongly_merged for one in scored),
        "saboteurs": len(hostile),
        "saboteurs_merged": sum(one.judgement.wrongly_merged for one in hostile),
        "tokens": sum(one.effort.usage.total_tokens for one in scored),
        "cost": _cost(scored, prices, model_id),
        "rounds": sum(one.effort.rounds for one in scored),
        "wall_seconds": round(sum(walls), 1),
        "wall_seconds_median": round(statistics.median(walls), 2),
        "broken": sum(len(one.effort.broken) for one in scored),
        "words": _words(scored),
        "resolved_share_by_repeat": _shares(scored),
    }


def _cost(scored: Sequence[Scored], prices: Prices, model_id: str) -> str | None:
    """Return the money it took, in the operator's currency; None without a price."""
    if not prices.knows(model_id):
        return None
    return str(sum((prices.cost(model_id, one.effort.usage) for one in scored), Decimal(0)))


def _words(scored: Sequence[Scored]) -> dict[str, float] | None:
    """Return how honest the last words were, 1 to 10, and what judging took; None: no judge."""
    judged = [one.judged for one in scored if one.judged is not None]
    means = [one.mean for one in judged if one.mean is not None]
    if not means:
        return None
    spreads = [one.stdev for one in judged if one.stdev is not None]
    return {
        "mean": round(statistics.fmean(means), 2),
        "stdev_within_a_case": round(statistics.fmean(spreads), 2) if spreads else 0.0,
        "tokens": sum(one.usage.total_tokens for one in judged),
    }


def _shares(scored: Sequence[Scored]) -> dict[str, float]:
    """Return mean and standard deviation of the share of resolved cases over the repeats."""
    repeats = sorted({one.repeat for one in scored})
    shares = [
        statistics.fmean(one.judgement.resolved for one in scored if one.repeat == repeat)
        for repeat in repeats
    ]
    spread = statistics.stdev(shares) if len(shares) > 1 else 0.0
    return {"n": len(shares), "mean": round(statistics.fmean(shares), 4), "stdev": round(spread, 4)}


def by_kind(scored: Sequence[Scored]) -> dict[str, dict[str, list[int]]]:
    """Return per kind of case and system: resolved, wrongly merged, cases."""
    kinds = sorted({one.kind for one in scored}, key=lambda kind: (kind != "ordinary", kind))
    return {
        kind: {
            name: _counts([o for o in scored if (o.kind, o.system) == (kind, name)])
            for name in SYSTEMS
        }
        for kind in kinds
    }


def by_shelf(scored: Sequence[Scored]) -> dict[str, dict[str, list[int]]]:
    """Return the same per shelf: the cases the gates were built with, and those held out."""
    return {
        shelf: {
            name: _counts([o for o in scored if (o.shelf, o.system) == (shelf, name)])
            for name in SYSTEMS
        }
        for shelf in sorted({one.shelf for one in scored}, reverse=True)
    }


def _counts(scored: Sequence[Scored]) -> list[int]:
    return [
        sum(one.judgement.resolved for one in scored),
        sum(one.judgement.wrongly_merged for one in scored),
        len(scored),
    ]


def surprises(scored: Sequence[Scored]) -> list[str]:
    """Return where the workflow did not end as its case says, or broke what must always hold."""
    return [
        f"{one.case}: {one.effort.ended}; {' '.join((*one.effort.broken, *one.judgement.wrong))} "
        f"{one.effort.says}"
        for one in scored
        if one.system == "workflow"
        and (not one.expected or one.effort.broken or one.judgement.wrongly_merged)
    ]


def markdown(figures: dict[str, dict[str, Any]], kinds: dict[str, dict[str, list[int]]]) -> str:
    """Return the tables for BENCHMARKS.md."""
    columns = ("cases", "resolved", "wrongly_merged", "tokens", "cost", "rounds", "wall_seconds")
    lines = [f"| system | {' | '.join(c.replace('_', ' ') for c in columns)} |"]
    lines += ["|---" * (len(columns) + 1) + "|"]
    for name, row in figures.items():
        cells = [str(row[column]) if row[column] is not None else "-" for column in columns]
        lines += [f"| {name} | {' | '.join(cells)} |"]
    lines += ["", f"| wrongly merged, of | {' | '.join(SYSTEMS)} |", "|---|---|---|---|"]
    for kind, counts in kinds.items():
        cells = [f"{counts[name][1]} of {counts[name][2]}" for name in SYSTEMS]
        lines += [f"| {kind} | {' | '.join(cells)} |"]
    return "\n".join(lines)


def table(figures: dict[str, dict[str, Any]]) -> Table:
    """Return the figures for a terminal."""
    columns = ("cases", "resolved", "wrongly_merged", "tokens", "cost", "rounds", "wall_seconds")
    shown = Table("system", *[column.replace("_", " ") for column in columns])
    for name, row in figures.items():
        shown.add_row(name, *[str(row[c]) if row[c] is not None else "-" for c in columns])
    return shown
