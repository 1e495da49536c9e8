"""The evidence manifest: one digest over diff, report, logs and what the caller binds to them.

In: a candidate, its test report, the stored artifacts, and digests of plan, policy and request.
Out: an `EvidenceManifest`, and later the links of it that no longer hold. Why: what a person
approves is this digest; before anything is promoted it is computed again from the stored bytes.
"""

from collections.abc import Mapping
from typing import Final

from pydantic import ValidationError

from workspace.artifacts import ArtifactMissing, artifact_uri, parse_artifact_uri
from workspace.contracts import (
    ArtifactStore,
    Candidate,
    EvidenceManifest,
    RunPin,
    Sha256,
    TestReport,
)
from workspace.digest import evidence_digest
from workspace.execution import read_outcomes
from workspace.readable_diff import readable_diff
from workspace.report import ReportDocument, SuiteRecord, build_report

#: Bytes of the readable diff and of all logs together that a manifest quotes.
DIFF_EXCERPT_BYTES: Final = 120_000
LOG_EXCERPT_BYTES: Final = 40_000


async def build_evidence(
    run: RunPin,
    candidate: Candidate,
    report: TestReport,
    bindings: Mapping[str, Sha256],
    *,
    artifacts: ArtifactStore,
) -> EvidenceManifest:
    """Bind a candidate, its report, and what the caller adds into one digest.

    Args:
        run: Whose artifacts they are.
        candidate: What was tested; its diff must be stored as the artifact `diff_digest`.
        report: What the suites did on it.
        bindings: Digests of the plan, the policy, the request, by name.
        artifacts: Where diff and logs are stored.

    Raises:
        ArtifactMissing: The diff or a log is not stored under this repository and run.
    """
    diff = await artifacts.get(run.repo.id, run.run_id, candidate.diff_digest)
    logs = {
        suite.suite_id: await artifacts.get(run.repo.id, run.run_id, suite.log.sha256)
        for suite in report.suites
    }
    unsigned = EvidenceManifest(
        candidate_id=candidate.id,
        candidate_sha=candidate.sha,
        base_sha=candidate.base_sha,
        original_base_sha=candidate.original_base_sha,
        diff_uri=artifact_uri(run.repo.id, run.run_id, candidate.diff_digest),
        test_artifact_uri=report.artifact_uri,
        test_report_digest=report.digest,
        diff_digest=candidate.diff_digest,
        log_digests={suite.suite_id: suite.log.sha256 for suite in report.suites},
        bindings=dict(bindings),
        diff_bytes=len(readable_diff(diff)),
        diff_text=diff_excerpt(diff),
        test_log_text=logs_excerpt(logs),
        digest="0" * 64,
    )
    return unsigned.model_copy(update={"digest": manifest_digest(unsigned)})


def manifest_digest(manifest: EvidenceManifest) -> Sha256:
    """Return the digest over everything in a manifest that names one execution.

    The excerpts are left out: they follow from the bytes whose digests are in it. So is what is
    said of the statement, which is made from the manifest.
    """
    left_out = {"diff_text", "test_log_text", "statement_uri", "signed_by", "digest"}
    return evidence_digest(manifest.model_dump(exclude=left_out))


async def verify_evidence(
    run: RunPin,
    candidate: Candidate,
    report: TestReport,
    manifest: EvidenceManifest,
    *,
    artifacts: ArtifactStore,
) -> tuple[str, ...]:
    """Recompute every digest from the stored bytes; return the broken links, a sentence each.

    The links: candidate, diff, report, junit, log, each binding by its name (plan, policy, …),
    evidence. Empty: all hold.
    """
    broken = [*_decide_candidate(candidate, report, manifest)]
    broken += await _load_diff_problems(run, manifest, artifacts)
    broken += await _load_report_problems(run, report, manifest, artifacts)
    broken += await _load_log_problems(run, report, manifest, artifacts)
    broken += await _load_binding_problems(run, manifest, artifacts)
    if manifest_digest(manifest) != manifest.digest:
        broken.append("evidence: the manifest's digest is not that of its content")
    return tuple(broken)


def _decide_candidate(
    candidate: Candidate, report: TestReport, manifest: EvidenceManifest
) -> list[str]:
    same = {
        "id": {candidate.id, report.candidate_id, manifest.candidate_id},
        "SHA": {candidate.sha, report.candidate_sha, manifest.candidate_sha},
        "base": {candidate.base_sha, manifest.base_sha},
        "original base": {candidate.original_base_sha, manifest.original_base_sha},
        "diff": {candidate.diff_digest, manifest.diff_digest},
    }
    return [
        f"candidate: {name} differs between candidate, report and evidence"
        for name, values in same.items()
        if len(values) > 1
    ]


