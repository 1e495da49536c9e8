"""One job moves one run on, as far as it goes without waiting for anybody.

In: a run id. Out: nothing; the run's state, its pieces and GitHub have moved. Every path is safe to
repeat: a claim raises the epoch, pieces are worked out once, effects are looked up before they are
done again. What wakes a waiting run is always an event: a command, a review, a push, a check, or
the reconciler that looks for those it missed.
"""

from __future__ import annotations

from datetime import timedelta
from typing import assert_never

import structlog

from bot import gate
from bot.bindings import BindingBroken
from bot.clock import now
from bot.contracts import CandidateEnvelope, Ending
from bot.errors import AgentFailure, BudgetExceeded, Refusal, RetryLater
from bot.live import LiveRun, RunFailed
from bot.live_run import open_run
from bot.services import Services
from bot.steps.finalize import GateClosed
from bot.steps.review import final_result
from bot.store.fence import holding
from bot.store.tables import DeliveryOutcome, RunState
from bot.workflow import Conductor, Ended, Paused

log = structlog.get_logger()

#: What ends a run in words instead of being tried again.
EXPECTED = (RunFailed, BindingBroken, AgentFailure, BudgetExceeded, Refusal)
#: GitHub sends no event when it has caught up with a push, so the gate looks again.
SETTLE_SECONDS = 5
#: How long GitHub may take to mark the pull request merged before we stop waiting for it.
MERGED_PATIENCE = timedelta(minutes=5)
MERGED_LOOK_SECONDS = 2
PROMOTING = frozenset({RunState.APPROVED, RunState.PROMOTING})


async def advance(services: Services, run_id: str) -> None:
    """Claim a run and move it on. Quiet when it has ended or waits for a person."""
    claim = await services.runs.claim(run_id)
    if claim is None:
        return
    with (
        structlog.contextvars.bound_contextvars(run_id=run_id, epoch=claim.epoch),
        holding(run_id, claim.epoch),
    ):
        live = await open_run(services, claim)
        match live.run.state:
            case RunState.ACCEPTED | RunState.PLANNING | RunState.WORKING:
                await work(services, live)
            case RunState.AWAITING_GO:
                await live.publisher.ask_for_go()
            case RunState.AWAITING_REVIEW:
                await decide(services, live)
            case RunState.APPROVED | RunState.PROMOTING:
                await promote(services, live)
            case _:
                log.info("nothing to advance", state=live.run.state)


# --- working ------------------------------------------------------------------------------------


async def work(services: Services, live: LiveRun) -> None:
    """Plan, work, prove and publish until the run waits for a review or ends."""
    if not await may_start(services, live):
        return
    try:
        outcome = await Conductor(live, services.agno_db).drive()
    except EXPECTED as failure:
        outcome = Ended(Ending(outcome="failed", sentence=str(failure)))
    match outcome:
        case Paused(envelope=envelope):
            await ask_for_review(services, live, envelope)
        case Ended(ending=ending):
            await end(services, live, ending)
        case _:
            assert_never(outcome)


async def may_start(services: Services, live: LiveRun) -> bool:
    """Whether the limits on concurrent runs let this one work; says its place when they do not."""
    started = await services.runs.start(
        live.run_id,
        epoch=live.epoch,
        per_repository=live.policy.limits.concurrent_runs,
        per_installation=services.settings.ceilings.runs_per_installation,
    )
    position = getattr(started, "position", None)
    if position is not None:
        await live.publisher.refresh_status(position=position)
        return False
    return True


async def ask_for_review(services: Services, live: LiveRun, envelope: CandidateEnvelope) -> None:
    """Show the envelope, call the run waiting, and look once for an approval that came early."""
    await live.publisher.ask_for_review(envelope)
    await services.runs.transition(
        live.run_id,
        from_states={RunState.WORKING, RunState.PLANNING},
        to_state=RunState.AWAITING_REVIEW,
        epoch=live.epoch,
        candidate_id=envelope.candidate_id,
        candidate_sha=envelope.candidate_sha,
        deadline_at=live.review_deadline(),
    )
    await live.publisher.refresh_status()
    await services.queue.defer_advance(live.run_id)
    await start_next(services, live)


# --- deciding -----------------------------------------------------------------------------------


async def decide(services: Services, live: LiveRun) -> None:
    """Hold what GitHub says now against the envelope, and do what follows from it."""
    envelope = (await final_result(live)).reviewable
    verdict = await live.publisher.decide_gate(envelope)
    log.info("gate decided", verdict=type(verdict).__name__)
    match verdict:
        case gate.Approved():
            approved = await services.runs.transition(
                live.run_id,
                from_states={RunState.AWAITING_REVIEW},
                to_state=RunState.APPROVED,
                epoch=live.epoch,
                where_candidate_sha=envelope.candidate_sha,
            )
            if approved:
                await promote(services, live)
        case gate.Waiting(waits=waits):
            await live.publisher.show_verdict(envelope, verdict)
            if any(isinstance(wait, gate.ForSettling) for wait in waits):
                await services.queue.defer_advance(live.run_id, delay_seconds=SETTLE_SECONDS)
        case gate.Blocked() | gate.Paused() | gate.Voided():
            await live.publisher.show_verdict(envelope, verdict)
        case gate.Rejected() | gate.MergedElsewhere() | gate.Landed() | gate.BaseMoved():
            await Conductor(live, services.agno_db).reject(type(verdict).__name__)
            await end(services, live, ending_of(verdict, envelope))
        case _:
            assert_never(verdict)


