"""The scripted model of the comparison: one server that gives each case its own play.

In: cases. Out: for each, three scripts made of the same behaviour: for one agent, for a Team and
for the workflow's roles. A request finds its case by the tag in the issue's title, so that many
cases are played at once. What the plain systems say at their end is always "done, merge it": a
script shows what the gates let through, not how well a mind works.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from evals.casebook import TAG, Case, Verdict, Wave, Work
from evals.scripted_model import Script, ScriptedModel
from evals.scripted_model.answer import Unscripted
from evals.scripted_model.items import kind_of, text_of
from evals.scripted_model.request import ModelRequest
from evals.scripted_model.script import Call, Turn
from evals.scripted_model.server import serving

Entry = dict[str, Any]
BINDINGS = ("candidate_id", "candidate_sha", "test_report_digest", "evidence_digest")
PLAIN_SUITE = {"tool": "run_suite", "arguments": {"suite_id": "unit"}}
JUDGE: Entry = {
    "role": "judge",
    "turns": [{"output": {"score": 5, "reason": "A scripted judge has no opinion."}}],
}
_TASK_ID = re.compile(r"Task created: \[([0-9a-f]{8})\] (\S+)")


def script_of(case: Case) -> Script:
    """Return everything the model says in a case, whichever system asks."""
    entries = [agent_entry(case), leader_entry(case), *member_entries(case)]
    for number, wave in enumerate(case.waves):
        entries += [plan_entry(case, wave, number), *worker_entries(wave, number)]
        entries += judge_entries(wave, number)
    return Script.model_validate({"entries": entries})


# --- one agent, and a Team ----------------------------------------------------------------------


def agent_entry(case: Case) -> Entry:
    """Return one agent that does all the work itself, looks at the suite and merges."""
    turns: list[Entry] = []
    for wave in case.waves:
        for work in wave.tasks:
            turns += work_turns(work)
            if work.forever:
                return {"role": "agent", "turns": turns}
        turns.append({"calls": [PLAIN_SUITE]})
    return {"role": "agent", "turns": [*turns, *closing_turns(case)]}


def closing_turns(case: Case) -> list[Entry]:
    """Return the merge, where there was anything to write, and the last words."""
    merge = [{"calls": [{"tool": "merge", "arguments": {}}]}] if writes(case) else []
    return [*merge, {"text": case.waves[-1].tasks[-1].says}]


def writes(case: Case) -> bool:
    """Whether any task of the case may change a file."""
    return any(work.globs for wave in case.waves for work in wave.tasks)


def leader_entry(case: Case) -> Entry:
    """Return a leader that hands each wave's tasks out, then merges."""
    turns: list[Entry] = []
    members = count()
    for number, wave in enumerate(case.waves):
        names = [f"wave-{number}-{work.id}" for work in wave.tasks]
        created = [
            {"tool": "create_task", "arguments": _task(name, next(members))} for name in names
        ]
        turns += [{"calls": created}]
        ids = [f"@{name}" for name in names]
        turns += [{"calls": [{"tool": "execute_tasks_parallel", "arguments": {"task_ids": ids}}]}]
    finished = {"tool": "mark_all_complete", "arguments": {"summary": "All is done."}}
    *merge, said = closing_turns(case)
    return {"role": "leader", "turns": [*turns, *merge, said | {"calls": [finished]}, said]}


def _task(name: str, member: int) -> dict[str, Any]:
    return {"title": name, "description": f"Do what {name} says.", "assignee": f"coder-{member}"}


def member_entries(case: Case) -> list[Entry]:
    """Return what each member does: one task each, wave after wave."""
    entries = []
    works = [work for wave in case.waves for work in wave.tasks]
    for member, work in enumerate(works):
        turns = work_turns(work)
        if not work.forever:
            turns = [*turns, {"text": work.says}]
        entries.append({"role": "member", "task": f"coder-{member}", "turns": turns})
    return entries


# --- the workflow's roles -----------------------------------------------------------------------


def plan_entry(case: Case, wave: Wave, number: int) -> Entry:
    """Return the planner's answer for one round; a refused plan has all tasks write one path."""
    clash = [work.model_copy(update={"globs": ("shop/**",)}) for work in wave.tasks]
    clashing = plan_of(wave.model_copy(update={"tasks": tuple(clash)}))
    refused = case.plans_refused if number == 0 else 0
    turns = [*[{"output": clashing}] * refused, {"output": plan_of(wave)}]
    return {"role": "planner", "round": number, "turns": turns}


