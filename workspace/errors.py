"""What can go wrong in the workshop, in sentences; each is caught in one place, by the caller.

A `WorkspaceRefusal` is expected and for people; a `WorkspaceFailure` is ours, the disk's or the
network's, and may be tried again. Neither ever holds a token.
"""


class WorkspaceError(Exception):
    """The workshop could not do what it was asked to."""


class WorkspaceRefusal(WorkspaceError):
    """Asked for something that is not done; the sentence says why and what to do."""


class CommitMissing(WorkspaceRefusal):
    """A commit is neither here nor reachable from the repository's branches."""


class WorkspaceFailure(WorkspaceError):
    """Something failed that may work when it is tried again."""


class WorkspaceGone(WorkspaceFailure):
    """The workspace is no longer this worker's: it was given back, cancelled or taken over."""


class GitFailed(WorkspaceFailure):
    """Git ended with an error; `stderr` is bounded and holds no token."""

    def __init__(self, sentence: str, *, exit_code: int | None = None, stderr: str = "") -> None:
        super().__init__(sentence)
        self.exit_code = exit_code
        self.stderr = stderr


class GitUnreachable(GitFailed):
    """The other side did not answer, or not in full: what it did is unknown."""


class GitDenied(GitFailed):
    """The other side did not accept the credential, or does not show the repository to it."""


class MirrorDamaged(GitFailed):
    """The mirror on disk cannot be read; it has to be fetched anew."""
