"""Verifier and refuter: a candidate, its evidence and read-only tools go in, a verdict out."""

from __future__ import annotations

from typing import Final

from bot.agents.briefs import CandidateBrief
from bot.agents.conversation import ReviewRole, review_opening
from bot.agents.run import AgentDeps, Answer, Assignment, ask
from bot.agents.toolkit import read_tools
from bot.contracts import ReviewOutput
from workspace.contracts import ReadTools

MAX_TURNS: Final = 50


async def review(
    deps: AgentDeps, role: ReviewRole, brief: CandidateBrief, tools: ReadTools
) -> Answer[ReviewOutput]:
    """Let the verifier or the refuter judge a candidate.

    The caller compares the bindings of the answer with the candidate's.

    Args:
        deps: what the agents of the run share.
        role: who judges.
        brief: the candidate and its evidence.
        tools: over the candidate's commit.

    Raises:
        AgentFailure, BudgetExceeded: see `bot.agents.run.ask`.
    """
    session = f"{role}:{brief.round}"
    assignment = Assignment(role, session, review_opening(role, brief), ReviewOutput, MAX_TURNS)
    return await ask(
        deps, assignment, lambda watch: read_tools(tools, run_id=deps.run_id, failures=watch)
    )
