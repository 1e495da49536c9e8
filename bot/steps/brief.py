"""What agents are told of a run, put together from what is pinned and what is proved.

In: a `LiveRun`, a candidate and its proof. Out: frozen briefs. Agents see excerpts and ids here;
the tools show them the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bot.agents.briefs import CandidateBrief, Guidance, RunBrief, WorkerWords
from bot.agents.guidance import GUIDANCE_NAME, guidance_paths
from bot.contracts import Bindings, WorkerResult
from bot.live import LiveRun
from workspace.contracts import (
    Candidate,
    ChangedFile,
    EvidenceManifest,
    SuiteResult,
    TestReport,
    shown_path,
)

GUIDANCE_BYTES = 16_000
GUIDANCE_FILES = 4
SHOWN_TESTS = 20


async def run_brief(live: LiveRun) -> RunBrief:
    """Return what all agents of the run are told, in the same words."""
    return RunBrief(
        run_id=live.run_id,
        request=live.request.request,
        success_criteria=live.request.success_criteria,
        guidance=await _guidance(live, (GUIDANCE_NAME,)),
        repository_map=await live.workshop.repository_map(live.pin),
        required_suites=tuple(suite.id for suite in live.required),
        optional_suites=tuple(suite.id for suite in live.optional),
        feedback=live.request.feedback,
        hidden_text_removed=live.request.hidden_text_removed,
    )


async def nearest_guidance(live: LiveRun, paths: Iterable[str]) -> tuple[Guidance, ...]:
    """Return what the folders of some paths or globs add to the root's guidance."""
    return await _guidance(live, guidance_paths(paths))


async def _guidance(live: LiveRun, places: Iterable[str]) -> tuple[Guidance, ...]:
    found: list[Guidance] = []
    for place in places:
        if len(found) == GUIDANCE_FILES:
            break
        text = await live.workshop.read_base_file(live.pin, place, limit=GUIDANCE_BYTES)
        if text is not None:
            found.append(Guidance(path=place, text=text.decode("utf-8", "replace")))
    return tuple(found)


def bindings_of(candidate: Candidate, report: TestReport, evidence: EvidenceManifest) -> Bindings:
    """Return the four values every word about a candidate must carry."""
    return Bindings(
        candidate_id=candidate.id,
        candidate_sha=candidate.sha,
        test_report_digest=report.digest,
        evidence_digest=evidence.digest,
    )


def candidate_brief(
    run: RunBrief,
    candidate: Candidate,
    report: TestReport,
    evidence: EvidenceManifest,
    results: Sequence[WorkerResult],
    guidance: tuple[Guidance, ...] = (),
) -> CandidateBrief:
    """Return one candidate and its evidence, as reducer and reviewers see it."""
    return CandidateBrief(
        run=run,
        round=candidate.round,
        bindings=bindings_of(candidate, report, evidence),
        changed_files=tuple(file_line(file) for file in candidate.changed_files),
        suites=tuple(suite_line(suite) for suite in report.suites),
        diff_text=evidence.diff_text,
        test_log_text=evidence.test_log_text,
        workers=tuple(
            WorkerWords(task_id=result.record.task_id, output=result.output) for result in results
        ),
        guidance=guidance,
    )


def file_line(file: ChangedFile) -> str:
    """Return one changed file in a line."""
    return f"{file.kind}: {shown_path(file.path)}"


def suite_line(suite: SuiteResult) -> str:
    """Return how one suite went, in a line."""
    verdict = "passed" if suite.passed else f"did not pass: {suite.reason}"
    counts = ", ".join(
        f"{suite.count(outcome)} {outcome}" for outcome in ("passed", "failed", "error", "skipped")
    )
    failing = [t.key for t in suite.outcomes if t.outcome in {"failed", "error"}][:SHOWN_TESTS]
    shown = f"; failing: {', '.join(failing)}" if failing else ""
    return (
        f"{suite.suite_id} ({'required' if suite.required else 'optional'}) {verdict}; "
        f"exit code {suite.exit_code}, {counts}{shown}"
    )
