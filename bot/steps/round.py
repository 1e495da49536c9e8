"""Execute Round: workers side by side, one candidate, its proof, two verdicts, its publication.

In: a `LiveRun` and the results of earlier rounds. Out: a `RoundResult`. Whatever makes a round fail
(a worker that is blocked, a refused path, a conflict, a red suite, words about another candidate)
ends up as one sentence in it; a model or GitHub that cannot be reached is raised instead.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from bot.agents import planner, worker
from bot.agents.briefs import CandidateBrief, RepairBrief, WorkBrief
from bot.bindings import BindingBroken, check_lineage
from bot.contracts import (
    MAX_ROUNDS,
    CandidateEnvelope,
    RoundResult,
    WorkerResult,
    WorkflowPlan,
    WorkItem,
)
from bot.live import LiveRun, side_by_side
from bot.run_pieces import RunPieces
from bot.steps.brief import candidate_brief, nearest_guidance, run_brief
from bot.steps.judge import prove_and_judge
from bot.steps.plan import plan_check, with_own_criteria
from bot.store.tables import RunState
from bot.tracing import span
from workspace.contracts import (
    Candidate,
    CommitSha,
    Conflict,
    EvidenceManifest,
    TestReport,
    WorkKey,
    shown_path,
)

SHOWN_PATHS = 10

log = structlog.get_logger()


class RoundFailed(Exception):
    """The round cannot pass; the sentence says why."""


async def execute_round(live: LiveRun, earlier: Sequence[RoundResult]) -> RoundResult:
    """Run one round to its result; a round that has one is not run again."""
    round = len(earlier)
    with structlog.contextvars.bound_contextvars(round=round):
        await live.enter(RunState.WORKING, round=round)
        result = await live.pieces.once(
            f"result:{round}", RoundResult, lambda: _round(live, round, earlier)
        )
        log.info("round ended", passed=result.passed)
        return result


async def _round(live: LiveRun, round: int, earlier: Sequence[RoundResult]) -> RoundResult:
    envelope: CandidateEnvelope | None = None
    failure = ""
    try:
        parent = await parent_of(live, earlier)
        failed = await failed_candidate(live, earlier)
        plan = await plan_of(live, earlier, failed, parent)
        if live.recomposes and not earlier:
            results: list[WorkerResult] = []
            candidate = await recompose(live)
        else:
            results = await run_workers(live, plan, earlier, failed, parent)
            candidate = await compose(live, results, round, parent)
        envelope = await prove_and_judge(live, plan, candidate, results)
        failure = envelope.reason
    except (RoundFailed, BindingBroken) as reason:
        failure = str(reason)
    passed = envelope is not None and envelope.passed
    return RoundResult(round=round, passed=passed, failure=failure, envelope=envelope)


async def parent_of(live: LiveRun, earlier: Sequence[RoundResult]) -> CommitSha:
    """Return what this round's workers start from: the last candidate there is, else the base."""
    for result in reversed(earlier):
        candidate = await live.pieces.load(f"candidate:{result.round}", Candidate)
        if candidate is not None:
            return candidate.sha
    return live.start_sha


# --- work ---------------------------------------------------------------------------------------


async def plan_of(
    live: LiveRun,
    earlier: Sequence[RoundResult],
    failed: CandidateBrief | None,
    parent: CommitSha,
) -> WorkflowPlan:
    """Return the round's plan: the run's own, or one bounded repair wave."""
    plan = await live.pieces.demand("plan:0", WorkflowPlan)
    if not earlier:
        return plan
    brief = RepairBrief(
        run=await run_brief(live),
        round=len(earlier),
        plan=plan,
        failures=(earlier[-1].failure,),
        candidate=failed,
    )

    async def repair() -> WorkflowPlan:
        tools = await live.workshop.tools_at(live.pin, parent)
        check = plan_check(live, parent=parent)
        answer = await planner.plan_repair(live.agents, brief, tools, check=check)
        return with_own_criteria(live, answer.value)

    return await live.pieces.once(f"plan:{len(earlier)}", WorkflowPlan, repair)


async def failed_candidate(live: LiveRun, earlier: Sequence[RoundResult]) -> CandidateBrief | None:
    """Return the last round's candidate with its evidence, as far as that round came."""
    if not earlier:
        return None
    brief = await brief_of(live, live.pieces, earlier[-1].round)
    if brief is None and live.recomposes and live.parent is not None:
        return await brief_of(live, live.parent, await last_round(live.parent))
    return brief


