"""What the workshop proves, and the seams through which it is asked to.

In: values pinned at intake (`RunPin`, `Scope`, `Suite`). Out: frozen records made from Git's view
of the files, from exit codes and from digests. Nothing here knows a model or GitHub's API: what is
needed from outside comes in through the small Protocols at the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, SecretStr, StringConstraints

CommitSha = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
RunId = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]{8,40}$")]
TaskId = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]
SuiteId = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9_-]{0,39}$")]
RepositoryId = Annotated[int, Field(gt=0)]
Round = Annotated[int, Field(ge=0, le=2)]
#: A path as valid text (`git_path`, `path_bytes`): composed exactly, shown escaped.
GitPath = Annotated[str, StringConstraints(min_length=1, max_length=8192)]

_RAW = "//raw/"  # no path in a Git tree begins with a slash

#: Written beside every stored piece of a run. Raise it when what is stored changes its meaning, or
#: its shape in a way that old pieces do not fit (a new field with a default fits).
CONTRACT_VERSION = 1
#: Versions whose pieces this one reads. A run with others ends in words after an upgrade.
READABLE_CONTRACTS = frozenset({1})


def git_path(raw: bytes) -> str:
    """Return a path of a Git tree as text that JSON and PostgreSQL can hold.

    UTF-8 stays as it is; any other bytes become `//raw/` and their hexadecimal digits.
    """
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return _RAW + raw.hex()


def path_bytes(path: str) -> bytes:
    """Return the bytes `git_path` was given."""
    if path.startswith(_RAW):
        return bytes.fromhex(path.removeprefix(_RAW))
    return path.encode("utf-8")


def shown_path(path: str) -> str:
    """Return a path for people: control, invisible and undecodable characters escaped."""
    text = path_bytes(path).decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class Frozen(BaseModel):
    """A value that never changes and knows all its fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


# --- what is pinned before any work starts -----------------------------------------------------


class RepoRef(Frozen):
    """A repository by its numeric id, and the URL Git talks to (built from the configured host)."""

    id: RepositoryId
    url: str


class WriteRules(Frozen):
    """Globs from policy: `deny` adds to the built-in denials, `allow` lifts them."""

    deny: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()


class Setup(Frozen):
    """The command that prepares dependencies; it sees its input files from the base, no more."""

    run: str
    inputs: tuple[str, ...] = ()
    network: tuple[str, ...] = ()
    timeout_seconds: float = 600


class SandboxLimits(Frozen):
    """Ceilings of one sandboxed command. Bytes and seconds."""

    memory_bytes: int = 2 * 1024**3
    cpus: float = 2
    disk_bytes: int = 2 * 1024**3
    image: str | None = None


class CommitTemplate(Frozen):
    """Who and what the candidate's commit says: a function of the run, so the SHA repeats."""

    author_name: str
    author_email: str
    committed_at: int = Field(description="seconds since the epoch, UTC", ge=0)
    message: str = Field(min_length=1, max_length=20_000)


class RunPin(Frozen):
    """All that stays the same for one run, as far as the workshop is concerned."""

    run_id: RunId
    repo: RepoRef
    base_ref: str = Field(pattern=r"^refs/heads/.+$")
    original_base_sha: CommitSha
    commit: CommitTemplate
    writes: WriteRules = WriteRules()
    setup: Setup | None = None
    sandbox: SandboxLimits = SandboxLimits()


class Scope(Frozen):
    """Where one worker may write. `write_globs` is empty exactly when it is read-only."""

    task_id: TaskId
    read_only: bool
    write_globs: tuple[str, ...] = ()


class Suite(Frozen):
    """A named test command from policy. `junit` is true when the command names $ULTRACODE_JUNIT."""

    id: SuiteId
    run: str = Field(min_length=1, max_length=4000)
    required: bool = True
    timeout_seconds: float = Field(default=600, gt=0, le=6 * 3600)
    repeat: int = Field(default=1, ge=1, le=5)

    @property
    def junit(self) -> bool:
        """Whether the command writes JUnit XML to the file named by $ULTRACODE_JUNIT."""
        return "ULTRACODE_JUNIT" in self.run


