"""What befalls installations, repositories and issues, told over HTTP: each has its defined end."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import orjson
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


async def _delete(bot: Bot, _: Issue) -> None:
    housekeeping.delete(bot.github.world, bot.github.acting("admin"), bot.github.repository())


async def _transfer(bot: Bot, _: Issue) -> None:
    world, github = bot.github.world, bot.github
    to = github.person("writer").account
    housekeeping.transfer(world, github.acting("admin"), github.repository(), to)


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
        (_delete, "repository was deleted"),
        (_transfer, "has a new owner"),
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


@dataclass(frozen=True)
class Back:
    """Something that is taken from the bot and given back."""

    take: Befall
    give: Befall


async def _unsuspend(bot: Bot, _: Issue) -> None:
    bot.github.unsuspend(bot.github.app)


async def _give_back(bot: Bot, _: Issue) -> None:
    bot.github.give_repository(bot.github.app, bot.github.repository())


async def _unarchive(bot: Bot, _: Issue) -> None:
    world, where = bot.github.world, bot.github.repository()
    await housekeeping.edit(world, bot.github.acting("admin"), where, Changes(archived=False))


@pytest.mark.parametrize(
    "back", [Back(_suspend, _unsuspend), Back(_take, _give_back), Back(_archive, _unarchive)]
)
async def test_it_is_said_once_it_can_be(bot: Bot, back: Back) -> None:
    """When the App may write again, the issue says that the run ended and how to go on; retry does.

    It is said once, whatever is delivered again.
    """
    issue, run = await bot.start()
    await back.take(bot, issue)
    await bot.hear()
    assert await bot.said(issue) == [], "nobody could be told"
    await back.give(bot, issue)
    await bot.hear()
    said = await bot.said(issue)
    assert "`/ultracode retry` starts" in said[0]
    assert f"@{bot.github.person('writer').login}" in said[0]
    for event in ("installation", "installation_repositories", "repository"):
        if any(d.event == event for d in bot.github.deliveries):
            await bot.post(event, orjson.dumps(bot.last(event)))
    await bot.hear()
    assert await bot.said(issue) == said
    await bot.github.comment(issue, as_user="writer", body="/ultracode retry")
    await bot.hear()
    new = (await bot.runs())[-1]
    assert (new.parent_run_id, new.state) == (run.run_id, RunState.ACCEPTED)


async def test_nothing_is_said_of_a_run_that_was_left_behind(bot: Bot) -> None:
    """Where a newer run has the issue, the ending that nobody was told is not dug up."""
    issue, _ = await bot.start()
    await _archive(bot, issue)
    await bot.hear()
    await _unarchive(bot, issue)
    await bot.github.settle()
    bot.heard |= {delivery.id for delivery in bot.github.deliveries}  # that webhook was lost
    await bot.github.comment(issue, as_user="writer", body="/ultracode retry")
    await bot.hear()
    _, new = await bot.runs()
    await _suspend(bot, issue)
    await bot.hear()
    await _unsuspend(bot, issue)
    await bot.hear()
    [ending] = [words for words in await bot.said(issue) if "could not go on" in words]
    assert "suspended" in ending
    assert (await bot.services.runs.get(new.run_id)).state is RunState.CANCELLED
