"""Every kind of comment in tests/cases/commands.yaml, written on GitHub and told over HTTP."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from bot.contracts import CodingRequest
from bot.store.runs import Run
from evals.loopback.state import Comment, Issue
from tests.integration.intake.conftest import Bot

pytestmark = pytest.mark.postgres

CASES: list[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parents[2] / "cases" / "commands.yaml").read_text("utf-8")
)
GITHUBS_LONGEST = 65_536


def body_of(case: dict[str, Any]) -> str:
    """Return a case's comment."""
    if "body_repeat" in case:
        prefix, unit, count = case["body_repeat"]
        return str(prefix + unit * count)[:GITHUBS_LONGEST]
    return str(case["body"])


async def test_every_comment_gets_what_it_is_due(bot: Bot) -> None:
    """Reaction and run, reaction and answer, a hint, or silence: as each case says, and once."""
    told: list[tuple[dict[str, Any], Issue, Comment]] = []
    await bot.github.push({"x": "1"}, as_user="writer", branch="release/1.x", start="main")
    for case in CASES:
        issue = await bot.github.open_issue(as_user="writer", title=case["id"], body="As said.")
        if body := body_of(case):
            told.append((case, issue, await bot.github.comment(issue, as_user="writer", body=body)))
    await bot.hear()
    runs = {run.issue_number: run for run in await bot.runs()}
    words = {issue.number: await bot.said(issue) for _, issue, _ in told}
    for case, issue, comment in told:
        reactions = [reaction.content for reaction in comment.reactions]
        judge(case, runs.get(issue.number), words[issue.number], reactions)
    for delivery in [d for d in bot.github.deliveries if d.event == "issue_comment"]:
        await bot.post(delivery.event, delivery.body)
    await bot.work()
    assert {issue.number: await bot.said(issue) for _, issue, _ in told} == words
    assert len(await bot.runs()) == len(runs), "what comes again starts nothing"


def judge(case: dict[str, Any], run: Run | None, said: list[str], reactions: list[str]) -> None:
    """Hold what one comment led to against its case."""
    name, expect = case["id"], case["expect"]
    if expect == "none":
        assert (run, reactions) == (None, []), name
        hinted = "hint" in case.get("note", "")
        assert (["Markdown made it part" in words for words in said] == [True]) == hinted, name
        assert hinted or not said, name
        return
    assert reactions == ["eyes"], name
    started = expect == "start" or (isinstance(expect, dict) and "start" in expect)
    assert (run is not None) == started, name
    if run is None:
        near = expect.get("did_you_mean", "") if isinstance(expect, dict) else ""
        assert len(said) == 1, name
        assert near in said[0], name
    elif isinstance(expect, dict):
        request = CodingRequest.model_validate(run.request["coding_request"])
        wanted = expect["start"] or f"{name}\n\nAs said."
        assert request.request == wanted.strip(), name
        assert request.base_ref == f"refs/heads/{expect.get('base', 'main')}", name