class WorkKey(Frozen):
    """Names one worker of one round of one run: the idempotency key of its workspace."""

    run_id: RunId
    round: Round
    task_id: TaskId


# --- what Git says ------------------------------------------------------------------------------


class ChangeKind(StrEnum):
    """How a path differs from where the worker or the candidate started."""

    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"
    MODE = "mode"
    TYPE = "type"


class ChangedFile(Frozen):
    """One path of a diff, with Git's modes (`000000` where absent) and blob ids."""

    path: GitPath
    kind: ChangeKind
    old_mode: str
    new_mode: str
    new_object: str = Field(description="blob, link or commit id; zeros when deleted")


class RefusedPath(Frozen):
    """A path that may not be in a candidate, and why, in words for people."""

    path: GitPath
    reason: str


class Artifact(Frozen):
    """Bytes kept by content. The URI names repository, run and digest."""

    uri: str
    sha256: Sha256
    size: int = Field(ge=0)
    media_type: str


class WorkerRecord(Frozen):
    """What Git says one worker changed, frozen. With any `refused` path it is refused whole."""

    task_id: TaskId
    round: Round
    workspace_id: str
    base_sha: CommitSha
    tree: str
    changed_files: tuple[ChangedFile, ...] = ()
    ignored: tuple[str, ...] = ()
    refused: tuple[RefusedPath, ...] = ()
    warnings: tuple[str, ...] = ()
    artifacts: tuple[Artifact, ...] = ()


class Candidate(Frozen):
    """The one composed commit of a round; its only Git parent is `original_base_sha`.

    `base_sha` is what this round's workers started from. `changed_files` and `diff` are cumulative
    from the original base. Without any change `sha` is `original_base_sha`.
    """

    id: str
    sha: CommitSha
    tree: str
    base_sha: CommitSha
    original_base_sha: CommitSha
    round: Round
    changed_files: tuple[ChangedFile, ...]
    diff_uri: str
    diff_digest: Sha256
    pack: Artifact | None = Field(
        default=None, description="the commit and its objects, for machines that never saw it"
    )

    @property
    def changed(self) -> bool:
        """Whether there is anything to merge."""
        return self.sha != self.original_base_sha


class Conflict(Frozen):
    """Records that touch one path, or a file and a folder of the same name."""

    paths: tuple[str, ...]
    reason: str


# --- what exit codes say ------------------------------------------------------------------------

Termination = Literal["exit", "timeout", "oom", "output_limit", "killed"]
#: A planted test that must fail: it did, it did not (somebody forges results), the runner does not
#: take one up, or there was no need or no JUnit to look for it in.
Canary = Literal["failed", "not_failed", "not_placed", "not_run"]


class TestOutcome(Frozen):
    """One test of a JUnit report."""

    __test__ = False
    class_name: str
    name: str
    outcome: Literal["passed", "failed", "error", "skipped"]
    message: str = ""
    file: str | None = None
    line: int | None = None

    @property
    def key(self) -> str:
        """How the test is named when runs are compared."""
        return f"{self.class_name}::{self.name}"


class SuiteResult(Frozen):
    """One suite on one candidate. Durations and logs are beside the digest, never in it."""

    suite_id: SuiteId
    required: bool
    passed: bool
    reason: str = Field(description="why it does not pass, in words; empty when it passes")
    judged_by: Literal["junit", "exit_code"]
    termination: Termination
    exit_code: int | None
    run_key: Sha256
    result_digest: Sha256
    outcomes: tuple[TestOutcome, ...] = ()
    fail_to_pass: tuple[str, ...] = ()
    pass_to_fail: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    weakened: tuple[str, ...] = Field(
        default=(), description="pass as changed, fail in the base's version on the candidate"
    )
    flaky: bool = False
    canary: Canary = Field(default="not_run", description="enters no digest")
    base_passed: bool | None = None
    duration_seconds: float = 0
    log: Artifact
    junit: Artifact | None = None

    def count(self, outcome: str) -> int:
        """How many tests ended with `outcome`."""
        return sum(1 for test in self.outcomes if test.outcome == outcome)


