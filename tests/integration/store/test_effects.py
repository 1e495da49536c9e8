import json
import subprocess
import sys
from pathlib import Path

import pytest

from bot.errors import StaleEpoch
from bot.store.database import Database
from bot.store.effects import EffectKind, Effects, crash_points
from bot.store.runs import RunState, RunStore
from tests.integration.store.make import make_run

pytestmark = pytest.mark.postgres


class Outside:
    """What lies outside of the bot, as a list of what was done there."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.acted = 0
        self.looked = 0

    async def act(self) -> str:
        self.acted += 1
        self.done.append(f"comment-{self.acted}")
        return self.done[-1]

    async def find(self) -> str | None:
        self.looked += 1
        return self.done[0] if self.done else None

    async def undo(self, external_id: str) -> None:
        self.done.remove(external_id)


@pytest.fixture
def runs(database: Database) -> RunStore:
    return RunStore(database)


@pytest.fixture
def effects(database: Database) -> Effects:
    return Effects(database)


@pytest.fixture
async def run_id(runs: RunStore) -> str:
    return (await make_run(runs)).run_id


async def claim(runs: RunStore, run_id: str) -> int:
    claimed = await runs.claim(run_id)
    assert claimed
    return claimed.epoch


async def test_an_effect_happens_once(effects: Effects, runs: RunStore, run_id: str) -> None:
    """Performing the same effect again gives the id of the first time, and looks nowhere."""
    outside = Outside()
    for _ in range(3):
        done = await effects.perform(
            run_id,
            "status_comment",
            epoch=await claim(runs, run_id),
            kind=EffectKind.STATUS_COMMENT,
            intent={"issue": 7},
            act=outside.act,
            find=outside.find,
        )
        assert done == "comment-1"
    assert (outside.done, outside.looked) == (["comment-1"], 0)


def crash(url: str, folder: Path, what: str) -> list[dict[str, object]]:
    program = [sys.executable, "-m", "tests.integration.store.crash", url, str(folder), what]
    ended = subprocess.run(program, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    found: list[dict[str, object]] = json.loads(ended.stdout)
    return found


@pytest.mark.parametrize(
    ("what", "points"),
    [
        pytest.param("sample", crash_points()[:4], id="one-kind"),
        pytest.param("effects", crash_points(), id="all-kinds", marks=pytest.mark.matrix),
    ],
)
def test_a_worker_killed_anywhere_leaves_one_effect(
    what: str, points: list[str], database_url: str, tmp_path: Path
) -> None:
    """At whichever of its points a worker is killed, the next one completes the effect once."""
    results = crash(database_url, tmp_path, what)
    assert [result["point"] for result in results] == points
    for result in results:
        assert result["ends"] == ["SIGKILL", "exit 0"], result
        assert result["done"] == ["1"], result
        assert result["ledger"] == "1", result


def test_a_worker_killed_around_a_piece_leaves_one_piece(database_url: str, tmp_path: Path) -> None:
    """A piece is there as soon as its save was passed, not before, and is never there twice."""
    before, after = crash(database_url, tmp_path, "pieces")
    assert (before["ends"], before["pieces"]) == (["SIGKILL", "exit 0"], [0, 1])
    assert (after["ends"], after["pieces"]) == (["SIGKILL", "exit 0"], [1, 1])


async def test_a_stale_worker_does_nothing_outside(
    effects: Effects, runs: RunStore, run_id: str
) -> None:
    """Whoever lost the run is stopped before it acts, and leaves no intent."""
    outside = Outside()
    old = await claim(runs, run_id)
    await claim(runs, run_id)
    with pytest.raises(StaleEpoch):
        await effects.perform(
            run_id, "c", epoch=old, kind=EffectKind.COMMENT, intent={}, act=outside.act
        )
    assert outside.done == []
    assert await effects.of_scope(run_id) == []


async def test_a_worker_that_lost_its_run_while_looking_does_not_act(
    effects: Effects, runs: RunStore, run_id: str
) -> None:
    """The epoch is checked once more between looking and acting."""
    outside = Outside()

    async def die() -> str:
        raise ConnectionError("GitHub is gone")

    epoch = await claim(runs, run_id)
    with pytest.raises(ConnectionError):
        await effects.perform(run_id, "c", epoch=epoch, kind=EffectKind.COMMENT, intent={}, act=die)

    async def look_while_somebody_claims() -> str | None:
        await claim(runs, run_id)
        return None

    with pytest.raises(StaleEpoch):
        await effects.perform(
            run_id,
            "c",
            epoch=epoch,
            kind=EffectKind.COMMENT,
            intent={},
            act=outside.act,
            find=look_while_somebody_claims,
        )
    assert outside.done == []


async def test_a_timeout_after_applying_is_not_repeated(
    effects: Effects, runs: RunStore, run_id: str
) -> None:
    """When GitHub did it but its answer was lost, the next attempt finds it."""
    outside = Outside()

    async def act_and_lose_the_answer() -> str:
        await outside.act()
        raise TimeoutError

    epoch = await claim(runs, run_id)
    for act in (act_and_lose_the_answer, outside.act):
        try:
            done = await effects.perform(
                run_id,
                "c",
                epoch=epoch,
                kind=EffectKind.COMMENT,
                intent={},
                act=act,
                find=outside.find,
            )
        except TimeoutError:
            continue
        assert done == "comment-1"
    assert outside.done == ["comment-1"]


async def test_a_doubled_effect_is_taken_back(
    effects: Effects, runs: RunStore, run_id: str
) -> None:
    """A worker suspended between check and act doubles a comment, and deletes its own on waking."""
    outside = Outside()

    async def comment(epoch: int, act: object, find: object) -> str:
        return await effects.perform(
            run_id,
            "c",
            epoch=epoch,
            kind=EffectKind.COMMENT,
            intent={},
            act=act,  # type: ignore[arg-type] # bound methods of Outside
            find=find,  # type: ignore[arg-type]
            undo=outside.undo,
        )

    async def nothing_yet() -> None:
        return None

    async def act_after_a_long_sleep() -> str:
        await comment(await claim(runs, run_id), outside.act, nothing_yet)
        return await outside.act()

    with pytest.raises(StaleEpoch):
        await comment(await claim(runs, run_id), act_after_a_long_sleep, outside.find)
    assert outside.done == ["comment-1"]
    found = await effects.of_external_id(EffectKind.COMMENT, "comment-1")
    assert [effect.scope for effect in found] == [run_id]


async def test_what_somebody_may_be_finding_is_not_taken_back(
    effects: Effects, runs: RunStore, run_id: str
) -> None:
    """While no one has confirmed the effect, a refused worker leaves its own for the new owner."""
    outside = Outside()

    async def act_and_lose_the_run() -> str:
        done = await outside.act()
        await claim(runs, run_id)
        return done

    with pytest.raises(StaleEpoch):
        await effects.perform(
            run_id,
            "c",
            epoch=await claim(runs, run_id),
            kind=EffectKind.COMMENT,
            intent={},
            act=act_and_lose_the_run,
            undo=outside.undo,
        )
    done = await effects.perform(
        run_id,
        "c",
        epoch=await claim(runs, run_id),
        kind=EffectKind.COMMENT,
        intent={},
        act=outside.act,
        find=outside.find,
    )
    assert (done, outside.done) == ("comment-1", ["comment-1"])


async def test_effects_that_belong_to_no_run(effects: Effects) -> None:
    """The answer to a command is kept under the command's comment, without an epoch."""
    outside = Outside()
    for _ in range(2):
        await effects.perform(
            "comment:99",
            "reaction",
            epoch=None,
            kind=EffectKind.REACTION,
            intent={},
            act=outside.act,
        )
    assert outside.done == ["comment-1"]
    with pytest.raises(ValueError, match="does not go with"):
        await effects.perform(
            "01jdq8x2k7f3a",
            "reaction",
            epoch=None,
            kind=EffectKind.REACTION,
            intent={},
            act=outside.act,
        )


async def test_a_run_cannot_be_cancelled_once_its_promotion_has_begun(
    effects: Effects, runs: RunStore
) -> None:
    """From the intent to promote on, the push may have happened: cancelling is refused."""
    run = await make_run(runs, state=RunState.PROMOTING)
    outside = Outside()
    await effects.perform(
        run.run_id,
        "promotion",
        epoch=await claim(runs, run.run_id),
        kind=EffectKind.PROMOTION,
        intent={},
        act=outside.act,
    )
    assert await runs.cancel(run.run_id, actor="github:3") is None
