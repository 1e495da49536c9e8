"""Workers killed in the middle of whole stories, and everything still comes out right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bot.store.effects import EffectKind, crash_points
from tests.acceptance.conftest import Shop
from tests.acceptance.lane import Lane, Tale, lane
from tests.acceptance.plays import judged, plan, play, task, work, write

# --- what is lived through ------------------------------------------------------------------------


def one_change(content: str, *, round: int = 0) -> list[dict[str, Any]]:
    """Return planner and worker of a round that writes the one file."""
    return [
        plan(task("state", "state.txt", "note.txt"), round=round),
        work("state", write("state.txt", content), round=round),
    ]


async def repaired(shop: Shop) -> None:
    """A label starts it, the first round fails, the second is approved and lands."""
    shop.play(play(one_change("wrong\n"), judged(), one_change("good\n", round=1), judged(round=1)))
    issue = await shop.writer.open_issue("The state is bad", "It should be good.")
    await shop.writer.label(issue, "ultracode")
    pull = await shop.ready()
    await shop.reviewer.review(pull["number"])
    assert (await shop.ended(issue))["state"] == "promoted"
    assert await shop.writer.branch("main") == pull["head"]["sha"]


async def rejected(shop: Shop) -> None:
    """A comment starts it, and a writer closes the pull request."""
    shop.play(play(one_change("good\n"), judged()))
    issue = await shop.ask()
    pull = await shop.ready()
    await shop.reviewer.close(pull["number"])
    assert (await shop.ended(issue))["state"] == "rejected"


async def cancelled(shop: Shop) -> None:
    """It is cancelled while it waits for its review."""
    shop.play(play(one_change("good\n"), judged()))
    issue = await shop.ask()
    await shop.ready()
    await shop.writer.comment(issue, "/ultracode cancel")
    assert (await shop.ended(issue))["state"] == "cancelled"


async def revised(shop: Shop) -> None:
    """A review requests changes; the revision is approved and lands."""
    shop.play(play(one_change("good\n"), judged()))
    issue = await shop.ask()
    pull = await shop.ready()
    shop.play(play(plan(task("note", "note.txt")), work("note", write("note.txt", "x")), judged()))
    await shop.reviewer.review(pull["number"], "REQUEST_CHANGES", body="Say why.")
    fresh = await shop.moved_on(pull["number"], pull["head"]["sha"])
    await shop.reviewer.review(pull["number"])
    assert (await shop.ended(issue))["state"] == "promoted"
    assert await shop.writer.branch("main") == fresh


TALES: tuple[Tale, ...] = (repaired, rejected, cancelled, revised)
MOST_STORIES = 40
#: Nothing in these stories doubles a comment, so none is deleted.
NOT_REACHED = {EffectKind.COMMENT_DELETION}


# --- and where workers die ------------------------------------------------------------------------

SAMPLE = (
    "effects.after_act:pull_request",
    "effects.before_act:check_run",
    "pieces.before_save:worker",
    "effects.after_act:promotion",
)


async def test_a_worker_killed_here_and_there_in_a_story(tmp_path: Path) -> None:
    """Killed at four points of a story, on top of what an earlier worker left behind."""
    left = tmp_path / "data" / "workspaces" / "7" / "leased" / "gone-r0-state"
    (left / "files").mkdir(parents=True)
    (left / "lease.json").write_text('{"owner": "dead", "secret": "", "parent": "", "ready": true}')
    async with lane(tmp_path, ["octo-state/state"]) as opened:
        died = await opened.live(repaired, "octo-state/state", points=list(SAMPLE))
    assert opened.killed == set(SAMPLE)
    assert died == len(SAMPLE)


@pytest.mark.matrix
async def test_a_worker_killed_at_every_point(tmp_path: Path) -> None:
    """Killed before and after every outside write and every finished piece, one story a time.

    The points are those the stories pass; every kind of outside write is among them.
    """
    names = [f"octo-state/state-{number}" for number in range(MOST_STORIES)]
    async with lane(tmp_path, names) as opened:
        for tale in TALES:
            await exhaust(opened, tale, names)
    assert opened.killed == opened.passed
    wanted = {point for point in crash_points() if point.split(":")[1] not in NOT_REACHED}
    assert wanted - opened.killed == set()


async def exhaust(opened: Lane, tale: Tale, names: list[str]) -> None:
    """Live through a story again and again until no point of it is left to die at."""
    while await opened.live(tale, names.pop(0)):
        pass
