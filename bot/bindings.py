"""The checks that tie words to facts: lineage, required suites, ids, SHAs and digests.

In: what the workshop proved and what models said about it. Out: nothing, or a `BindingBroken` whose
sentence names the broken link. Pure: the same checks run in a round and again before promotion.
"""

from __future__ import annotations

from collections.abc import Iterable

from bot.contracts import Bindings, CandidateEnvelope, CodingRequest
from workspace.contracts import (
    Candidate,
    CommitSha,
    EvidenceManifest,
    TestReport,
    WorkerRecord,
)


class BindingBroken(Exception):
    """A report, evidence or verdict is not about this candidate."""


class LineageBroken(BindingBroken):
    """Work did not start from where the run says it did."""


class RequiredSuiteMissing(BindingBroken):
    """A suite that policy requires is not in the report."""


class ReportNotOfCandidate(BindingBroken):
    """The test report names another candidate."""


class EvidenceNotOfCandidate(BindingBroken):
    """The evidence names another candidate or another report."""


class WordsNotOfCandidate(BindingBroken):
    """A model's synthesis or verdict names another candidate, report or evidence."""


class EnvelopeChanged(BindingBroken):
    """The envelope that was reviewed is not what is stored."""


def check_lineage(
    candidate: Candidate,
    records: Iterable[WorkerRecord],
    *,
    parent: CommitSha,
    original_base: CommitSha,
) -> None:
    """Raise LineageBroken unless all started from `parent` and the commit stands on the base."""
    for record in records:
        if record.base_sha != parent:
            raise LineageBroken(
                f"The work of {record.task_id} started from {record.base_sha[:12]}, "
                f"not from {parent[:12]}."
            )
    if candidate.base_sha != parent:
        raise LineageBroken(
            f"The candidate was composed from {candidate.base_sha[:12]}, not from {parent[:12]}."
        )
    if candidate.original_base_sha != original_base:
        raise LineageBroken(
            f"The candidate stands on {candidate.original_base_sha[:12]}, "
            f"not on the pinned base {original_base[:12]}."
        )


def check_report(report: TestReport, candidate: Candidate, request: CodingRequest) -> None:
    """Raise unless the report is of this candidate and holds every required suite."""
    if (report.candidate_id, report.candidate_sha) != (candidate.id, candidate.sha):
        raise ReportNotOfCandidate(
            f"The test report is of {report.candidate_sha[:12]}, "
            f"the candidate is {candidate.sha[:12]}."
        )
    ran = {suite.suite_id for suite in report.suites}
    missing = [suite for suite in request.required_suites if suite not in ran]
    if missing:
        raise RequiredSuiteMissing(f"Required suites did not run: {', '.join(missing)}.")
    red = [s.suite_id for s in report.suites if s.required and not s.passed]
    if report.passed and red:
        raise ReportNotOfCandidate(f"The report says passed, yet {', '.join(red)} did not pass.")


def check_evidence(evidence: EvidenceManifest, candidate: Candidate, report: TestReport) -> None:
    """Raise EvidenceNotOfCandidate unless the manifest binds this candidate and this report."""
    wanted = {
        "candidate": (evidence.candidate_id, candidate.id),
        "candidate SHA": (evidence.candidate_sha, candidate.sha),
        "base": (evidence.base_sha, candidate.base_sha),
        "original base": (evidence.original_base_sha, candidate.original_base_sha),
        "diff": (evidence.diff_digest, candidate.diff_digest),
        "test report": (evidence.test_report_digest, report.digest),
    }
    for name, (found, expected) in wanted.items():
        if found != expected:
            raise EvidenceNotOfCandidate(
                f"The evidence names another {name} ({found[:16]}, not {expected[:16]})."
            )


def check_policy(evidence: EvidenceManifest, request: CodingRequest) -> None:
    """Raise EvidenceNotOfCandidate unless the evidence binds the policy that the request pinned."""
    if evidence.bindings.get("policy") != request.policy_sha256:
        raise EvidenceNotOfCandidate("The evidence names another policy than the request pins.")


def check_words(
    who: str,
    words: Bindings,
    candidate: Candidate,
    report: TestReport,
    evidence: EvidenceManifest,
) -> None:
    """Raise WordsNotOfCandidate unless all four bindings of a model's output are of this one."""
    wanted = {
        "candidate id": (words.candidate_id, candidate.id),
        "candidate SHA": (words.candidate_sha, candidate.sha),
        "test report digest": (words.test_report_digest, report.digest),
        "evidence digest": (words.evidence_digest, evidence.digest),
    }
    for name, (found, expected) in wanted.items():
        if found != expected:
            raise WordsNotOfCandidate(
                f"What the {who} said is about another {name} "
                f"({found[:16]!r}, not {expected[:16]!r})."
            )


def check_envelope(
    envelope: CandidateEnvelope,
    candidate: Candidate,
    report: TestReport,
    evidence: EvidenceManifest,
) -> None:
    """Raise EnvelopeChanged unless the reviewed envelope is exactly what is stored."""
    wanted = {
        "candidate id": (envelope.candidate_id, candidate.id),
        "candidate SHA": (envelope.candidate_sha, candidate.sha),
        "original base": (envelope.original_base_sha, candidate.original_base_sha),
        "changed files": (envelope.changed_files, candidate.changed_files),
        "test report digest": (envelope.test_report_digest, report.digest),
        "evidence digest": (envelope.evidence_digest, evidence.digest),
        "diff": (envelope.diff_uri, candidate.diff_uri),
        "test artifact": (envelope.test_artifact_uri, report.artifact_uri),
        "exit codes": (envelope.exit_codes, report.exit_codes),
    }
    for name, (found, expected) in wanted.items():
        if found != expected:
            raise EnvelopeChanged(
                f"The reviewed envelope and the stored {name} differ; nothing was merged."
            )
