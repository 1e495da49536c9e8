"""Everything on GitHub the bot reacts to, as one closed union: `Event`.

In: nothing, these are types; `parser.parse_event` fills them from the wire. Out: a union to be
matched exhaustively (`assert_never`), one class for each event and action.

Source for names and actions: https://docs.github.com/webhooks/webhook-events-and-payloads
"""

from typing import ClassVar, Literal, TypeAlias

from pydantic import AliasPath, Field

from webhooks.payloads import (
    Account,
    AccountId,
    CheckRun,
    CheckSuite,
    Comment,
    GitHubId,
    Installation,
    InstallationDetails,
    InstallationId,
    InstallationRepository,
    Issue,
    Label,
    Name,
    Payload,
    PullRequest,
    Repository,
    RepositoryId,
    RepositoryRef,
    Review,
    ReviewComment,
    ReviewThread,
    Sha,
)


class _RepositoryEvent(Payload):
    """What every event of a repository carries."""

    repository: Repository
    installation: Installation | None = None
    """None in payloads of a webhook that belongs to no App."""
    sender: Account | None = None
    """Who caused it; None when the account is gone. Whatever acts checks this one's permission."""

    @property
    def repository_id(self) -> RepositoryId:
        """The repository's numeric id."""
        return self.repository.id

    @property
    def installation_id(self) -> InstallationId | None:
        """The installation's numeric id."""
        return self.installation.id if self.installation else None


# --- Comments and issues ---------------------------------------------------------------------


class IssueCommentCreated(_RepositoryEvent):
    """Somebody commented on an issue or on a pull request's conversation."""

    event_name: ClassVar[str] = "issue_comment"
    action: Literal["created"]
    issue: Issue
    comment: Comment


class _IssueEvent(_RepositoryEvent):
    event_name: ClassVar[str] = "issues"
    issue: Issue


class IssueLabeled(_IssueEvent):
    """A label was put on an issue, by `sender`."""

    action: Literal["labeled"]
    label: Label


class IssueClosed(_IssueEvent):
    """An issue was closed."""

    action: Literal["closed"]


class IssueLocked(_IssueEvent):
    """An issue's conversation was locked: only writers may comment."""

    action: Literal["locked"]


class IssueUnlocked(_IssueEvent):
    """An issue's conversation was unlocked."""

    action: Literal["unlocked"]


class IssueTransferred(_IssueEvent):
    """An issue moved to another repository, where it has another id and number."""

    action: Literal["transferred"]
    new_issue_id: GitHubId = Field(validation_alias=AliasPath("changes", "new_issue", "id"))
    new_number: GitHubId = Field(validation_alias=AliasPath("changes", "new_issue", "number"))
    new_repository: RepositoryRef = Field(validation_alias=AliasPath("changes", "new_repository"))


class IssueDeleted(_IssueEvent):
    """An issue was deleted."""

    action: Literal["deleted"]


# --- Pull requests and reviews ---------------------------------------------------------------


class _PullRequestEvent(_RepositoryEvent):
    event_name: ClassVar[str] = "pull_request"
    pull_request: PullRequest


class PullRequestClosed(_PullRequestEvent):
    """A pull request was closed, by merging or without (`pull_request.is_merged`)."""

    action: Literal["closed"]


class PullRequestReopened(_PullRequestEvent):
    """A closed pull request was opened again."""

    action: Literal["reopened"]


class PullRequestEdited(_PullRequestEvent):
    """Title, text or base of a pull request changed."""

    action: Literal["edited"]
    old_base_ref: Name | None = Field(
        default=None, validation_alias=AliasPath("changes", "base", "ref", "from")
    )
    """The branch it targeted before, when it was retargeted."""


class PullRequestSynchronized(_PullRequestEvent):
    """A pull request's head branch moved."""

    action: Literal["synchronize"]
    before: Sha | None = None
    after: Sha | None = None


class PullRequestConvertedToDraft(_PullRequestEvent):
    """A pull request became a draft again."""

    action: Literal["converted_to_draft"]


class PullRequestLabeled(_PullRequestEvent):
    """A label was put on a pull request, by `sender`."""

    action: Literal["labeled"]
    label: Label


