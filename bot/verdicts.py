"""What the gate can say. In: nothing. Out: one closed union, matched exhaustively by its readers.

Why apart from `bot.gate`: messages and the workflow speak of verdicts without deciding any.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from bot.github.port import Account, Review


class Discount(StrEnum):
    """Why an approval counts for nothing."""

    OTHER_COMMIT = "other_commit"
    BEFORE_ENVELOPE = "before_envelope"
    NO_PERMISSION = "no_permission"
    NOT_A_PERSON = "not_a_person"
    CONTRIBUTOR = "contributor"


@dataclass(frozen=True, slots=True)
class IgnoredApproval:
    """An approval that counts for nothing, and why."""

    by: Account | None
    why: Discount


@dataclass(frozen=True, slots=True, kw_only=True)
class ForApprovals:
    """Fewer approvals count than policy asks for."""

    needed: int
    given_by: tuple[Account, ...]
    ignored: tuple[IgnoredApproval, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ForGitHubsDecision:
    """Protection demands reviews and GitHub does not call them sufficient (code owners, say)."""

    decision: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForThreads:
    """Protection demands that review threads are resolved."""

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ForCheck:
    """A required check or status is not green. `red` when it ended badly."""

    context: str
    app_id: int | None
    red: bool


@dataclass(frozen=True, slots=True)
class ForReady:
    """Somebody turned the pull request back into a draft."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForRetarget:
    """Somebody pointed the pull request at another base."""

    base: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForSettling:
    """GitHub has not caught up with our own push."""

    until: datetime


Wait = (
    ForApprovals | ForGitHubsDecision | ForThreads | ForCheck | ForReady | ForRetarget | ForSettling
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Approved:
    """Everything that can be demanded is there: promote."""

    by: tuple[Account, ...]
    review_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Not yet. `approved` when people did their part and only the rest is awaited."""

    waits: tuple[Wait, ...]
    approved: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """A person who counts requests changes; `fresh` when that review saw this candidate."""

    by: Account
    review: Review
    fresh: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """Closed unmerged by somebody who may."""

    by: Account


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused:
    """Closed unmerged by somebody who may not decide that (None: a deleted account)."""

    by: Account | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedElsewhere:
    """Somebody else merged the pull request. `sha` is what landed."""

    by: Account | None
    sha: str | None
    same_commit: bool
    same_tree: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """The base branch is at the candidate already."""

    sha: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Voided:
    """The branch holds something else, or is gone: nobody reviewed what is there now."""

    head: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseMoved:
    """Approved, but the base is no longer what the candidate was built and tested on."""

    by: tuple[Account, ...]
    tip: str | None


Verdict = (
    Approved | Waiting | Blocked | Rejected | Paused | MergedElsewhere | Landed | Voided | BaseMoved
)
