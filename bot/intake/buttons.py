"""What people press on the Checks tab: our check runs' own buttons, and "Re-run".

In: an event of a check that this App made. Out: the delivery's outcome; what was asked for is done,
and the answer stands on the run's issue. The run is found by the ledger, which knows every check
run we made by GitHub's id for it: a name or an external id alone proves nothing, and another App's
check is nobody's business here. GitHub shows buttons to writers only; whoever presses one is asked
for again all the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from bot.contracts import Trigger
from bot.github import messages
from bot.github.messages.checks import CANCEL, REFRESH, RERUN
from bot.github.protection import GATE_CHECK
from bot.intake.answers import Answers
from bot.intake.asks import By, Voice, account_of, answered, permitted
from bot.intake.follow import refresh, retest
from bot.intake.steer import cancel
from bot.services import Services
from bot.store.effects import EffectKind
from bot.store.runs import Run
from bot.store.tables import DeliveryOutcome, RunState
from webhooks.commands import Refresh
from webhooks.events import CheckRunActionRequested, CheckRunRerequested, CheckSuiteRerequested
from webhooks.payloads import App

RunEvent = CheckRunActionRequested | CheckRunRerequested
ButtonEvent = RunEvent | CheckSuiteRerequested


@dataclass(frozen=True, slots=True)
class Pressed:
    """What was pressed: on which run's check, on which round's candidate, for what."""

    run: Run
    sha: str
    wish: str


async def on_button(services: Services, event: ButtonEvent, delivery_id: str) -> DeliveryOutcome:
    """Do what a button says, if a person with write access pressed one of ours."""
    sender = event.sender
    if sender is None or not sender.is_person or event.installation is None:
        return DeliveryOutcome.IGNORED
    pressed = await pressed_on(services, event)
    if pressed is None:
        return DeliveryOutcome.IGNORED
    repository = services.github.repository(event.installation.id, event.repository.id)
    voice = Voice(
        services=services,
        answers=Answers(
            services=services,
            repository=repository,
            scope=f"delivery:{delivery_id}",
            target=None,
            number=pressed.run.issue_number,
        ),
        who=account_of(sender),
        issue_node_id=pressed.run.issue_node_id or "",
        trigger=Trigger(kind="check_button", id=delivery_id),
        delivery_id=delivery_id,
    )
    if not await permitted(voice):
        return DeliveryOutcome.REFUSED
    return await answered(voice, press(voice, pressed))


async def pressed_on(services: Services, event: ButtonEvent) -> Pressed | None:
    """Return the run behind a check of ours; None for anything else."""
    app_id = (await services.github.app()).id
    match event:
        case CheckSuiteRerequested(check_suite=suite):
            if not is_ours(suite.app, app_id) or event.installation is None:
                return None
            repository = services.github.repository(event.installation.id, event.repository.id)
            checks = await repository.own_check_runs(suite.head_sha)
            ids, sha, wish = [check.id for check in checks], suite.head_sha, RERUN.identifier
        case _:
            check = event.check_run
            if not is_ours(check.app, app_id):
                return None
            ids, sha, wish = [check.id], check.head_sha, wish_of(event)
    for check_id in reversed(ids):
        run = await run_of_check(services, event.repository.id, check_id)
        if run is not None:
            return Pressed(run, sha, wish)
    return None


def is_ours(app: App | None, app_id: int) -> bool:
    """Whether a check was made by this App."""
    return app is not None and app.id == app_id


def wish_of(event: RunEvent) -> str:
    """Return what a press asks for; "Re-run" on the gate's check asks the gate again."""
    match event:
        case CheckRunActionRequested(identifier=identifier):
            return identifier
        case CheckRunRerequested(check_run=check):
            return "decide" if check.name == GATE_CHECK else RERUN.identifier


async def run_of_check(services: Services, repository_id: int, check_id: int) -> Run | None:
    """Return the run that made a check run, by the ledger."""
    for effect in await services.effects.of_external_id(EffectKind.CHECK_RUN, str(check_id)):
        run = await services.runs.get(effect.scope)
        if run.repository_id == repository_id:
            return run
    return None


async def press(voice: Voice, pressed: Pressed) -> str:
    """Do what was asked for; return the answer, empty where the run itself answers."""
    services, run = voice.services, pressed.run
    by = By(who=voice.user, trigger=voice.trigger)
    if run.state is RunState.REVISED:
        return messages.earlier_check_message(await voice.last_run())
    if pressed.wish == CANCEL.identifier:
        return await cancel(services, run, **voice.actor)
    if pressed.wish == REFRESH.identifier:
        return await refresh(services, run, Refresh(), **by)
    if pressed.wish == "decide" and run.state in {RunState.AWAITING_REVIEW, RunState.APPROVED}:
        await services.queue.defer_advance(run.run_id)
        return messages.deciding_again_message()
    if pressed.wish in {RERUN.identifier, "decide"}:
        return await retest(services, run, pressed.sha, **by)
    return messages.unknown_button_message(pressed.wish)
