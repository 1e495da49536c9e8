"""The reconciler: finds what was left behind and has a job look at it. Safe on every replica.

In: the database and GitHub's own memory. Out: deferred jobs; nothing of a run is decided here. It
runs at start and every few minutes: each active run has a job, each stored delivery is handled,
deliveries that GitHub could not bring are asked for again, waiting runs are looked at now and then
(their review may have come while nobody listened), expired ones end, and what a stopped worker
doubled or left open on GitHub is tidied up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Final

import structlog

from bot.clock import now
from bot.github.port import GitHubError, GitHubRefused
from bot.services import Services
from bot.store.runs import Run
from bot.store.tables import RunState
from bot.tidying import tidy

log = structlog.get_logger()

EVERY_SECONDS: Final = 120.0
REAP_SECONDS: Final = 60.0
#: A run that waits is looked at when nothing touched it for so long, a few each time: a look costs
#: GitHub's patience, and missed deliveries are asked for anyway. Ten every two minutes are 300
#: looks an hour of some ten requests each, whatever the number of runs.
UNSEEN_SECONDS: Final = 600.0
LOOKS_AT_ONCE: Final = 10
#: How far back GitHub's deliveries are looked through; it keeps them for three days.
LOOK_BACK: Final = timedelta(hours=6)


async def reconcile_forever(services: Services, stop: asyncio.Event) -> None:
    """Reconcile at start and every few minutes until told to stop."""
    await again_and_again(lambda: reconcile(services), EVERY_SECONDS, stop)


async def reap_forever(services: Services, stop: asyncio.Event) -> None:
    """Remove workspaces and folders that dead workers left, at start and every minute."""
    await again_and_again(services.workshop.reap, REAP_SECONDS, stop)


async def again_and_again(
    look: Callable[[], Awaitable[None]], seconds: float, stop: asyncio.Event
) -> None:
    """Look now, and then every so many seconds, until told to stop; no failure ends this."""
    while not stop.is_set():
        try:
            await look()
        except Exception:
            log.exception("looking for what was left behind failed; it is tried again")
        try:
            await asyncio.wait_for(stop.wait(), seconds)
        except TimeoutError:
            continue


async def reconcile(services: Services) -> None:
    """Do one round of looking. What concerns GitHub comes last: it may be away."""
    for run in await services.runs.without_job():
        log.info("an active run had no job", run_id=run.run_id, state=run.state)
        if run.state is RunState.CANCELLING:
            await services.queue.defer_clean_up(run.run_id)
        else:
            await services.queue.defer_advance(run.run_id)
    for delivery_id in await services.deliveries.without_job():
        await services.queue.defer_delivery(delivery_id)
    unseen = await services.runs.take_for_a_look(unseen_seconds=UNSEEN_SECONDS, limit=LOOKS_AT_ONCE)
    for run in (*unseen, *await services.runs.expired()):
        await services.queue.defer_advance(run.run_id)
    await ask_for_missed(services)
    await tidy_up(services, unseen)


async def tidy_up(services: Services, waiting: Sequence[Run]) -> None:
    """Tidy what some waiting runs show, and each run that has ended, once."""
    for run in waiting:
        await _tidied(services, run)
    for run in await services.runs.untidied():
        if await _tidied(services, run):
            await services.runs.audit("tidied", actor="bot", run_id=run.run_id)


async def _tidied(services: Services, run: Run) -> bool:
    """Tidy one run; say whether GitHub let us. One that it does not show holds up no other."""
    try:
        await tidy(services, run)
    except GitHubRefused as refused:
        log.info("a run cannot be tidied", run_id=run.run_id, reason=str(refused))
    except GitHubError as error:
        log.warning("a run is tidied later", run_id=run.run_id, reason=str(error))
        return False
    return True


async def ask_for_missed(services: Services) -> None:
    """Ask GitHub to send again what it could not deliver; our own keys make that harmless."""
    try:
        remembered = await services.github.deliveries(since=now() - LOOK_BACK)
    except GitHubError as error:
        log.warning("GitHub's deliveries cannot be read", reason=str(error))
        return
    arrived = {delivery.guid for delivery in remembered if delivery.delivered}
    missed = {d.guid: d.id for d in remembered if d.guid not in arrived}
    for guid, delivery_id in missed.items():
        log.info("asking for a delivery again", delivery_id=guid)
        try:
            await services.github.redeliver(delivery_id)
        except GitHubError as error:  # one that GitHub forgot must not hold up the others
            log.warning("a delivery is not sent again", delivery_id=guid, reason=str(error))
