"""One job moves one run on, as far as it goes without waiting for anybody.

In: a run id. Out: nothing; the run's state, its pieces and GitHub have moved. Every path is safe to
repeat: a claim raises the epoch, pieces are worked out once, effects are looked up before they are
done again. What wakes a waiting run is always an event: a command, a review, a push, a check, or
the reconciler that looks for those it missed.
"""

from __future__ import annotations

from typing import assert_never

import structlog

from bot import gate
from bot.bindings import BindingBroken
from bot.contracts import CandidateEnvelope, Ending, Trigger, UserRef
from bot.ending import end, end_unseen, start_next
from bot.errors import AgentFailure, BudgetExceeded, Refusal, UnreadablePiece
from bot.feedback import load_feedback
from bot.followup import FollowUp, plan_follow, refreshes_in_a_row
from bot.github import messages
from bot.github.port import AccessLost, GitHubRefused
from bot.go import PLAN, PUBLISH, go_deadline
from bot.live import LiveRun, RunFailed
from bot.live_run import open_run
from bot.services import Services
from bot.steps.finalize import GateClosed, PushWasRefused
from bot.steps.review import final_result
from bot.store.fence import holding
from bot.store.runs import Claim
from bot.store.tables import BUSY_STATES, PUSH_REFUSED, WAITING_STATES, RunState
from bot.workflow import Conductor, Ended, Paused, PlanPaused

log = structlog.get_logger()

#: What ends a run in words instead of being tried again.
EXPECTED = (RunFailed, BindingBroken, AgentFailure, BudgetExceeded, Refusal)
#: GitHub sends no event when it has caught up with a push, so the gate looks again.
SETTLE_SECONDS = 5
#: So often in a row a moved base leads to a new candidate by itself; then an approval is awaited.
REFRESHES_BY_ITSELF = 5
PROMOTING = frozenset({RunState.APPROVED, RunState.PROMOTING})
KEPT_WHEN_FAILING = WAITING_STATES | PROMOTING


async def advance(services: Services, run_id: str) -> None:
    """Claim a run and move it on. Quiet when it has ended or waits for a person."""
    claim = await services.runs.claim(run_id)
    if claim is None:
        return
    with (
        structlog.contextvars.bound_contextvars(
            run_id=run_id,
            epoch=claim.epoch,
            round=claim.run.round,
            **await origin(services, run_id),
        ),
        holding(run_id, claim.epoch),
    ):
        try:
            await move_on(services, claim)
        except AccessLost as lost:
            log.info("the repository is out of reach", reason=str(lost))
            sentence = messages.access_lost_sentence()
            await end_unseen(services, claim, Ending(outcome="cancelled", sentence=sentence))
        except UnreadablePiece as unreadable:
            if claim.run.state is RunState.PROMOTING:  # it may have been pushed: say nothing wrong
                raise
            ending = Ending(outcome="failed", sentence=unreadable.sentence)
            await end(services, await open_run(services, claim), ending)


async def origin(services: Services, run_id: str) -> dict[str, str]:
    """The delivery that log lines of a run are found by: what led to this job, else to the run."""
    if "delivery_id" in structlog.contextvars.get_contextvars():
        return {}
    delivery_id = await services.runs.delivery_of(run_id)
    return {} if delivery_id is None else {"delivery_id": delivery_id}


async def move_on(services: Services, claim: Claim) -> None:
    """Move a claimed run on. Raises AccessLost when this App may see its repository no more."""
    live = await open_run(services, claim)
    stored = await live.pieces.load("ending", Ending)
    if stored is not None:  # a crash, or patience with GitHub, came after the decision
        await end(services, live, stored)
        return
    match live.run.state:
        case RunState.ACCEPTED | RunState.PLANNING | RunState.WORKING:
            await work(services, live)
        case RunState.AWAITING_GO:
            if not await expired(services, live):
                await live.publisher.ask_for_go()
        case RunState.AWAITING_REVIEW:
            await decide(services, live)
        case RunState.APPROVED | RunState.PROMOTING:
            await promote(services, live)
        case _:
            log.info("nothing to advance", state=live.run.state)


async def expired(services: Services, live: LiveRun) -> bool:
    """End a run that waited past its deadline, by the database's clock; say whether it had."""
    if live.run.deadline_at is None or live.run.state not in WAITING_STATES:
        return False
    if live.run_id not in {run.run_id for run in await services.runs.expired()}:
        return False
    sentence = "Nobody decided in time. `/ultracode retry` starts it anew."
    await close(services, live, Ending(outcome="expired", sentence=sentence))
    return True


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
        case PlanPaused():
            await wait_for_go(services, live, PLAN)
        case Paused(envelope=envelope) if live.holds_pushes and not await live.may_go_on(PUBLISH):
            await wait_for_go(services, live, PUBLISH, envelope)
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


