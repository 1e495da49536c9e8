"""What a crash or a double delivery must not change, seen from GitHub's side."""

from __future__ import annotations

import asyncio

from tests.acceptance.conftest import Shop
from tests.acceptance.plays import good_fix


async def test_killed_while_paused_goes_on_after_a_restart(shop: Shop) -> None:
    """Web and worker are killed while a review is awaited; after a restart the approval counts."""
    shop.play(good_fix())
    issue = await shop.ask()
    pull = await shop.ready()
    asked = len(shop.model.asked)
    await asyncio.gather(*(shop.stage.parts[name].kill() for name in ("web", "worker")))
    await asyncio.gather(shop.stage.start_web(), shop.stage.start_worker())
    await shop.reviewer.review(pull["number"])
    assert (await shop.ended(issue))["state"] == "promoted"
    assert await shop.writer.branch("main") == pull["head"]["sha"]
    assert len(shop.model.asked) == asked, "nothing is thought twice"


async def test_killed_while_a_worker_works_goes_on_elsewhere(shop: Shop) -> None:
    """A worker process killed in the middle of a round is replaced, and nothing is doubled."""
    shop.play(good_fix())
    issue = await shop.ask()
    await shop.model_was_asked("worker")
    await shop.stage.parts["worker"].kill()
    await shop.stage.start_worker()
    pull = await shop.ready()
    assert len(await shop.writer.pulls()) == 1
    await shop.reviewer.review(pull["number"])
    assert (await shop.ended(issue))["state"] == "promoted"
    names = [check["name"] for check in await shop.writer.checks(pull["head"]["sha"])]
    assert len(names) == len(set(names)), "no check run is doubled"
    assert sum("Success criteria" in words for words in await shop.words(issue)) == 1


async def test_one_approval_and_two_workers_make_one_promotion(shop: Shop) -> None:
    """The same approval, delivered twice, with two workers at it, promotes once."""
    shop.play(good_fix())
    issue = await shop.ask()
    pull = await shop.ready()
    await shop.stage.start_worker("worker-2")
    try:
        await shop.stage.let_webhooks_go_wrong("duplicate", "pull_request_review")
        await shop.reviewer.review(pull["number"])
        assert (await shop.ended(issue))["state"] == "promoted"
        await asyncio.sleep(2)
        words = await shop.words(issue)
        assert len(words) == 3, "status, the question for a review, the ending: each once"
        history = [commit["sha"] for commit in await shop.writer.commits("main")]
        assert history[0] == pull["head"]["sha"]
        assert len(history) == 2
    finally:
        await shop.stage.parts.pop("worker-2").stop()
