"""Finalize: the end of every run. Promotes exactly what was reviewed, or says why it did not.

In: a `LiveRun` whose last round has a result. Out: an `Ending`. Before anything is pushed every
binding is compared again, GitHub is asked again for the reviews, and the evidence is recomputed
from the stored bytes. Whatever Agno believes about a confirmation counts for nothing here.
"""

from __future__ import annotations

from typing import assert_never

from bot.bindings import BindingBroken, check_envelope, check_policy
from bot.contracts import CandidateEnvelope, Ending, Outcome, RoundResult
from bot.errors import BotError
from bot.gate import Approved, BaseMoved, Landed, MergedElsewhere, Verdict
from bot.github.messages import push_refused_sentence
from bot.live import LiveRun
from bot.steps.review import final_result
from bot.store.tables import RunState
from workspace.contracts import (
    Candidate,
    EvidenceManifest,
    Moved,
    Pushed,
    PushRefused,
    TestReport,
)


class GateClosed(BotError):
    """The gate no longer approves; the run goes back to waiting."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(str(verdict))
        self.verdict = verdict


class PushWasRefused(BotError):
    """GitHub refused the push of an approved candidate; the run goes back to waiting."""


class NotApproved(BotError):
    """Finalize was entered without an approval on record; nothing was pushed."""


async def finalize(live: LiveRun) -> Ending:
    """Return how the run ends; promotes when the last round's envelope was reviewed."""
    return await live.pieces.once("ending", Ending, lambda: _finalize(live))


async def _finalize(live: LiveRun) -> Ending:
    result = await final_result(live)
    envelope = result.envelope
    if not result.passed or envelope is None:
        return Ending(outcome=await failed_outcome(live), sentence=result.failure)
    if not envelope.needs_review:
        summary = envelope.synthesis.summary if envelope.synthesis else ""
        return Ending(outcome="reported", sentence=summary)
    return await promote(live, envelope)


async def failed_outcome(live: LiveRun) -> Outcome:
    """Return `conflicted` when the change could not be put on a moved base, else `failed`."""
    first = await live.pieces.demand("result:0", RoundResult)
    return "conflicted" if live.recomposes and first.envelope is None else "failed"


async def promote(live: LiveRun, envelope: CandidateEnvelope) -> Ending:
    """Fast-forward the base branch to the reviewed SHA.

    Raises GateClosed, PushWasRefused, NotApproved.
    """
    if await landed(live, envelope):
        return promoted(envelope)
    await check_stored(live, envelope)
    promoting = await live.runs.transition(
        live.run_id,
        from_states={RunState.APPROVED, RunState.PROMOTING},
        to_state=RunState.PROMOTING,
        epoch=live.epoch,
        where_candidate_sha=envelope.candidate_sha,
    )
    if not promoting:
        raise NotApproved
    verdict = await live.publisher.decide_gate(envelope)
    if not isinstance(verdict, Approved):
        raise GateClosed(verdict)
    await live.publisher.open_gate(envelope, verdict)
    answer = await live.publisher.promote(envelope)
    match answer:
        case Pushed():
            return promoted(envelope)
        case Moved(actual=actual):
            raise GateClosed(BaseMoved(by=verdict.by, tip=actual))
        case PushRefused(reason=reason):
            raise PushWasRefused(push_refused_sentence(reason))
        case _:
            assert_never(answer)


async def landed(live: LiveRun, envelope: CandidateEnvelope) -> bool:
    """Whether a push of ours reached the base branch, though its answer was lost."""
    if not await live.publisher.promotion_begun():
        return False
    return is_ours(await live.publisher.decide_gate(envelope))


def is_ours(verdict: Verdict) -> bool:
    """Whether the base holds exactly the candidate: with our push begun, it was our push."""
    match verdict:
        case Landed():
            return True
        case MergedElsewhere(same_commit=same_commit):
            return same_commit
        case _:
            return False


def promoted(envelope: CandidateEnvelope) -> Ending:
    """Return the ending of a run whose candidate is on the base branch."""
    return Ending(
        outcome="promoted",
        sentence=f"{envelope.candidate_sha[:12]} was reviewed, tested and merged.",
        sha=envelope.candidate_sha,
    )


async def check_stored(live: LiveRun, envelope: CandidateEnvelope) -> None:
    """Raise BindingBroken unless the envelope is what is stored and the stored bytes are whole."""
    round = envelope.round
    candidate = await live.pieces.demand(f"candidate:{round}", Candidate)
    report = await live.pieces.demand(f"report:{round}", TestReport)
    evidence = await live.pieces.demand(f"evidence:{round}", EvidenceManifest)
    check_envelope(envelope, candidate, report, evidence)
    check_policy(evidence, live.request)
    broken = await live.workshop.verify_evidence(live.pin, candidate, report, evidence)
    if broken:
        raise EvidenceBroken("The stored evidence does not hold: " + " ".join(broken))


class EvidenceBroken(BindingBroken):
    """The evidence cannot be recomputed from the stored bytes; nothing was merged."""
