"""Agents that are stopped and taken up again, against the scripted model."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from bot.agents.briefs import PlanBrief, RunBrief, WorkBrief
from bot.agents.planner import plan
from bot.agents.run import AgentDeps
from bot.agents.turns import PieceTurns, Turn, TurnLog
from bot.agents.worker import work
from bot.contracts import WorkflowPlan
from bot.errors import StaleEpoch
from bot.store.database import Database
from bot.store.pieces import Pieces
from bot.store.runs import RunStore
from tests.integration.agents.conftest import Stage
from tests.integration.store.make import make_run
from tests.unit.bot.agents.desk import Desk

Play = Callable[..., Awaitable[Stage]]

STORY = """
entries:
  - role: worker
    turns:
      - calls: [{tool: write_file, arguments: {path: a, content: "x = None"}}]
        usage: {input: 10, output: 1}
      - calls:
          - {tool: edit_file, arguments: {path: a, old: "None", new: "1"}}
          - {tool: read_file, arguments: {path: a, start_line: 1, line_count: 9}}
        usage: {input: 20, output: 2}
      - calls: [{tool: run_command, arguments: {command: make, timeout_seconds: 60}}]
        usage: {input: 30, output: 3}
      - output: {status: completed, summary: Done., unresolved_risks: []}
        usage: {input: 40, output: 4}
        DELAY