async def wait_for_go(
    services: Services, live: LiveRun, reason: str, envelope: CandidateEnvelope | None = None
) -> None:
    """Show what waits, ask somebody to let it go on, and hold nothing meanwhile."""
    await services.runs.transition(
        live.run_id,
        from_states=BUSY_STATES,
        to_state=RunState.AWAITING_GO,
        epoch=live.epoch,
        state_reason=reason,
        candidate_id=envelope and envelope.candidate_id,
        candidate_sha=envelope and envelope.candidate_sha,
        deadline_at=go_deadline(),
    )
    await live.publisher.ask_for_go()
    await start_next(services, live)


async def ask_for_review(services: Services, live: LiveRun, envelope: CandidateEnvelope) -> None:
    """Show the envelope, call the run waiting, and look once for an approval that came early."""
    if live.holds_pushes:
        await live.publisher.publish_round(envelope.round, passed=True)
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
    await services.queue.defer_advance(live.run_id, quick=True)
    await start_next(services, live)


# --- deciding -----------------------------------------------------------------------------------


async def decide(services: Services, live: LiveRun) -> None:
    """Hold what GitHub says now against the envelope, and do what follows from it."""
    envelope = (await final_result(live)).reviewable
    verdict = await live.publisher.decide_gate(
        envelope, refresh_when_behind=await follows_its_base(services, live)
    )
    log.info("gate decided", verdict=type(verdict).__name__)
    match verdict:
        case gate.Approved() if live.run.state_reason == PUSH_REFUSED:
            await expired(services, live)  # until somebody changed the setting and says retry
        case gate.Approved():
            await approve(services, live, envelope, verdict)
        case gate.Waiting() | gate.Paused() | gate.Voided():
            await keep_waiting(services, live, envelope, verdict)
        case gate.Blocked():
            await answer_change_request(services, live, envelope, verdict)
        case gate.BaseMoved():
            await refresh(services, live, verdict)
        case gate.Rejected() | gate.MergedElsewhere() | gate.Landed():
            await close(services, live, ending_of(verdict))
        case _:
            assert_never(verdict)


async def follows_its_base(services: Services, live: LiveRun) -> bool:
    """Whether a moved base is enough to build anew; a busy base must not go on for ever."""
    if not live.policy.refresh.when_behind:
        return False
    return await refreshes_in_a_row(services, live.run) < REFRESHES_BY_ITSELF


async def approve(
    services: Services, live: LiveRun, envelope: CandidateEnvelope, verdict: gate.Approved
) -> None:
    """Record the approval by compare-and-set, and promote; whoever loses it does nothing."""
    async with services.database.begin() as tx:
        approved = await services.runs.transition(
            live.run_id,
            from_states={RunState.AWAITING_REVIEW},
            to_state=RunState.APPROVED,
            epoch=live.epoch,
            where_candidate_sha=envelope.candidate_sha,
            tx=tx,
        )
        for account in verdict.by if approved else ():
            await services.runs.audit(
                "approval",
                actor=f"github:{account.id}",
                run_id=live.run_id,
                detail={"login": account.login, "candidate_sha": envelope.candidate_sha},
                tx=tx,
            )
    if approved:
        await promote(services, live)


async def keep_waiting(
    services: Services,
    live: LiveRun,
    envelope: CandidateEnvelope,
    verdict: gate.Waiting | gate.Paused | gate.Voided,
) -> None:
    """Show what is awaited; look again soon where GitHub will send no event for it.

    Only here does a run expire: what GitHub says was asked first, so that an approval given in time
    counts even when the bot was away.
    """
    if await expired(services, live):
        return
    await live.publisher.show_verdict(envelope, verdict)
    waits = verdict.waits if isinstance(verdict, gate.Waiting) else ()
    if any(isinstance(wait, gate.ForSettling) for wait in waits):
        await services.queue.defer_advance(live.run_id, quick=True, delay_seconds=SETTLE_SECONDS)


async def close(services: Services, live: LiveRun, ending: Ending) -> None:
    """End a run that waits, and let Agno's own record agree."""
    await Conductor(live, services.agno_db).reject(ending.outcome)
    await end(services, live, ending)


