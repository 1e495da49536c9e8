"""What people ask, what models say, and the envelope a reviewer approves.

What Git and suites prove lives in `workspace.contracts`, which knows nothing of this module. Models
fill `WorkflowPlan`, `WorkerOutput`, `SynthesisOutput` and `ReviewOutput`; their schemas stay inside
the strict subset of the Responses API, so cross-field rules are validators, never schema keywords.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from workspace.contracts import (
    ChangedFile,
    CommitSha,
    Frozen,
    RepositoryId,
    Round,
    RunId,
    Scope,
    Sha256,
    SuiteId,
    TaskId,
    WorkerRecord,
)

MAX_WORKERS = 4
MAX_ROUNDS = 3

Sentence = Annotated[str, StringConstraints(min_length=1, max_length=2_000)]
Words = Annotated[str, StringConstraints(max_length=8_000)]
Glob = Annotated[str, StringConstraints(min_length=1, max_length=300)]
Criteria = Annotated[tuple[Sentence, ...], Field(min_length=1, max_length=30)]


class UserRef(Frozen):
    """A GitHub account by its numeric id; the login is for display only."""

    id: int
    login: str


# --- what people ask ----------------------------------------------------------------------------


class Trigger(Frozen):
    """What started a run: unique per repository, so that one trigger makes one run."""

    kind: Literal["comment", "label", "review", "review_comment", "check_button", "refresh"]
    id: str = Field(
        description="GitHub's id of the comment or review; for a label or button its delivery"
    )


class CodingRequest(Frozen):
    """The authorised, pinned work order."""

    repository_id: RepositoryId
    installation_id: int
    issue_number: int
    issue_title: str = Field(max_length=1_000)
    on_pull: bool = Field(default=False, description="asked on a pull request, not an issue")
    base_ref: str
    base_sha: CommitSha
    default_branch: str
    requester: UserRef
    trigger: Trigger
    request: str = Field(min_length=1, max_length=70_000)
    success_criteria: Criteria
    required_suites: tuple[SuiteId, ...] = Field(max_length=50)
    optional_suites: tuple[SuiteId, ...] = Field(default=(), max_length=50)
    outsiders_words: bool = False
    hidden_text_removed: tuple[str, ...] = Field(default=(), max_length=20)
    contributors: tuple[int, ...] = Field(
        default=(), max_length=200, description="ids of all whose words entered this lineage"
    )
    policy_sha256: Sha256
    feedback: tuple[Words, ...] = Field(default=(), max_length=20)
    parent_candidate_sha: CommitSha | None = None


# --- what models say ----------------------------------------------------------------------------


class WorkItem(Frozen):
    """One task of the plan, with the globs it may write."""

    id: TaskId
    objective: Sentence
    read_only: bool
    write_globs: tuple[Glob, ...] = Field(max_length=50)
    additional_suite_ids: tuple[SuiteId, ...] = Field(max_length=20)

    @model_validator(mode="after")
    def _globs_iff_writable(self) -> Self:
        if self.read_only == bool(self.write_globs):
            raise ValueError(
                f"work item {self.id!r}: write_globs must be empty exactly when read_only is true"
            )
        return self

    @property
    def scope(self) -> Scope:
        """Where this item may write, as the workshop understands it."""
        return Scope(task_id=self.id, read_only=self.read_only, write_globs=self.write_globs)


class WorkflowPlan(Frozen):
    """One item for routine work, two to four independent ones for substantive work."""

    substantive: bool
    reason: Sentence
    success_criteria: Criteria
    tasks: tuple[WorkItem, ...] = Field(min_length=1, max_length=MAX_WORKERS)

    @model_validator(mode="after")
    def _size_and_ids(self) -> Self:
        if self.substantive != (len(self.tasks) > 1):
            raise ValueError(
                "a routine plan has exactly one task, a substantive plan has two to four"
            )
        ids = [task.id for task in self.tasks]
        if len(set(ids)) != len(ids):
            raise ValueError("task ids must be unique")
        return self


class WorkerOutput(Frozen):
    """A worker's own words; nobody relies on them: Git is asked."""

    status: Literal["completed", "blocked"]
    summary: Words
    unresolved_risks: tuple[Sentence, ...] = Field(max_length=20)


class Bindings(Frozen):
    """The four values that tie a model's words to one candidate and its evidence."""

    candidate_id: str
    candidate_sha: str
    test_report_digest: str
    evidence_digest: str


class SynthesisOutput(Bindings):
    """The reducer's summary for people."""

    summary: Words
    acceptance_evidence: tuple[Sentence, ...] = Field(max_length=40)
    unresolved_risks: tuple[Sentence, ...] = Field(max_length=20)


class ReviewOutput(Bindings):
    """The verdict of the verifier or the refuter."""

    candidate_passed: bool
    blocking_issues: tuple[Sentence, ...] = Field(max_length=20)
    evidence: tuple[Sentence, ...] = Field(max_length=40)

    @model_validator(mode="after")
    def _no_issue_when_passed(self) -> Self:
        if self.candidate_passed and self.blocking_issues:
            raise ValueError("a passed candidate has no blocking issues")
        if not self.candidate_passed and not self.blocking_issues:
            raise ValueError("a candidate that did not pass names at least one blocking issue")
        return self


# --- what a reviewer approves -------------------------------------------------------------------


class CandidateEnvelope(Frozen):
    """Ids, SHA and digests: what the review on GitHub is held against at promotion."""

    run_id: RunId
    round: int
    passed: bool
    reason: str = Field(default="", description="why it did not pass, in words")
    candidate_id: str
    candidate_sha: CommitSha
    original_base_sha: CommitSha
    changed_files: tuple[ChangedFile, ...]
    test_report_digest: Sha256
    evidence_digest: Sha256
    diff_uri: str
    test_artifact_uri: str
    exit_codes: dict[str, int | None]
    synthesis: SynthesisOutput | None

    @property
    def needs_review(self) -> bool:
        """Whether there is something a person must decide: it passed and it changes the base."""
        return self.passed and self.candidate_sha != self.original_base_sha


# --- how rounds and runs end --------------------------------------------------------------------

Outcome = Literal[
    "promoted",
    "reported",
    "failed",
    "rejected",
    "revised",
    "merged_elsewhere",
    "cancelled",
    "expired",
    "refused",
    "conflicted",
]


class WorkerResult(Frozen):
    """What Git says one worker changed, and beside it the worker's own words."""

    output: WorkerOutput
    record: WorkerRecord


class RoundResult(Frozen):
    """How one round ended. Without a candidate there is no envelope, only the reason."""

    round: Round
    passed: bool
    failure: str = ""
    envelope: CandidateEnvelope | None = None

    @property
    def reviewable(self) -> CandidateEnvelope:
        """The envelope a person decides about. Raises ValueError when there is none."""
        if self.envelope is None or not self.envelope.needs_review:
            raise ValueError(f"round {self.round} has nothing to review")
        return self.envelope


class Ending(Frozen):
    """How a run ended, in one sentence for people; `sha` is what the base branch received."""

    outcome: Outcome
    sentence: str
    sha: CommitSha | None = None
