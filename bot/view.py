"""What people are shown of a run: one value put together from its row and its pieces.

In: a `LiveRun`'s facts. Out: a `RunView`. Status comment, pull request, check runs and
`ultracode runs` are all written from it, so that they agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from bot.contracts import (
    CandidateEnvelope,
    CodingRequest,
    Ending,
    ReviewOutput,
    RoundResult,
    SynthesisOutput,
    WorkerResult,
    WorkflowPlan,
)
from bot.policy import Policy
from bot.run_pieces import RunPieces
from bot.store.runs import Run, Usage
from bot.verdicts import Verdict
from workspace.contracts import Candidate, EvidenceManifest, TestReport

ROUNDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundView:
    """One round, as far as it came."""

    round: int
    plan: WorkflowPlan
    workers: tuple[WorkerResult, ...] = ()
    candidate: Candidate | None = None
    report: TestReport | None = None
    evidence: EvidenceManifest | None = None
    synthesis: SynthesisOutput | None = None
    verifier: ReviewOutput | None = None
    refuter: ReviewOutput | None = None
    result: RoundResult | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """One run at a moment (`as_of`). `position` is its place in the queue; links are absolute."""

    run_id: str
    state: str
    reason: str | None
    request: CodingRequest
    branch: str
    pull_number: int | None
    evidence_url: str | None
    usage: Usage
    created_at: datetime
    deadline_at: datetime | None
    rounds: tuple[RoundView, ...] = ()
    verdict: Verdict | None = None
    ending: Ending | None = None
    position: int | None = None
    policy: Policy | None = None
    as_of: datetime | None = None

    @property
    def last_round(self) -> RoundView | None:
        """The newest round that was planned."""
        return self.rounds[-1] if self.rounds else None

    @property
    def envelope(self) -> CandidateEnvelope | None:
        """What a person decides about, once there is one."""
        last = self.last_round
        return last.result.envelope if last and last.result else None


async def load_rounds(pieces: RunPieces) -> tuple[RoundView, ...]:
    """Return the rounds of a run, as far as their pieces are stored.

    Raises:
        UnreadablePiece: Another version of the bot stored them; not with pieces `for_show`.
    """
    rounds = []
    for number in range(ROUNDS):
        plan = await pieces.load(f"plan:{number}", WorkflowPlan)
        if plan is None:
            break
        workers = [
            await pieces.load(f"worker:{number}:{task.id}", WorkerResult) for task in plan.tasks
        ]
        rounds.append(
            RoundView(
                round=number,
                plan=plan,
                workers=tuple(worker for worker in workers if worker is not None),
                candidate=await pieces.load(f"candidate:{number}", Candidate),
                report=await pieces.load(f"report:{number}", TestReport),
                evidence=await pieces.load(f"evidence:{number}", EvidenceManifest),
                synthesis=await pieces.load(f"synthesis:{number}", SynthesisOutput),
                verifier=await pieces.load(f"verdict:{number}:verifier", ReviewOutput),
                refuter=await pieces.load(f"verdict:{number}:refuter", ReviewOutput),
                result=await pieces.load(f"result:{number}", RoundResult),
            )
        )
    return tuple(rounds)


async def load_view(
    run: Run,
    request: CodingRequest,
    pieces: RunPieces,
    *,
    branch: str,
    public_url: str | None,
    verdict: Verdict | None = None,
) -> RunView:
    """Return a run as it stands, with everything that is stored of it and can be read."""
    shown = pieces.for_show()
    return RunView(
        run_id=run.run_id,
        state=str(run.state),
        reason=run.state_reason,
        request=request,
        branch=run.branch or branch,
        pull_number=run.pull_number,
        evidence_url=f"{public_url.rstrip('/')}/runs/{run.run_id}" if public_url else None,
        usage=run.usage,
        created_at=run.created_at,
        deadline_at=run.deadline_at,
        rounds=await load_rounds(shown),
        verdict=verdict,
        ending=await shown.load("ending", Ending),
    )
