"""The planner: a brief and read-only tools go in, a plan that fits its contract comes out."""

from __future__ import annotations

from typing import Final

from bot.agents.briefs import PlanBrief, RepairBrief
from bot.agents.conversation import plan_opening, repair_opening
from bot.agents.run import AgentDeps, Answer, Assignment, Check, ask
from bot.agents.toolkit import read_tools
from bot.contracts import WorkflowPlan
from workspace.contracts import ReadTools

MAX_TURNS: Final = 40


async def plan(
    deps: AgentDeps, brief: PlanBrief, tools: ReadTools, *, check: Check[WorkflowPlan]
) -> Answer[WorkflowPlan]:
    """Plan the run.

    Args:
        deps: what the agents of the run share.
        brief: the run.
        tools: over the base commit.
        check: says what is wrong with a plan (overlapping globs, unknown suites); the planner gets
            one more try with its words.

    Raises:
        AgentFailure, BudgetExceeded: see `bot.agents.run.ask`.
    """
    assignment = Assignment("planner", "planner", plan_opening(brief), WorkflowPlan, MAX_TURNS)
    return await ask(
        deps, assignment, lambda watch: read_tools(tools, run_id=deps.run_id, failures=watch), check
    )


async def plan_repair(
    deps: AgentDeps, brief: RepairBrief, tools: ReadTools, *, check: Check[WorkflowPlan]
) -> Answer[WorkflowPlan]:
    """Plan one repair wave on top of a candidate that did not pass.

    Args:
        deps: what the agents of the run share.
        brief: the run, the plan so far and what did not pass.
        tools: over the commit the repair starts from.
        check: as for `plan`.

    Raises:
        AgentFailure, BudgetExceeded: see `bot.agents.run.ask`.
    """
    session = f"planner:{brief.round}"
    assignment = Assignment("planner", session, repair_opening(brief), WorkflowPlan, MAX_TURNS)
    return await ask(
        deps, assignment, lambda watch: read_tools(tools, run_id=deps.run_id, failures=watch), check
    )
