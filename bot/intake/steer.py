"""Steering a run that exists: go and cancel. In: who says so and which run. Out: the answer's text.

Both are compare-and-set on the run's row, so that two people who say it at once, or a delivery that
comes twice, do it once.
"""

from __future__ import annotations

from bot.contracts import Trigger, UserRef
from bot.github import messages
from bot.go import OUTSIDERS_WORDS, PUBLISH, WAITS, Go, go_key
from bot.run_pieces import RunPieces
from bot.services import Services
from bot.store.runs import Claim, Run
from bot.store.tables import RunState


async def go(
    services: Services, run: Run | None, *, who: UserRef, trigger: Trigger, delivery_id: str
) -> str:
    """Let a run that waits for `go` continue; return the answer, empty when it moves on.

    One go answers one wait, however often its delivery is handled.
    """
    claim = await claimed_waiting(services, run)
    if claim is None:
        return messages.nothing_awaits_go_message(run)
    reason = claim.run.state_reason or OUTSIDERS_WORDS
    if await has_answered_another(services, claim.run, trigger, reason):
        return ""
    pieces = RunPieces(services.pieces, claim.run.run_id, claim.epoch)

    async def said() -> Go:
        return Go(who=who, trigger=trigger)

    await pieces.once(go_key(reason), Go, said)
    async with services.database.begin() as tx:  # never moved without the job that goes on
        await services.runs.transition(
            claim.run.run_id,
            from_states={RunState.AWAITING_GO},
            # what only has to be pushed takes nobody's place in the queue
            to_state=RunState.WORKING if reason == PUBLISH else RunState.ACCEPTED,
            epoch=claim.epoch,
            actor=f"github:{who.id}",
            delivery_id=delivery_id,
            deadline_at=None,
            tx=tx,
        )
        await services.queue.defer_advance(claim.run.run_id, tx=tx)
    return ""


async def claimed_waiting(services: Services, run: Run | None) -> Claim | None:
    """Claim a run that waits for a go; None when it does not."""
    if run is None or run.state is not RunState.AWAITING_GO:
        return None
    claim = await services.runs.claim(run.run_id)
    return claim if claim and claim.run.state is RunState.AWAITING_GO else None


async def has_answered_another(services: Services, run: Run, trigger: Trigger, reason: str) -> bool:
    """Whether this comment has answered another wait of the run: it answers no second one."""
    stored = await services.pieces.load_all(run.run_id)
    answered = [stored[key].value for key in map(go_key, WAITS) if key in stored]
    others = (go for go in map(Go.model_validate, answered) if go.trigger == trigger)
    current = stored.get(go_key(reason))
    return any(current is None or Go.model_validate(current.value) != go for go in others)


async def cancel(services: Services, run: Run | None, *, who: UserRef, delivery_id: str) -> str:
    """Stop a run; return the answer, empty when the run's own ending will tell.

    One delivery cancels once, however often it is handled: never a run that was started since.
    """
    if run is None:
        return messages.nothing_to_cancel_message()
    if await services.runs.has_cancelled(delivery_id):
        return ""
    async with services.database.begin() as tx:  # a death in between must not leave it uncleaned
        cancelled = await services.runs.cancel(
            run.run_id,
            actor=f"github:{who.id}",
            sentence=messages.cancelled_by_writer_sentence(who.login),
            delivery_id=delivery_id,
            tx=tx,
        )
        if cancelled is not None:
            await services.queue.defer_clean_up(run.run_id, tx=tx)
    if cancelled is None:
        return messages.too_late_to_cancel_message(run)
    await services.queue.abort_run(run.run_id)
    return ""
