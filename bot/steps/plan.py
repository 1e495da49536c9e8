"""Plan: what shall be done, by whom, and where each may write.

In: a `LiveRun` whose policy and suites are pinned. Out: a `WorkflowPlan` whose scopes the workshop
found sound and whose success criteria are the request's own. Everything that needs no model is
started beside the planner.
"""

from __future__ import annotations

import asyncio

from bot.agents import planner
from bot.agents.briefs import PlanBrief
from bot.agents.run import Check
from bot.contracts import WorkflowPlan
from bot.go import PLAN
from bot.live import LiveRun
from bot.steps.brief import run_brief
from bot.store.tables import RunState
from workspace.contracts import CommitSha


async def make_plan(live: LiveRun) -> WorkflowPlan:
    """Return the run's plan. Raises ModelOutputInvalid when no sound one is to be had."""
    await live.enter(RunState.PLANNING)
    return await live.pieces.once("plan:0", WorkflowPlan, lambda: _plan(live))


async def plan_waits(live: LiveRun) -> bool:
    """Whether somebody must see the plan and say go first.

    A change that is only put on a moved base was planned, seen and worked out before.
    """
    if not live.policy.plan_approval or live.recomposes:
        return False
    return not await live.may_go_on(PLAN)


async def _plan(live: LiveRun) -> WorkflowPlan:
    if live.recomposes and live.parent is not None:
        return with_own_criteria(live, await live.parent.demand("plan:0", WorkflowPlan))
    preparing = asyncio.create_task(live.workshop.prepare(live.pin, live.required))
    try:
        brief = PlanBrief(run=await run_brief(live))
        tools = await live.workshop.tools_at(live.pin, live.start_sha)
        check = plan_check(live, parent=live.start_sha)
        answer = await planner.plan(live.agents, brief, tools, check=check)
        await preparing
    finally:
        preparing.cancel()
    return with_own_criteria(live, answer.value)


def with_own_criteria(live: LiveRun, plan: WorkflowPlan) -> WorkflowPlan:
    """Return the plan with the request's criteria: no plan weakens what was asked."""
    return plan.model_copy(update={"success_criteria": live.request.success_criteria})


def plan_check(live: LiveRun, *, parent: CommitSha) -> Check[WorkflowPlan]:
    """Return what holds a plan against the repository; the planner gets one more try."""

    async def check(plan: WorkflowPlan) -> tuple[str, ...]:
        return await plan_problems(live, plan, parent=parent)

    return check


async def plan_problems(live: LiveRun, plan: WorkflowPlan, *, parent: CommitSha) -> tuple[str, ...]:
    """Return what is wrong with a plan, a sentence each."""
    problems = list(
        await live.workshop.check_scopes(
            live.pin, [task.scope for task in plan.tasks], parent=parent
        )
    )
    if len(plan.tasks) > live.policy.limits.workers:
        problems.append(f"Policy allows at most {live.policy.limits.workers} work items.")
    known = {suite.id for suite in (*live.required, *live.optional)}
    unknown = sorted({suite for task in plan.tasks for suite in task.additional_suite_ids} - known)
    if unknown:
        problems.append(f"These suites are not in the repository's policy: {', '.join(unknown)}.")
    return tuple(problems)
