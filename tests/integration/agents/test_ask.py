"""Real Agno agents over HTTP against the scripted model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence

import pytest
import yaml
from pydantic import SecretStr

from bot.agents.briefs import CandidateBrief, PlanBrief, RepairBrief, RunBrief, WorkBrief
from bot.agents.model import Models, Patience
from bot.agents.planner import plan, plan_repair
from bot.agents.reducer import summarise
from bot.agents.reviewer import review
from bot.agents.run import AgentDeps
from bot.agents.worker import MAX_TURNS, work
from bot.contracts import WorkflowPlan
from bot.errors import BudgetExceeded, ModelOutputInvalid, ModelUnavailable
from bot.settings import ModelSettings
from evals.scripted_model import parse_script, running
from tests.integration.agents.conftest import Notebook, Stage
from tests.unit.bot.agents.desk import Desk

Play = Callable[..., Awaitable[Stage]]

DONE = "{status: completed, summary: Done., unresolved_risks: []}"
PLAN = """
  substantive: false
  reason: One place.
  success_criteria: [it works]
  tasks:
    - {id: fix, objective: Fix it., read_only: false, write_globs: [a.py], additional_suite_ids: []}
"""


async def _nothing_wrong(_: WorkflowPlan) -> Sequence[str]:
    return ()


async def test_a_worker_uses_its_tools_and_answers(play: Play, work_brief: WorkBrief) -> None:
    """A worker reads, edits and runs in its workspace, then gives an answer that fits."""
    stage = await play(
        f"""
        entries:
          - role: worker
            task: fix-parser
            round: 0
            turns:
              - text: Let me look first.
                calls:
                  - tool: read_file
                    arguments: {{path: parser.py, start_line: 1, line_count: 9}}
                usage: {{input: 100, cached: 0, output: 10}}
              - calls:
                  - {{tool: edit_file, arguments: {{path: parser.py, old: "None", new: "[]"}}}}
                  - {{tool: run_command, arguments: {{command: pytest -q, timeout_seconds: 60}}}}
                usage: {{input: 200, cached: 100, output: 20, reasoning: 5}}
              - output: {DONE}
                usage: {{input: 300, cached: 200, output: 30}}
        """
    )
    desk = Desk(files={"parser.py": "return None"})
    answer = await work(stage.deps, work_brief, desk)
    assert answer.value.status == "completed"
    assert desk.files == {"parser.py": "return []"}
    assert desk.log == ["read parser.py 1 9", "edit parser.py", "run pytest -q"]
    assert answer.usage == stage.budget.spent
    assert answer.usage.model_dump() == {
        "calls": 3,
        "input_tokens": 600,
        "cached_tokens": 300,
        "output_tokens": 60,
        "reasoning_tokens": 5,
    }
    assert answer.usage.total_tokens == 660
    assert stage.model.count("worker", "fix-parser", 0) == 3
    assert all(body["store"] is False for body in stage.model.bodies)


@pytest.mark.parametrize("word", ["None", "null", " true ", "False"])
async def test_a_worker_can_write_words_that_look_like_values(
    play: Play, work_brief: WorkBrief, word: str
) -> None:
    """A file whose whole content is `null` or `True` is written exactly so."""
    stage = await play(
        f"""
        entries:
          - role: worker
            turns:
              - calls: [{{tool: write_file, arguments: {{path: a, content: "{word}"}}}}]
              - output: {DONE}
        """
    )
    desk = Desk()
    await work(stage.deps, work_brief, desk)
    assert desk.files == {"a": word}


async def test_wrong_arguments_are_told_to_the_model(play: Play, work_brief: WorkBrief) -> None:
    """Arguments that do not fit and broken JSON come back as words, not as failures."""
    stage = await play(
        f"""
        entries:
          - role: worker
            turns:
              - calls:
                  - {{tool: read_file, arguments: {{path: 3, start_line: 1, line_count: 9}}}}
                  - {{tool: write_file, arguments: "{{broken"}}
              - output: {DONE}
        """
    )
    desk = Desk()
    await work(stage.deps, work_brief, desk)
    told = [i["output"] for i in stage.model.bodies[-1]["input"] if "output" in i]
    assert any("path: Input should be a valid string" in text for text in told)
    assert any("write_file are no valid JSON" in text for text in told)
    assert not desk.log


async def test_all_roles_speak_in_one_round(
    play: Play, run_brief: RunBrief, candidate_brief: CandidateBrief
) -> None:
    """Planner, repair, reducer, verifier and refuter each get their answer, bindings echoed."""
    names = ("candidate_id", "candidate_sha", "test_report_digest", "evidence_digest")
    bound = ", ".join(f'{name}: "${{{name}}}"' for name in names)
    stage = await play(
        f"""
        entries:
          - role: planner
            turns:
              - calls: [{{tool: list_files, arguments: {{pattern: "**"}}}}]
              - output: {{{_flow(PLAN)}}}
          - role: reducer
            turns:
              - output: {{{bound}, summary: s, acceptance_evidence: [], unresolved_risks: []}}
          - role: verifier
            turns:
              - output: {{{bound}, candidate_passed: true, blocking_issues: [], evidence: [e]}}
          - role: refuter
            turns:
              - calls: [{{tool: search, arguments: {{text: x, pattern: "**"}}}}]
              - output: {{{bound}, candidate_passed: false, blocking_issues: [b], evidence: []}}
        """
    )
    desk = Desk()
    first = await plan(stage.deps, PlanBrief(run=run_brief), desk, check=_nothing_wrong)
    repair = RepairBrief(
        run=run_brief,
        round=1,
        plan=first.value,
        failures=("unit failed",),
        candidate=candidate_brief,
    )
    second = await plan_repair(stage.deps, repair, desk, check=_nothing_wrong)
    summary, verified, refuted = await asyncio.gather(
        summarise(stage.deps, candidate_brief),
        review(stage.deps, "verifier", candidate_brief, desk),
        review(stage.deps, "refuter", candidate_brief, desk),
    )
    assert first.value == second.value
    for answer in (summary.value, verified.value, refuted.value):
        assert answer.candidate_sha == "a" * 40
        assert answer.evidence_digest == "c" * 64
    assert verified.value.candidate_passed
    assert refuted.value.blocking_issues == ("b",)
    assert stage.model.count("planner", round_=1) == 2
    assert {a.outcome for a in stage.model.asked} == {"answered"}


def _flow(yaml_text: str) -> str:
    """A block of YAML as the inside of a flow mapping."""
    return json.dumps(yaml.safe_load(yaml_text))[1:-1]


async def test_an_answer_that_does_not_fit_goes_back_once(play: Play, run_brief: RunBrief) -> None:
    """The model hears what is wrong with its answer and may correct it."""
    stage = await play(
        f"""
        entries:
          - role: planner
            turns:
              - output: {{substantive: true, reason: "", success_criteria: [], tasks: []}}
              - output: {{{_flow(PLAN)}}}
        """
    )
    answer = await plan(stage.deps, PlanBrief(run=run_brief), Desk(), check=_nothing_wrong)
    assert answer.value.tasks[0].id == "fix"
    assert answer.usage.calls == 2
    told = stage.model.bodies[-1]["input"][-1]["content"]
    assert "tasks: Tuple should have at least 1 item" in told


async def test_a_second_misfit_ends_in_words(play: Play, run_brief: RunBrief) -> None:
    """After the second answer that does not fit, the sentence says whose and why."""
    stage = await play(
        """
        entries:
          - {role: planner, turns: [{text: "I plan nothing."}, {refusal: "No."}]}
        """
    )
    with pytest.raises(ModelOutputInvalid, match="planner's answer could not be used") as error:
        await plan(stage.deps, PlanBrief(run=run_brief), Desk(), check=_nothing_wrong)
    assert "it was empty, or it was refused" in error.value.sentence
    assert stage.model.count("planner") == 2


async def test_a_plan_the_workshop_objects_to_goes_back_once(
    play: Play, run_brief: RunBrief
) -> None:
    """Overlapping globs are told to the planner; its second plan is checked as well."""
    stage = await play(
        f"entries: [{{role: planner, turns: [{{output: {{{_flow(PLAN)}}}, repeat: true}}]}}]"
    )
    seen: list[WorkflowPlan] = []

    async def objects_once(plan: WorkflowPlan) -> Sequence[str]:
        seen.append(plan)
        return ["a.py can be written by two tasks"] if len(seen) == 1 else []

    async def always_objects(_: WorkflowPlan) -> Sequence[str]:
        return ["a.py can be written by two tasks"]

    await plan(stage.deps, PlanBrief(run=run_brief), Desk(), check=objects_once)
    assert "a.py can be written by two tasks" in stage.model.bodies[-1]["input"][-1]["content"]
    with pytest.raises(ModelOutputInvalid, match=r"a\.py can be written by two tasks"):
        await plan(stage.deps, PlanBrief(run=run_brief), Desk(), check=always_objects)


async def test_a_cut_answer_goes_back_once(play: Play, work_brief: WorkBrief) -> None:
    """An answer that stopped half-way is no answer; the model is asked once more."""
    stage = await play(
        f"""
        entries:
          - role: worker
            turns: [{{output: {DONE}, incomplete: true}}, {{output: {DONE}}}]
        """
    )
    answer = await work(stage.deps, work_brief, Desk())
    assert answer.usage.calls == 2


@pytest.mark.parametrize("fault", ["429", "500", "503", "truncated", "garbage", "failed"])
async def test_passing_trouble_is_waited_out(play: Play, work_brief: WorkBrief, fault: str) -> None:
    """One bad answer of the provider costs a retry and nothing else."""
    stage = await play(
        f"""
        entries:
          - role: worker
            turns:
              - output: {DONE}
                faults: [{{kind: {fault}, retry_after_seconds: 0.01}}]
        """
    )
    answer = await work(stage.deps, work_brief, Desk())
    assert answer.value.status == "completed"
    assert [a.outcome for a in stage.model.asked] == [f"fault {fault}", "answered"]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("429", "too many requests"),
        ("500", r"error of its own \(500\)"),
        ("truncated", "could not be reached"),
        ("garbage", "no answer"),
        ("failed", "no answer"),
        ("timeout", "did not answer in time"),
    ],
)
async def test_lasting_trouble_ends_in_words(
    play: Play, work_brief: WorkBrief, fault: str, words: str
) -> None:
    """When the provider stays broken, the sentence says in which way."""
    stage = await play(
        f"""
        entries:
          - role: worker
            turns:
              - output: {DONE}
                faults: [{{kind: {fault}, times: always, retry_after_seconds: 0.01}}]
        """,
        answer_seconds=0.3,
        retries=1,
    )
    with pytest.raises(ModelUnavailable, match=words):
        await work(stage.deps, work_brief, Desk())
    await stage.model.until(lambda m: len(m.asked) == 2)


async def test_a_refused_request_is_not_repeated(play: Play, work_brief: WorkBrief) -> None:
    """A request the provider refuses for good is asked once; the sentence carries its reason."""
    stage = await play("entries: [{role: planner, turns: [{text: a}]}]")
    with pytest.raises(ModelUnavailable, match=r"refused the request \(422\): role worker"):
        await work(stage.deps, work_brief, Desk())
    assert len(stage.model.asked) == 1


async def test_a_server_that_is_gone_ends_in_words(work_brief: WorkBrief) -> None:
    """Without a model server the worker fails with a sentence."""
    async with running(parse_script("entries: []")) as model:
        address = model.base_url
    settings = ModelSettings(id="gpt-5.4-mini", api_key=SecretStr("k"), base_url=address)
    models = Models(lambda _: settings, Patience(retries=0))
    deps = AgentDeps(models, Notebook(), "run12345", "github:7")
    with pytest.raises(ModelUnavailable, match="could not be reached"):
        await work(deps, work_brief, Desk())
    await models.aclose()


async def test_the_budget_stops_before_the_call(play: Play, work_brief: WorkBrief) -> None:
    """A call that would pass the limit is never made; what was spent stays counted."""
    stage = await play(
        """
        entries:
          - role: worker
            turns:
              - calls: [{tool: list_files, arguments: {pattern: "**"}}]
                usage: {input: 6000, output: 100}
                repeat: true
        """,
        limit=20_000,
    )
    with pytest.raises(BudgetExceeded, match="used up its tokens"):
        await work(stage.deps, work_brief, Desk())
    assert stage.model.count("worker") == 3
    assert stage.budget.spent.total_tokens == 18_300


async def test_an_empty_budget_allows_no_call(play: Play, work_brief: WorkBrief) -> None:
    """With nothing left not a single request is sent."""
    stage = await play("entries: []", limit=0)
    with pytest.raises(BudgetExceeded):
        await work(stage.deps, work_brief, Desk())
    assert stage.model.received == 0


async def test_an_endless_tool_loop_ends(play: Play, work_brief: WorkBrief) -> None:
    """A worker that never stops calling tools must answer without them at last, and fails."""
    stage = await play(
        """
        entries:
          - role: worker
            turns: [{calls: [{tool: list_files, arguments: {pattern: "**"}}], repeat: true}]
        """
    )
    with pytest.raises(ModelOutputInvalid, match="worker's answer could not be used"):
        await work(stage.deps, work_brief, Desk())
    assert stage.model.count("worker") == MAX_TURNS + 1
    assert stage.model.bodies[-3].get("tool_choice") != "none"
    assert stage.model.bodies[-2]["tool_choice"] == "none"


async def test_a_server_that_forbids_nothing_cannot_loop_for_ever(
    play: Play, work_brief: WorkBrief
) -> None:
    """Even a model that calls tools after it was told not to comes to an end."""
    stage = await play(
        """
        entries:
          - role: worker
            turns:
              - calls: [{tool: list_files, arguments: {pattern: "**"}}]
                repeat: true
                stubborn: true
        """
    )
    with pytest.raises(ModelOutputInvalid, match="no answer within 100 turns"):
        await work(stage.deps, work_brief, Desk())
    assert stage.model.count("worker") == MAX_TURNS + 1


async def test_a_broken_tool_stops_the_agent(play: Play, work_brief: WorkBrief) -> None:
    """A failure of the workshop is raised as it is and never told to the model."""
    stage = await play(
        """
        entries:
          - role: worker
            turns:
              - calls: [{tool: read_file, arguments: {path: a, start_line: 1, line_count: 1}}]
                repeat: true
        """
    )
    broken = OSError("disk full")
    with pytest.raises(OSError, match="disk full"):
        await work(stage.deps, work_brief, Desk(breaks=broken))
    assert stage.model.count("worker") == 1


async def test_cancelling_stops_the_model_call_at_once(play: Play, work_brief: WorkBrief) -> None:
    """When the task is cancelled the connection to the model is closed, not waited for."""
    stage = await play(
        f"entries: [{{role: worker, turns: [{{output: {DONE}, delay_seconds: 600}}]}}]"
    )
    working = asyncio.create_task(work(stage.deps, work_brief, Desk()))
    await stage.model.until(lambda m: m.received == 1)
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    await stage.model.until(lambda m: [a.outcome for a in m.asked] == ["gone"])


async def test_cancelling_stops_a_running_tool(play: Play, work_brief: WorkBrief) -> None:
    """When the task is cancelled a command that runs is cancelled too."""
    stage = await play(
        """
        entries:
          - role: worker
            turns:
              - calls: [{tool: run_command, arguments: {command: sleep, timeout_seconds: 1}}]
        """
    )
    started, ended = asyncio.Event(), asyncio.Event()

    class Sleeper(Desk):
        async def run_command(self, command: str, timeout_seconds: int = 120) -> str:
            """Run a shell command in the sandbox, in the workspace."""
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            return ""

    working = asyncio.create_task(work(stage.deps, work_brief, Sleeper()))
    await started.wait()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert ended.is_set()
