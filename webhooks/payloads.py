"""The parts GitHub's payloads are made of, cut down to what the bot needs.

In: decoded JSON. Out: frozen values with numeric ids. GitHub adds fields at any time and leaves
others out by event and server version, so unknown fields are ignored and only what every payload
carries is demanded (github/rest-api-description and the published webhook examples).
"""

from typing import Annotated, Any, NewType, TypeGuard

from pydantic import (
    AliasChoices,
    AliasPath,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
)

RepositoryId = NewType("RepositoryId", int)
InstallationId = NewType("InstallationId", int)
AccountId = NewType("AccountId", int)

_MAX_ID = 2**63 - 1  # what a PostgreSQL bigint holds

_NumericId = Field(strict=True, ge=0, le=_MAX_ID)
GitHubId = Annotated[int, _NumericId]
IssueNumber = Annotated[int, Field(strict=True, ge=0, le=2**31 - 1)]
"""What a PostgreSQL integer holds."""
Name = Annotated[str, StringConstraints(max_length=1024, pattern=r"^[^\x00]*$")]
"""Logins, branch names, labels, node ids: far above any limit of GitHub's, far below harm."""
Sha = Annotated[str, StringConstraints(pattern=r"^(?:[0-9a-f]{40}|[0-9a-f]{64})$")]


def is_id(value: object) -> TypeGuard[int]:
    """Whether a JSON value may be one of GitHub's numeric ids."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_ID


def _empty_if_null(value: object) -> object:
    return "" if value is None else value


Body = Annotated[
    str, BeforeValidator(_empty_if_null), StringConstraints(max_length=1_000_000, strict=True)
]
"""What a person wrote, as in the payload; null is empty. GitHub's limit is 65,536 characters."""


class Payload(BaseModel):
    """A frozen piece of a payload that ignores what it does not name."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


class Account(Payload):
    """A user, bot or organisation. `id` is its identity; `login` may be renamed."""

    id: Annotated[AccountId, _NumericId]
    login: Name = Field(validation_alias=AliasChoices("login", "slug"))
    """An enterprise, as an installation's account, has a slug in its place."""
    type: Name = "Unknown"
    """`User`, `Bot`, `Organization`, `Mannequin`, or a kind GitHub invents later."""

    @property
    def is_person(self) -> bool:
        """Whether a human account acted, as opposed to an App or a placeholder."""
        return self.type == "User"


class App(Payload):
    """A GitHub App, recognised by id, never by name."""

    id: GitHubId
    slug: Name | None = None


class Installation(Payload):
    """The installation an App's delivery belongs to."""

    id: Annotated[InstallationId, _NumericId]


class InstallationDetails(Installation):
    """An installation as its own events describe it."""

    account: Account
    app_id: GitHubId
    repository_selection: Name
    permissions: dict[Name, Name] = {}
    events: tuple[Name, ...] = ()
    suspended_at: AwareDatetime | None = None


class RepositoryRef(Payload):
    """A repository as other objects mention it."""

    id: Annotated[RepositoryId, _NumericId]
    full_name: Name


class InstallationRepository(RepositoryRef):
    """A repository in an installation event."""

    private: bool


class Repository(RepositoryRef):
    """The repository an event happened in. `id` survives renames and transfers."""

    node_id: Name
    default_branch: Name
    private: bool
    archived: bool = False
    fork: bool = False
    owner: Account


class Label(Payload):
    """A label; `name` is what policy speaks of."""

    id: GitHubId
    name: Name


class Issue(Payload):
    """An issue, or a pull request seen as one."""

    id: GitHubId
    node_id: Name
    number: IssueNumber
    title: Body
    body: Body = ""
    state: Name = "open"
    locked: bool = False
    author: Account | None = Field(default=None, validation_alias="user")
    """None when the account was deleted."""
    labels: tuple[Label, ...] = ()
    pull_request: dict[str, Any] | None = Field(default=None, repr=False)

    @property
    def is_pull_request(self) -> bool:
        """Whether this number belongs to a pull request."""
        return self.pull_request is not None


class Comment(Payload):
    """A comment on an issue or on a pull request's conversation."""

    id: GitHubId
    node_id: Name
    body: Body
    author: Account | None = Field(default=None, validation_alias="user")
    created_at: AwareDatetime
    performed_via_app: App | None = Field(default=None, validation_alias="performed_via_github_app")
    """The App whose token wrote it, also when it wrote in a person's name."""

    @property
    def is_by_person(self) -> bool:
        """Whether a person wrote it, herself and not through an App."""
        written = self.author is not None and self.author.is_person
        return written and self.performed_via_app is None


class ReviewComment(Comment):
    """A comment in a review thread, bound to a file and usually to a line."""

    path: Name
    line: GitHubId | None = None
    """Line in the file's newest version; None when the thread is outdated or about the file."""
    original_line: GitHubId | None = None
    start_line: GitHubId | None = None
    side: Name | None = None
    commit_id: Sha
    in_reply_to_id: GitHubId | None = None
    review_id: GitHubId | None = Field(default=None, validation_alias="pull_request_review_id")


class Branch(Payload):
    """One end of a pull request."""

    ref: Name
    sha: Sha
    repository: RepositoryRef | None = Field(default=None, validation_alias="repo")
    """None when the fork was deleted."""


class PullRequest(Payload):
    """A pull request. Its head lags behind the branch: the ref itself decides at the gate."""

    id: GitHubId
    node_id: Name
    number: IssueNumber
    title: Body
    body: Body = ""
    state: Name
    locked: bool = False
    draft: bool = False
    author: Account | None = Field(default=None, validation_alias="user")
    head: Branch
    base: Branch
    merged_at: AwareDatetime | None = None
    merged_by: Account | None = None
    """Only in pull_request events; None elsewhere and when not merged."""
    merge_commit_sha: Sha | None = None
    """While open, a trial merge of GitHub's; the landed commit once merged."""

    @property
    def is_merged(self) -> bool:
        """Whether it was merged, which every kind of event tells by the time."""
        return self.merged_at is not None


class Review(Payload):
    """A review."""

    id: GitHubId
    node_id: Name
    body: Body = ""
    state: Annotated[str, StringConstraints(max_length=64, to_lower=True)]
    """`approved`, `changes_requested`, `commented`, `dismissed` or `pending`."""
    commit_id: Sha | None
    """The commit the reviewer looked at; None when GitHub no longer knows."""
    author: Account | None = Field(default=None, validation_alias="user")
    submitted_at: AwareDatetime | None = None


class ReviewThread(Payload):
    """A conversation on lines of a diff."""

    node_id: Name


class _PullRequestEnd(Payload):
    ref: Name
    sha: Sha


class PullRequestRef(Payload):
    """A pull request as checks mention it."""

    id: GitHubId
    number: IssueNumber
    head: _PullRequestEnd
    base: _PullRequestEnd


class CheckSuite(Payload):
    """All check runs of one App on one commit."""

    id: GitHubId
    head_sha: Sha
    head_branch: Name | None = None
    status: Name | None = None
    conclusion: Name | None = None
    app: App | None = None
    pull_requests: tuple[PullRequestRef, ...] = ()


class CheckRun(Payload):
    """One check on one commit. Ours are known by App id and `external_id`, never by name."""

    id: GitHubId
    name: Name
    head_sha: Sha
    external_id: Annotated[Name, BeforeValidator(_empty_if_null)] = ""
    status: Name
    conclusion: Name | None = None
    app: App | None = None
    suite_id: GitHubId | None = Field(default=None, validation_alias=AliasPath("check_suite", "id"))
    pull_requests: tuple[PullRequestRef, ...] = ()
