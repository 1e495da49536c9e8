"""The reducer: one candidate and its evidence go in, a summary for people comes out."""

from __future__ import annotations

from typing import Final

from bot.agents.briefs import CandidateBrief
from bot.agents.conversation import summary_opening
from bot.agents.run import AgentDeps, Answer, Assignment, ask
from bot.contracts import SynthesisOutput

MAX_TURNS: Final = 2  # it has no tools: one answer and one correction


async def summarise(deps: AgentDeps, brief: CandidateBrief) -> Answer[SynthesisOutput]:
    """Summarise a candidate for its reviewers.

    The caller compares the bindings of the answer with the candidate's.

    Raises:
        AgentFailure, BudgetExceeded: see `bot.agents.run.ask`.
    """
    session = f"reducer:{brief.round}"
    assignment = Assignment("reducer", session, summary_opening(brief), SynthesisOutput, MAX_TURNS)
    return await ask(deps, assignment)
