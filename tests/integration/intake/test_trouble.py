"""What people see when GitHub is away for long, or when the bot itself keeps failing."""

from __future__ import annotations

import pytest

from bot.advance import give_up
from bot.errors import RetryLater
from bot.store.tables import DeliveryOutcome, RunState
from bot.worker import JobHandlers
from evals.loopback.faults import Fault
from tests.integration.intake.conftest import Bot


async def test_a_delivery_waits_for_a_github_that_is_away(bot: Bot) -> None:
    """However often GitHub fails, a comment is answered once it is back, and not given up."""
    issue = await bot.github.open_issue(as_user="writer", title="Sums are off", body="")
    await bot.github.comment(issue, as_user="writer", body="/ultracode Make sums right.")
    await bot.github.settle()
    delivery = next(d for d in bot.github.deliveries if d.event == "issue_comment")
    await bot.post(delivery.event, delivery.body, guid=delivery.guid)
    bot.github.faults.append(Fault(kind="error", path="*/permission", status=502, times=20))

    handlers = JobHandlers(bot.services)
    for _ in range(10):
        with pytest.raises(RetryLater):
            await handlers.handle_delivery(delivery.guid)
    assert (await bot.services.deliveries.load(delivery.guid)).outcome is None

    bot.github.faults.clear()
    await handlers.handle_delivery(delivery.guid)
    stored = await bot.services.deliveries.load(delivery.guid)
    assert stored.outcome is DeliveryOutcome.HANDLED
    assert len(await bot.runs()) == 1


async def test_a_waiting_run_outlives_the_bots_own_failures(bot: Bot) -> None:
    """A run that waits for a person is not ended by errors; the issue says so once."""
    issue, run = await bot.start()
    claim = await bot.services.runs.claim(run.run_id)
    assert claim is not None
    await bot.services.runs.transition(
        run.run_id,
        from_states={RunState.ACCEPTED},
        to_state=RunState.AWAITING_GO,
        epoch=claim.epoch,
        state_reason="plan",
    )
    before = len(await bot.said(issue))

    for _ in range(2):
        await give_up(bot.services, run.run_id, "The stars are wrong.")

    assert (await bot.runs())[-1].state is RunState.AWAITING_GO
    new = (await bot.said(issue))[before:]
    assert len(new) == 1
    assert "The stars are wrong." in new[0]
    assert "keeps trying" in new[0]


async def test_a_working_run_ends_in_words_when_its_work_keeps_failing(bot: Bot) -> None:
    """A run whose own work fails too often ends `failed`, with the reason on the issue."""
    issue, run = await bot.start()
    await give_up(bot.services, run.run_id, "The stars are wrong.")
    assert (await bot.runs())[-1].state is RunState.FAILED
    assert any("The stars are wrong." in text for text in await bot.said(issue))