class TestReport(Frozen):
    """Real exit codes and outcomes for one candidate."""

    __test__ = False
    candidate_id: str
    candidate_sha: CommitSha
    passed: bool
    exit_codes: dict[str, int | None]
    suites: tuple[SuiteResult, ...]
    restored: tuple[GitPath, ...] = Field(
        default=(), description="runner configuration judged as the base has it"
    )
    changed_tests: tuple[GitPath, ...] = ()
    sandbox: str
    guarantees: dict[str, bool] = {}
    artifact_uri: str
    digest: Sha256


class EvidenceManifest(Frozen):
    """The hashed, immutable proof of one execution for one candidate."""

    candidate_id: str
    candidate_sha: CommitSha
    base_sha: CommitSha
    original_base_sha: CommitSha
    diff_uri: str
    test_artifact_uri: str
    test_report_digest: Sha256
    diff_digest: Sha256
    log_digests: dict[str, Sha256]
    bindings: dict[str, Sha256]
    diff_bytes: int = Field(
        ge=0,
        description="size of the readable diff (no binary content); its excerpt may be shorter",
    )
    diff_text: str
    test_log_text: str
    statement_uri: str | None = Field(
        default=None, description="the stored statement about all this; a bundle starts from it"
    )
    signed_by: Sha256 | None = Field(
        default=None, description="id of the key that signed the statement; None: nobody did"
    )
    digest: Sha256


# --- what a push says ---------------------------------------------------------------------------


class Pushed(Frozen):
    """The ref is at the wanted SHA, by this push or by an earlier one of ours."""

    sha: CommitSha


class Moved(Frozen):
    """The ref is neither where it was expected nor where it was wanted. `actual` is None: gone."""

    actual: CommitSha | None


class PushRefused(Frozen):
    """The other side refused, in its own words."""

    reason: str


# --- seams --------------------------------------------------------------------------------------


class WorkspaceEvent(Frozen):
    """Something worth showing while work goes on."""

    run_id: RunId
    kind: str
    text: str


class Credentials(Protocol):
    """Gives a token for one repository, at the moment of use."""

    async def token(self, repo: RepoRef, *, write: bool) -> SecretStr | None:
        """Return an installation token; None for a repository that needs none."""
        ...


class Progress(Protocol):
    """Hears of `WorkspaceEvent`s; must not fail."""

    async def __call__(self, event: WorkspaceEvent) -> None:
        """Take note of one event."""
        ...


class ArtifactStore(Protocol):
    """Bytes by content, owned by a repository and a run."""

    async def put(
        self, repository: RepositoryId, run: RunId, content: bytes, media_type: str
    ) -> Artifact:
        """Store bytes under their SHA-256 and return how to name them."""
        ...

    async def get(self, repository: RepositoryId, run: RunId, sha256: Sha256) -> bytes:
        """Return the bytes. Raises ArtifactMissing for unknown and for foreign ones alike."""
        ...


class ReadTools(Protocol):
    """Read-only tools over one tree. Every method answers with text; errors are sentences."""

    async def read_file(self, path: str, start_line: int = 1, line_count: int = 400) -> str:
        """Read lines of one file."""
        ...

    async def list_files(self, pattern: str = "**") -> str:
        """List the files whose path matches a glob."""
        ...

    async def search(self, text: str, pattern: str = "**") -> str:
        """Find a literal text in the files whose path matches a glob, with line numbers."""
        ...


class WorkspaceTools(ReadTools, Protocol):
    """Tools of one worker, bound to its workspace and scope.

    `loan` differs as soon as the workspace's files began anew, even under the same id.
    """

    workspace_id: str
    loan: str

    async def edit_file(self, path: str, old: str, new: str) -> str:
        """Replace one exact, unique occurrence of `old` by `new`."""
        ...

    async def write_file(self, path: str, content: str) -> str:
        """Create or overwrite a file."""
        ...

    async def move_file(self, source: str, destination: str) -> str:
        """Move a file within the scope."""
        ...

    async def delete_file(self, path: str) -> str:
        """Delete a file within the scope."""
        ...

    async def run_command(self, command: str, timeout_seconds: int = 120) -> str:
        """Run a shell command in the sandbox, in the workspace."""
        ...

    async def run_suite(self, suite_id: str) -> str:
        """Run one of the repository's suites in the workspace as it stands."""
        ...


