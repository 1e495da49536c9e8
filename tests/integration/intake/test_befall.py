"""What befalls installations, repositories and issues, told over HTTP: each has its defined end."""

from collections.abc import Awaitable, Callable

import pytest

from bot.store.tables import RunState
from evals.loopback import housekeeping
from evals.loopback.housekeeping import Changes
from evals.loopback.state import Issue
from tests.integration.intake.conftest import Bot

pytestmark = pytest.mark.postgres

Befall = Callable[[Bot, Issue], Awaitable[None]]


async def _suspend(bot: Bot, _: Issue) -> None:
    bot.github.suspend(bot.github.app)


async def _uninstall(bot: Bot, _: Issue) -> None:
    bot.github.uninstall(bot.github.app)


async def _take(bot: Bot, _: Issue) -> None:
    bot.github.take_repository(bot.github.app, bot.github.repository())


async def _archive(bot: Bot, _: Issue) -> None:
    world, where = bot.github.world, bot.github.repository()
    await housekeeping.edit(world, bot.github.acting("admin"), where, Changes(archived=True))


async def _delete_issue(bot: Bot, issue: Issue) -> None:
    await bot.github.delete_issue(issue)


async def _transfer_issue(bot: Bot, issue: Issue) -> None:
    await bot.github.transfer_issue(issue, bot.github.repository("acme/other"), as_user="admin")


@pytest.mark.parametrize(
    ("befall", "sentence"),
    [
        (_suspend, "suspended"),
        (_uninstall, "uninstalled"),
        (_take, "taken from the App"),
        (_archive, "was archived"),
        (_delete_issue, "issue was deleted"),
        (_transfer_issue, "moved to another repository"),
    ],
)
async def test_a_live_run_ends(bot: Bot, befall: Befall, sentence: str) -> None:
    """A run that lost its ground ends cancelled with the reason, whatever GitHub still shows."""
    issue, run = await bot.start()
    await befall(bot, issue)
    await bot.hear()
    ended = await bot.services.runs.get(run.run_id)
    assert ended.state is RunState.CANCELLED
    assert sentence in (ended.outcome_sentence or "")


async def test_a_new_name_a_lock_and_other_repositories_change_nothing(bot: Bot) -> None:
    """Renamed, locked, or with another repository taken from the App, a run goes on as before."""
    issue, run = await bot.start()
    world, where = bot.github.world, bot.github.repository()
    await housekeeping.edit(world, bot.github.acting("admin"), where, Changes(name="totals"))
    await bot.github.lock_issue(issue, as_user="writer")
    bot.github.take_repository(bot.github.app, bot.github.repository("acme/other"))
    await bot.hear()
    assert (await bot.services.runs.get(run.run_id)).state is RunState.ACCEPTED
    await bot.github.comment(issue, as_user="writer", body="/ultracode status")
    await bot.hear()
    assert run.run_id in (await bot.said(issue))[-1]


async def test_a_retry_after_a_suspension(bot: Bot) -> None:
    """Once the App is back, `/ultracode retry` starts the run anew."""
    issue, run = await bot.start()
    await _suspend(bot, issue)
    await bot.hear()
    bot.github.unsuspend(bot.github.app)
    await bot.hear()
    await bot.github.comment(issue, as_user="writer", body="/ultracode retry")
    await bot.hear()
    new = (await bot.runs())[-1]
    assert (new.parent_run_id, new.state) == (run.run_id, RunState.ACCEPTED)