class PullRequestReadyForReview(_PullRequestEvent):
    """A pull request left draft."""

    action: Literal["ready_for_review"]


class _ReviewEvent(_PullRequestEvent):
    event_name: ClassVar[str] = "pull_request_review"
    review: Review


class ReviewSubmitted(_ReviewEvent):
    """A review was submitted: approval, change request or comment."""

    action: Literal["submitted"]


class ReviewEdited(_ReviewEvent):
    """A review's text changed; its state and commit cannot."""

    action: Literal["edited"]


class ReviewDismissed(_ReviewEvent):
    """A review was dismissed and counts for nothing from now on."""

    action: Literal["dismissed"]


class ReviewCommentCreated(_PullRequestEvent):
    """Somebody commented on a file of a pull request, or replied in such a thread."""

    event_name: ClassVar[str] = "pull_request_review_comment"
    action: Literal["created"]
    comment: ReviewComment


class ReviewThreadResolved(_PullRequestEvent):
    """A review thread was marked resolved."""

    event_name: ClassVar[str] = "pull_request_review_thread"
    action: Literal["resolved"]
    thread: ReviewThread


class ReviewThreadUnresolved(_PullRequestEvent):
    """A resolved review thread was opened again."""

    event_name: ClassVar[str] = "pull_request_review_thread"
    action: Literal["unresolved"]
    thread: ReviewThread


# --- Checks, statuses and pushes -------------------------------------------------------------


class _CheckRunEvent(_RepositoryEvent):
    event_name: ClassVar[str] = "check_run"
    check_run: CheckRun


class CheckRunActionRequested(_CheckRunEvent):
    """Somebody pressed a button on one of our check runs."""

    action: Literal["requested_action"]
    identifier: Name = Field(validation_alias=AliasPath("requested_action", "identifier"))
    """The button's identifier, as we gave it."""


class CheckRunRerequested(_CheckRunEvent):
    """Somebody asked for one check run again."""

    action: Literal["rerequested"]


class CheckRunCompleted(_CheckRunEvent):
    """A check run, of any App, has its conclusion."""

    action: Literal["completed"]


class _CheckSuiteEvent(_RepositoryEvent):
    event_name: ClassVar[str] = "check_suite"
    check_suite: CheckSuite


class CheckSuiteCompleted(_CheckSuiteEvent):
    """All check runs of one App on one commit are concluded."""

    action: Literal["completed"]


class CheckSuiteRerequested(_CheckSuiteEvent):
    """Somebody asked for all check runs of ours on a commit again."""

    action: Literal["rerequested"]


class StatusChanged(_RepositoryEvent):
    """A commit status (the older kind of check) was set."""

    event_name: ClassVar[str] = "status"
    action: None = None
    id: GitHubId
    sha: Sha
    context: Name
    state: Literal["pending", "success", "failure", "error"]


class Pushed(_RepositoryEvent):
    """A branch or tag was made, moved or deleted."""

    event_name: ClassVar[str] = "push"
    action: None = None
    ref: Name
    """The full name, for example `refs/heads/main`."""
    before: Sha
    """All zeros when the ref was made."""
    after: Sha
    """All zeros when the ref was deleted."""
    created: bool = False
    deleted: bool = False
    forced: bool = False

    @property
    def branch(self) -> str | None:
        """The branch's short name; None for a tag."""
        prefix = "refs/heads/"
        return self.ref.removeprefix(prefix) if self.ref.startswith(prefix) else None


# --- Repositories and installations ----------------------------------------------------------


class RepositoryRenamed(_RepositoryEvent):
    """A repository has a new name; its id stays."""

    event_name: ClassVar[str] = "repository"
    action: Literal["renamed"]
    old_name: Name = Field(validation_alias=AliasPath("changes", "repository", "name", "from"))


class RepositoryTransferred(_RepositoryEvent):
    """A repository has a new owner; its id stays, the installation may not reach it any more."""

    event_name: ClassVar[str] = "repository"
    action: Literal["transferred"]
    old_owner_user: Account | None = Field(
        default=None, validation_alias=AliasPath("changes", "owner", "from", "user")
    )
    old_owner_organization_id: AccountId | None = Field(
        default=None, validation_alias=AliasPath("changes", "owner", "from", "organization", "id")
    )


