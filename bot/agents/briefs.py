"""What each agent is told: frozen values the workflow fills and the prompts show.

Everything a model will read about a run is in one of these, so a prompt is a pure function of its
brief and can be tested without a model.
"""

from __future__ import annotations

from pydantic import Field

from bot.contracts import Bindings, WorkerOutput, WorkflowPlan, WorkItem
from workspace.contracts import Frozen, Round, SuiteId


class Guidance(Frozen):
    """One AGENTS.md of the base commit."""

    path: str
    text: str


class RunBrief(Frozen):
    """What all agents of a run are told, and in the same words, so that prompts begin alike."""

    run_id: str
    request: str
    success_criteria: tuple[str, ...] = Field(min_length=1)
    guidance: tuple[Guidance, ...] = ()
    repository_map: str = ""
    required_suites: tuple[SuiteId, ...] = ()
    optional_suites: tuple[SuiteId, ...] = ()
    feedback: tuple[str, ...] = ()
    hidden_text_removed: tuple[str, ...] = ()


class WorkerWords(Frozen):
    """What one worker says it did; nobody relies on it."""

    task_id: str
    output: WorkerOutput


class CandidateBrief(Frozen):
    """One candidate and its evidence, as reducer, verifier and refuter see it.

    `suites` says per suite in one line how it went; `diff_text` and `test_log_text` are the bounded
    excerpts of the evidence; `guidance` is what the folders of the changed files add to the root's.
    """

    run: RunBrief
    round: Round
    bindings: Bindings
    changed_files: tuple[str, ...]
    suites: tuple[str, ...]
    diff_text: str
    test_log_text: str
    workers: tuple[WorkerWords, ...] = ()
    guidance: tuple[Guidance, ...] = ()


class PlanBrief(Frozen):
    """What the planner needs for the first plan; `candidate` is what a revision starts from."""

    run: RunBrief
    candidate: CandidateBrief | None = None


class RepairBrief(Frozen):
    """What the planner needs for one repair wave.

    `round` is the round being planned. `failures` says in sentences what did not pass; `candidate`
    is the one that failed (None when no candidate came about, as after a conflict).
    """

    run: RunBrief
    round: Round
    plan: WorkflowPlan
    failures: tuple[str, ...] = Field(min_length=1)
    candidate: CandidateBrief | None = None


class WorkBrief(Frozen):
    """What one worker needs. In a repair round `failures` and `candidate` say what did not pass.

    `guidance` is what the folders of the item's paths add to the root's.
    """

    run: RunBrief
    round: Round
    item: WorkItem
    guidance: tuple[Guidance, ...] = ()
    failures: tuple[str, ...] = ()
    candidate: CandidateBrief | None = None
