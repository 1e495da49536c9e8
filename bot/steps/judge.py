"""The second half of a round: the candidate's proof, what agents say of it, and what is published.

In: a composed candidate and the workers' results. Out: the `CandidateEnvelope` of the round. Suites
decide by exit codes and outcomes; reducer, verifier and refuter only count when all four of their
bindings name this candidate, its report and its evidence.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from bot.agents import reducer, reviewer
from bot.agents.briefs import CandidateBrief
from bot.agents.conversation import ReviewRole
from bot.agents.prompts import prompts_document
from bot.bindings import check_evidence, check_policy, check_report, check_words
from bot.contracts import (
    CandidateEnvelope,
    ReviewOutput,
    SynthesisOutput,
    WorkerResult,
    WorkflowPlan,
)
from bot.live import LiveRun, side_by_side
from bot.steps.brief import candidate_brief, nearest_guidance, run_brief
from bot.tracing import span
from workspace.contracts import Candidate, EvidenceManifest, Suite, TestReport, shown_path
from workspace.digest import canonical_json
from workspace.evidence import DIFF_EXCERPT_BYTES

log = structlog.get_logger()


async def prove_and_judge(
    live: LiveRun, plan: WorkflowPlan, candidate: Candidate, results: Sequence[WorkerResult]
) -> CandidateEnvelope:
    """Test the candidate, bind the evidence, hear reducer, verifier and refuter, publish.

    Where pushes are held nothing is published here: a push starts the repository's own workflows.
    """
    report = await test(live, plan, candidate)
    evidence = await bind_evidence(live, plan, candidate, report)
    envelope = await judge(live, candidate, report, evidence, results)
    if not live.holds_pushes:
        await live.publisher.publish_round(candidate.round, passed=envelope.passed)
    return envelope


async def judge(
    live: LiveRun,
    candidate: Candidate,
    report: TestReport,
    evidence: EvidenceManifest,
    results: Sequence[WorkerResult],
) -> CandidateEnvelope:
    """Hear reducer, verifier and refuter about a proved candidate; one too large fails unheard."""
    too_large = too_large_to_review(evidence)
    if too_large:
        reason = " ".join([*suite_failures(report), too_large])
        return seal(live, candidate, report, evidence, None, reason)
    guidance = await nearest_guidance(live, (file.path for file in candidate.changed_files))
    brief = candidate_brief(await run_brief(live), candidate, report, evidence, results, guidance)
    synthesis = await summarise(live, brief)
    verifier, refuter = await hear_reviewers(live, brief)
    for who, words in (("reducer", synthesis), ("verifier", verifier), ("refuter", refuter)):
        check_words(who, words, candidate, report, evidence)
    reason = failure_of(report, verifier, refuter)
    return seal(live, candidate, report, evidence, synthesis, reason)


async def test(live: LiveRun, plan: WorkflowPlan, candidate: Candidate) -> TestReport:
    """Run the required suites, those the plan adds and those whose paths the change touches."""
    paths = tuple(shown_path(file.path) for file in candidate.changed_files)
    touched = live.policy.suites_touched(live.base_branch, paths)
    added = {suite for task in plan.tasks for suite in task.additional_suite_ids}
    added |= {suite.id for suite in touched}
    suites: tuple[Suite, ...] = (
        *live.required,
        *(suite for suite in live.optional if suite.id in added),
    )
    with span("suites", suites=len(suites)):
        report = await live.pieces.once(
            f"report:{candidate.round}",
            TestReport,
            lambda: live.workshop.test(live.pin, candidate, suites),
        )
    log.info("candidate tested", passed=report.passed, suites=len(report.suites))
    check_report(report, candidate, live.request)
    return report


async def bind_evidence(
    live: LiveRun, plan: WorkflowPlan, candidate: Candidate, report: TestReport
) -> EvidenceManifest:
    """Bind diff, report, logs, plan, policy and request into one digest."""
    documents = {
        "plan": canonical_json(plan.model_dump(mode="json")),
        "policy": str(live.run.request["policy"]).encode(),
        "request": canonical_json(live.request.model_dump(mode="json")),
        "prompts": prompts_document(),
    }
    evidence = await live.pieces.once(
        f"evidence:{candidate.round}",
        EvidenceManifest,
        lambda: live.workshop.evidence(
            live.pin, candidate, report, documents, lineage=lineage_of(live)
        ),
    )
    check_evidence(evidence, candidate, report)
    check_policy(evidence, live.request)
    return evidence


def lineage_of(live: LiveRun) -> dict[str, str]:
    """Return which run this one followed and how, for example `{"revision": "<run id>"}`."""
    parent = live.run.parent_run_id
    return {} if parent is None else {str(live.run.request.get("kind", "follows")): parent}


async def summarise(live: LiveRun, brief: CandidateBrief) -> SynthesisOutput:
    """Let the reducer say for people what the candidate is and what the suites said."""

    async def ask() -> SynthesisOutput:
        return (await reducer.summarise(live.agents, brief)).value

    return await live.pieces.once(f"synthesis:{brief.round}", SynthesisOutput, ask)


async def hear_reviewers(live: LiveRun, brief: CandidateBrief) -> tuple[ReviewOutput, ReviewOutput]:
    """Let the verifier and the refuter look at the candidate side by side."""
    tools = await live.workshop.tools_at(live.pin, brief.bindings.candidate_sha)

    async def hear(role: ReviewRole) -> ReviewOutput:
        async def ask() -> ReviewOutput:
            return (await reviewer.review(live.agents, role, brief, tools)).value

        return await live.pieces.once(f"verdict:{brief.round}:{role}", ReviewOutput, ask)

    verifier, refuter = await side_by_side(hear("verifier"), hear("refuter"))
    return verifier, refuter


def seal(
    live: LiveRun,
    candidate: Candidate,
    report: TestReport,
    evidence: EvidenceManifest,
    synthesis: SynthesisOutput | None,
    reason: str,
) -> CandidateEnvelope:
    """Return what a reviewer will decide about; it passed when there is no reason against it."""
    return CandidateEnvelope(
        run_id=live.run_id,
        round=candidate.round,
        passed=not reason,
        reason=reason,
        candidate_id=candidate.id,
        candidate_sha=candidate.sha,
        original_base_sha=candidate.original_base_sha,
        changed_files=candidate.changed_files,
        test_report_digest=report.digest,
        evidence_digest=evidence.digest,
        diff_uri=candidate.diff_uri,
        test_artifact_uri=report.artifact_uri,
        exit_codes=report.exit_codes,
        synthesis=synthesis,
    )


def too_large_to_review(evidence: EvidenceManifest) -> str:
    """Return why nobody can review the candidate, in words; empty when its diff is shown whole.

    A verdict about a part would read like one about the whole: no model is asked for it.
    """
    if evidence.diff_bytes <= DIFF_EXCERPT_BYTES:
        return ""
    return (
        f"The candidate is too large to review: its diff has {evidence.diff_bytes:,} bytes, and "
        f"reviewers are shown at most {DIFF_EXCERPT_BYTES:,}. Split the request into smaller ones."
    )


def failure_of(report: TestReport, verifier: ReviewOutput, refuter: ReviewOutput) -> str:
    """Return why the round does not pass, in words; empty when it passes."""
    reasons = suite_failures(report)
    for who, review in (("verifier", verifier), ("refuter", refuter)):
        if not review.candidate_passed:
            reasons.append(f"The {who} objects: {' '.join(review.blocking_issues)}")
    return " ".join(reasons)


def suite_failures(report: TestReport) -> list[str]:
    """Return what the suites have against the candidate, a sentence each."""
    reasons = [
        f"Suite {suite.suite_id}: {suite.reason}"
        for suite in report.suites
        if suite.required and not suite.passed
    ]
    if not report.passed and not reasons:
        reasons.append("The suites did not pass.")
    return reasons
