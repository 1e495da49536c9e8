"""Steering a run that exists: go and cancel. In: who says so and which run. Out: the answer's text.

Both are compare-and-set on the run's row, so that two people who say it at once, or a delivery that
comes twice, do it once.
"""

from __future__ import annotations

from bot.github import messages
from bot.services import Services
from bot.store.runs import Run
from bot.store.tables import RunState


async def go(services: Services, run: Run | None, *, actor_id: int, delivery_id: str) -> str:
    """Let a run that waits for `go` continue; return the answer, empty when it moves on."""
    if run is None or run.state is not RunState.AWAITING_GO:
        return messages.nothing_awaits_go_message(run)
    async with services.database.begin() as tx:
        moved = await services.runs.transition(
            run.run_id,
            from_states={RunState.AWAITING_GO},
            to_state=RunState.ACCEPTED,
            actor=f"github:{actor_id}",
            delivery_id=delivery_id,
            deadline_at=None,
            tx=tx,
        )
        if moved:
            await services.queue.defer_advance(run.run_id, tx=tx)
    return ""


async def cancel(services: Services, run: Run | None, *, actor_id: int, delivery_id: str) -> str:
    """Stop a run; return the answer, empty when the run's own ending will tell."""
    if run is None:
        return messages.nothing_to_cancel_message()
    async with services.database.begin() as tx:  # a death in between must not leave it uncleaned
        cancelled = await services.runs.cancel(
            run.run_id, actor=f"github:{actor_id}", delivery_id=delivery_id, tx=tx
        )
        if cancelled is not None:
            await services.queue.defer_clean_up(run.run_id, tx=tx)
    if cancelled is None:
        return messages.too_late_to_cancel_message(run)
    await services.queue.abort_run(run.run_id)
    return ""
