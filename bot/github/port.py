"""The words in which this bot speaks to GitHub: what comes in, what goes out, what can go wrong.

In: numeric ids pinned at intake. Out: frozen facts. Decisions (`bot.gate`, `bot.github.protection`,
`bot.intake`) and publication (`bot.github.publisher`) know these Protocols only; the one
implementation is `bot.github.client`. Ids are GitHub's numeric ids, times are aware, every list is
complete (all pages read). A method that finds nothing says so with None or an empty tuple; whatever
else goes wrong raises one of the errors at the top.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, Protocol

from pydantic import SecretStr

from bot.errors import BotError, RetryLater

# --- what can go wrong --------------------------------------------------------------------------


class GitHubError(BotError):
    """GitHub did not do what was asked."""


class GitHubUnavailable(GitHubError):
    """GitHub could not be reached, failed or timed out; whether it acted is unknown."""


class RateLimited(RetryLater, GitHubError):
    """GitHub asks for patience: the job is put back with a delay, nothing sleeps in process."""

    @property
    def retry_after_seconds(self) -> float:
        """How long GitHub asked us to wait."""
        return self.seconds


class GitHubRefused(GitHubError):
    """GitHub answered no, in its own words (`message`), with its HTTP status."""

    def __init__(self, message: str, *, status: int, **details: Any) -> None:
        self.message = message
        self.status = status
        super().__init__(message, status=status, **details)


class NotFound(GitHubRefused):
    """What was to be changed does not exist, or this App may not see it."""


class AccessLost(GitHubRefused):
    """The installation is deleted or suspended, or does not cover the repository any more."""


# --- facts --------------------------------------------------------------------------------------


class Permission(StrEnum):
    """What a person may do in a repository, weakest first."""

    NONE = "none"
    READ = "read"
    TRIAGE = "triage"
    WRITE = "write"
    MAINTAIN = "maintain"
    ADMIN = "admin"

    def at_least(self, other: Permission) -> bool:
        """Whether this permission includes `other`."""
        order = list(Permission)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A GitHub account. Deleted users ("ghost") come as None instead."""

    id: int
    login: str
    kind: str = "User"

    @property
    def is_person(self) -> bool:
        """Whether this is a person: not a bot, an organisation or a mannequin."""
        return self.kind == "User"


@dataclass(frozen=True, slots=True, kw_only=True)
class AppFacts:
    """This App, as GitHub knows it. `permissions` maps a name to `read` or `write`."""

    id: int
    slug: str
    name: str
    owner: Account
    html_url: str
    permissions: Mapping[str, str] = field(default_factory=dict)
    events: tuple[str, ...] = ()

    @property
    def bot_login(self) -> str:
        """The login under which the App writes."""
        return f"{self.slug}[bot]"


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationFacts:
    """One account that installed the App, and what it granted."""

    id: int
    account: Account
    suspended: bool
    permissions: Mapping[str, str] = field(default_factory=dict)
    events: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookConfig:
    """Where and how GitHub sends this App's webhooks. `url` is None where none is set."""

    url: str | None
    content_type: str
    signed: bool
    verifies_tls: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HookDelivery:
    """One webhook delivery as GitHub remembers it (3 days; 7 on Enterprise Server)."""

    id: int
    guid: str
    delivered_at: datetime
    redelivery: bool
    status: str
    status_code: int
    event: str
    action: str | None
    installation_id: int | None
    repository_id: int | None

    @property
    def delivered(self) -> bool:
        """Whether our server answered it well."""
        return 200 <= self.status_code < 400  # noqa: PLR2004 - HTTP's own classes


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryFacts:
    """A repository now: names change, the id does not."""

    id: int
    owner: Account
    name: str
    default_branch: str
    private: bool
    archived: bool
    disabled: bool
    clone_url: str
    html_url: str

    @property
    def full_name(self) -> str:
        """`owner/name`, for display and for URLs."""
        return f"{self.owner.login}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class IssueFacts:
    """An issue, or the issue side of a pull request (`is_pull`).

    `edited` without a `last_editor`: the text was changed by an account that is gone.
    """

    number: int
    title: str
    body: str
    author: Account | None
    edited: bool
    last_editor: Account | None
    state: Literal["open", "closed"]
    locked: bool
    is_pull: bool
    labels: tuple[str, ...]
    html_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment:
    """A comment on an issue or a pull request. `app_id` is the App it was made through, if any."""

    id: int
    author: Account | None
    app_id: int | None
    body: str
    html_url: str
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PullFacts:
    """A pull request. GitHub's `head_sha` lags behind the ref: decide by `branch_sha`."""

    number: int
    node_id: str
    title: str
    body: str
    author: Account | None
    state: Literal["open", "closed"]
    draft: bool
    merged: bool
    merged_by: Account | None
    merge_commit_sha: str | None
    head_ref: str
    head_sha: str
    head_repository_id: int | None
    base_ref: str
    base_sha: str
    html_url: str
    requested_reviewers: tuple[str, ...] = ()
    requested_teams: tuple[str, ...] = ()


