"""Review Candidate Envelope: what a person is asked to decide, and whether one is asked at all.

In: the last round's result. Out: the envelope as the step's output, which Agno pauses on. The
decision itself is made on GitHub and read back by the gate.
"""

from __future__ import annotations

from agno.workflow.types import StepOutput

from bot.contracts import RoundResult
from bot.live import LiveRun


async def final_result(live: LiveRun) -> RoundResult:
    """Return the result of the last round that ran. Raises ValueError when none did."""
    for round in range(live.max_rounds - 1, -1, -1):
        result = await live.pieces.load(f"result:{round}", RoundResult)
        if result is not None:
            return result
    raise ValueError(f"run {live.run_id} has no finished round")


def needs_review(output: StepOutput) -> bool:
    """Whether to pause. Total on purpose: Agno completes without review when this raises."""
    try:
        result = RoundResult.model_validate_json(str(output.content))
    except ValueError:
        return True
    return result.envelope is not None and result.envelope.needs_review
