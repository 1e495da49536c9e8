"""Kill a worker at every crash point of an effect, or of a piece, and let another one finish.

Run as a program (`python -m tests.integration.store.crash URL FOLDER effects|sample|pieces`), so
that each worker is a fork of a process that has opened no connection yet. Prints one JSON list.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from bot.store.crashpoints import arm
from bot.store.database import Database
from bot.store.effects import EffectKind, Effects, crash_points
from bot.store.pieces import Pieces
from bot.store.runs import RunStore
from tests.integration.store.make import make_run


class World:
    """What lies outside of the bot: a folder in which every act leaves a file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def done(self) -> list[str]:
        return sorted(file.name for file in self.folder.iterdir())

    async def act(self) -> str:
        name = f"{len(self.done()) + 1}"
        (self.folder / name).touch()
        return name

    async def find(self) -> str | None:
        return next(iter(self.done()), None)


async def work(url: str, run_id: str, kind: EffectKind, world: World) -> None:
    """What a worker does: claim the run, perform the effect."""
    async with Database(url) as database:
        claim = await RunStore(database).claim(run_id)
        assert claim
        await Effects(database).perform(
            run_id,
            "the effect",
            epoch=claim.epoch,
            kind=kind,
            intent={},
            act=world.act,
            find=world.find,
        )


async def save(url: str, run_id: str) -> None:
    """What a worker does: claim the run, save a piece unless it is there."""
    async with Database(url) as database:
        claim = await RunStore(database).claim(run_id)
        assert claim
        await Pieces(database).save(run_id, "plan", {"n": 1}, epoch=claim.epoch, contract_version=1)


async def prepare(url: str, issue_number: int) -> str:
    async with Database(url) as database:
        return (await make_run(RunStore(database), issue_number=issue_number)).run_id


async def effect_id(url: str, run_id: str) -> str | None:
    async with Database(url) as database:
        effect = await Effects(database).get(run_id, "the effect")
        return effect.external_id if effect else None


async def piece_count(url: str, run_id: str) -> int:
    async with Database(url) as database:
        return len(await Pieces(database).load_all(run_id))


def in_child(point: str | None, coroutine_of: object, *arguments: object) -> str:
    """Run one worker in a fork and say how it ended."""
    pid = os.fork()
    if pid == 0:
        arm(point)
        asyncio.run(coroutine_of(*arguments))  # type: ignore[operator] # one of the two above
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return f"exit {os.waitstatus_to_exitcode(status)}"


def crash_effects(url: str, folder: Path, points: list[str]) -> list[dict[str, object]]:
    results: list[dict[str, object]] = []
    for number, point in enumerate(points):
        world = World(folder / str(number))
        world.folder.mkdir()
        run_id = asyncio.run(prepare(url, number))
        kind = EffectKind(point.partition(":")[2])
        first = in_child(point, work, url, run_id, kind, world)
        second = in_child(None, work, url, run_id, kind, world)
        ledger = asyncio.run(effect_id(url, run_id))
        results.append(
            {"point": point, "ends": [first, second], "done": world.done(), "ledger": ledger}
        )
    return results


def crash_pieces(url: str) -> list[dict[str, object]]:
    results: list[dict[str, object]] = []
    for number, point in enumerate(("pieces.before_save:plan", "pieces.after_save:plan")):
        run_id = asyncio.run(prepare(url, number))
        first = in_child(point, save, url, run_id)
        between = asyncio.run(piece_count(url, run_id))
        second = in_child(None, save, url, run_id)
        after = asyncio.run(piece_count(url, run_id))
        results.append({"point": point, "ends": [first, second], "pieces": [between, after]})
    return results


if __name__ == "__main__":
    url, folder, what = sys.argv[1:]
    if what == "pieces":
        found = crash_pieces(url)
    else:
        points = crash_points() if what == "effects" else crash_points()[:4]
        found = crash_effects(url, Path(folder), points)
    sys.stdout.write(json.dumps(found))