ReviewState = Literal["APPROVED", "CHANGES_REQUESTED", "COMMENTED", "DISMISSED", "PENDING"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """One review of a pull request, as its author submitted it at `commit_id`."""

    id: int
    author: Account | None
    state: ReviewState
    commit_id: str | None
    submitted_at: datetime | None
    body: str
    html_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LineComment:
    """A comment on a file of a pull request; `line` is None where the diff moved on, or none was.

    `review_id` names the review it came with.
    """

    id: int
    review_id: int | None
    author: Account | None
    path: str
    line: int | None
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewSummary:
    """What only GraphQL tells: GitHub's own verdict, and the threads still open.

    `decision` is None where no rule demands a review. It includes code owners.
    """

    decision: Literal["APPROVED", "CHANGES_REQUESTED", "REVIEW_REQUIRED"] | None
    unresolved_threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRun:
    """A check run on a commit. `app_id` is who made it: the only thing to recognise it by."""

    id: int
    name: str
    app_id: int | None
    external_id: str
    head_sha: str
    status: str
    conclusion: str | None
    html_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitStatus:
    """The latest status of one context on a commit. `app_id` where an App made it."""

    context: str
    state: Literal["error", "failure", "pending", "success"]
    app_id: int | None
    creator: Account | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFacts:
    """A commit's place in history: its tree and its parents."""

    sha: str
    tree: str
    parents: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredCheck:
    """A check or status a branch demands; bound to one App where `app_id` is set."""

    context: str
    app_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PushAllowance:
    """Who may push to a branch with a push restriction."""

    user_ids: tuple[int, ...] = ()
    team_ids: tuple[int, ...] = ()
    app_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicProtection:
    """Classic branch protection. `reviews` is None where no review is demanded."""

    required_checks: tuple[RequiredCheck, ...] = ()
    strict_checks: bool = False
    approvals: int | None = None
    code_owners: bool = False
    last_push_approval: bool = False
    review_bypass_app_ids: tuple[int, ...] = ()
    conversation_resolution: bool = False
    signed_commits: bool = False
    linear_history: bool = False
    locked: bool = False
    push_allowance: PushAllowance | None = None
    enforce_admins: bool = False
    block_creations: bool = False
    allow_force_pushes: bool = False
    required_deployments: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One active rule of a ruleset for a branch, as GitHub names it, with its raw parameters.

    `bypass` is whether this App may bypass the ruleset (`never` where it may not).
    """

    type: str
    parameters: Mapping[str, object] = field(default_factory=dict)
    ruleset_id: int = 0
    source: str = ""
    bypass: str = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchProtection:
    """All that guards one branch: classic protection and the active rules of rulesets."""

    classic: ClassicProtection | None = None
    rules: tuple[Rule, ...] = ()
    merge_queue: bool = False


# --- what is written ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ReactionTarget:
    """What a reaction is put on. `id` is the issue's number or the comment's id."""

    kind: Literal["issue", "comment", "review_comment"]
    id: int


Reaction = Literal["+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes"]
Conclusion = Literal[
    "success", "failure", "neutral", "cancelled", "timed_out", "action_required", "skipped"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """A remark on a line of a file of the diff."""

    path: str
    line: int
    level: Literal["notice", "warning", "failure"]
    title: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOutput:
    """What the Checks tab shows. Markdown; summary and text at most 65,535 bytes each."""

    title: str
    summary: str
    text: str = ""
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckAction:
    """A button on a check run: at most three, of 20, 40 and 20 characters."""

    label: str
    description: str
    identifier: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRunWrite:
    """A check run as it shall be. Completed exactly when it has a conclusion."""

    name: str
    head_sha: str
    external_id: str
    conclusion: Conclusion | None
    output: CheckOutput
    details_url: str | None = None
    actions: tuple[CheckAction, ...] = ()


# --- the two doors ------------------------------------------------------------------------------


class GitHubRepository(Protocol):
    """One repository, by its numeric id, through one installation of this App."""

    installation_id: int
    repository_id: int

    # what is

    async def facts(self) -> RepositoryFacts:
        """Return the repository as it is now. Raises AccessLost when it cannot be seen."""
        ...

    async def permission(self, user_id: int, login: str = "") -> Permission:
        """Return what a person may do, by `permissions.{push,maintain,admin}`; unknown is NONE.

        The id counts: a login (which saves one call) that belongs to somebody else by now, or none,
        is looked up by id, so that a renamed account keeps its rights and a name taken over brings
        none. Errors raise: they never read as a permission.
        """
        ...

    async def issue(self, number: int) -> IssueFacts | None:
        """Return an issue; None when it was deleted or transferred."""
        ...

    async def closed_by(self, number: int) -> Account | None:
        """Return who closed an issue or pull request; None when open, or closed by a ghost."""
        ...

    async def read_file(self, path: str, ref: str) -> bytes | None:
        """Return a file's bytes at a commit or branch; None when there is no such file.

        Raises GitHubRefused for files of more than 1 MiB.
        """
        ...

    async def list_files(self, ref: str) -> tuple[str, ...]:
        """Return the paths of a tree (GitHub cuts very large ones, at 100,000 entries)."""
        ...

    async def branch_sha(self, branch: str) -> str | None:
        """Return where a branch points, read from the ref itself; None when it does not exist."""
        ...

    async def commit(self, sha: str) -> CommitFacts | None:
        """Return a commit, or None."""
        ...

    async def protection(self, branch: str) -> BranchProtection:
        """Return what guards a branch, existing or not: classic protection and rulesets."""
        ...

    async def own_comments(self, number: int) -> tuple[Comment, ...]:
        """Return the comments this App made on an issue or pull request, oldest first."""
        ...

    async def pull(self, number: int) -> PullFacts | None:
        """Return a pull request, or None."""
        ...

    async def pulls_of_branch(self, branch: str) -> tuple[PullFacts, ...]:
        """Return all pull requests from a branch of this repository, open and closed."""
        ...

    async def reviews(self, number: int) -> tuple[Review, ...]:
        """Return every review of a pull request, oldest first."""
        ...

    async def line_comments(self, number: int) -> tuple[LineComment, ...]:
        """Return every comment on files of a pull request, oldest first."""
        ...

    async def review_summary(self, number: int) -> ReviewSummary:
        """Return GitHub's review decision and how many threads are unresolved."""
        ...

    async def check_runs(self, sha: str) -> tuple[CheckRun, ...]:
        """Return the latest check run of every name and App on a commit."""
        ...

    async def own_check_runs(self, sha: str, name: str | None = None) -> tuple[CheckRun, ...]:
        """Return every check run of this App on a commit, doubled ones too, oldest first."""
        ...

    async def statuses(self, sha: str) -> tuple[CommitStatus, ...]:
        """Return the latest status of every context on a commit."""
        ...

    # what is done

    async def react(self, target: ReactionTarget, reaction: Reaction) -> int:
        """React; GitHub answers the existing reaction when there is one. Returns its id."""
        ...

    async def unreact(self, target: ReactionTarget, reaction_id: int) -> None:
        """Take a reaction of ours away; quiet when it is gone."""
        ...

    async def create_comment(self, number: int, body: str) -> Comment:
        """Comment on an issue or pull request."""
        ...

    async def edit_comment(self, comment_id: int, body: str) -> None:
        """Replace a comment's text; nobody is notified. Raises NotFound when it was deleted."""
        ...

    async def delete_comment(self, comment_id: int) -> None:
        """Delete a comment; quiet when it is gone."""
        ...

    async def reply_in_thread(self, pull_number: int, comment_id: int, body: str) -> int:
        """Answer a review comment in its thread; return the new comment's id."""
        ...

    async def remove_label(self, number: int, label: str) -> None:
        """Take a label off; quiet when it is off."""
        ...

    async def create_draft_pull(self, *, head: str, base: str, title: str, body: str) -> PullFacts:
        """Open a draft; where drafts are not to be had, a normal one titled `WIP: …`."""
        ...

    async def update_pull(
        self,
        number: int,
        *,
        title: str | None = None,
        body: str | None = None,
        state: Literal["open", "closed"] | None = None,
    ) -> None:
        """Change what is given."""
        ...

    async def set_draft(self, pull: PullFacts, *, draft: bool) -> None:
        """Turn a pull request into a draft, or mark it ready for review."""
        ...

    async def create_check_run(self, check: CheckRunWrite) -> int:
        """Create a check run with all its annotations; return its id."""
        ...

    async def update_check_run(self, check_run_id: int, check: CheckRunWrite) -> None:
        """Bring a check run of ours up to date."""
        ...

    async def delete_branch(self, branch: str) -> None:
        """Delete a branch; quiet when it is gone."""
        ...


class GitHubApp(Protocol):
    """This App: its installations, its deliveries, and the door to each repository."""

    async def app(self) -> AppFacts:
        """Return this App's facts; read once, then remembered."""
        ...

    def repository(self, installation_id: int, repository_id: int) -> GitHubRepository:
        """Return the door to one repository. No call is made."""
        ...

    async def token(self, repository_id: int, installation_id: int, *, write: bool) -> SecretStr:
        """Return a token for Git: one repository, contents only. Raises AccessLost."""
        ...

    async def installations(self) -> tuple[InstallationFacts, ...]:
        """Return every installation of this App."""
        ...

    async def installation(self, installation_id: int) -> InstallationFacts | None:
        """Return one installation, or None when it was deleted."""
        ...

    async def installed_repositories(self, installation_id: int) -> tuple[RepositoryFacts, ...]:
        """Return the repositories an installation covers."""
        ...

    async def installation_of(self, full_name: str) -> InstallationFacts | None:
        """Return the installation that covers `owner/name`, or None."""
        ...

    async def webhook_config(self) -> WebhookConfig:
        """Return where and how GitHub sends this App's webhooks."""
        ...

    async def deliveries(self, *, since: datetime) -> tuple[HookDelivery, ...]:
        """Return webhook deliveries since a moment, newest first."""
        ...

    async def redeliver(self, delivery_id: int) -> None:
        """Ask GitHub to send a delivery again (under its old GUID)."""
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...
