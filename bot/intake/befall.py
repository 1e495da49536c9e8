"""What befalls installations, repositories and issues: the defined end of the runs it concerns.

In: an event that is no command. Out: live runs that can go on no more are being cancelled, with the
reason; whatever GitHub still takes is tidied up by the clean-up job (`bot.advance.clean_up`). Where
it takes nothing the run ends all the same, and that is said once GitHub takes it. Everything is
found by numeric ids, so that a new name changes nothing. The table: ARCHITECTURE.md, "What befalls
runs".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, assert_never

from bot.ending import show_unseen
from bot.github import messages
from bot.services import Services
from bot.store.runs import Run
from bot.store.tables import LIVE_STATES, DeliveryOutcome
from webhooks import events

EndingEvent: TypeAlias = (
    events.InstallationDeleted
    | events.InstallationSuspended
    | events.InstallationRepositoriesRemoved
    | events.RepositoryDeleted
    | events.RepositoryTransferred
    | events.RepositoryArchived
    | events.IssueDeleted
    | events.IssueTransferred
)
RegainedEvent: TypeAlias = (
    events.InstallationUnsuspended
    | events.InstallationRepositoriesAdded
    | events.RepositoryUnarchived
)


async def on_end(services: Services, event: EndingEvent, delivery_id: str) -> DeliveryOutcome:
    """Cancel the live runs that lost their ground; a promotion that was begun is left to its ref.

    Asked of no permission: GitHub did it already, and ending work needs nobody's trust.
    """
    runs = await runs_on(services, event)
    sentence = messages.lost_ground_sentence(event.event_name, event.action)
    actor = f"github:{event.sender.id}" if event.sender else "github"
    for run in runs:
        async with (
            services.database.begin() as tx
        ):  # a death in between must not leave it uncleaned
            moved = await services.runs.cancel(
                run.run_id, actor=actor, delivery_id=delivery_id, sentence=sentence, tx=tx
            )
            if moved is not None:
                await services.queue.defer_clean_up(run.run_id, tx=tx)
        if moved is not None:
            await services.queue.abort_run(run.run_id)
    return DeliveryOutcome.HANDLED if runs else DeliveryOutcome.IGNORED


async def on_regained(services: Services, event: RegainedEvent) -> DeliveryOutcome:
    """Say what could not be said meanwhile, and look again at what a suspension did not end."""
    runs = services.runs
    live: Sequence[Run] = ()
    match event:
        case events.InstallationUnsuspended():
            live = await runs.in_states(LIVE_STATES, installation_id=event.installation.id)
            unseen = await runs.unseen(installation_id=event.installation.id)
        case events.InstallationRepositoriesAdded():
            added = {repository.id for repository in event.repositories_added}
            unseen = await runs.unseen(repository_ids=added)
        case events.RepositoryUnarchived():
            unseen = await runs.unseen(repository_ids={event.repository.id})
        case _:
            assert_never(event)
    for run in live:
        await services.queue.defer_advance(run.run_id)
    for run in unseen:
        await show_unseen(services, run)
    return DeliveryOutcome.HANDLED if live or unseen else DeliveryOutcome.IGNORED


async def runs_on(services: Services, event: EndingEvent) -> Sequence[Run]:
    """Return the live runs that an event takes the ground from."""
    runs = services.runs
    match event:
        case events.InstallationDeleted() | events.InstallationSuspended():
            return await runs.in_states(LIVE_STATES, installation_id=event.installation.id)
        case events.InstallationRepositoriesRemoved():
            gone = {repository.id for repository in event.repositories_removed}
            there = await runs.in_states(LIVE_STATES, installation_id=event.installation.id)
            return [run for run in there if run.repository_id in gone]
        case (
            events.RepositoryDeleted()
            | events.RepositoryTransferred()
            | events.RepositoryArchived()
        ):
            return await runs.in_states(LIVE_STATES, repository_id=event.repository.id)
        case events.IssueDeleted() | events.IssueTransferred():
            live = await runs.live_of_issue(event.repository.id, event.issue.number)
            return [live] if live else []
        case _:
            assert_never(event)
