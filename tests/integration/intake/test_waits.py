"""Runs that wait for a go: how long, and for whose word, without anybody working."""

from __future__ import annotations

from datetime import timedelta

from bot.advance import advance
from bot.clock import now
from bot.store.tables import RunState
from tests.integration.intake.conftest import Bot


async def test_a_wait_for_go_expires(bot: Bot) -> None:
    """Nobody says go in time: the run expires, says so, and a late go changes nothing."""
    issue = await bot.github.open_issue(as_user="outsider", title="Sums are off", body="Fix.")
    await bot.github.comment(issue, as_user="writer", body="/ultracode")
    await bot.hear()
    (run,) = await bot.runs()
    assert (run.state, run.state_reason) == (RunState.AWAITING_GO, "outsiders_words")
    await bot.services.runs.record(
        run.run_id, epoch=run.epoch, deadline_at=now() - timedelta(seconds=1)
    )
    await advance(bot.services, run.run_id)
    (run,) = await bot.runs()
    assert run.state is RunState.EXPIRED
    assert any("expired" in text for text in await bot.said(issue))

    await bot.github.comment(issue, as_user="writer", body="/ultracode go")
    await bot.hear()
    assert [run.state for run in await bot.runs()] == [RunState.EXPIRED]


async def test_one_go_answers_one_wait(bot: Bot) -> None:
    """A go lets the run on once, and who said it is remembered with the run."""
    issue = await bot.github.open_issue(as_user="outsider", title="Sums are off", body="Fix.")
    await bot.github.comment(issue, as_user="writer", body="/ultracode")
    await bot.hear()
    await bot.github.comment(issue, as_user="second_writer", body="/ultracode go")
    await bot.hear()
    (run,) = await bot.runs()
    assert run.state is RunState.ACCEPTED
    said = await bot.services.pieces.load(run.run_id, "go:outsiders_words")
    assert said is not None
    assert said.value["who"]["login"] == "rosa"
