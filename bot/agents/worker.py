"""A worker: one work item and the tools of its own workspace go in, its own words come out.

What it did is not in those words: Git is asked.
"""

from __future__ import annotations

from typing import Final

from bot.agents.briefs import WorkBrief
from bot.agents.conversation import work_opening
from bot.agents.run import AgentDeps, Answer, Assignment, ask
from bot.agents.toolkit import workspace_tools
from bot.contracts import WorkerOutput
from workspace.contracts import WorkspaceTools

MAX_TURNS: Final = 100


async def work(deps: AgentDeps, brief: WorkBrief, tools: WorkspaceTools) -> Answer[WorkerOutput]:
    """Let one worker do its item.

    Raises:
        AgentFailure, BudgetExceeded: see `bot.agents.run.ask`.
    """
    session = f"worker:{brief.round}:{brief.item.id}"
    assignment = Assignment(
        "worker", session, work_opening(brief), WorkerOutput, MAX_TURNS, loan=tools.loan
    )
    return await ask(
        deps,
        assignment,
        lambda watch: workspace_tools(
            tools, read_only=brief.item.read_only, run_id=deps.run_id, failures=watch
        ),
    )
