"""What befalls installations, repositories and issues: the defined end of the runs it concerns.

In: an event that is no command. Out: live runs that can go on no more are being cancelled, with the
reason; whatever GitHub still takes is tidied up by the clean-up job (`bot.advance.clean_up`), and
where it takes nothing the run ends all the same. Everything is found by numeric ids, so that a new
name changes nothing. The table: ARCHITECTURE.md, "What befalls runs".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, assert_never

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


async def on_end(services: Services, event: EndingEvent, delivery_id: str) -> DeliveryOutcome:
    """Cancel the live runs that lost their ground; a promotion that was begun is left to its ref.

    Asked of no permission: GitHub did it already, and ending work needs nobody's trust.
    """
    runs = await runs_on(services, event)
    reason = messages.lost_ground_sentence(event.event_name, event.action)
    actor = f"github:{event.sender.id}" if event.sender else "github"
    for run in runs:
        moved = await services.runs.cancel(
            run.run_id, actor=actor, delivery_id=delivery_id, reason=reason
        )
        if moved is not None:
            await services.queue.abort_run(run.run_id)
            await services.queue.defer_clean_up(run.run_id)
    return DeliveryOutcome.HANDLED if runs else DeliveryOutcome.IGNORED


async def on_unsuspended(
    services: Services, event: events.InstallationUnsuspended
) -> DeliveryOutcome:
    """Look again at whatever the suspension did not end: a promotion that was under way."""
    runs = await services.runs.in_states(LIVE_STATES, installation_id=event.installation.id)
    for run in runs:
        await services.queue.defer_advance(run.run_id)
    return DeliveryOutcome.HANDLED if runs else DeliveryOutcome.IGNORED


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
