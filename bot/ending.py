"""How a run ends: shown wherever it is shown, then recorded, then the next one starts.

In: a `LiveRun` and its ending. Out: nothing; GitHub shows the ending, the row says it, and a run
that follows it (a revision, a refresh) is created in the same transaction as the end.
"""

from __future__ import annotations

from datetime import timedelta

import structlog

from bot.clock import now
from bot.contracts import Ending
from bot.errors import Refusal, RetryLater
from bot.followup import FollowUp, plan_follow, start_follow
from bot.github.port import AccessLost, GitHubRefused
from bot.live import LiveRun
from bot.live_run import open_run
from bot.services import Services
from bot.steps.review import final_result
from bot.store.fence import holding
from bot.store.runs import Claim, NewRun, Run
from bot.store.tables import LIVE_STATES, UNSEEN, RunState
from workspace.contracts import Candidate

log = structlog.get_logger()

#: How long GitHub may take to mark the pull request merged before we stop waiting for it.
MERGED_PATIENCE = timedelta(minutes=5)
MERGED_LOOK_SECONDS = 2


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
    next_ = await live.pieces.load("follow", FollowUp) if final.outcome == "revised" else None
    new = await planned_next(services, live, next_) if next_ else None
    async with services.database.begin() as tx:
        await services.runs.transition(
            live.run_id,
            from_states=frozenset(RunState),
            to_state=RunState(final.outcome),
            epoch=live.epoch,
            outcome_sentence=final.sentence,
            deadline_at=None,
            tx=tx,
        )
        if new is not None and next_ is not None:
            await start_follow(services, new, next_, tx)
    log.info("run ended", outcome=ending.outcome)
    await start_next(services, live)


async def end_unseen(services: Services, claim: Claim, ending: Ending) -> None:
    """Call a run ended where GitHub shows it no more: only our own record and `runs show` say so.

    What was shown before stays as it is until `show_unseen`; nothing of the run is left running.
    """
    await services.workshop.cancel(claim.run.run_id)
    await services.runs.transition(
        claim.run.run_id,
        from_states=LIVE_STATES,
        to_state=RunState(ending.outcome),
        epoch=claim.epoch,
        outcome_sentence=ending.sentence,
        state_reason=UNSEEN,
        deadline_at=None,
    )
    for run in await services.runs.next_queued(claim.run):
        await services.queue.defer_advance(run.run_id)


async def show_unseen(services: Services, run: Run) -> None:
    """Say on the issue how a run ended while GitHub could not be told, and how to go on.

    Nothing is said, nor tidied up, where a newer run has the issue. While GitHub still takes
    nothing it stays unseen.
    """
    newest = (await services.runs.of_issue(run.repository_id, run.issue_number))[-1]
    if newest.run_id == run.run_id:
        ending = Ending.model_validate({"outcome": run.state, "sentence": run.outcome_sentence})
        try:
            with holding(run.run_id, run.epoch):
                live = await open_run(services, Claim(run, run.epoch))
                await live.publisher.conclude(ending)
        except (AccessLost, GitHubRefused) as refused:
            log.info("an ending still cannot be shown", run_id=run.run_id, reason=str(refused))
            return
    await services.runs.record(run.run_id, epoch=run.epoch, state_reason=None)


async def planned_next(services: Services, live: LiveRun, next_: FollowUp) -> NewRun | None:
    """Return the run that follows; None, said in words, when that is refused meanwhile."""
    result = await final_result(live)
    candidate = await live.pieces.load(f"candidate:{result.round}", Candidate)
    try:
        return await plan_follow(services, live.run, candidate, next_)
    except Refusal as refusal:
        await live.publisher.say("no_follow", refusal.sentence)
        return None


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
