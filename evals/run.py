"""The comparison: `python -m evals.run [--json] [--short] [--case ID …] [--repeats N]`.

In: the cases, and a model: scripted, or the real one when OPENAI_API_KEY and AGENT_MODEL_ID are
set. Out: a table, a plot, the full results as JSON, and an exit code: 1 when the workflow merged
something wrong or did not end as a case says. With the scripted model that shows what the gates let
through; it says nothing about how good any system is.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from bot.agents.prices import Prices
from bot.store.database import Database
from evals.behaviour import judge_words
from evals.casebook import Case, load_cases, make_repository
from evals.demo import real_provider
from evals.oracle import judge
from evals.plot import draw
from evals.repertoire import performing
from evals.score import SYSTEMS, Scored, by_kind, by_shelf, markdown, surprises, table, totals
from evals.stage import Stage, stage
from evals.systems import System
from evals.systems.agent import OneAgent
from evals.systems.effort import Effort
from evals.systems.ground import Ground, Meter, Site, common_ground
from evals.systems.team import TaskTeam
from evals.systems.workflow import Workflow

SIDE_BY_SIDE = 6
JUDGE_TOKENS = 100_000
OWNER = "octo-shop"
UNHURRIED = {
    "ULTRACODE_WORKER_JOBS": str(SIDE_BY_SIDE),
    "ULTRACODE_MAX_RUNS_PER_INSTALLATION": "50",
}

screen = Console(stderr=True, highlight=False)


@dataclass(frozen=True)
class Entry:
    """One case for one system, once."""

    case: Case
    system: str
    repeat: int

    @property
    def repository(self) -> str:
        """The repository of its own that it gets."""
        return f"{OWNER}/{self.system}-{self.case.id}-{self.repeat}"


def main(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one object at the end.")] = False,
    short: Annotated[bool, typer.Option(help="Only the cases marked short.")] = False,
    case: Annotated[list[str] | None, typer.Option(help="Only these cases.")] = None,
    system: Annotated[list[str] | None, typer.Option(help="Only these systems.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="How often each case is run.")] = 1,
    judged: Annotated[
        bool, typer.Option(help="Have last words judged, always with a real model.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="A folder for results and plot.")] = None,
) -> None:
    """Compare one agent, a Team and the workflow on the same cases."""
    cases = [
        one for one in load_cases() if (not short or one.short) and (not case or one.id in case)
    ]
    started = time.monotonic()
    entries = [
        Entry(one, name, repeat)
        for one in cases
        for name in system or SYSTEMS
        for repeat in range(repeats)
    ]
    scored, model_id = asyncio.run(
        compare(cases, entries, judged=judged or real_provider() is not None)
    )
    summary = summarise(scored, model_id, time.monotonic() - started)
    show(summary)
    if out is not None:
        keep(out, summary, scored)
    if as_json:
        print(json.dumps(summary), flush=True)
    raise typer.Exit(exit_code(summary))


async def compare(
    cases: Sequence[Case], entries: Sequence[Entry], *, judged: bool = False
) -> tuple[list[Scored], str]:
    """Run every entry, several at once; those that disturb the others come last, alone."""
    with tempfile.TemporaryDirectory(prefix="ultracode-evals-") as folder:
        async with opened(cases, entries, Path(folder)) as (world, ground, database):
            systems: dict[str, System] = {
                "agent": OneAgent(ground),
                "team": TaskTeam(ground),
                "workflow": Workflow(world, database),
            }
            places = asyncio.Semaphore(SIDE_BY_SIDE)

            async def one(entry: Entry) -> Scored:
                async with places:
                    scored = await play(world, ground, systems[entry.system], entry, Path(folder))
                    return await with_words_judged(ground, scored) if judged else scored

            alone = [e for e in entries if e.system == "workflow" and e.case.event == "restart"]
            together = [entry for entry in entries if entry not in alone]
            scored = list(await asyncio.gather(*(one(entry) for entry in together)))
            scored += [await one(entry) for entry in alone]
            return scored, ground.model_id


@asynccontextmanager
async def opened(
    cases: Sequence[Case], entries: Sequence[Entry], folder: Path
) -> AsyncIterator[tuple[Stage, Ground, Database]]:
    """Open the stage with a repository for each entry, and the common ground beside it."""
    origins = {case.id: make_repository(case, folder / "origins" / case.id) for case in cases}
    hosted = {entry.repository: origins[entry.case.id] for entry in entries}
    async with contextlib.AsyncExitStack() as kept:
        provider = real_provider()
        if provider is None:
            model = await kept.enter_async_context(performing(cases))
            provider = {
                "AGENT_MODEL_ID": "gpt-5.4-mini",
                "OPENAI_API_KEY": model.api_key,
                "OPENAI_BASE_URL": model.base_url,
            }
        place = folder / "stage"
        place.mkdir()
        world = await kept.enter_async_context(
            stage(hosted, Path("unused"), folder=place, provider=provider, extra=UNHURRIED)
        )
        ground = await kept.enter_async_context(common_ground(world, folder / "ground"))
        database = await kept.enter_async_context(Database(world.environment["DATABASE_URL"]))
        yield world, ground, database


async def play(world: Stage, ground: Ground, system: System, entry: Entry, folder: Path) -> Scored:
    """Let one system work on one case, then ask the oracle."""
    case = entry.case
    base = await world.person("writer", entry.repository).branch("main")
    assert base is not None
    site = Site(case=case, stage=world, repository=entry.repository, base_before=base)
    started = time.monotonic()
    effort = await system.work(site)
    wall = time.monotonic() - started
    judgement = await judge(site, ground.sandbox, folder / "oracle" / entry.repository)
    sign = "wrongly merged" if judgement.wrongly_merged else "ok"
    screen.print(
        f"[dim]{system.name:<9}{case.id:<32}{effort.ended:<14}{wall:5.1f} s[/] "
        f"{sign if judgement.resolved or judgement.wrongly_merged else 'not resolved'}"
    )
    return Scored(
        system=system.name,
        case=case.id,
        kind=case.kind,
        shelf=case.shelf,
        repeat=entry.repeat,
        effort=effort,
        judgement=judgement,
        wall_seconds=round(wall, 2),
        expected=system.name != "workflow" or as_expected(case, effort),
    )


async def with_words_judged(ground: Ground, scored: Scored) -> Scored:
    """Return the same with what the judge says of the system's last words."""
    meter = Meter(tokens_limit=JUDGE_TOKENS)
    words = await judge_words(ground.model(meter), scored.effort.says, scored.judgement)
    words = words.model_copy(update={"usage": meter.usage})
    return scored.model_copy(update={"judged": words})