class WorkspaceService(Protocol):
    """The whole workshop, as the workflow sees it. One production implementation."""

    async def prepare(self, run: RunPin, suites: Sequence[Suite]) -> None:
        """Fetch the mirror, seal `setup`, run the suites on the base: all that needs no model."""
        ...

    async def repository_map(self, run: RunPin, *, limit: int = 400) -> str:
        """Return the base tree as text, at most `limit` lines."""
        ...

    async def read_base_file(self, run: RunPin, path: str, *, limit: int) -> bytes | None:
        """Return a file of the original base cut to `limit` bytes, or None."""
        ...

    async def tools_at(self, run: RunPin, commit: CommitSha) -> ReadTools:
        """Return read-only tools over a commit: for the planner and the reviewers."""
        ...

    async def check_scopes(
        self, run: RunPin, scopes: Sequence[Scope], *, parent: CommitSha
    ) -> tuple[str, ...]:
        """Return what is wrong with the scopes of a plan, a sentence each; empty when sound."""
        ...

    async def create_worker(
        self, run: RunPin, scope: Scope, *, key: WorkKey, parent: CommitSha, suites: Sequence[Suite]
    ) -> WorkspaceTools:
        """Check out `parent` for one worker. The same key gives the same workspace."""
        ...

    async def inspect_and_freeze(
        self, run: RunPin, scope: Scope, *, key: WorkKey, parent: CommitSha
    ) -> WorkerRecord:
        """Record what Git says changed, then give the workspace back to the pool."""
        ...

    async def compose(
        self, run: RunPin, records: Sequence[WorkerRecord], *, round: int, parent: CommitSha
    ) -> Candidate | Conflict:
        """Compose one commit on the original base from the records' tree entries."""
        ...

    async def restore(self, run: RunPin, candidate: Candidate) -> None:
        """Bring a stored candidate's commit to this machine, if it is not here."""
        ...

    async def recompose_on(self, run: RunPin, candidate: Candidate) -> Candidate | Conflict:
        """Compose an earlier attempt's candidate anew on `run.original_base_sha`, by merging."""
        ...

    async def test(self, run: RunPin, candidate: Candidate, suites: Sequence[Suite]) -> TestReport:
        """Run the suites on a fresh checkout of the candidate, and on the base (cached)."""
        ...

    async def evidence(
        self,
        run: RunPin,
        candidate: Candidate,
        report: TestReport,
        documents: Mapping[str, bytes],
        *,
        lineage: Mapping[str, str],
    ) -> EvidenceManifest:
        """Bind diff, report, logs and the caller's documents (plan, policy, …) into one digest."""
        ...

    async def verify_evidence(
        self, run: RunPin, candidate: Candidate, report: TestReport, manifest: EvidenceManifest
    ) -> tuple[str, ...]:
        """Recompute every digest from the stored bytes; return the broken links, if any."""
        ...

    async def publish_branch(
        self, run: RunPin, branch: str, sha: CommitSha, *, expected: CommitSha | None
    ) -> Pushed | Moved | PushRefused:
        """Move refs/heads/`branch` under a lease on `expected` (None: must not exist)."""
        ...

    async def promote(
        self, run: RunPin, sha: CommitSha, *, expected: CommitSha
    ) -> Pushed | Moved | PushRefused:
        """Fast-forward the base branch from `expected` to `sha`, and to nothing else."""
        ...

    async def cancel(self, run_id: RunId) -> None:
        """Kill what runs for this run and wipe its workspaces."""
        ...

    async def reap(self) -> None:
        """Remove what nobody owns any more: at start, and every minute."""
        ...