def ending_of(
    verdict: gate.Rejected | gate.MergedElsewhere | gate.Landed | gate.BaseMoved,
    envelope: CandidateEnvelope,
) -> Ending:
    """Return how a run ends whose candidate will not be promoted by us."""
    match verdict:
        case gate.Rejected(by=by):
            return Ending(
                outcome="rejected",
                sentence=f"{by.login} closed the pull request without merging it.",
            )
        case gate.MergedElsewhere():
            return Ending(
                outcome="merged_elsewhere",
                sentence=merged_elsewhere_sentence(verdict),
                sha=verdict.sha,
            )
        case gate.Landed(sha=sha):
            return Ending(
                outcome="merged_elsewhere",
                sentence=f"The base branch already stands at {sha[:12]}; somebody else pushed it.",
                sha=sha,
            )
        case gate.BaseMoved(tip=tip):
            return Ending(
                outcome="failed",
                sentence=f"The base branch moved to {(tip or 'nowhere')[:12]} after the candidate "
                f"{envelope.candidate_sha[:12]} was made and tested, so it was not merged.",
            )
        case _:
            assert_never(verdict)


def merged_elsewhere_sentence(merged: gate.MergedElsewhere) -> str:
    """Say who merged it, as what, and whether it is the candidate's tree."""
    who = merged.by.login if merged.by else "Somebody whose account is gone"
    what = (merged.sha or "an unknown commit")[:12]
    if merged.same_commit:
        tree = "exactly the candidate"
    elif merged.same_tree:
        tree = "another commit with exactly the candidate's files"
    else:
        tree = "NOT the files that were tested and reviewed"
    return f"{who} merged the pull request as {what}, {tree}."


# --- promoting ----------------------------------------------------------------------------------


async def promote(services: Services, live: LiveRun) -> None:
    """Resume the workflow into Finalize; when the gate closed meanwhile, wait again."""
    stored = await live.pieces.load("ending", Ending)
    if stored is not None:  # a crash, or patience with GitHub, came after the decision
        await end(services, live, stored)
        return
    try:
        outcome = await Conductor(live, services.agno_db).resume()
    except GateClosed as closed:
        await reopen(services, live, closed)
        return
    except BindingBroken as broken:
        outcome = Ended(Ending(outcome="failed", sentence=str(broken)))
    await end(services, live, outcome.ending)


async def reopen(services: Services, live: LiveRun, closed: GateClosed) -> None:
    """Go back to waiting, and decide by what closed the gate."""
    await services.runs.transition(
        live.run_id,
        from_states=PROMOTING,
        to_state=RunState.AWAITING_REVIEW,
        epoch=live.epoch,
        deadline_at=live.review_deadline(),
    )
    log.info("gate closed again", verdict=type(closed.verdict).__name__)
    await services.queue.defer_advance(live.run_id)


# --- ending -------------------------------------------------------------------------------------


async def end(services: Services, live: LiveRun, ending: Ending) -> None:
    """Show the ending wherever it is shown, then call the run ended, then let the next one start.

    In this order, so that a crash in between leaves an active run that a job takes up again.
    """

    async def decided() -> Ending:
        return ending

    final = await live.pieces.once("ending", Ending, decided)
    await await_merged(live, final)
    await live.publisher.conclude(final)
    await services.workshop.cancel(live.run_id)
    await services.runs.transition(
        live.run_id,
        from_states=frozenset(RunState),
        to_state=RunState(final.outcome),
        epoch=live.epoch,
        outcome_sentence=final.sentence,
        deadline_at=None,
    )
    await start_next(services, live)


async def await_merged(live: LiveRun, ending: Ending) -> None:
    """Come back later until GitHub has marked the pull request merged.

    It does so by itself some moments after the push, on the default branch only; deleting the work
    branch before that would close the pull request instead. Raises RetryLater.
    """
    pull_number = (await live.runs.get(live.run_id)).pull_number
    if ending.outcome != "promoted" or pull_number is None:
        return
    if live.base_branch != live.request.default_branch:
        return
    pull = await live.github.pull(pull_number)
    begun = await live.publisher.promoted_at()
    if pull is None or pull.merged or (begun and now() - begun > MERGED_PATIENCE):
        return
    raise RetryLater(MERGED_LOOK_SECONDS, "GitHub has not marked the pull request merged yet.")


async def start_next(services: Services, live: LiveRun) -> None:
    """Give those who wait for a place another try."""
    for run in await services.runs.next_queued(live.run):
        await services.queue.defer_advance(run.run_id)


# --- clean-up and giving up ---------------------------------------------------------------------


async def clean_up(services: Services, run_id: str) -> None:
    """Bring a cancelled run to its end: nothing runs any more, GitHub shows it, tidied up."""
    claim = await services.runs.claim(run_id)
    if claim is None:
        return
    await services.workshop.cancel(run_id)
    with holding(run_id, claim.epoch):
        live = await open_run(services, claim)
        who = live.run.state_reason or "Somebody with write access"
        await end(services, live, Ending(outcome="cancelled", sentence=f"{who} cancelled it."))


async def give_up(services: Services, task: str, argument: str, reason: str) -> None:
    """End a run whose job failed too often; settle a delivery that could not be handled."""
    if task == "handle_delivery":
        await services.deliveries.settle(argument, DeliveryOutcome.FAILED, reason)
        return
    claim = await services.runs.claim(argument)
    if claim is None:
        return
    with holding(argument, claim.epoch):
        live = await open_run(services, claim)
        sentence = f"Something went wrong too often, and the bot gave up: {reason}"
        await end(services, live, Ending(outcome="failed", sentence=sentence))
