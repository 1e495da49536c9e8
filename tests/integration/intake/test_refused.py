"""Starts that are refused: what is kept of them, without anybody working."""

from __future__ import annotations

from bot.store.tables import RunState
from tests.integration.intake.conftest import Bot


async def test_a_refused_start_is_listed_and_followed_by_none(bot: Bot) -> None:
    """A refused start stands among the runs with its reason; retry and verify do not take it up."""
    issue = await bot.github.open_issue(as_user="writer", title="Sums are off", body="")
    await bot.github.comment(issue, as_user="writer", body="/ultracode --base nowhere Fix it.")
    await bot.hear()
    (run,) = await bot.runs()
    assert run.state is RunState.REFUSED
    assert run.ended_at is not None
    assert "nowhere" in (run.outcome_sentence or "")

    for command in ("retry", "verify", "revise Better.", "refresh", "status"):
        await bot.github.comment(issue, as_user="writer", body=f"/ultracode {command}")
        await bot.hear()
    assert len(await bot.runs()) == 1

    await bot.github.comment(issue, as_user="writer", body="/ultracode Make sums right.")
    await bot.hear()
    assert [run.state for run in await bot.runs()] == [RunState.REFUSED, RunState.ACCEPTED]

    await bot.github.comment(issue, as_user="writer", body="/ultracode --base nowhere Again.")
    await bot.hear()
    assert len(await bot.runs()) == 2, "a live run is what counts on its issue"


async def test_an_outsiders_start_leaves_no_run(bot: Bot) -> None:
    """Who may not ask is answered once, and leaves nothing among the runs."""
    issue = await bot.github.open_issue(as_user="outsider", title="Sums are off", body="")
    await bot.github.comment(issue, as_user="outsider", body="/ultracode Fix it.")
    await bot.hear()
    assert await bot.runs() == []
