"""Deliveries handled more than once, or in vain: nothing is doubled, and nothing is silent."""

from __future__ import annotations

import pytest

from bot.errors import RetryLater
from bot.intake.door import give_up_delivery, handle_delivery
from bot.store.tables import DeliveryOutcome, RunState
from bot.worker import JobHandlers
from evals.loopback.faults import Fault
from tests.integration.intake.conftest import Bot

pytestmark = pytest.mark.postgres


async def taken(bot: Bot, event: str = "issue_comment") -> str:
    """Let the newest delivery of a kind arrive, unhandled; return its id."""
    await bot.github.settle()
    delivery = [d for d in bot.github.deliveries if d.event == event][-1]
    bot.heard.add(delivery.id)
    await bot.post(delivery.event, delivery.body, guid=delivery.guid)
    return delivery.guid


async def cut_short(bot: Bot, guid: str) -> JobHandlers:
    """Handle a delivery whose first comment GitHub does not take; return who handles it again."""
    bot.github.faults.append(Fault(kind="error", method="POST", path="*/comments", status=502))
    handlers = JobHandlers(bot.services)
    with pytest.raises(RetryLater):
        await handlers.handle_delivery(guid)
    return handlers


async def test_a_cancel_handled_again_spares_the_next_run(bot: Bot) -> None:
    """A cancel whose second answer failed comes back, and leaves alone what started meanwhile."""
    issue, _ = await bot.start()
    words = "/ultracode cancel\n/ultracode status"
    await bot.github.comment(issue, as_user="writer", body=words)
    guid = await taken(bot)
    handlers = await cut_short(bot, guid)
    for run in await bot.services.runs.in_states({RunState.CANCELLING}):
        await handlers.clean_up_run(run.run_id)
    await bot.github.comment(issue, as_user="writer", body="/ultracode Once more.")
    await handlers.handle_delivery(await taken(bot))

    await handlers.handle_delivery(guid)
    await handlers.handle_delivery(guid)
    assert [run.state for run in await bot.runs()] == ["cancelled", "accepted"]
    assert not any("can no longer be cancelled" in said for said in await bot.said(issue))


async def test_a_refusal_whose_words_failed_is_said_later(bot: Bot) -> None:
    """Somebody without write hears it although the first attempt to say it failed."""
    issue = await bot.github.open_issue(as_user="outsider", title="Sums are off", body="")
    await bot.github.comment(issue, as_user="outsider", body="/ultracode Make sums right.")
    guid = await taken(bot)
    handlers = await cut_short(bot, guid)
    await handlers.handle_delivery(guid)
    assert len(await bot.said(issue)) == 1


async def test_a_refused_start_whose_words_failed_is_told_later(bot: Bot) -> None:
    """Refused is refused, also when what was wrong was mended before the words came through."""
    issue = await bot.github.open_issue(as_user="writer", title="Sums are off", body="")
    words = "/ultracode --base release/9 Make sums right."
    await bot.github.comment(issue, as_user="writer", body=words)
    guid = await taken(bot)
    handlers = await cut_short(bot, guid)
    await bot.github.push({"x": "1"}, as_user="writer", branch="release/9", start="main")
    await handlers.handle_delivery(guid)
    [said] = await bot.said(issue)
    assert "release/9" in said
    assert [run.state for run in await bot.runs()] == ["refused"]


async def test_long_words_and_empty_criteria_are_no_obstacle(bot: Bot) -> None:
    """A template's empty criteria start a run; a very long revision is answered."""
    body = "## Acceptance criteria\n\n- <!-- describe -->\n- "
    issue = await bot.github.open_issue(as_user="writer", title="Sums are off", body=body)
    await bot.github.comment(issue, as_user="writer", body="/ultracode")
    await bot.hear()
    assert [run.state for run in await bot.runs()] == ["accepted"]
    await bot.github.comment(issue, as_user="writer", body=f"/ultracode revise {'x' * 20_000}")
    await bot.hear()
    assert "waits for" in (await bot.said(issue))[-1]


async def test_a_flood_of_near_commands_gets_one_hint(bot: Bot) -> None:
    """Anybody can write what is nearly a command; each person is told once a day per issue."""
    issue = await bot.github.open_issue(as_user="outsider", title="Sums are off", body="")
    for _ in range(3):
        await bot.github.comment(issue, as_user="outsider", body="- x\n/ultracode do it")
        await bot.hear()
    assert len(await bot.said(issue)) == 1


async def test_a_delivery_given_up_says_so_once(bot: Bot) -> None:
    """Whoever asked reads that it was not done, and why."""
    issue = await bot.github.open_issue(as_user="writer", title="Sums are off", body="")
    await bot.github.comment(issue, as_user="writer", body="/ultracode Make sums right.")
    guid = await taken(bot)
    for _ in range(2):
        await give_up_delivery(bot.services, guid, "The stars are wrong.")
    [said] = await bot.said(issue)
    assert "The stars are wrong." in said
    assert (await bot.services.deliveries.load(guid)).outcome is DeliveryOutcome.FAILED


@pytest.mark.parametrize("door", ["label", "review"])
async def test_it_says_so_on_pull_requests_too(bot: Bot, door: str) -> None:
    """The label on a pull request, or a review's words, were no less of a wish."""
    pull = await bot.pull("topic/notes")
    if door == "label":
        await bot.github.label(pull.issue, "ultracode", as_user="writer")
        guid = await taken(bot, "pull_request")
    else:
        await bot.github.review(pull, as_user="writer", event="COMMENT", body="/ultracode status")
        guid = await taken(bot, "pull_request_review")
    await give_up_delivery(bot.services, guid, "The stars are wrong.")
    [said] = await bot.said(pull)
    assert "The stars are wrong." in said


async def test_what_is_gone_is_let_go(bot: Bot) -> None:
    """A comment on an issue that was deleted before its job came is settled with the reason."""
    issue = await bot.github.open_issue(as_user="writer", title="Sums are off", body="")
    await bot.github.comment(issue, as_user="writer", body="/ultracode help")
    guid = await taken(bot)
    bot.github.repository().issues.pop(issue.number)
    await handle_delivery(bot.services, guid)
    stored = await bot.services.deliveries.load(guid)
    assert stored.outcome is DeliveryOutcome.FAILED
    assert stored.outcome_reason
