"""This project's workflow, from the comment on an issue to the fast-forwarded base branch.

The bot runs as it does in production: web and worker as processes, webhooks over HTTP, reviews on
GitHub. The reviewer is scripted, reads no diff and looks at nothing but the checks: it approves
what they show as passed without a warning, and closes the rest. A person would see more.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from bot.agents.usage import Usage
from bot.store.database import Database
from bot.store.runs import Run, RunStore
from bot.store.tables import RunState
from evals.people import Person
from evals.stage import Stage
from evals.story import ENDED, Story, StoryResult
from evals.systems.chain import broken_links
from evals.systems.effort import Effort
from evals.systems.ground import Site

LOOK_SECONDS = 0.25
START_SECONDS = 60.0
CASE_SECONDS = 420.0
SETTLE_SECONDS = 1.0
WARNING = "⚠️"
WAITING = frozenset({RunState.AWAITING_GO, RunState.AWAITING_REVIEW})
ENDS = frozenset(RunState(state) for state in ENDED)


class Workflow:
    """See `evals.systems.System`."""

    name = "workflow"

    def __init__(self, stage: Stage, database: Database) -> None:
        self._stage = stage
        self._runs = RunStore(database)

    async def work(self, site: Site) -> Effort:
        """Ask on an issue, answer as a person would, and see the end."""
        started = time.monotonic()
        issue = await ask(site)
        run = await self._run_of(site, issue)
        if run is None:
            return Effort(says="", ended="no run")
        if site.case.event == "restart":
            await self._restart(run)
        run = await self._followed(site, run, issue)
        writer = site.person("writer")
        row = {"run_id": run.run_id}
        shown = await Story(self._stage).follow(row["run_id"], until=frozenset({str(run.state)}))
        result = await Story(self._stage).tally(
            shown, writer, site.base_before, time.monotonic() - started
        )
        return effort_of(run, result, await broken_links(writer, result, issue))

    async def _run_of(self, site: Site, issue: int) -> Run | None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            for run in await self._runs.in_states(frozenset(RunState)):
                place = (run.request.get("repository"), run.issue_number)
                if place == (site.repository, issue):
                    return run
            await asyncio.sleep(LOOK_SECONDS)
        return None

    async def _until(self, run: Run, states: frozenset[RunState]) -> Run:
        deadline = time.monotonic() + CASE_SECONDS
        while run.state not in states and time.monotonic() < deadline:
            await asyncio.sleep(LOOK_SECONDS)
            run = await self._runs.get(run.run_id)
        return run

    async def _restart(self, run: Run) -> None:
        """Kill the worker process in the middle of the work, and start another."""
        await self._until(run, ENDS | {RunState.WORKING})
        await asyncio.sleep(SETTLE_SECONDS)
        await self._stage.parts["worker"].kill()
        await self._stage.start_worker()

    async def _followed(self, site: Site, run: Run, issue: int) -> Run:
        """Answer whatever waits for a person, until the run has ended."""
        if site.case.event == "cancel":
            await self._until(run, ENDS | {RunState.WORKING})
            await asyncio.sleep(SETTLE_SECONDS)
            await site.person("writer").comment(issue, "/ultracode cancel")
            return await self._until(run, ENDS)
        answered: set[RunState] = set()
        while run.state not in ENDS:
            run = await self._until(run, ENDS | (WAITING - answered))
            if run.state in answered or run.state not in WAITING:
                break
            answered.add(run.state)
            await self._answer(site, run, issue)
        return run

    async def _answer(self, site: Site, run: Run, issue: int) -> None:
        if run.state is RunState.AWAITING_GO:
            await site.person("second_writer").comment(issue, "/ultracode go")
            return
        assert run.pull_number is not None
        reviewer = site.person("second_writer")
        if site.case.event == "reject":
            await reviewer.close(run.pull_number)
        elif await shown_as_passed(reviewer, run.pull_number):
            await reviewer.review(run.pull_number, "APPROVE", body="The checks have passed.")
        else:
            await reviewer.close(run.pull_number)


async def ask(site: Site) -> int:
    """Open the issue and ask for the work; return the issue's number."""
    case = site.case
    issue = await site.person(case.asked_by).open_issue(case.title, case.body)
    await site.person("writer").comment(issue, f"/ultracode {case.tagged_request}")
    return issue


async def shown_as_passed(reviewer: Person, pull: int) -> bool:
    """Whether a pull request is ready, and every check on its head passed without a warning."""
    found: dict[str, Any] = await reviewer.pull(pull)
    checks = await reviewer.checks(found["head"]["sha"])
    suites = [check for check in checks if check["name"].startswith("ultracode/suite/")]
    passed = all(check["conclusion"] == "success" for check in suites)
    warned = any(WARNING in str(check["output"]) for check in checks)
    return bool(suites) and passed and not warned and not found["draft"]


def effort_of(run: Run, result: StoryResult, broken: tuple[str, ...]) -> Effort:
    """Return what the run says of itself, and what it took."""
    usage = Usage(input_tokens=run.input_tokens, output_tokens=run.output_tokens)
    return Effort(
        says=result.sentence[:300],
        ended=str(run.state),
        usage=usage,
        rounds=result.rounds,
        broken=broken,
    )
