"""Every way to stop a run, at every moment of one: it ends, and nothing is written after that.

Told from GitHub's journal, the model server and the machine's process table.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from sqlalchemy import text

from bot.store.database import Database
from evals.facts import gather, journal, settled
from evals.invariants import violations
from evals.people import Json
from evals.scripted_model import Script, ScriptedModel, parse_script, running
from evals.stage import Stage
from tests.acceptance.conftest import Shop
from tests.acceptance.lane import POLICY, small_stage
from tests.acceptance.plays import judged, plan, play, run, task, work, write
from tests.acceptance.test_buttons import the_check
from tests.acceptance.test_killed_in_a_story import one_change

HELD_SECONDS = 600.0
ONE_AT_ONCE = POLICY + "limits: {concurrent_runs: 1}\n"
#: The commands of sandboxes, each recognisable in the machine's process table.
NAPS = itertools.count(40_001)
NUMBERS = itertools.count()


@dataclass
class Scene:
    """A run at the moment at which it is stopped."""

    shop: Shop
    issue: int
    run: Json
    nap: str = ""
    other: str = ""

    async def check(self, name: str) -> Json:
        """Return a check run of ours that has a Cancel button."""
        (pull,) = await self.shop.writer.pulls()
        return await the_check(self.shop, pull["head"]["sha"], name)


# --- moments --------------------------------------------------------------------------------------


async def queued(shop: Shop) -> Scene:
    """Another run of the repository works, and policy lets one work at once."""
    await shop.writer.commit_file("main", ".github/ultracode.yml", ONE_AT_ONCE)
    other = await held_at_the_planner(shop)
    issue = await shop.ask()
    await shop.said(issue, "In the queue, at position 1")
    return Scene(shop, issue, await shop.run_of(issue), other=other)


async def queued_again(shop: Shop) -> Scene:
    """A revision, whose pull request is there, waits for another run of the repository."""
    await shop.writer.commit_file("main", ".github/ultracode.yml", ONE_AT_ONCE)
    issue = (await waiting(shop)).issue
    (pull,) = await shop.writer.pulls()
    other = await held_at_the_planner(shop)
    await shop.reviewer.review(pull["number"], "REQUEST_CHANGES", body="Say why.")
    run = await reached(shop, issue, "accepted", "queued")
    return Scene(shop, issue, run, other=other)


async def planning(shop: Shop) -> Scene:
    """The planner thinks."""
    shop.play(thinking())
    before = shop.model.received
    issue = await shop.ask()
    await shop.model.until(lambda model: model.received > before)
    run = await reached(shop, issue, "planning")
    return Scene(shop, issue, run)


async def working(shop: Shop) -> Scene:
    """A worker's command runs in its sandbox, in the first round."""
    nap = str(next(NAPS))
    shop.play(play(napping(nap)))
    return await asleep(shop, nap)


async def repairing(shop: Shop) -> Scene:
    """The same in the second round: the first one's draft and checks stand on GitHub."""
    nap = str(next(NAPS))
    shop.play(play(one_change("wrong\n"), judged(), napping(nap, round=1)))
    return await asleep(shop, nap)


async def waiting(shop: Shop) -> Scene:
    """It waits for its review."""
    shop.play(play(one_change("good\n"), judged()))
    issue = await shop.ask()
    await shop.ready()
    return Scene(shop, issue, await reached(shop, issue, "awaiting_review"))


async def promoting(shop: Shop) -> Scene:
    """It is approved and asks GitHub once more, which does not answer; nothing is pushed."""
    scene = await waiting(shop)
    (pull,) = await shop.writer.pulls()
    await settled(shop.stage)
    reviews = f"/repos/{shop.repository}/pulls/{pull['number']}/reviews"
    await shop.stage.let_github_go_wrong("timeout", "GET", reviews, skip=1, times=50)
    await shop.reviewer.review(pull["number"])
    scene.run = await reached(shop, scene.issue, "promoting")
    return scene


async def held_at_the_planner(shop: Shop) -> str:
    """Let another run begin whose planner thinks for long; return its id."""
    shop.play(thinking())
    run = await reached(shop, await shop.ask(), "planning")
    return str(run["run_id"])


async def asleep(shop: Shop, nap: str) -> Scene:
    issue = await shop.ask()

    async def look() -> list[str]:
        return commands(nap)

    await shop.writer.until(look, what="a command in its sandbox")
    return Scene(shop, issue, await shop.run_of(issue), nap=nap)


async def reached(shop: Shop, issue: int, state: str, reason: str | None = None) -> Json:
    """Wait until the newest run of an issue is in a state; return it."""

    async def look() -> Json | None:
        run = await shop.run_of(issue)
        return run if (run["state"], run["reason"]) == (state, reason) else None

    found: Json = await shop.writer.until(look, what=state)
    return found


def thinking() -> Script:
    """Return the play whose planner does not come to an end."""
    held = plan(task("state", "state.txt"))
    held["turns"][0]["delay_seconds"] = HELD_SECONDS
    return play(held)


def napping(nap: str, *, round: int = 0) -> list[Json]:
    """Return planner and worker of a round whose command does not end by itself."""
    return [
        plan(task("state", "state.txt"), round=round),
        work("state", run(f"sleep {nap}"), write("state.txt", "good\n"), round=round),
    ]


