"""What is refused, answered or cancelled before anything is merged, told over HTTP only."""

from __future__ import annotations

import asyncio

from tests.acceptance.conftest import Shop
from tests.acceptance.plays import (
    CART,
    MONEY,
    edit,
    good_fix,
    judged,
    plan,
    play,
    run,
    task,
    work,
    write,
)


async def test_somebody_without_write_is_refused_once(shop: Shop) -> None:
    """An outsider gets one reaction and one comment, and no run."""
    issue = await shop.writer.open_issue("Totals are off")
    outsider = shop.person("outsider")
    await outsider.comment(issue, "/ultracode Fix it.")
    await shop.said(issue, "write access")
    await outsider.comment(issue, "/ultracode Fix it, please.")
    await outsider.comment(issue, "/ultracode help")
    await asyncio.sleep(3)
    assert len(await shop.words(issue)) == 1


async def test_misspelt_command_is_answered(shop: Shop) -> None:
    """A word that is nearly a command is answered with the command, and nothing starts."""
    issue = await shop.writer.open_issue("Totals are off")
    await shop.writer.comment(issue, "/ultracode cancle")
    await shop.said(issue, "`/ultracode cancel`")


async def test_text_that_is_no_command_gets_nothing(shop: Shop) -> None:
    """Quotes, code and mid-sentence mentions are inert; a folded line gets a hint."""
    issue = await shop.writer.open_issue("Totals are off")
    await shop.writer.comment(issue, "> /ultracode fix it\n\nI would not do that.")
    await shop.writer.comment(issue, "Maybe ask the bot with /ultracode to fix it?")
    await shop.writer.comment(issue, "> quoted\n/ultracode fix it")
    await shop.said(issue, "empty line")
    assert len(await shop.words(issue)) == 1


async def test_no_policy_is_refused_with_a_file_to_copy(bare_shop: Shop) -> None:
    """A repository without policy gets a proposal filled in from what it holds."""
    issue = await bare_shop.ask()
    words = await bare_shop.said(issue, ".github/ultracode.yml")
    assert "version: 1" in words
    assert "suites:" in words


async def test_policy_error_names_the_line(shop: Shop) -> None:
    """A duplicate or unknown key in the policy is refused, naming the line and the nearest key."""
    policy = "version: 1\nsuite:\n  unit: {run: true}\n"
    await shop.writer.commit_file("main", ".github/ultracode.yml", policy)
    issue = await shop.ask()
    words = await shop.said(issue, "line 2")
    assert "suites" in words


async def test_second_start_is_answered(shop: Shop) -> None:
    """A second start on an issue with a live run is answered, not started."""
    shop.play(good_fix())
    issue = await shop.ask()
    await shop.ready()
    await shop.writer.comment(issue, "/ultracode Do something else.")
    await shop.said(issue, "already has a run")
    assert len(await shop.writer.pulls()) == 1


async def test_cancel_stops_a_waiting_run(shop: Shop) -> None:
    """Cancel while waiting: words, the branch goes, nothing is merged, later approval too."""
    shop.play(good_fix())
    before = await shop.writer.branch("main")
    issue = await shop.ask()
    pull = await shop.ready()
    await shop.writer.comment(issue, "/ultracode cancel")
    assert (await shop.ended(issue))["state"] == "cancelled"
    await shop.said(issue, "cancelled")
    assert await shop.writer.branch(pull["head"]["ref"]) is None
    assert await shop.writer.branch("main") == before


async def test_cancel_stops_a_busy_worker(shop: Shop) -> None:
    """Cancel while a worker's command runs: the run ends within seconds and nothing is shown."""
    shop.play(
        play(
            plan(task("discounts", "shop/cart.py")),
            work("discounts", run("sleep 50")),
            judged(),
        )
    )
    issue = await shop.ask()
    await shop.model_was_asked("worker")
    await shop.writer.comment(issue, "/ultracode cancel")
    assert (await shop.ended(issue))["state"] == "cancelled"
    assert await shop.writer.pulls() == []