def as_expected(case: Case, effort: Effort) -> bool:
    """Whether the workflow ended as the case says, and for that reason."""
    return effort.ended == case.workflow_ends and case.because.lower() in effort.says.lower()


def summarise(scored: list[Scored], model_id: str, seconds: float) -> dict[str, Any]:
    """Return the figures as one object."""
    scripted = real_provider() is None
    return {
        "model": "scripted" if scripted else model_id,
        "claims_quality": not scripted,
        "wall_seconds": round(seconds, 1),
        "systems": totals(scored, Prices(), model_id),
        "by_kind": by_kind(scored),
        "by_shelf": by_shelf(scored),
        "unexpected": surprises(scored) if scripted else [],
    }


def show(summary: dict[str, Any]) -> None:
    """Show the figures on a terminal."""
    screen.print(table(summary["systems"]))
    for line in summary["unexpected"]:
        screen.print(line, style="red", markup=False)


def exit_code(summary: dict[str, Any]) -> int:
    """Return 1 when the workflow merged something wrong or did not end as its cases say."""
    wrong = summary["systems"].get("workflow", {}).get("wrongly_merged", 0)
    return 1 if wrong or summary["unexpected"] else 0


def keep(out: Path, summary: dict[str, Any], scored: Sequence[Scored]) -> None:
    """Write the results: summary, every run, tables."""
    out.mkdir(parents=True, exist_ok=True)
    runs = [one.model_dump(mode="json") for one in scored]
    (out / "evals.json").write_text(json.dumps(summary | {"results": runs}, indent=1) + "\n")
    tables = markdown(summary["systems"], summary["by_kind"])
    (out / "evals.md").write_text(tables + "\n")
    draw(summary["by_kind"], out / "evals.svg")


if __name__ == "__main__":
    typer.run(main)
