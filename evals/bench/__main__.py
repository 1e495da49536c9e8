"""`python -m evals.bench [ROW …] [--json]`: measure, show a table, print JSON as the last line."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import sys
from collections.abc import Callable, Coroutine
from importlib import import_module
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from evals.bench.row import Row

Measure = Callable[[], Coroutine[Any, Any, list[Row]]]

#: name on the command line → where it is measured
BENCHES = {
    "ack": "ack:measure_ack",
    "workspaces": "workspaces:measure_workspaces",
    "sandbox": "sandbox:measure_sandbox",
    "round": "rounds:measure_round",
    "workers": "rounds:measure_workers",
    "waiting": "waiting:measure_waiting",
    "jobs": "jobs:measure_jobs",
    "pieces": "pieces:measure_pieces",
    "start": "starts:measure_starts",
}

screen = Console(stderr=True, highlight=False)


def main(
    names: Annotated[list[str] | None, typer.Argument(help=", ".join(BENCHES))] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON at the end.")] = False,
) -> None:
    """Measure the named rows, or all of them."""
    rows: list[Row] = []
    for name in names or BENCHES:
        screen.print(f"measuring {name} …")
        rows += asyncio.run(measure_of(name)())
    screen.print(table_of(rows))
    if as_json:
        print(json.dumps({"machine": machine(), "rows": [row.as_json() for row in rows]}))
    missed = [row.name for row in rows if row.goal and not row.goal.met(row.ratio)]
    if missed:
        print(f"goals missed: {', '.join(missed)}", file=sys.stderr)


def measure_of(name: str) -> Measure:
    """Return what measures a row.

    Raises:
        typer.BadParameter: there is no such row.
    """
    if name not in BENCHES:
        raise typer.BadParameter(f"{name!r} is none of {', '.join(BENCHES)}")
    module, function = BENCHES[name].split(":")
    measure: Measure = getattr(import_module(f"evals.bench.{module}"), function)
    return measure


def table_of(rows: list[Row]) -> Table:
    """Return the rows as a table for people."""
    table = Table("measured", "against", "ours", "theirs", "ratio", "goal", "note")
    for row in rows:
        table.add_row(
            row.name,
            row.against,
            f"{row.ours:.4g} {row.unit}",
            f"{row.theirs:.4g}",
            f"{row.ratio:g}",
            verdict(row),
            row.note,
        )
    return table


def verdict(row: Row) -> str:
    """Return the goal, and whether it was met."""
    if row.goal is None:
        return ""
    return f"{row.goal} {'✓' if row.goal.met(row.ratio) else '✗'}"


def machine() -> dict[str, object]:
    """Say what it was measured on."""
    return {
        "cpus": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "kernel": platform.release(),
    }


if __name__ == "__main__":
    typer.run(main)
