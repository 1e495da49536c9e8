"""Each link between words and facts has its own error, and its own test."""

from __future__ import annotations

from typing import Any

import pytest

from bot.bindings import (
    BindingBroken,
    EnvelopeChanged,
    EvidenceNotOfCandidate,
    LineageBroken,
    ReportNotOfCandidate,
    RequiredSuiteMissing,
    WordsNotOfCandidate,
    check_envelope,
    check_evidence,
    check_lineage,
    check_report,
    check_words,
)
from bot.contracts import CandidateEnvelope, CodingRequest, ReviewOutput, Trigger, UserRef
from workspace.contracts import (
    Artifact,
    Candidate,
    EvidenceManifest,
    SuiteResult,
    TestReport,
    WorkerRecord,
)

BASE, PARENT, SHA, OTHER = "a" * 40, "b" * 40, "c" * 40, "d" * 40
DIGEST, EVIDENCE, DIFF = "1" * 64, "2" * 64, "3" * 64
LOG = Artifact(uri="artifact:1/run00000/" + DIGEST, sha256=DIGEST, size=1, media_type="text/plain")

CANDIDATE = Candidate(
    id="run00000-r1",
    sha=SHA,
    tree="e" * 40,
    base_sha=PARENT,
    original_base_sha=BASE,
    round=1,
    changed_files=(),
    diff_uri="artifact:diff",
    diff_digest=DIFF,
)
RECORD = WorkerRecord(
    task_id="fix", round=1, workspace_id="w", base_sha=PARENT, tree="e" * 40, changed_files=()
)
SUITE = SuiteResult(
    suite_id="unit",
    required=True,
    passed=True,
    reason="",
    judged_by="junit",
    termination="exit",
    exit_code=0,
    run_key=DIGEST,
    result_digest=DIGEST,
    log=LOG,
)
REPORT = TestReport(
    candidate_id=CANDIDATE.id,
    candidate_sha=SHA,
    passed=True,
    exit_codes={"unit": 0},
    suites=(SUITE,),
    sandbox="bubblewrap",
    artifact_uri="artifact:report",
    digest=DIGEST,
)
MANIFEST = EvidenceManifest(
    candidate_id=CANDIDATE.id,
    candidate_sha=SHA,
    base_sha=PARENT,
    original_base_sha=BASE,
    diff_uri="artifact:diff",
    test_artifact_uri="artifact:report",
    test_report_digest=DIGEST,
    diff_digest=DIFF,
    log_digests={"unit": DIGEST},
    bindings={},
    diff_bytes=0,
    diff_text="",
    test_log_text="",
    digest=EVIDENCE,
)
REQUEST = CodingRequest(
    repository_id=1,
    installation_id=1,
    issue_number=1,
    issue_title="t",
    base_ref="refs/heads/main",
    base_sha=BASE,
    default_branch="main",
    requester=UserRef(id=1, login="wim"),
    trigger=Trigger(kind="comment", id="1"),
    request="fix",
    success_criteria=("fixed",),
    required_suites=("unit",),
    policy_sha256=DIGEST,
)
WORDS = ReviewOutput(
    candidate_id=CANDIDATE.id,
    candidate_sha=SHA,
    test_report_digest=DIGEST,
    evidence_digest=EVIDENCE,
    candidate_passed=True,
    blocking_issues=(),
    evidence=(),
)
ENVELOPE = CandidateEnvelope(
    run_id="run00000",
    round=1,
    passed=True,
    candidate_id=CANDIDATE.id,
    candidate_sha=SHA,
    original_base_sha=BASE,
    changed_files=(),
    test_report_digest=DIGEST,
    evidence_digest=EVIDENCE,
    diff_uri="artifact:diff",
    test_artifact_uri="artifact:report",
    exit_codes={"unit": 0},
    synthesis=None,
)


def test_whole_chain_is_accepted() -> None:
    """A chain whose links agree raises nothing."""
    check_lineage(CANDIDATE, [RECORD], parent=PARENT, original_base=BASE)
    check_report(REPORT, CANDIDATE, REQUEST)
    check_evidence(MANIFEST, CANDIDATE, REPORT)
    check_words("verifier", WORDS, CANDIDATE, REPORT, MANIFEST)
    check_envelope(ENVELOPE, CANDIDATE, REPORT, MANIFEST)


@pytest.mark.parametrize(
    ("record", "candidate"),
    [
        (RECORD.model_copy(update={"base_sha": OTHER}), CANDIDATE),
        (RECORD, CANDIDATE.model_copy(update={"base_sha": OTHER})),
        (RECORD, CANDIDATE.model_copy(update={"original_base_sha": OTHER})),
    ],
)
def test_lineage(record: WorkerRecord, candidate: Candidate) -> None:
    """Work that started elsewhere, or a candidate on another base, breaks the lineage."""
    with pytest.raises(LineageBroken):
        check_lineage(candidate, [record], parent=PARENT, original_base=BASE)


def test_missing_required_suite_is_named() -> None:
    """A required suite that is not in the report is named."""
    request = REQUEST.model_copy(update={"required_suites": ("unit", "lint")})
    with pytest.raises(RequiredSuiteMissing, match="lint"):
        check_report(REPORT, CANDIDATE, request)


@pytest.mark.parametrize(
    "change",
    [
        {"candidate_sha": OTHER},
        {"candidate_id": "another"},
        {"suites": (SUITE.model_copy(update={"passed": False, "reason": "red"}),)},
    ],
)
def test_report(change: dict[str, Any]) -> None:
    """A report of another candidate, or one that says passed over a red suite, is refused."""
    with pytest.raises(ReportNotOfCandidate):
        check_report(REPORT.model_copy(update=change), CANDIDATE, REQUEST)


@pytest.mark.parametrize(
    "field",
    [
        "candidate_id",
        "candidate_sha",
        "base_sha",
        "original_base_sha",
        "diff_digest",
        "test_report_digest",
    ],
)
def test_evidence(field: str) -> None:
    """Evidence that names anything else is refused."""
    with pytest.raises(EvidenceNotOfCandidate):
        check_evidence(MANIFEST.model_copy(update={field: OTHER}), CANDIDATE, REPORT)


@pytest.mark.parametrize(
    "field", ["candidate_id", "candidate_sha", "test_report_digest", "evidence_digest"]
)
def test_words(field: str) -> None:
    """A model's words about any other candidate, report or evidence are refused."""
    with pytest.raises(WordsNotOfCandidate, match="refuter"):
        check_words("refuter", WORDS.model_copy(update={field: OTHER}), CANDIDATE, REPORT, MANIFEST)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("candidate_id", "another"),
        ("candidate_sha", OTHER),
        ("original_base_sha", OTHER),
        ("test_report_digest", OTHER),
        ("evidence_digest", OTHER),
        ("diff_uri", "artifact:other"),
        ("test_artifact_uri", "artifact:other"),
        ("exit_codes", {"unit": 1}),
    ],
)
def test_envelope(field: str, value: object) -> None:
    """An envelope that is not what is stored is refused."""
    with pytest.raises(EnvelopeChanged):
        check_envelope(ENVELOPE.model_copy(update={field: value}), CANDIDATE, REPORT, MANIFEST)


def test_one_family() -> None:
    """Every broken binding is caught in one place."""
    kinds = (LineageBroken, RequiredSuiteMissing, ReportNotOfCandidate, EvidenceNotOfCandidate)
    assert all(issubclass(k, BindingBroken) for k in (*kinds, WordsNotOfCandidate, EnvelopeChanged))
