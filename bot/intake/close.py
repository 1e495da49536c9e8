"""Closing a pull request while its run is busy. In: the event. Out: the run is being stopped.

Whoever may write and closes what the bot shows wants it to end: models, sandboxes and the promotion
stop as after a cancel, and the run ends `rejected`. A run that waits for its review is left to the
gate, which says the same. GitHub is asked how things stand now, so that a late delivery ends
nothing that was opened again.
"""

from __future__ import annotations

from typing import Final

from bot.contracts import Ending
from bot.github import messages
from bot.github.port import Permission
from bot.services import Services
from bot.store.runs import Run
from bot.store.tables import LIVE_STATES, RunState
from webhooks.events import PullRequestClosed
from webhooks.payloads import Account
from workspace.contracts import CONTRACT_VERSION

#: The gate looks at the others of itself, or they are being stopped.
_BUSY: Final = LIVE_STATES - {RunState.AWAITING_REVIEW, RunState.CANCELLING}


async def stop_closed(services: Services, event: PullRequestClosed, delivery_id: str) -> list[str]:
    """Stop the busy runs of a pull request that somebody with write access closed; return them."""
    number, by = event.pull_request.number, event.sender
    if by is None or not by.is_person or event.installation is None:
        return []
    found = await services.runs.of_pull(event.repository.id, number)
    busy = [run for run in found if run.state in _BUSY]
    if not busy or await services.runs.has_cancelled(delivery_id):
        return []
    repository = services.github.repository(event.installation.id, event.repository.id)
    pull = await repository.pull(number)
    if pull is None or pull.merged or pull.state == "open":
        return []
    if not (await repository.permission(by.id, by.login)).at_least(Permission.WRITE):
        return []
    return [run.run_id for run in busy if await _stop(services, run, by, delivery_id)]


async def _stop(services: Services, run: Run, by: Account, delivery_id: str) -> bool:
    """Stop one run, unless its promotion was begun or its end was decided before."""
    ending = Ending(outcome="rejected", sentence=messages.closed_by_writer_sentence(by.login))
    async with services.database.begin() as tx:  # a death in between must not leave it uncleaned
        stopped = await services.runs.cancel(
            run.run_id,
            actor=f"github:{by.id}",
            sentence=ending.sentence,
            delivery_id=delivery_id,
            tx=tx,
        )
        if stopped is None:
            return False
        if await services.pieces.load(run.run_id, "ending", tx=tx) is None:
            await services.pieces.save(
                run.run_id,
                "ending",
                ending.model_dump(mode="json"),
                epoch=stopped.epoch,
                contract_version=CONTRACT_VERSION,
                tx=tx,
            )
        await services.queue.defer_clean_up(run.run_id, tx=tx)
    await services.queue.abort_run(run.run_id)
    return True