async def _load_diff_problems(
    run: RunPin, manifest: EvidenceManifest, artifacts: ArtifactStore
) -> list[str]:
    if manifest.diff_uri != artifact_uri(run.repo.id, run.run_id, manifest.diff_digest):
        return ["diff: its URI names another repository, run or content"]
    try:
        diff = await artifacts.get(run.repo.id, run.run_id, manifest.diff_digest)
    except ArtifactMissing:
        return ["diff: the stored bytes are missing or not what they were"]
    if (manifest.diff_bytes, manifest.diff_text) != (len(readable_diff(diff)), diff_excerpt(diff)):
        return ["diff: the excerpt is not from the stored diff"]
    return []


async def _load_report_problems(
    run: RunPin, report: TestReport, manifest: EvidenceManifest, artifacts: ArtifactStore
) -> list[str]:
    if report.artifact_uri != manifest.test_artifact_uri:
        return ["report: evidence and report name different documents"]
    try:
        repository, run_id, sha256 = parse_artifact_uri(report.artifact_uri)
        if (repository, run_id) != (run.repo.id, run.run_id):
            return ["report: its URI names another repository or run"]
        document = ReportDocument.parse(await artifacts.get(repository, run_id, sha256))
    except (ArtifactMissing, ValidationError):
        return ["report: the stored document is missing or not what it was"]
    broken = []
    if build_report(document, report.artifact_uri) != report:
        broken.append("report: it does not follow from the stored document")
    if report.digest != manifest.test_report_digest:
        broken.append("report: its digest is not the one in the evidence")
    for record in document.suites:
        if record.junit is not None:
            broken += await _load_junit_problems(run, record.junit.sha256, record, artifacts)
    return broken


async def _load_junit_problems(
    run: RunPin, sha256: Sha256, record: SuiteRecord, artifacts: ArtifactStore
) -> list[str]:
    name = record.facts.suite.id
    try:
        junit = await artifacts.get(run.repo.id, run.run_id, sha256)
    except ArtifactMissing:
        return [f"junit: the stored file of suite {name} is missing or not what it was"]
    if read_outcomes(junit)[0] != record.facts.candidate[0].outcomes:
        return [f"junit: the outcomes of suite {name} are not those of its stored file"]
    return []


async def _load_log_problems(
    run: RunPin, report: TestReport, manifest: EvidenceManifest, artifacts: ArtifactStore
) -> list[str]:
    if manifest.log_digests != {suite.suite_id: suite.log.sha256 for suite in report.suites}:
        return ["log: evidence and report name different logs"]
    logs = {}
    for suite in report.suites:
        try:
            logs[suite.suite_id] = await artifacts.get(run.repo.id, run.run_id, suite.log.sha256)
        except ArtifactMissing:
            return [f"log: the stored log of suite {suite.suite_id} is missing or not what it was"]
    if manifest.test_log_text != logs_excerpt(logs):
        return ["log: the excerpt is not from the stored logs"]
    return []


async def _load_binding_problems(
    run: RunPin, manifest: EvidenceManifest, artifacts: ArtifactStore
) -> list[str]:
    broken = []
    for name, digest in manifest.bindings.items():
        try:
            await artifacts.get(run.repo.id, run.run_id, digest)
        except ArtifactMissing:
            broken.append(f"{name}: the stored bytes are missing or not what they were")
    return broken


def diff_excerpt(diff: bytes) -> str:
    """Quote a diff as people read it, its middle left out where it is long."""
    return _excerpt(readable_diff(diff), DIFF_EXCERPT_BYTES)


def logs_excerpt(logs: Mapping[str, bytes]) -> str:
    """Quote every suite's log under its name, each with its share of the room."""
    share = LOG_EXCERPT_BYTES // max(1, len(logs))
    return "\n".join(f"--- {name} ---\n{_excerpt(log, share)}" for name, log in logs.items())


def _excerpt(content: bytes, limit: int) -> str:
    """Return bytes as text, head and tail of them where they are more than `limit`."""
    if len(content) > limit:
        half = limit // 2
        note = b"\n[... %d bytes left out ...]\n" % (len(content) - 2 * half)
        content = content[:half] + note + content[-half:]
    return content.decode("utf-8", "backslashreplace").replace("\0", "\\x00")
