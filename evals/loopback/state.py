"""Records of what this GitHub remembers: accounts, Apps, repositories, issues, reviews, checks.

In: nothing but the calls of the modules beside it. Out: plain records that those modules change and
`shapes` turns into JSON. Refs and commits are *not* here: the bare Git repositories (`bare.py`) are
the only truth about those. Every id is unique across all kinds, so that a mix-up shows at once.
"""

from __future__ import annotations

import base64
import itertools
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from evals.loopback.bare import BareRepository

Json = dict[str, Any]
Role = Literal["none", "read", "triage", "write", "maintain", "admin"]
ROLES: tuple[Role, ...] = ("none", "read", "triage", "write", "maintain", "admin")
ReviewState = Literal["APPROVED", "CHANGES_REQUESTED", "COMMENTED", "DISMISSED", "PENDING"]
GHOST_ID = 10137  # https://github.com/ghost, shown in place of deleted accounts


def node_id(kind: str, number: int) -> str:
    """An opaque global id in the look of GitHub's (`PR_kwDO…`)."""
    return f"{kind}_{base64.urlsafe_b64encode(f'{kind}:{number}'.encode()).decode().rstrip('=')}"


@dataclass(kw_only=True, eq=False)
class Account:
    """A person, an organization, or the bot user of an App."""

    id: int
    login: str
    type: Literal["User", "Organization", "Bot"] = "User"
    name: str | None = None
    deleted: bool = False

    @property
    def email(self) -> str:
        """The address GitHub makes up for commits: `<id>+<login>@users.noreply…`."""
        return f"{self.id}+{self.login}@users.noreply.github.com"


@dataclass(kw_only=True, eq=False)
class App:
    """A registered GitHub App; `private_key` is PEM text and stays with whoever registered it."""

    id: int
    slug: str
    name: str
    owner: Account
    bot: Account
    client_id: str
    client_secret: str = field(repr=False)
    private_key: str = field(repr=False)
    public_key: str
    permissions: dict[str, str]
    events: list[str]
    webhook_url: str | None
    webhook_secret: str | None = field(repr=False)
    created_at: datetime
    external_url: str = "http://127.0.0.1/"
    callback_urls: list[str] = field(default_factory=list)


@dataclass(kw_only=True, eq=False)
class Installation:
    """An App on an account; `repositories` is None when all of them are chosen."""

    id: int
    app: App
    account: Account
    permissions: dict[str, str]
    events: list[str]
    repositories: set[int] | None
    created_at: datetime
    updated_at: datetime
    suspended_at: datetime | None = None
    suspended_by: Account | None = None
    deleted: bool = False

    def covers(self, repository: Repository) -> bool:
        """Whether the App may see this repository at all."""
        if self.deleted or repository.owner is not self.account:
            return False
        return self.repositories is None or repository.id in self.repositories


@dataclass(kw_only=True, eq=False)
class Token:
    """A bearer token of a person (`account`), or of an installation, perhaps narrowed."""

    value: str = field(repr=False)
    account: Account | None = None
    app: App | None = None
    installation: Installation | None = None
    permissions: dict[str, str] | None = None
    repository_ids: set[int] | None = None
    expires_at: datetime | None = None
    revoked: bool = False


@dataclass(kw_only=True, eq=False)
class Label:
    """A label of one repository."""

    id: int
    name: str
    color: str = "ededed"
    description: str | None = None


@dataclass(kw_only=True, eq=False)
class Reaction:
    """One reaction by one account; GitHub keeps at most one of a kind per account."""

    id: int
    user: Account
    content: str
    created_at: datetime


@dataclass(kw_only=True, eq=False)
class Comment:
    """A comment on an issue or on the conversation of a pull request."""

    id: int
    issue: Issue
    user: Account
    app: App | None
    body: str
    created_at: datetime
    updated_at: datetime
    reactions: list[Reaction] = field(default_factory=list)


@dataclass(kw_only=True, eq=False)
class Issue:
    """An issue; a pull request is an issue whose `pull` is set."""

    id: int
    repository: Repository
    number: int
    title: str
    body: str | None
    user: Account
    app: App | None
    created_at: datetime
    updated_at: datetime
    state: Literal["open", "closed"] = "open"
    state_reason: str | None = None
    closed_at: datetime | None = None
    closed_by: Account | None = None
    last_editor: Account | None = None
    last_edited_at: datetime | None = None
    locked: bool = False
    lock_reason: str | None = None
    labels: list[Label] = field(default_factory=list)
    assignees: list[Account] = field(default_factory=list)
    comments: dict[int, Comment] = field(default_factory=dict)
    reactions: list[Reaction] = field(default_factory=list)
    pull: PullRequest | None = None


@dataclass(kw_only=True, eq=False)
class Review:
    """A submitted (or still pending) review of a pull request at one commit."""

    id: int
    pull: PullRequest
    user: Account
    app: App | None
    state: ReviewState
    body: str
    commit_id: str
    submitted_at: datetime | None


@dataclass(kw_only=True, eq=False)
class ReviewComment:
    """A comment on a line of a pull request's diff."""

    id: int
    review: Review
    thread: ReviewThread
    user: Account
    body: str
    path: str
    line: int | None
    side: str
    start_line: int | None
    commit_id: str
    original_commit_id: str
    diff_hunk: str
    created_at: datetime
    updated_at: datetime
    in_reply_to: int | None = None
    reactions: list[Reaction] = field(default_factory=list)