async def answer_change_request(
    services: Services, live: LiveRun, envelope: CandidateEnvelope, blocked: gate.Blocked
) -> None:
    """Revise with the review as feedback, or end, as policy says; hold when it cannot."""
    review = blocked.review
    if blocked.fresh and live.policy.review.on_changes_requested == "cancel":
        sentence = f"{blocked.by.login} requested changes."
        await close(services, live, Ending(outcome="rejected", sentence=sentence))
        return
    pull_number = live.run.pull_number
    feedback = ""
    if blocked.fresh and pull_number is not None:
        feedback = await load_feedback(live.github, pull_number, review)
    if not feedback:
        await live.publisher.show_verdict(envelope, blocked)
        return
    next_ = FollowUp(
        kind="revision",
        trigger=Trigger(kind="review", id=str(review.id)),
        who=UserRef(id=blocked.by.id, login=blocked.by.login),
        feedback=feedback,
    )
    try:
        sentence = f"{blocked.by.login} requested changes; a revision follows on the same branch."
        await supersede(services, live, next_, sentence)
    except Refusal as refusal:
        await live.publisher.say(f"refusal:{review.id}", refusal.sentence)
        await live.publisher.show_verdict(envelope, blocked)


async def refresh(services: Services, live: LiveRun, moved: gate.BaseMoved) -> None:
    """Build the candidate anew on the base as it is now; approvals of the old one are void."""
    tip = moved.tip or ""
    next_ = FollowUp(
        kind="refresh",
        trigger=Trigger(kind="refresh", id=f"{live.run_id}:{tip}"),
        who=live.request.requester,
    )
    try:
        sentence = (
            f"The base branch moved to {tip[:12]}, so the change is built, tested and reviewed "
            "anew on it; earlier approvals do not carry over."
        )
        await supersede(services, live, next_, sentence)
    except Refusal as refusal:
        if moved.by:
            await close(services, live, Ending(outcome="failed", sentence=refusal.sentence))
        else:  # nobody asked for it
            await expired(services, live)


async def supersede(services: Services, live: LiveRun, next_: FollowUp, sentence: str) -> None:
    """End this run as revised; the one that follows is created in the same step.

    It is planned once before anything is decided, so that a refusal loses nothing.
    """
    await plan_follow(services, live.run, None, next_)

    async def decided() -> FollowUp:
        return next_

    await live.pieces.once("follow", FollowUp, decided)
    await close(services, live, Ending(outcome="revised", sentence=sentence))


def ending_of(verdict: gate.Rejected | gate.MergedElsewhere | gate.Landed) -> Ending:
    """Return how a run ends whose candidate will not be promoted by us."""
    match verdict:
        case gate.Rejected(by=by):
            return Ending(
                outcome="rejected",
                sentence=messages.closed_by_writer_sentence(by.login),
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
    try:
        outcome = await Conductor(live, services.agno_db).resume()
    except GateClosed as closed:
        await reopen(services, live, closed)
        return
    except PushWasRefused as refused:
        await hold_refused(services, live, str(refused))
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
    await services.queue.defer_advance(live.run_id, quick=True)


async def hold_refused(services: Services, live: LiveRun, sentence: str) -> None:
    """Go back to waiting with GitHub's words; `retry` looks at the gate and pushes again."""
    await services.runs.transition(
        live.run_id,
        from_states=PROMOTING,
        to_state=RunState.AWAITING_REVIEW,
        epoch=live.epoch,
        state_reason=PUSH_REFUSED,
        deadline_at=live.review_deadline(),
    )
    view = await live.publisher.view()
    await live.publisher.say(
        f"push_refused:{live.epoch}", messages.push_refused_comment(view, sentence)
    )
    await live.publisher.refresh_status()


# --- clean-up and giving up ---------------------------------------------------------------------


async def clean_up(services: Services, run_id: str) -> None:
    """Bring a cancelled run to its end: nothing runs any more, GitHub shows it, tidied up."""
    claim = await services.runs.claim(run_id)
    if claim is None:
        return
    await services.workshop.cancel(run_id)
    sentence = claim.run.state_reason or messages.cancelled_sentence()
    ending = Ending(outcome="cancelled", sentence=sentence)
    with holding(run_id, claim.epoch):
        try:
            await end(services, await open_run(services, claim), ending)
        except GitHubRefused as refused:
            log.info("an ending cannot be shown", run_id=run_id, reason=str(refused))
            await end_unseen(services, claim, ending)


async def give_up(services: Services, run_id: str, reason: str) -> None:
    """End a run whose work failed too often.

    A run that waits for a person, or is being promoted, is never ended for a failure of ours: its
    candidate and its approvals stand, it says so once, and the reconciler tries again.
    """
    claim = await services.runs.claim(run_id)
    if claim is None:
        return
    with holding(run_id, claim.epoch):
        live = await open_run(services, claim)
        if claim.run.state in KEPT_WHEN_FAILING:
            await live.publisher.say("stumbled", messages.stumbled_comment(reason))
            return
        sentence = f"Something went wrong too often, and the bot gave up: {reason}"
        await end(services, live, Ending(outcome="failed", sentence=sentence))