class RepositoryArchived(_RepositoryEvent):
    """A repository became read-only."""

    event_name: ClassVar[str] = "repository"
    action: Literal["archived"]


class RepositoryUnarchived(_RepositoryEvent):
    """An archived repository may be written again."""

    event_name: ClassVar[str] = "repository"
    action: Literal["unarchived"]


class RepositoryDeleted(_RepositoryEvent):
    """A repository is gone."""

    event_name: ClassVar[str] = "repository"
    action: Literal["deleted"]


class RepositoryPrivatized(_RepositoryEvent):
    """A public repository became private."""

    event_name: ClassVar[str] = "repository"
    action: Literal["privatized"]


class RepositoryPublicized(_RepositoryEvent):
    """A private repository became public."""

    event_name: ClassVar[str] = "repository"
    action: Literal["publicized"]


class _InstallationEvent(Payload):
    """What every event of an installation carries: no repository, but many."""

    event_name: ClassVar[str] = "installation"
    installation: InstallationDetails
    sender: Account | None = None

    @property
    def repository_id(self) -> None:
        """An installation is not one repository's."""
        return

    @property
    def installation_id(self) -> InstallationId:
        """The installation's numeric id."""
        return self.installation.id


class InstallationCreated(_InstallationEvent):
    """An account installed the App."""

    action: Literal["created"]
    repositories: tuple[InstallationRepository, ...] = ()


class InstallationDeleted(_InstallationEvent):
    """An account removed the App; its tokens are dead."""

    action: Literal["deleted"]
    repositories: tuple[InstallationRepository, ...] = ()


class InstallationSuspended(_InstallationEvent):
    """An account suspended the App; nothing may be read or written until it is unsuspended."""

    action: Literal["suspend"]


class InstallationUnsuspended(_InstallationEvent):
    """A suspended installation works again."""

    action: Literal["unsuspend"]


class InstallationPermissionsAccepted(_InstallationEvent):
    """An admin consented to permissions the App asked for later."""

    action: Literal["new_permissions_accepted"]


class InstallationRepositoriesAdded(_InstallationEvent):
    """The App may reach more repositories."""

    event_name: ClassVar[str] = "installation_repositories"
    action: Literal["added"]
    repositories_added: tuple[InstallationRepository, ...] = ()


class InstallationRepositoriesRemoved(_InstallationEvent):
    """The App may no longer reach some repositories."""

    event_name: ClassVar[str] = "installation_repositories"
    action: Literal["removed"]
    repositories_removed: tuple[RepositoryRef, ...] = ()


# --- The union -------------------------------------------------------------------------------

Event: TypeAlias = (
    IssueCommentCreated
    | IssueLabeled
    | IssueClosed
    | IssueLocked
    | IssueUnlocked
    | IssueTransferred
    | IssueDeleted
    | PullRequestClosed
    | PullRequestReopened
    | PullRequestEdited
    | PullRequestSynchronized
    | PullRequestConvertedToDraft
    | PullRequestLabeled
    | PullRequestReadyForReview
    | ReviewSubmitted
    | ReviewEdited
    | ReviewDismissed
    | ReviewCommentCreated
    | ReviewThreadResolved
    | ReviewThreadUnresolved
    | CheckRunActionRequested
    | CheckRunRerequested
    | CheckRunCompleted
    | CheckSuiteCompleted
    | CheckSuiteRerequested
    | StatusChanged
    | Pushed
    | RepositoryRenamed
    | RepositoryTransferred
    | RepositoryArchived
    | RepositoryUnarchived
    | RepositoryDeleted
    | RepositoryPrivatized
    | RepositoryPublicized
    | InstallationCreated
    | InstallationDeleted
    | InstallationSuspended
    | InstallationUnsuspended
    | InstallationPermissionsAccepted
    | InstallationRepositoriesAdded
    | InstallationRepositoriesRemoved
)