@dataclass(kw_only=True, eq=False)
class ReviewThread:
    """A conversation on one line; a person resolves it."""

    id: int
    pull: PullRequest
    comments: list[ReviewComment] = field(default_factory=list)
    resolved_by: Account | None = None


@dataclass(kw_only=True, eq=False)
class PullRequest:
    """What a pull request has beyond its issue.

    `head_sha` and `base_sha` are what the *object* shows; they follow the refs with a lag that can
    be set (`World.pull_head_lag_seconds`), as on GitHub.
    """

    id: int
    issue: Issue
    base_ref: str
    base_sha: str
    head_repository: Repository
    head_ref: str
    head_sha: str
    draft: bool
    maintainer_can_modify: bool = False
    merged_at: datetime | None = None
    merged_by: Account | None = None
    merge_commit_sha: str | None = None
    requested_reviewers: list[Account] = field(default_factory=list)
    requested_teams: list[str] = field(default_factory=list)
    reviews: dict[int, Review] = field(default_factory=dict)
    threads: dict[int, ReviewThread] = field(default_factory=dict)
    last_pusher: Account | None = None

    @property
    def number(self) -> int:
        """Issues and pull requests of a repository share one sequence of numbers."""
        return self.issue.number

    @property
    def repository(self) -> Repository:
        """The repository that holds the base branch."""
        return self.issue.repository

    @property
    def open(self) -> bool:
        """Neither closed nor merged."""
        return self.issue.state == "open"

    def review_comments(self) -> list[ReviewComment]:
        """All line comments, oldest first."""
        every = itertools.chain.from_iterable(t.comments for t in self.threads.values())
        return sorted(every, key=lambda comment: comment.id)


@dataclass(kw_only=True, eq=False)
class CheckSuite:
    """All check runs of one App on one commit."""

    id: int
    app: App
    head_sha: str
    head_branch: str | None
    before: str | None
    created_at: datetime
    updated_at: datetime
    runs: list[CheckRun] = field(default_factory=list)


@dataclass(kw_only=True, eq=False)
class CheckRun:
    """One check run; the App that made it is the only one that may change it."""

    id: int
    suite: CheckSuite
    name: str
    status: str
    conclusion: str | None
    external_id: str
    details_url: str | None
    started_at: datetime
    completed_at: datetime | None = None
    title: str | None = None
    summary: str | None = None
    text: str | None = None
    annotations: list[Json] = field(default_factory=list)
    actions: list[Json] = field(default_factory=list)


@dataclass(kw_only=True, eq=False)
class CommitStatus:
    """A commit status of the older kind; the newest per context counts."""

    id: int
    sha: str
    state: str
    context: str
    description: str | None
    target_url: str | None
    creator: Account
    app: App | None
    created_at: datetime


@dataclass(kw_only=True, eq=False)
class Protection:
    """Classic branch protection as the `PUT …/protection` request states it."""

    branch: str
    enforce_admins: bool = False
    status_checks: Json | None = None  # {strict, checks: [{context, app_id}]}
    reviews: Json | None = None
    restrictions: Json | None = None  # {users: [login], teams: [slug], apps: [slug]}
    linear_history: bool = False
    allow_force_pushes: bool = False
    allow_deletions: bool = False
    block_creations: bool = False
    conversation_resolution: bool = False
    lock_branch: bool = False
    signatures: bool = False
    deployments: bool = False  # needs a deployment that nobody here ever makes


@dataclass(kw_only=True, eq=False)
class Ruleset:
    """A repository ruleset; rules are kept as GitHub's JSON since their kinds are open-ended."""

    id: int
    name: str
    target: str
    enforcement: str
    bypass_actors: list[Json]
    conditions: Json
    rules: list[Json]
    created_at: datetime
    updated_at: datetime


@dataclass(kw_only=True, eq=False, repr=False)
class Repository:
    """A repository: its settings and conversations; its content is in `git`."""

    id: int
    owner: Account
    name: str
    git: BareRepository
    default_branch: str
    created_at: datetime
    private: bool = False
    archived: bool = False
    deleted: bool = False
    delete_branch_on_merge: bool = False
    drafts_allowed: bool = True
    rules_in_plan: bool = True
    description: str | None = None
    parent: Repository | None = None
    pushed_at: datetime | None = None
    former_names: set[str] = field(default_factory=set)
    collaborators: dict[int, Role] = field(default_factory=dict)
    role_names: dict[int, str] = field(default_factory=dict)  # custom roles, by account
    labels: dict[str, Label] = field(default_factory=dict)  # by case-folded name
    issues: dict[int, Issue] = field(default_factory=dict)
    suites: dict[int, CheckSuite] = field(default_factory=dict)
    statuses: list[CommitStatus] = field(default_factory=list)
    protections: dict[str, Protection] = field(default_factory=dict)
    rulesets: dict[int, Ruleset] = field(default_factory=dict)
    teams: dict[str, set[int]] = field(default_factory=dict)  # slug -> members
    last_number: int = 0

    @property
    def full_name(self) -> str:
        """`owner/name`."""
        return f"{self.owner.login}/{self.name}"

    def pulls(self) -> list[PullRequest]:
        """All pull requests, oldest first."""
        return [issue.pull for issue in self.issues.values() if issue.pull]

    def check_runs(self) -> list[CheckRun]:
        """All check runs, oldest first."""
        every = (run for suite in self.suites.values() for run in suite.runs)
        return sorted(every, key=lambda run: run.id)
