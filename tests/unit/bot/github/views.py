"""A run as messages are given it, whole or with one foreign text in every place that holds any."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from bot.contracts import (
    CandidateEnvelope,
    CodingRequest,
    ReviewOutput,
    RoundResult,
    SynthesisOutput,
    Trigger,
    UserRef,
    WorkerOutput,
    WorkerResult,
    WorkflowPlan,
    WorkItem,
)
from bot.policy import parse_policy
from bot.store.runs import Usage
from bot.view import RoundView, RunView
from workspace.contracts import (
    Artifact,
    Candidate,
    ChangedFile,
    ChangeKind,
    EvidenceManifest,
    RefusedPath,
    SuiteResult,
    TestOutcome,
    TestReport,
    WorkerRecord,
    git_path,
)

RUN_ID = "01hx0abcdefg"
BASE, CANDIDATE, TREE = "b" * 40, "c" * 40, "e" * 40
DIGEST = "0123456789abcdef" * 4
STARTED = datetime(2026, 11, 3, 14, 0, tzinfo=UTC)
POLICY = b"version: 1\nsuites: {unit: {run: 'pytest --junitxml=$ULTRACODE_JUNIT'}}\n"


def some(text: str) -> str:
    """A text for a field that must not be empty."""
    return text[:1_000] if text.strip() else "something"


def no_stray_bytes(text: str | None) -> str | None:
    """Words are text; only names of files may hold bytes that are none."""
    return None if text is None else text.encode("utf-8", "replace").decode()


def artifact(name: str) -> Artifact:
    return Artifact(uri=f"artifact:{name}", sha256=DIGEST, size=3, media_type="text/plain")


def a_request(text: str | None = None, **changes: Any) -> CodingRequest:
    foreign = text if text is not None else "Let people with a plus sign in their address log in."
    values: dict[str, Any] = {
        "repository_id": 42,
        "installation_id": 1,
        "issue_number": 12,
        "issue_title": text[:1_000] if text is not None else "Login fails for plus addresses",
        "base_ref": "refs/heads/main",
        "base_sha": BASE,
        "default_branch": "main",
        "requester": UserRef(id=7, login="anna"),
        "trigger": Trigger(kind="comment", id="99"),
        "request": some(foreign),
        "success_criteria": (
            (some(foreign),) if text is not None else ("`a+b@c.example` logs in", "suite passes")
        ),
        "required_suites": ("unit",),
        "policy_sha256": DIGEST,
        "hidden_text_removed": (text,) if text is not None else (),
        "feedback": (text,) if text is not None else (),
    }
    return CodingRequest(**{**values, **changes})


def a_suite(text: str | None = None, **changes: Any) -> SuiteResult:
    name = some(text) if text is not None else "test_plus"
    values: dict[str, Any] = {
        "suite_id": "unit",
        "required": True,
        "passed": True,
        "reason": text or "",
        "judged_by": "junit",
        "termination": "exit",
        "exit_code": 0,
        "run_key": DIGEST,
        "result_digest": DIGEST,
        "outcomes": (
            TestOutcome(class_name="tests.test_login", name="test_old", outcome="passed"),
            TestOutcome(
                class_name="tests.test_login",
                name=name,
                outcome="passed" if text is None else "failed",
                message=text or "",
                file="src/login.py",
                line=3,
            ),
        ),
        "fail_to_pass": (f"tests.test_login::{name}",),
        "duration_seconds": 3.21,
        "log": artifact("log"),
        "junit": artifact("junit"),
    }
    if text is not None:
        values |= {"pass_to_fail": (name,), "missing": (name,), "new": (name,), "weakened": (name,)}
    return SuiteResult(**{**values, **changes})


def a_round(
    text: str | None = None,
    *,
    number: int = 0,
    passed: bool = True,
    sha: str = CANDIDATE,
    base: str = BASE,
) -> RoundView:
    raw = b"src/login.py" if text is None else some(text).encode("utf-8", "surrogateescape")
    path = git_path(raw)
    text = no_stray_bytes(text)
    foreign = some(text) if text is not None else None
    changed = ChangedFile(
        path=path, kind=ChangeKind.MODIFIED, old_mode="100644", new_mode="100644", new_object=BASE
    )
    lock = ChangedFile(
        path="uv.lock", kind=ChangeKind.ADDED, old_mode="0", new_mode="100644", new_object=BASE
    )
    task = WorkItem(
        id="login",
        objective=foreign or "Accept a plus sign",
        read_only=False,
        write_globs=(foreign[:300] if foreign else "src/**",),
        additional_suite_ids=(),
    )
    candidate = Candidate(
        id=f"{RUN_ID}-{number}",
        sha=sha,
        tree=TREE,
        base_sha=base,
        original_base_sha=base,
        round=number,
        changed_files=(changed, lock),
        diff_uri="artifact:diff",
        diff_digest=DIGEST,
    )
    suite = a_suite(text, passed=passed)
    report = TestReport(
        candidate_id=candidate.id,
        candidate_sha=sha,
        passed=passed,
        exit_codes={"unit": 0 if passed else 1},
        suites=(suite,),
        sandbox="local" if text is not None else "bubblewrap",
        artifact_uri="artifact:report",
        digest=DIGEST,
    )
    evidence = EvidenceManifest(
        candidate_id=candidate.id,
        candidate_sha=sha,
        base_sha=base,
        original_base_sha=base,
        diff_uri="artifact:diff",
        test_artifact_uri="artifact:report",
        test_report_digest=DIGEST,
        diff_digest=DIGEST,
        log_digests={"unit": DIGEST},
        bindings={"plan": DIGEST, "policy": DIGEST},
        diff_bytes=0,
        diff_text=text or "",
        test_log_text=f"--- unit ---\n{text or '2 passed in 0.1 s'}",
        digest=DIGEST,
    )
    bound = {
        "candidate_id": candidate.id,
        "candidate_sha": sha,
        "test_report_digest": DIGEST,
        "evidence_digest": DIGEST,
    }
    objects = (foreign,) if foreign else ()
    review = ReviewOutput(
        **bound,
        candidate_passed=not objects and passed,
        blocking_issues=objects if passed else (foreign or "It still fails for `+`.",),
        evidence=(foreign or "Read src/login.py",),
    )
    synthesis = SynthesisOutput(
        **bound,
        summary=text if text is not None else "The address is parsed with its plus sign.",
        acceptance_evidence=(foreign or "tests.test_login::test_plus passes",),
        unresolved_risks=objects,
    )
    envelope = CandidateEnvelope(
        run_id=RUN_ID,
        round=number,
        passed=passed,
        candidate_id=candidate.id,
        candidate_sha=sha,
        original_base_sha=base,
        changed_files=(changed,),
        test_report_digest=DIGEST,
        evidence_digest=DIGEST,
        diff_uri="artifact:diff",
        test_artifact_uri="artifact:report",
        exit_codes={"unit": 0},
        synthesis=synthesis,
    )
    failure = "" if passed and text is None else text or "The suite unit failed."
    return RoundView(
        round=number,
        plan=WorkflowPlan(
            substantive=False,
            reason=foreign or "One place parses addresses.",
            success_criteria=(foreign or "plus signs work",),
            tasks=(task,),
        ),
        workers=(
            WorkerResult(
                output=WorkerOutput(
                    status="blocked" if text is not None else "completed",
                    summary=text if text is not None else "Done.",
                    unresolved_risks=objects,
                ),
                record=WorkerRecord(
                    task_id="login",
                    round=number,
                    workspace_id="w1",
                    base_sha=base,
                    tree=TREE,
                    changed_files=(changed,),
                    ignored=objects,
                    refused=(RefusedPath(path=path, reason=foreign),) if foreign else (),
                    warnings=objects,
                ),
            ),
        ),
        candidate=candidate,
        report=report,
        evidence=evidence,
        synthesis=synthesis,
        verifier=review,
        refuter=review,
        result=RoundResult(round=number, passed=passed, failure=failure, envelope=envelope),
    )


def a_view(text: str | None = None, **changes: Any) -> RunView:
    """A run that waits for its review; with `text`, that text stands in every foreign place."""
    values: dict[str, Any] = {
        "run_id": RUN_ID,
        "state": "awaiting_review",
        "reason": None,
        "request": a_request(no_stray_bytes(text)),
        "branch": "ultracode/12-abcdefg",
        "pull_number": 31,
        "evidence_url": "https://bot.example/runs/01hx0abcdefg",
        "usage": Usage(12, 30_000, 4_567, Decimal("0.42")),
        "created_at": STARTED,
        "as_of": STARTED + timedelta(minutes=3, seconds=20),
        "deadline_at": STARTED + timedelta(days=7),
        "policy": parse_policy(POLICY),
        "rounds": (
            a_round(text, number=0, passed=text is not None),
            a_round(text, number=1),
        ),
    }
    return RunView(**{**values, **changes})