async def test_outsiders_words_wait_for_go(shop: Shop) -> None:
    """An outsider's issue waits for go, word for word; so does what was made of it."""
    shop.play(good_fix())
    issue = await shop.person("outsider").open_issue("Totals are off", "Please fix the cents.")
    await shop.writer.comment(issue, "/ultracode")
    await shop.said(issue, "/ultracode go", "Please fix the cents.")
    assert await shop.writer.pulls() == []
    await shop.writer.comment(issue, "/ultracode go")
    await shop.said(issue, "has not been pushed", "shop/money.py")
    assert await shop.writer.pulls() == []
    await shop.writer.comment(issue, "/ultracode go")
    await shop.ready()


async def test_label_starts_a_run_and_comes_off(shop: Shop) -> None:
    """The label starts a run with the issue as the request, and is taken off."""
    shop.play(good_fix())
    issue = await shop.writer.open_issue("Totals are off by a cent", "Round them well.")
    await shop.writer.label(issue, "ultracode")
    await shop.ready()
    assert (await shop.writer.issue(issue))["labels"] == []


async def test_worker_outside_its_scope_fails_with_the_path(shop: Shop) -> None:
    """A worker that writes outside its globs fails the round, naming the path, three times."""
    stray = [
        entry
        for round in range(3)
        for entry in (
            plan(task("discounts", "shop/cart.py"), round=round),
            work("discounts", run("echo x > shop/money.py"), round=round),
        )
    ]
    shop.play(play(*stray))
    issue = await shop.ask()
    ended = await shop.ended(issue)
    assert ended["state"] == "failed"
    assert "shop/money.py" in ended["sentence"]
    assert await shop.writer.pulls() == []


async def test_overlapping_plan_is_rejected_with_the_paths(shop: Shop) -> None:
    """Two writable items that could touch one path are rejected before any worker starts."""
    overlapping = plan(task("one", "shop/**"), task("two", "shop/*.py"))
    overlapping["turns"][0]["repeat"] = True
    shop.play(play(overlapping))
    issue = await shop.ask()
    ended = await shop.ended(issue)
    assert ended["state"] == "failed"
    assert "shop" in ended["sentence"]
    assert not any(asked.role == "worker" for asked in shop.model.asked)


async def test_blocked_worker_fails_in_its_own_words(shop: Shop) -> None:
    """A worker that is blocked in every round ends the run with what it said."""
    blocked = [
        entry
        for round in range(3)
        for entry in (
            plan(task("discounts", "shop/cart.py"), round=round),
            work("discounts", round=round, status="blocked"),
        )
    ]
    shop.play(play(*blocked))
    ended = await shop.ended(await shop.ask())
    assert ended["state"] == "failed"
    assert "discounts is blocked" in ended["sentence"]


async def test_words_about_another_candidate_fail_the_round(shop: Shop) -> None:
    """A reviewer that names another candidate's digest never passes it."""
    rounds = [
        plan(task("prices", "shop/money.py"), task("discounts", "shop/cart.py")),
        work("prices", MONEY),
        work("discounts", CART),
        judged(evidence_digest="0" * 64),
    ]
    for round in (1, 2):
        rounds += [
            plan(task("nothing", "shop/cart.py"), round=round),
            work("nothing", round=round),
            judged(round=round, candidate_sha="0" * 40),
        ]
    shop.play(play(*rounds))
    ended = await shop.ended(await shop.ask())
    assert ended["state"] == "failed"
    assert "another candidate SHA" in ended["sentence"]


async def test_model_down_ends_in_words(shop: Shop) -> None:
    """A model that keeps failing ends the run with a sentence, not with silence."""
    broken = plan(task("prices", "shop/money.py"))
    broken["turns"][0]["faults"] = [{"kind": 500, "times": "always"}]
    shop.play(play(broken))
    ended = await shop.ended(await shop.ask())
    assert ended["state"] == "failed"
    assert "model" in ended["sentence"].lower()


async def test_planted_conftest_is_refused(shop: Shop) -> None:
    """A worker cannot plant what configures the test runner, however wide its globs are."""
    planted = [
        entry
        for round in range(3)
        for entry in (
            plan(task("discounts", "**"), round=round),
            work("discounts", write("tests/conftest.py", "import os\nos._exit(0)\n"), round=round),
        )
    ]
    shop.play(play(*planted))
    ended = await shop.ended(await shop.ask())
    assert ended["state"] == "failed"
    assert await shop.writer.pulls() == []


__all__ = ["edit"]
