"""The inner door: one stored delivery becomes what it asks for, in a job.

In: a delivery id. Out: the delivery's outcome, and whatever the event asked for has been done or
deferred. Every event of the closed union is named once in `_dispatch`; one that is forgotten there
does not pass the type checker.
"""

from __future__ import annotations

import asyncio
from typing import assert_never

import structlog

from bot.github import messages
from bot.github.port import AccessLost, GitHubError, NotFound
from bot.intake.answers import Answers
from bot.intake.asks import on_comment, on_label, on_review, on_thread
from bot.intake.befall import on_end, on_regained
from bot.intake.buttons import on_button
from bot.intake.close import stop_closed
from bot.intake.wake import WakingEvent, runs_to_wake
from bot.services import Services
from bot.store.tables import DeliveryOutcome
from webhooks import events
from webhooks.parser import Ignored, Unparsed, parse_event

log = structlog.get_logger()


async def handle_delivery(services: Services, delivery_id: str) -> None:
    """Handle one delivery and settle it. Raises what should be tried again."""
    with structlog.contextvars.bound_contextvars(delivery_id=delivery_id):
        delivery = await services.deliveries.load(delivery_id)
        if delivery.outcome is not None:
            return  # by a worker that died before it could say that its job was done
        event = await asyncio.to_thread(parse_event, delivery.event, delivery.body)
        match event:
            case Ignored(reason=reason):
                await services.deliveries.settle(delivery_id, DeliveryOutcome.IGNORED, reason)
            case Unparsed(reason=reason):
                await services.deliveries.settle(delivery_id, DeliveryOutcome.UNPARSED, reason)
            case _:
                try:
                    outcome = await _handle(services, event, delivery_id)
                except (AccessLost, NotFound) as gone:  # no further attempt would find it
                    await give_up_delivery(services, delivery_id, str(gone))
                else:
                    await services.deliveries.settle(delivery_id, outcome)
                    log.info("delivery settled", outcome=str(outcome))


async def give_up_delivery(services: Services, delivery_id: str, reason: str) -> None:
    """Settle a delivery that could not be handled, and say so where somebody spoke, if it is there.

    It is failed, not ignored: an operator may have it taken again.
    """
    await services.deliveries.settle(delivery_id, DeliveryOutcome.FAILED, reason)
    delivery = await services.deliveries.load(delivery_id)
    event = await asyncio.to_thread(parse_event, delivery.event, delivery.body)
    match event:
        case events.IssueCommentCreated() | events.IssueLabeled():
            number = event.issue.number
        case events.ReviewCommentCreated() | events.ReviewSubmitted() | events.PullRequestLabeled():
            number = event.pull_request.number
        case _:
            return
    try:
        if event.installation is None or not await is_served(services, event):
            return
        answers = Answers(
            services=services,
            repository=services.github.repository(event.installation.id, event.repository.id),
            scope=f"delivery:{delivery_id}",
            target=None,
            number=number,
        )
        await answers.say("given_up", messages.unhandled_comment(reason))
    except GitHubError as error:
        log.info("that a delivery was given up cannot be said", reason=str(error))


async def _handle(services: Services, event: events.Event, delivery_id: str) -> DeliveryOutcome:
    if not await is_served(services, event):
        log.info("this account is not served", delivery=delivery_id)
        return DeliveryOutcome.IGNORED
    return await _dispatch(services, event, delivery_id)


async def is_served(services: Services, event: events.Event) -> bool:
    """Whether the operator serves this account: no clone, no model call, no answer otherwise."""
    allowed = services.settings.ultracode_allowed_accounts
    if not allowed:
        allowed = frozenset({(await services.github.app()).owner.id})
    match event:
        case (
            events.InstallationCreated()
            | events.InstallationDeleted()
            | events.InstallationSuspended()
            | events.InstallationUnsuspended()
            | events.InstallationPermissionsAccepted()
            | events.InstallationRepositoriesAdded()
            | events.InstallationRepositoriesRemoved()
        ):
            return event.installation.account.id in allowed
        case _:
            return event.repository.owner.id in allowed


async def _dispatch(  # noqa: C901 - one case a kind of event
    services: Services, event: events.Event, delivery_id: str
) -> DeliveryOutcome:
    match event:
        case events.IssueCommentCreated():
            return await on_comment(services, event, delivery_id)
        case events.IssueLabeled() | events.PullRequestLabeled():
            return await on_label(services, event, delivery_id)
        case (
            events.IssueDeleted()
            | events.IssueTransferred()
            | events.RepositoryArchived()
            | events.RepositoryDeleted()
            | events.RepositoryTransferred()
            | events.InstallationDeleted()
            | events.InstallationSuspended()
            | events.InstallationRepositoriesRemoved()
        ):
            return await on_end(services, event, delivery_id)
        case (
            events.InstallationUnsuspended()
            | events.InstallationRepositoriesAdded()
            | events.RepositoryUnarchived()
        ):
            return await on_regained(services, event)
        case events.ReviewCommentCreated():
            return await on_thread(services, event, delivery_id)
        case events.ReviewSubmitted():
            heard = await on_review(services, event, delivery_id)
            woken = await wake(services, event)
            return woken if heard is DeliveryOutcome.IGNORED else heard
        case (
            events.CheckRunActionRequested()
            | events.CheckRunRerequested()
            | events.CheckSuiteRerequested()
        ):
            return await on_button(services, event, delivery_id)
        case events.PullRequestClosed():
            stopped = await stop_closed(services, event, delivery_id)
            woken = await wake(services, event)
            return DeliveryOutcome.HANDLED if stopped else woken
        case (
            events.ReviewEdited()
            | events.ReviewDismissed()
            | events.ReviewThreadResolved()
            | events.ReviewThreadUnresolved()
            | events.PullRequestReopened()
            | events.PullRequestEdited()
            | events.PullRequestSynchronized()
            | events.PullRequestConvertedToDraft()
            | events.PullRequestReadyForReview()
            | events.CheckRunCompleted()
            | events.CheckSuiteCompleted()
            | events.StatusChanged()
            | events.Pushed()
        ):
            return await wake(services, event)
        case (
            events.IssueClosed()
            | events.IssueLocked()
            | events.IssueUnlocked()
            | events.RepositoryRenamed()
            | events.RepositoryPrivatized()
            | events.RepositoryPublicized()
            | events.InstallationCreated()
            | events.InstallationPermissionsAccepted()
        ):
            return DeliveryOutcome.IGNORED
        case _:
            assert_never(event)


async def wake(services: Services, event: WakingEvent) -> DeliveryOutcome:
    """Have the gate of every run that an event concerns decided again."""
    app = await services.github.app()
    woken = await runs_to_wake(event, services.runs, app_id=app.id)
    for run_id in woken:
        await services.queue.defer_advance(run_id, quick=True)
    return DeliveryOutcome.HANDLED if woken else DeliveryOutcome.IGNORED
