"""Puts the opening words of each agent's conversation together.

Comes in: a brief. Goes out: three messages. What never changes comes first (common instructions,
guidance, repository map), then the run, then the role and its task, so that a provider's prompt
cache serves all agents of a run. Instructions are `system` messages and hold no foreign text
outside of data blocks; the last one, after all material, says who the agent is and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from bot.agents.briefs import (
    CandidateBrief,
    Guidance,
    PlanBrief,
    RepairBrief,
    RunBrief,
    WorkBrief,
)
from bot.agents.material import DataBlocks
from bot.agents.prompts import load_prompt
from bot.contracts import Bindings

# Characters of each material that reach a model.
GUIDANCE_LIMIT: Final = 12_000
GUIDANCE_FILES: Final = 6
MAP_LIMIT: Final = 40_000
REQUEST_LIMIT: Final = 70_000
LIST_LIMIT: Final = 30_000
#: The whole of every diff that is not too large to review (`bot.steps.judge`), excerpt and escapes.
DIFF_LIMIT: Final = 125_000
LOG_LIMIT: Final = 40_000

ReviewRole = Literal["verifier", "refuter"]


@dataclass(frozen=True)
class Said:
    """One opening message: with the application's authority (`system`) or as material (`user`)."""

    role: Literal["system", "user"]
    text: str


def plan_opening(brief: PlanBrief) -> tuple[Said, ...]:
    """How the planner's first plan begins."""
    material = _candidate_material(DataBlocks(brief.run.run_id), brief.candidate)
    return _opening(brief.run, material, _join(_head("planner", None, 0), load_prompt("planner")))


def repair_opening(brief: RepairBrief) -> tuple[Said, ...]:
    """How the planning of a repair wave begins."""
    blocks = DataBlocks(brief.run.run_id)
    plan = brief.plan.model_dump_json(indent=1)
    material = (
        blocks.block("plan so far", plan, limit=LIST_LIMIT),
        *_candidate_material(blocks, brief.candidate),
        _failures(blocks, brief.failures),
    )
    head = _head("planner", None, brief.round)
    return _opening(brief.run, material, _join(head, load_prompt("repair")))


def work_opening(brief: WorkBrief) -> tuple[Said, ...]:
    """How one worker begins."""
    blocks = DataBlocks(brief.run.run_id)
    material = (
        *_guidance(blocks, brief.guidance),
        *_candidate_material(blocks, brief.candidate),
    )
    if brief.failures:
        material = (*material, _failures(blocks, brief.failures))
    task = _join(
        "Your task:",
        blocks.block("objective", brief.item.objective, limit=LIST_LIMIT),
        blocks.block("write globs", _bullets(brief.item.write_globs), limit=LIST_LIMIT)
        if brief.item.write_globs
        else "It is read-only: you may not change any file.",
    )
    head = _head("worker", brief.item.id, brief.round)
    return _opening(brief.run, material, _join(head, load_prompt("worker"), task))


def summary_opening(brief: CandidateBrief) -> tuple[Said, ...]:
    """How the reducer begins."""
    return _candidate_opening("reducer", brief)


def review_opening(role: ReviewRole, brief: CandidateBrief) -> tuple[Said, ...]:
    """How the verifier or the refuter begins."""
    return _candidate_opening(role, brief)


def _candidate_opening(
    role: Literal["reducer", "verifier", "refuter"], brief: CandidateBrief
) -> tuple[Said, ...]:
    blocks = DataBlocks(brief.run.run_id)
    bound = _join("The candidate:", _binding_lines(brief.bindings))
    return _opening(
        brief.run,
        _candidate_material(blocks, brief),
        _join(_head(role, None, brief.round), load_prompt(role), bound),
    )


# --- the three messages -------------------------------------------------------------------------


def _opening(run: RunBrief, material: Iterable[str], instructions: str) -> tuple[Said, ...]:
    return (
        Said("system", _common(run)),
        Said("user", _join(*_run_material(run), *material)),
        Said("system", instructions),
    )


def _common(run: RunBrief) -> str:
    blocks = DataBlocks(run.run_id)
    files = (
        [blocks.block("repository map", run.repository_map, limit=MAP_LIMIT)]
        if run.repository_map
        else []
    )
    return _join(load_prompt("common"), *_guidance(blocks, run.guidance), *files)


def _run_material(run: RunBrief) -> Iterable[str]:
    blocks = DataBlocks(run.run_id)
    yield blocks.block("request", run.request, limit=REQUEST_LIMIT)
    yield blocks.block("success criteria", _bullets(run.success_criteria), limit=LIST_LIMIT)
    if run.feedback:
        yield blocks.block("feedback of reviewers", _bullets(run.feedback), limit=LIST_LIMIT)
    if run.hidden_text_removed:
        removed = _bullets(run.hidden_text_removed)
        yield blocks.block("hidden text was removed from the issue", removed, limit=LIST_LIMIT)
    yield (
        f"Required suites: {', '.join(run.required_suites) or 'none'}. "
        f"Optional suites: {', '.join(run.optional_suites) or 'none'}."
    )


def _candidate_material(blocks: DataBlocks, brief: CandidateBrief | None) -> tuple[str, ...]:
    if brief is None:
        return ()
    words = [
        blocks.block(
            f"words of worker {worker.task_id}",
            worker.output.model_dump_json(indent=1),
            limit=LIST_LIMIT,
        )
        for worker in brief.workers
    ]
    return (
        *_guidance(blocks, brief.guidance),
        blocks.block("changed files", _bullets(brief.changed_files), limit=LIST_LIMIT),
        blocks.block("diff of the candidate", brief.diff_text, limit=DIFF_LIMIT),
        blocks.block("suites", _bullets(brief.suites), limit=LIST_LIMIT),
        blocks.block("test log", brief.test_log_text, limit=LOG_LIMIT),
        *words,
    )


# --- small pieces -------------------------------------------------------------------------------


def _head(role: str, task: str | None, round_: int) -> str:
    """The lines by which a reader, or a scripted model, knows whose conversation this is."""
    lines = [f"Role: {role}", *([f"Task: {task}"] if task else []), f"Round: {round_}"]
    return "\n".join(lines)


def _binding_lines(bindings: Bindings) -> str:
    return "\n".join(f"{name}: {value}" for name, value in bindings)


def _guidance(blocks: DataBlocks, guidance: Sequence[Guidance]) -> tuple[str, ...]:
    return tuple(
        blocks.block(f"guidance {file.path}", file.text, limit=GUIDANCE_LIMIT)
        for file in guidance[:GUIDANCE_FILES]
    )


def _failures(blocks: DataBlocks, failures: Sequence[str]) -> str:
    return blocks.block("what did not pass", _bullets(failures), limit=LIST_LIMIT)


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines) or "(none)"


def _join(*parts: str) -> str:
    return "\n\n".join(parts)
