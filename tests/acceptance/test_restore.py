"""An operator loses the machine, restores a backup, and runs go on, told over HTTP only."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from evals.backup import back_up, lose_everything_and_restore
from evals.facts import gather, settled
from evals.invariants import violations
from evals.scripted_model import parse_script, running
from evals.stage import Stage
from tests.acceptance.conftest import Shop
from tests.acceptance.lane import small_stage
from tests.acceptance.plays import judged, play
from tests.acceptance.test_killed_in_a_story import one_change


@pytest.fixture
async def small_shop(tmp_path: Path) -> AsyncIterator[Shop]:
    """A small repository on a stage of its own, with web and worker."""
    async with (
        running(parse_script("entries: []")) as model,
        small_stage(tmp_path, ["octo-state/state"], model) as opened,
    ):
        await opened.start_worker()
        yield Shop(opened, model, "octo-state/state")


async def stop(stage: Stage) -> None:
    """Stop the server in order."""
    await stage.parts["worker"].stop()
    await stage.parts["web"].stop()


async def start(stage: Stage) -> None:
    """Start the server."""
    await stage.start_web()
    await stage.start_worker()


async def test_a_restored_run_waits_for_its_review_as_before(
    small_shop: Shop, tmp_path: Path
) -> None:
    """Database and artifacts are enough: the reviewed commit lands, and its proof is whole."""
    shop = small_shop
    shop.play(play(one_change("good\n"), judged()))
    issue = await shop.ask()
    pull = await shop.ready()
    await settled(shop.stage)
    await stop(shop.stage)
    asked = len(shop.model.asked)
    kept = await back_up(shop.stage, tmp_path / "backup")
    await lose_everything_and_restore(shop.stage, kept)
    await start(shop.stage)

    await shop.reviewer.review(pull["number"])
    run = await shop.ended(issue)
    assert run["state"] == "promoted"
    assert await shop.writer.branch("main") == pull["head"]["sha"]
    assert len(shop.model.asked) == asked, "nothing is worked out twice"
    code, printed = await shop.ultracode("verify", run["run_id"])
    assert (code, "consistent" in printed) == (3, True), printed  # nobody signs here
    await settled(shop.stage)
    assert violations(await gather(shop.stage)) == []


async def test_a_backup_older_than_the_merge_merges_nothing_again(
    small_shop: Shop, tmp_path: Path
) -> None:
    """What happened on GitHub after the backup is seen there: it is told, and not done twice."""
    shop = small_shop
    shop.play(play(one_change("good\n"), judged()))
    issue = await shop.ask()
    pull = await shop.ready()
    await settled(shop.stage)
    kept = await back_up(shop.stage, tmp_path / "backup")
    await shop.reviewer.review(pull["number"])
    assert (await shop.ended(issue))["state"] == "promoted"
    await settled(shop.stage)
    history = await shop.writer.commits("main")
    await stop(shop.stage)
    await lose_everything_and_restore(shop.stage, kept)
    await start(shop.stage)

    await shop.writer.comment(issue, "/ultracode retry")  # else the reconciler looks, in minutes
    run = await shop.ended(issue)
    assert run["state"] == "merged_elsewhere"
    assert await shop.writer.commits("main") == history