"""


@dataclass
class Shelf:
    """Keeps turns in memory; `breaks_at` makes one append fail, as a lost database would."""

    turns: dict[str, list[Turn]] = field(default_factory=dict)
    breaks_at: int | None = None

    async def load(self, session: str) -> Sequence[Turn]:
        return tuple(self.turns.get(session, ()))

    async def append(self, session: str, number: int, turn: Turn) -> None:
        if number == self.breaks_at:
            raise ConnectionError("the database is gone")
        kept = self.turns.setdefault(session, [])
        assert number == len(kept)
        kept.append(turn)


def _with(stage: Stage, turns: TurnLog) -> AgentDeps:
    return replace(stage.deps, turns=turns)


async def _work_until(
    stage: Stage, deps: AgentDeps, brief: WorkBrief, desk: Desk, requests: int
) -> None:
    """Start a worker and stop it when the model has been asked so many times."""
    working = asyncio.create_task(work(deps, brief, desk))
    await stage.model.until(lambda m: m.received == requests)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)


async def test_kept_turns_are_not_asked_for_again(play: Play, work_brief: WorkBrief) -> None:
    """A worker taken over repeats the call in flight and no other; its new workspace is rebuilt."""
    stage = await play(STORY.replace("DELAY", "delay_seconds: 0.3"))
    deps = _with(stage, Shelf())
    await _work_until(stage, deps, work_brief, Desk(), requests=4)
    desk = Desk(loan="second")
    answer = await work(deps, work_brief, desk)
    assert [(a.turn, a.outcome) for a in stage.model.asked] == [
        (0, "answered"),
        (1, "answered"),
        (2, "answered"),
        (3, "gone"),
        (3, "answered"),
    ]
    assert desk.files == {"a": "x = 1"}
    assert desk.log == ["write a", "edit a", "run make"]
    assert answer.usage.calls == 4
    assert answer.usage.total_tokens == 110
    note = stage.model.bodies[-1]["input"][-1]
    assert note["role"] == "developer"
    assert "built anew" in note["content"]
    assert "other results" not in note["content"]


async def test_an_answer_whose_tools_never_ended_is_kept(play: Play, work_brief: WorkBrief) -> None:
    """Stopped while a tool runs, the worker makes that call again without asking the model."""
    stage = await play(STORY.replace("DELAY", ""))
    deps = _with(stage, Shelf())
    stuck = asyncio.Event()

    class Stuck(Desk):
        async def run_command(self, command: str, timeout_seconds: int = 120) -> str:
            """Run a shell command in the sandbox, in the workspace."""
            stuck.set()
            await asyncio.Event().wait()
            return ""

    working = asyncio.create_task(work(deps, work_brief, Stuck()))
    await stuck.wait()
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    desk = Desk(loan="second")
    await work(deps, work_brief, desk)
    assert [a.turn for a in stage.model.asked] == [0, 1, 2, 3]
    assert desk.log == ["write a", "edit a", "run make"]


async def test_a_kept_answer_is_given_without_a_call(play: Play, work_brief: WorkBrief) -> None:
    """Once a worker has answered, asking again costs nothing."""
    stage = await play(STORY.replace("DELAY", ""))
    deps = _with(stage, Shelf())
    first = await work(deps, work_brief, Desk())
    again = await work(deps, work_brief, Desk(loan="second"))
    assert first == again
    assert stage.model.received == 4


async def test_in_the_same_workspace_nothing_is_done_twice(
    play: Play, work_brief: WorkBrief
) -> None:
    """A worker that goes on in its own workspace finds its files and repeats no finished call."""
    stage = await play(STORY.replace("DELAY", "delay_seconds: 0.3"))
    deps = _with(stage, Shelf())
    desk = Desk()
    await _work_until(stage, deps, work_brief, desk, requests=4)
    await work(deps, work_brief, desk)
    assert desk.log == ["write a", "edit a", "read a 1 9", "run make"]
    assert "as you left it" in stage.model.bodies[-1]["input"][-1]["content"]


async def test_the_model_hears_what_came_out_otherwise(play: Play, work_brief: WorkBrief) -> None:
    """A repeated call with another result is told, as data, before the model goes on."""
    stage = await play(STORY.replace("DELAY", "delay_seconds: 0.3"))
    deps = _with(stage, Shelf())
    await _work_until(stage, deps, work_brief, Desk(), requests=4)

    class Moody(Desk):
        async def run_command(self, command: str, timeout_seconds: int = 120) -> str:
            """Run a shell command in the sandbox, in the workspace."""
            return "exit code 7"

    await work(deps, work_brief, Moody(loan="second"))
    note = stage.model.bodies[-1]["input"][-1]["content"]
    assert "other results" in note
    assert "exit code 7" in note
    assert "make" in note


async def test_a_lost_database_stops_the_agent(play: Play, work_brief: WorkBrief) -> None:
    """A turn that cannot be kept is not built upon: the failure is raised as it is."""
    stage = await play(STORY.replace("DELAY", ""))
    with pytest.raises(ConnectionError):
        await work(_with(stage, Shelf(breaks_at=1)), work_brief, Desk())
    assert stage.model.received == 1


async def test_other_words_begin_another_conversation(play: Play, work_brief: WorkBrief) -> None:
    """Turns kept under another opening are not taken up."""
    stage = await play(STORY.replace("DELAY", ""))
    deps = _with(stage, Shelf())
    await work(deps, work_brief, Desk())
    other = work_brief.model_copy(update={"failures": ("unit failed",)})
    await work(deps, other, Desk())
    assert stage.model.received == 8


async def test_a_correction_is_taken_up_too(play: Play, run_brief: RunBrief) -> None:
    """A planner stopped after its answer went back still has only that one more try."""
    stage = await play(
        """
        entries:
          - role: planner
            turns: [{text: no plan}, {text: still none, delay_seconds: 0.3}]
        """
    )
    deps = _with(stage, Shelf())

    async def sound(_: WorkflowPlan) -> Sequence[str]:
        return ()

    planning = asyncio.create_task(plan(deps, PlanBrief(run=run_brief), Desk(), check=sound))
    await stage.model.until(lambda m: m.received == 2)
    planning.cancel()
    await asyncio.gather(planning, return_exceptions=True)
    with pytest.raises(Exception, match="neither could its second try"):
        await plan(deps, PlanBrief(run=run_brief), Desk(), check=sound)
    assert [a.turn for a in stage.model.asked] == [0, 1, 1]


@pytest.mark.postgres
async def test_turns_are_kept_as_pieces(
    play: Play, work_brief: WorkBrief, database: Database
) -> None:
    """From PostgreSQL too a conversation is taken up, and a stale worker cannot add to it."""
    stage = await play(STORY.replace("DELAY", ""))
    runs = RunStore(database)
    run = await make_run(runs)
    claim = await runs.claim(run.run_id)
    assert claim
    turns = PieceTurns(Pieces(database), run.run_id, claim.epoch)
    desk = Desk()
    first = await work(_with(stage, turns), work_brief, desk)
    again = await work(_with(stage, turns), work_brief, Desk(loan="second"))
    assert first == again
    assert stage.model.received == 4
    await runs.claim(run.run_id)
    other = work_brief.model_copy(update={"round": 1})
    with pytest.raises(StaleEpoch):
        await work(_with(stage, turns), other, Desk())
    assert stage.model.received == 5
