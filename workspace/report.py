"""The test report: what is shown, computed from what was observed and from nothing else.

In: a `ReportDocument`, everything observed of a candidate's suites, stored as one artifact. Out:
the `TestReport`. The same function makes the report and checks it later: whoever has the document
can build the report anew and compare.
"""

from typing import Literal

from workspace.contracts import Artifact, CommitSha, Frozen, GitPath, SuiteResult, TestReport
from workspace.digest import RunFacts, report_digest
from workspace.judging import (
    SuiteFacts,
    compare,
    decide_base_passed,
    decide_reason,
    find_weakened,
)

REPORT_MEDIA_TYPE = "application/json"


class SuiteRecord(Frozen):
    """One suite: what determined its runs, what they did, and the raw files of the first."""

    run: RunFacts
    facts: SuiteFacts
    duration_seconds: float
    log: Artifact
    junit: Artifact | None


class ReportDocument(Frozen):
    """All that was observed of one candidate."""

    version: Literal[1] = 1
    candidate_id: str
    candidate_sha: CommitSha
    judged_tree: str
    """Git tree that ran: the candidate's, with runner configuration as the base has it."""
    restored: tuple[GitPath, ...]
    changed_tests: tuple[GitPath, ...]
    sandbox: str
    guarantees: dict[str, bool]
    suites: tuple[SuiteRecord, ...]

    @classmethod
    def parse(cls, content: bytes) -> "ReportDocument":
        """Read a stored document.

        Raises:
            pydantic.ValidationError: It is none.
        """
        return cls.model_validate_json(content)

    def encode(self) -> bytes:
        """Return the bytes to store."""
        return self.model_dump_json().encode()


def build_report(document: ReportDocument, artifact_uri: str) -> TestReport:
    """Return the report that a document proves. Passed: every required suite, and there is one."""
    results = tuple(_suite_result(record) for record in document.suites)
    required = [result for result in results if result.required]
    return TestReport(
        candidate_id=document.candidate_id,
        candidate_sha=document.candidate_sha,
        passed=bool(required) and all(result.passed for result in required),
        exit_codes={result.suite_id: result.exit_code for result in results},
        suites=results,
        restored=document.restored,
        changed_tests=document.changed_tests,
        sandbox=document.sandbox,
        guarantees=document.guarantees,
        artifact_uri=artifact_uri,
        digest=report_digest((r.suite_id, r.required, r.result_digest) for r in results),
    )


def _suite_result(record: SuiteRecord) -> SuiteResult:
    facts, candidate = record.facts, record.facts.candidate[0]
    suite, base = facts.suite, facts.base
    reason = decide_reason(facts)
    return SuiteResult(
        suite_id=suite.id,
        required=suite.required,
        passed=not reason,
        reason=reason,
        judged_by="junit" if suite.junit else "exit_code",
        termination=candidate.termination,
        exit_code=candidate.exit_code,
        run_key=record.run.run_key,
        result_digest=facts.digest,
        outcomes=candidate.outcomes,
        **compare(base, candidate).model_dump(),
        weakened=find_weakened(facts),
        flaky=facts.flaky,
        canary=facts.canary,
        base_passed=None if base is None else decide_base_passed(base, suite),
        duration_seconds=record.duration_seconds,
        log=record.log,
        junit=record.junit,
    )