async def brief_of(live: LiveRun, pieces: RunPieces, round: int) -> CandidateBrief | None:
    """Return a round's candidate with its evidence, where it came that far."""
    candidate = await pieces.load(f"candidate:{round}", Candidate)
    report = await pieces.load(f"report:{round}", TestReport)
    evidence = await pieces.load(f"evidence:{round}", EvidenceManifest)
    if candidate is None or report is None or evidence is None:
        return None
    return candidate_brief(await run_brief(live), candidate, report, evidence, ())


async def last_round(pieces: RunPieces) -> int:
    """Return the last round of a run that has a candidate; 0 when none has."""
    for round in range(MAX_ROUNDS - 1, 0, -1):
        if await pieces.load(f"candidate:{round}", Candidate) is not None:
            return round
    return 0


async def recompose(live: LiveRun) -> Candidate:
    """Return the earlier run's candidate on the base as it is now. Raises RoundFailed."""
    parent = live.parent
    if parent is None:
        raise RoundFailed("There is no earlier candidate to put on the new base.")
    old = await parent.demand(f"candidate:{await last_round(parent)}", Candidate)

    async def composed() -> Candidate:
        made = await live.workshop.recompose_on(live.pin, old)
        if isinstance(made, Conflict):
            paths = ", ".join(f"`{shown_path(path)}`" for path in made.paths[:SHOWN_PATHS])
            raise RoundFailed(f"The change conflicts with the base branch as it is now: {paths}.")
        return made

    return await live.pieces.once("candidate:0", Candidate, composed)


async def run_workers(
    live: LiveRun,
    plan: WorkflowPlan,
    earlier: Sequence[RoundResult],
    failed: CandidateBrief | None,
    parent: CommitSha,
) -> list[WorkerResult]:
    """Let every work item be worked on side by side; return what Git says each changed."""
    run = await run_brief(live)

    async def result_of(item: WorkItem) -> WorkerResult:
        brief = WorkBrief(
            run=run,
            round=len(earlier),
            item=item,
            guidance=await nearest_guidance(live, item.write_globs),
            failures=tuple(result.failure for result in earlier[-1:]),
            candidate=failed,
        )
        return await live.pieces.once(
            f"worker:{len(earlier)}:{item.id}", WorkerResult, lambda: _work(live, brief, parent)
        )

    results = await side_by_side(*(result_of(item) for item in plan.tasks))
    for result in results:
        check_worker(result)
    return results


async def _work(live: LiveRun, brief: WorkBrief, parent: CommitSha) -> WorkerResult:
    scope, task_id = brief.item.scope, brief.item.id
    key = WorkKey(run_id=live.run_id, round=brief.round, task_id=task_id)
    with structlog.contextvars.bound_contextvars(task_id=task_id), span("work item"):
        tools = await live.workshop.create_worker(
            live.pin, scope, key=key, parent=parent, suites=(*live.required, *live.optional)
        )
        answer = await worker.work(live.agents, brief, tools)
        record = await live.workshop.inspect_and_freeze(live.pin, scope, key=key, parent=parent)
        changed, refused = len(record.changed_files), len(record.refused)
        log.info("work item frozen", changed_files=changed, refused_paths=refused)
        return WorkerResult(output=answer.value, record=record)


def check_worker(result: WorkerResult) -> None:
    """Raise RoundFailed for a worker that is blocked or whose files Git refuses."""
    task = result.record.task_id
    if result.output.status != "completed":
        raise RoundFailed(f"The worker on {task} is blocked: {result.output.summary}")
    refused = result.record.refused
    if refused:
        shown = "; ".join(f"`{shown_path(r.path)}`: {r.reason}" for r in refused[:SHOWN_PATHS])
        more = len(refused) - SHOWN_PATHS
        rest = f"; and {more} more" if more > 0 else ""
        raise RoundFailed(f"What the worker on {task} left was refused: {shown}{rest}.")


async def compose(
    live: LiveRun, results: Sequence[WorkerResult], round: int, parent: CommitSha
) -> Candidate:
    """Return the round's one candidate. Raises RoundFailed with the paths that conflict."""
    records = [result.record for result in results]

    async def composed() -> Candidate:
        made = await live.workshop.compose(live.pin, records, round=round, parent=parent)
        if isinstance(made, Conflict):
            paths = ", ".join(f"`{shown_path(path)}`" for path in made.paths[:SHOWN_PATHS])
            raise RoundFailed(f"{made.reason}: {paths}.")
        return made

    candidate = await live.pieces.once(f"candidate:{round}", Candidate, composed)
    check_lineage(candidate, records, parent=parent, original_base=live.pin.original_base_sha)
    return candidate
