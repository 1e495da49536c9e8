"""Each door, tried by people who may not use it: nothing happens, or the right refusal is said."""

import copy
from typing import Any

import orjson
import pytest

from bot.store.runs import Run
from bot.store.tables import RunState
from evals.loopback import LineComment
from evals.loopback.state import Issue
from tests.integration.intake.conftest import Bot

pytestmark = pytest.mark.postgres

DOORS = (
    *("comment", "thread", "review", "label", "label on a pull request"),
    *("button", "rerequested", "suite"),
)
KEYS = ("outsider", "reader", "triager")
APP = {"id": 77, "login": "other[bot]", "type": "Bot"}


async def knock(bot: Bot, door: str, issue: Issue, run: Run) -> tuple[str, dict[str, Any]]:
    """Let a writer use a door; return what GitHub sends for it, undelivered to anybody else."""
    github = bot.github
    if door == "comment":
        await github.comment(issue, as_user="writer", body="/ultracode cancel")
        return "issue_comment", bot.last("issue_comment")
    if door == "thread":
        pull = await bot.pull("topic/notes")
        remark = LineComment(path="notes.md", body="/ultracode Say why.", line=1)
        await github.review(pull, as_user="writer", event="COMMENT", comments=[remark])
        name = "pull_request_review_comment"
        return name, bot.last(name)
    if door == "review":
        pull = await bot.pull("topic/notes")
        await github.review(pull, as_user="writer", event="COMMENT", body="/ultracode cancel")
        return "pull_request_review", bot.last("pull_request_review")
    if door == "label on a pull request":
        pull = await bot.pull("topic/notes")
        await github.label(pull.issue, "ultracode", as_user="writer")
        return "pull_request", bot.last("pull_request")
    if door == "label":
        other = await github.open_issue(as_user="writer", title="More", body="And more")
        await github.label(other, "ultracode", as_user="writer")
        return "issues", bot.last("issues")
    tip = await github.repository().git.branch("main")
    assert tip is not None
    check = await bot.check(run, "ultracode/suite/unit", tip)
    payload = bot.last("check_run")
    presses: dict[str, dict[str, Any]] = {
        "button": {"action": "requested_action", "requested_action": {"identifier": "cancel"}},
        "rerequested": {"action": "rerequested"},
    }
    pressed = presses.get(door, {})
    if door != "suite":
        return "check_run", payload | pressed
    suite = bot.last("check_suite") | {"action": "rerequested"}
    assert suite["check_suite"]["app"]["id"] == check.suite.app.id
    return "check_suite", suite


def as_sender(payload: dict[str, Any], account: dict[str, Any] | None) -> bytes:
    """Return a payload as if somebody else, or a deleted account, had caused it."""
    changed = copy.deepcopy(payload)
    changed["sender"] = account
    for words in {"comment", "review"} & changed.keys():
        changed[words]["user"] = account
    return orjson.dumps(changed)


@pytest.mark.parametrize("door", DOORS)
async def test_a_door_and_those_who_may_not_use_it(bot: Bot, door: str) -> None:
    """Without write one is refused once, an App or a deleted account is not heard at all."""
    issue, run = await bot.start()
    event, payload = await knock(bot, door, issue, run)
    before = await words(bot)
    for account in (APP, None):
        assert await bot.post(event, as_sender(payload, account)) in {202, 204}
        await bot.work()
    assert await words(bot) == before, "nobody is answered"
    for key in KEYS:
        person = bot.github.person(key)
        account = {"id": person.id, "login": person.login, "type": "User"}
        for _ in range(2):
            payload["seen"] = payload.get("seen", 0) + 1  # another delivery of the same wish
            assert await bot.post(event, as_sender(payload, account)) == 202
            await bot.work()
    assert [run.state for run in await bot.runs()] == [RunState.ACCEPTED]
    refusals = (await words(bot))[len(before) :]
    assert len(refusals) == len(KEYS), "one refusal each, not one for each time"
    assert all("write access" in words for words in refusals)


async def words(bot: Bot) -> list[str]:
    """Return everything the bot said anywhere, in the order of its places."""
    found: list[str] = []
    for issue in bot.github.repository().issues.values():
        found += await bot.said(issue)
        if issue.pull is not None:
            found += [c.body for c in issue.pull.review_comments() if c.user is bot.github.app.bot]
    return found


async def test_buttons_of_other_apps_and_forged_ids_do_nothing(bot: Bot) -> None:
    """A check that another App made is not ours, whatever name and external id it has."""
    issue, run = await bot.start()
    _, payload = await knock(bot, "button", issue, run)
    foreign = copy.deepcopy(payload)
    foreign["check_run"]["app"]["id"] = 77
    forged = copy.deepcopy(payload)
    forged["check_run"]["id"] += 1_000_000
    wim = bot.github.person("writer")
    writer = {"id": wim.id, "login": wim.login, "type": "User"}
    for body in (foreign, forged):
        await bot.post("check_run", as_sender(body, writer))
        await bot.work()
    assert (await bot.services.runs.get(run.run_id)).state is RunState.ACCEPTED
    await bot.post("check_run", as_sender(payload, writer))
    await bot.work()
    assert (await bot.services.runs.get(run.run_id)).state is RunState.CANCELLED


@pytest.mark.parametrize(
    ("wish", "answer"),
    [("refresh", "waits for a review"), ("rerun_suites", "Suites run again"), ("dance", "dance")],
)
async def test_buttons_that_cannot_be_obeyed_are_answered(bot: Bot, wish: str, answer: str) -> None:
    """Refresh and Re-run suites before there is anything to review are answered in words."""
    issue, run = await bot.start()
    _, payload = await knock(bot, "button", issue, run)
    payload["requested_action"] = {"identifier": wish}
    wim = bot.github.person("writer")
    who = {"id": wim.id, "login": wim.login, "type": "User"}
    await bot.post("check_run", as_sender(payload, who))
    await bot.work()
    assert answer in (await bot.said(issue))[-1]
    assert (await bot.services.runs.get(run.run_id)).state is RunState.ACCEPTED