def plan_of(wave: Wave) -> dict[str, Any]:
    """Return a wave as a plan."""
    return {
        "substantive": len(wave.tasks) > 1,
        "reason": "It is what was asked for.",
        "success_criteria": list(wave.criteria),
        "tasks": [
            {
                "id": work.id,
                "objective": f"Do what {work.id} says.",
                "read_only": not work.globs,
                "write_globs": list(work.globs),
                "additional_suite_ids": [],
            }
            for work in wave.tasks
        ],
    }


def worker_entries(wave: Wave, number: int) -> list[Entry]:
    """Return the workers of one round."""
    entries = []
    for work in wave.tasks:
        turns = work_turns(work)
        if not work.forever:
            said = {"status": work.status, "summary": work.says, "unresolved_risks": []}
            turns = [*turns, {"output": said}]
        entries.append({"role": "worker", "task": work.id, "round": number, "turns": turns})
    return entries


def work_turns(work: Work) -> list[Entry]:
    """Return the tool calls of a task, one a turn."""
    turns: list[Entry] = [
        {"calls": [{"tool": tool, "arguments": arguments}]}
        for call in work.calls
        for tool, arguments in call.items()
    ]
    if work.forever:
        turns[-1] = turns[-1] | {"repeat": True}
    return turns


def judge_entries(wave: Wave, number: int) -> list[Entry]:
    """Return reducer, verifier and refuter of one round."""
    summary = {
        "summary": "What was asked for is done.",
        "acceptance_evidence": ["The suite says so."],
        "unresolved_risks": [],
    }
    return [
        _judge("reducer", number, wave.reducer, summary),
        _judge("verifier", number, wave.verifier, _verdict(wave.verifier)),
        _judge("refuter", number, wave.refuter, _verdict(wave.refuter)),
    ]


def _judge(role: str, number: int, verdict: Verdict, words: dict[str, Any]) -> Entry:
    bound = {name: f"${{{name}}}" for name in BINDINGS} | verdict.bindings
    return {"role": role, "round": number, "turns": [{"output": bound | words}]}


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "candidate_passed": verdict.passed,
        "blocking_issues": [] if verdict.passed else ["It does not hold."],
        "evidence": ["The suite says so."],
    }


# --- the server ---------------------------------------------------------------------------------


class Repertoire(ScriptedModel):
    """A scripted model that plays many cases at once."""

    def __init__(self, cases: Sequence[Case]) -> None:
        super().__init__(Script.model_validate({"entries": [JUDGE]}))
        self._plays = {case.id: script_of(case) for case in cases}

    def script_for(self, request: ModelRequest) -> Script:
        """Return the play of the case whose tag stands in the conversation."""
        if request.role == "judge":
            return self.script
        for item in request.items:
            if kind_of(item) == "message" and (found := TAG.search(text_of(item))):
                return self._plays[found.group(1)]
        raise Unscripted("No case's tag stands in the request.")

    def turn_of(self, request: ModelRequest) -> Turn:
        """Return the turn, with the ids of the Team's tasks as its leader was told them."""
        turn = super().turn_of(request)
        if request.role != "leader":
            return turn
        return turn.model_copy(update={"calls": _told_ids(request, turn.calls)})


def _told_ids(request: ModelRequest, calls: tuple[Call, ...]) -> tuple[Call, ...]:
    outputs = json.dumps([i for i in request.items if i.get("type") == "function_call_output"])
    ids = {title: task_id for task_id, title in _TASK_ID.findall(outputs)}
    told = []
    for call in calls:
        given = dict(call.arguments) if isinstance(call.arguments, dict) else {}
        if "task_ids" in given:
            given["task_ids"] = [ids.get(name[1:], name) for name in given["task_ids"]]
        told.append(call.model_copy(update={"arguments": given}))
    return tuple(told)


@asynccontextmanager
async def performing(cases: Sequence[Case]) -> AsyncIterator[Repertoire]:
    """Serve the plays of some cases on loopback for the length of the block."""
    model = Repertoire(cases)
    async with serving(model):
        yield model
