"""Where a run stands, in words: its states, its ends, and what the gate says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bot.github.escape import code
from bot.github.messages.parts import moment, people, person, plural, sha
from bot.github.port import Permission
from bot.verdicts import (
    Approved,
    BaseMoved,
    Blocked,
    Discount,
    ForApprovals,
    ForCheck,
    ForGitHubsDecision,
    ForReady,
    ForRetarget,
    ForSettling,
    ForThreads,
    IgnoredApproval,
    Landed,
    MergedElsewhere,
    Paused,
    Rejected,
    Verdict,
    Voided,
    Wait,
    Waiting,
)

STATE_WORDS: Final[Mapping[str, str]] = {
    "accepted": "accepted",
    "awaiting_go": "waiting for a go",
    "planning": "planning",
    "working": "working",
    "awaiting_review": "waiting for a review",
    "approved": "approved",
    "promoting": "merging",
    "cancelling": "being cancelled",
    "stale": "being built anew on the moved base",
    "promoted": "merged",
    "reported": "done, with nothing to change",
    "failed": "failed",
    "rejected": "rejected",
    "revised": "followed by a revision",
    "merged_elsewhere": "merged by somebody else",
    "cancelled": "cancelled",
    "expired": "expired",
    "refused": "refused",
    "conflicted": "ended by a conflict with its base",
}

GO_WORDS: Final[Mapping[str | None, str]] = {
    "outsiders_words": "its words come from somebody without write access",
    "plan": "policy asks that somebody sees the plan first",
    "publish": "policy asks that somebody lets it be pushed",
}


def state_words(state: str) -> str:
    """A state as people say it."""
    return STATE_WORDS.get(str(state), str(state))


def state_title(state: str) -> str:
    """A state as people say it, and by its name, which is the same wherever a run is shown."""
    said = state_words(state)
    return f"{said[0].upper()}{said[1:]} ({state})" if said != state else said.capitalize()


# --- what the gate says -------------------------------------------------------------------------


def verdict_sentence(verdict: Verdict) -> str:  # noqa: C901 - one case a verdict
    """What the gate says, and what would change it."""
    match verdict:
        case Approved(by=by):
            return f"Approved by {people(by)}."
        case Waiting(waits=waits, approved=approved):
            done = "Approved. " if approved else ""
            return done + " ".join(wait_sentence(wait) for wait in waits)
        case Blocked(by=by, fresh=True):
            return (
                f"{person(by)} requested changes. A new approval by {person(by)}, or dismissing "
                "that review, lifts this."
            )
        case Blocked(by=by):
            return (
                f"{person(by)} requested changes on an earlier candidate, and that still stands "
                "until they review this one or the review is dismissed."
            )
        case Rejected(by=by):
            return f"{person(by)} closed the pull request without merging it."
        case Paused(by=by):
            return (
                f"The pull request was closed by {person(by)}, without write access. Reopen it to "
                "go on, or let somebody with write access close it to end the run."
            )
        case MergedElsewhere():
            return merged_elsewhere_sentence(verdict)
        case Landed(sha=landed):
            return f"The base branch already stands at {sha(landed)}."
        case Voided(head=head):
            what = f"holds {sha(head)}" if head else "is gone"
            return (
                f"Somebody changed the branch: it {what} now, which nobody tested. This candidate "
                "cannot be merged; `/ultracode refresh` builds it anew from the run's own records."
            )
        case BaseMoved(by=by, tip=tip):
            what = f"stands at {sha(tip)} now" if tip else "is gone"
            return (
                f"Approved by {people(by)}, but the base branch {what}, so what was tested is not "
                "what would be merged."
            )


def merged_elsewhere_sentence(merged: MergedElsewhere) -> str:
    """Who merged it, as what, and whether it is what was tested."""
    who = person(merged.by) if merged.by else "A deleted account"
    if merged.same_commit:
        what = "exactly the candidate"
    elif merged.same_tree:
        what = "another commit with exactly the candidate's files"
    else:
        what = "**not** the files that were tested"
    return f"{who} merged the pull request as {sha(merged.sha)}: {what}."


def wait_sentence(wait: Wait) -> str:  # noqa: C901 - one case a wait
    """One thing that is awaited, and of whom."""
    match wait:
        case ForApprovals():
            return _approvals_sentence(wait)
        case ForGitHubsDecision(decision=decision):
            said = f" (it says {decision.lower().replace('_', ' ')})" if decision else ""
            return (
                f"Branch protection demands reviews that GitHub does not see yet{said}: more "
                "approvals, or those of code owners."
            )
        case ForThreads(count=count):
            return f"{plural(count, 'review thread')} must be resolved first."
        case ForCheck(context=context, red=True):
            return (
                f"The required check {code(context)} failed on this commit. If the candidate is at "
                "fault, `/ultracode revise <feedback>` makes another; otherwise run it again."
            )
        case ForCheck(context=context):
            return f"Waiting for the required check {code(context)} to be green."
        case ForReady():
            return (
                "Somebody turned the pull request back into a draft; mark it ready for review to "
                "go on."
            )
        case ForRetarget(base=base):
            return f"Somebody pointed the pull request at {code(base)}; point it back to go on."
        case ForSettling(until=until):
            return f"GitHub has not caught up with the push yet; looking again at {moment(until)}."


def _approvals_sentence(wait: ForApprovals) -> str:
    missing = wait.needed - len(wait.given_by)
    given = f", {people(wait.given_by)} approved" if wait.given_by else ""
    ignored = "".join(f" {_ignored_sentence(one)}" for one in wait.ignored)
    return f"Waiting for {plural(missing, 'approval')}{given}.{ignored}"


_DISCOUNTS: Final[Mapping[Discount, str]] = {
    Discount.OTHER_COMMIT: "it was given to another commit",
    Discount.BEFORE_ENVELOPE: "it was given before the candidate was ready",
    Discount.NO_PERMISSION: "the account lacks the permission policy asks for",
    Discount.NOT_A_PERSON: "it is not a person's",
    Discount.CONTRIBUTOR: "the words of that person are part of the request",
}


def _ignored_sentence(ignored: IgnoredApproval) -> str:
    return f"The approval by {person(ignored.by)} does not count: {_DISCOUNTS[ignored.why]}."


def level_words(permission: Permission | str) -> str:
    """The access somebody must have, as people say it."""
    return f"{permission} access"