def commands(nap: str) -> list[str]:
    """Return what runs on this machine with this word in its command line, sandboxed or not."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:
            continue  # it has ended
        if nap.encode() in line:
            found.append(line.replace(b"\0", b" ").decode())
    return found


# --- doors ----------------------------------------------------------------------------------------


async def comment(scene: Scene) -> tuple[str, ...]:
    await scene.shop.writer.comment(scene.issue, "/ultracode cancel")
    return ("cancelled", scene.shop.writer.login, "cancelled it")


async def button(scene: Scene) -> tuple[str, ...]:
    name = "ultracode/suite/unit" if scene.run["state"] == "working" else "ultracode/review"
    person = scene.shop.reviewer
    await scene.shop.stage.press(person, await scene.check(name), "cancel")
    return ("cancelled", person.login, "cancelled it")


async def command_line(scene: Scene) -> tuple[str, ...]:
    code, printed = await scene.shop.ultracode("runs", "cancel", scene.run["run_id"])
    assert (code, "is being cancelled" in printed) == (0, True), printed
    return ("cancelled", "The operator of this server cancelled it")


async def closing(scene: Scene) -> tuple[str, ...]:
    (pull,) = await scene.shop.writer.pulls()
    await scene.shop.reviewer.close(pull["number"])
    return ("rejected", scene.shop.reviewer.login, "closed the pull request")


Moment = Callable[[Shop], Awaitable[Scene]]
Door = Callable[[Scene], Awaitable[tuple[str, ...]]]

MATRIX: tuple[tuple[Moment, Door], ...] = (
    *itertools.product((queued, planning, working, repairing, waiting, promoting), (comment,)),
    *itertools.product((queued, planning, working, waiting, promoting), (command_line,)),
    *itertools.product((repairing, waiting, promoting), (button,)),
    *itertools.product((queued_again, repairing, waiting, promoting), (closing,)),
)
SAMPLE = {(working, comment), (repairing, closing), (promoting, command_line)}
CASES = [
    pytest.param(
        *case,
        id="-".join(part.__name__ for part in case),
        marks=() if case in SAMPLE else pytest.mark.matrix,
    )
    for case in MATRIX
]


# --- the stage ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
async def model() -> AsyncIterator[ScriptedModel]:
    async with running(parse_script("entries: []")) as served:
        yield served


@pytest.fixture(scope="module")
async def place(
    model: ScriptedModel, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Stage]:
    """A stage of its own with one worker, in the strongest sandbox there is."""
    names = [f"octo-state/state-{number}" for number in range(len(MATRIX))]
    folder = tmp_path_factory.mktemp("cancel")
    async with small_stage(folder, names, model, extra={"ULTRACODE_SANDBOX": "auto"}) as opened:
        await opened.start_worker()
        yield opened


@pytest.mark.parametrize(("moment", "door"), CASES)
async def test_a_run_is_stopped(
    place: Stage, model: ScriptedModel, moment: Moment, door: Door
) -> None:
    """Whatever the run does, and however it is stopped, it ends at once and leaves nothing."""
    shop = Shop(place, model, f"octo-state/state-{next(NUMBERS)}")
    before = await shop.writer.branch("main")
    scene = await moment(shop)
    state, *words = await door(scene)
    ended = await shop.ended(scene.issue)
    written, asked = await writes(shop), model.received
    assert ended["state"] == state
    assert ended["run_id"] == scene.run["run_id"]
    if scene.nap:
        assert commands(scene.nap) == []
    if moment is planning:
        await model.until(lambda model: any(asked.outcome == "gone" for asked in model.asked))

    await quiet(shop, ended["run_id"])
    assert await writes(shop) == written, "nothing is written once it has ended"
    assert model.received == asked, "and nothing is asked"
    status = [said for said in await shop.words(scene.issue) if ended["run_id"] in said]
    assert all(word in status[-1] for word in words), status[-1]

    if scene.other:
        await shop.ultracode("runs", "cancel", scene.other)
    await shop.stage.let_github_go_right()
    await settled(place)
    assert all(pull["state"] == "closed" for pull in await shop.writer.pulls())
    assert await shop.writer.branch("main") == before or "queued" in moment.__name__
    assert violations(await gather(place)) == []


async def writes(shop: Shop) -> list[str]:
    """Return every call that changed something in the repository, of people too."""
    return [
        f"{call['method']} {call['path']} {call['status']}"
        for call in await journal(shop.stage)
        if call["method"] != "GET" and call["path"].startswith(f"/repos/{shop.repository}/")
    ]


async def quiet(shop: Shop, run_id: str) -> None:
    """Wait until nothing is on its way to or from GitHub, and no job of the run is left."""
    jobs = text("select count(*) from procrastinate_jobs where lock = :run_id and status = any(:s)")
    async with Database(shop.stage.environment["DATABASE_URL"], pool_size=1) as database:

        async def look() -> bool:
            url = f"{shop.stage.github['url']}/_loopback/settle"
            async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
                (await client.post(url)).raise_for_status()
            async with database.begin() as tx:
                found = await tx.execute(jobs, {"run_id": run_id, "s": ["todo", "doing"]})
                return int(found.scalar_one()) == 0

        await shop.writer.until(look, what="an end of all jobs")
