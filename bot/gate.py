"""The gate: may this candidate be promoted now? In: facts re-read from GitHub. Out: a `Verdict`.

Why a pure function: what decides a merge must be readable in one sitting and testable case by case.
`load_gate_facts` reads everything afresh, all pages; `decide` only compares. Doubt always waits:
nobody's approval is guessed, and what GitHub itself would demand of a merge is demanded here too.
Times are GitHub's, so that no clock of ours decides which came first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, Literal

from bot.github.port import (
    Account,
    BranchProtection,
    CheckRun,
    CommitFacts,
    CommitStatus,
    GitHubRepository,
    Permission,
    PullFacts,
    RequiredCheck,
    Review,
    ReviewSummary,
)
from bot.github.protection import demands_resolved_threads, demands_reviews, required_checks
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

__all__ = [
    "Approved",
    "BaseMoved",
    "Blocked",
    "Discount",
    "ForApprovals",
    "ForCheck",
    "ForGitHubsDecision",
    "ForReady",
    "ForRetarget",
    "ForSettling",
    "ForThreads",
    "GateFacts",
    "IgnoredApproval",
    "Landed",
    "MergedElsewhere",
    "Paused",
    "Rejected",
    "ReviewRules",
    "ReviewTarget",
    "Verdict",
    "Voided",
    "Wait",
    "Waiting",
    "decide",
    "load_gate_facts",
]

#: How long GitHub's objects may lag behind our own push before the lag counts as a fact.
SETTLING: Final = timedelta(seconds=60)

NO_SUMMARY: Final = ReviewSummary(decision=None, unresolved_threads=0)
UNPROTECTED: Final = BranchProtection()
_GREEN: Final = {"success", "neutral", "skipped"}


# --- what is compared ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewTarget:
    """What people were asked to review, and when. Times are GitHub's own, as it answered them.

    `branch` and `base` are branch names; `previous_sha` is what the branch held before our push.
    """

    pull_number: int
    candidate_sha: str
    candidate_tree: str
    original_base_sha: str
    branch: str
    base: str
    pushed_at: datetime
    published_at: datetime
    previous_sha: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewRules:
    """Whose approval counts, from policy and the lineage of the request."""

    approvals: int = 1
    permission: Permission = Permission.WRITE
    contributors: frozenset[int] = frozenset()
    contributors_may_approve: Literal["auto", "never"] = "auto"
    refresh_when_behind: bool = False
    """Whether a moved base counts before anybody approved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateFacts:
    """What GitHub says at this moment. `head` and `base_tip` are read from the refs."""

    observed_at: datetime
    app_id: int
    pull: PullFacts | None
    head: str | None
    base_tip: str | None
    closed_by: Account | None = None
    merged_commit: CommitFacts | None = None
    reviews: tuple[Review, ...] = ()
    permissions: Mapping[int, Permission] = field(default_factory=dict)
    summary: ReviewSummary = NO_SUMMARY
    protection: BranchProtection = UNPROTECTED
    check_runs: tuple[CheckRun, ...] = ()
    statuses: tuple[CommitStatus, ...] = ()

    def may(self, account: Account | None, permission: Permission) -> bool:
        """Whether this is a person with at least that permission."""
        if account is None or not account.is_person:
            return False
        return self.permissions.get(account.id, Permission.NONE).at_least(permission)


# --- the decision -------------------------------------------------------------------------------


def decide(facts: GateFacts, target: ReviewTarget, rules: ReviewRules) -> Verdict:
    """Say whether the candidate may be promoted, and if not, what is in the way."""
    return (
        _decide_landed(facts, target)
        or _decide_closed(facts, target)
        or _decide_head(facts, target)
        or _decide_blocked(facts, target, rules)
        or _decide_open(facts, target, rules)
    )


def _decide_landed(facts: GateFacts, target: ReviewTarget) -> Verdict | None:
    if facts.pull and facts.pull.merged:
        return None  # who merged it is worth saying
    return Landed(sha=target.candidate_sha) if facts.base_tip == target.candidate_sha else None


def _decide_closed(facts: GateFacts, target: ReviewTarget) -> Verdict | None:
    pull = facts.pull
    if pull is None:
        return Voided(head=facts.head)
    if pull.merged:
        tree = facts.merged_commit.tree if facts.merged_commit else None
        return MergedElsewhere(
            by=pull.merged_by,
            sha=pull.merge_commit_sha,
            same_commit=pull.merge_commit_sha == target.candidate_sha,
            same_tree=tree == target.candidate_tree,
        )
    if pull.state == "open":
        return None
    if facts.closed_by and facts.may(facts.closed_by, Permission.WRITE):
        return Rejected(by=facts.closed_by)
    return Paused(by=facts.closed_by)


def _decide_head(facts: GateFacts, target: ReviewTarget) -> Verdict | None:
    settled_at = target.pushed_at + SETTLING
    settling = facts.observed_at < settled_at
    wait = Waiting(waits=(ForSettling(until=settled_at),))
    if facts.head != target.candidate_sha:
        ours = settling and facts.head == target.previous_sha
        return wait if ours else Voided(head=facts.head)
    lagging = facts.pull is not None and facts.pull.head_sha != target.candidate_sha
    return wait if lagging and settling else None


def _decide_blocked(facts: GateFacts, target: ReviewTarget, rules: ReviewRules) -> Verdict | None:
    for reviews in _by_author(facts.reviews):
        standing = [r for r in reviews if r.state in ("APPROVED", "CHANGES_REQUESTED")]
        last = standing[-1] if standing else None
        if last is None or last.state != "CHANGES_REQUESTED" or last.author is None:
            continue
        if facts.may(last.author, rules.permission):
            return Blocked(by=last.author, review=last, fresh=_saw(last, target))
    return None


def _decide_open(facts: GateFacts, target: ReviewTarget, rules: ReviewRules) -> Verdict:
    counted, ignored = _count_approvals(facts, target, rules)
    by = tuple(review.author for review in counted if review.author)
    waits = [*_unready(facts, target)]
    moved = facts.base_tip != target.original_base_sha
    if rules.refresh_when_behind and moved and facts.base_tip and not waits:
        return BaseMoved(by=by if len(by) >= rules.approvals else (), tip=facts.base_tip)
    if len(by) < rules.approvals:
        waits.append(ForApprovals(needed=rules.approvals, given_by=by, ignored=ignored))
    waits += _githubs_demands(facts)
    if waits:
        return Waiting(waits=tuple(waits))
    if moved:
        return BaseMoved(by=by, tip=facts.base_tip)
    if checks := tuple(_open_checks(facts)):
        return Waiting(waits=checks, approved=True)
    return Approved(by=by, review_ids=tuple(review.id for review in counted))


def _unready(facts: GateFacts, target: ReviewTarget) -> Iterator[Wait]:
    if facts.pull and facts.pull.base_ref != target.base:
        yield ForRetarget(base=facts.pull.base_ref)
    if facts.pull and facts.pull.draft:
        yield ForReady()


def _githubs_demands(facts: GateFacts) -> Iterator[Wait]:
    if demands_reviews(facts.protection) and facts.summary.decision != "APPROVED":
        yield ForGitHubsDecision(decision=facts.summary.decision)
    if demands_resolved_threads(facts.protection) and facts.summary.unresolved_threads:
        yield ForThreads(count=facts.summary.unresolved_threads)


# --- approvals ----------------------------------------------------------------------------------


def _count_approvals(
    facts: GateFacts, target: ReviewTarget, rules: ReviewRules
) -> tuple[list[Review], tuple[IgnoredApproval, ...]]:
    counted: list[Review] = []
    ignored: list[IgnoredApproval] = []
    for reviews in _by_author(facts.reviews):
        decisive = [r for r in reviews if r.state not in ("COMMENTED", "PENDING")]
        last = decisive[-1] if decisive else None
        if last is None or last.state != "APPROVED":
            continue
        if why := _discount(last, facts, target, rules):
            ignored.append(IgnoredApproval(last.author, why))
        else:
            counted.append(last)
    return counted, tuple(ignored)


def _discount(
    review: Review, facts: GateFacts, target: ReviewTarget, rules: ReviewRules
) -> Discount | None:
    author = review.author
    if author is None or not author.is_person:
        return Discount.NOT_A_PERSON
    if not facts.may(author, rules.permission):
        return Discount.NO_PERMISSION
    if review.commit_id != target.candidate_sha:
        return Discount.OTHER_COMMIT
    if not _saw(review, target):
        return Discount.BEFORE_ENVELOPE
    strict = rules.contributors_may_approve == "never" or demands_reviews(facts.protection)
    return Discount.CONTRIBUTOR if strict and author.id in rules.contributors else None


def _saw(review: Review, target: ReviewTarget) -> bool:
    """Whether a review was made at this candidate, after its envelope was published."""
    return (
        review.commit_id == target.candidate_sha
        and review.submitted_at is not None
        and review.submitted_at >= target.published_at
    )


def _by_author(reviews: tuple[Review, ...]) -> Iterator[list[Review]]:
    """Group reviews by their author, each group oldest first; deleted authors stand alone."""
    submitted = [review for review in reviews if review.submitted_at is not None]
    groups: dict[tuple[str, int], list[Review]] = {}
    for review in sorted(submitted, key=lambda r: (r.submitted_at, r.id)):
        key = ("account", review.author.id) if review.author else ("ghost", review.id)
        groups.setdefault(key, []).append(review)
    yield from groups.values()


# --- required checks ----------------------------------------------------------------------------


def _open_checks(facts: GateFacts) -> Iterator[ForCheck]:
    for required in required_checks(facts.protection, app_id=facts.app_id):
        states = [*_states_of(required, facts)]
        if not states or any(state != "green" for state in states):
            yield ForCheck(context=required.context, app_id=required.app_id, red="red" in states)


def _states_of(required: RequiredCheck, facts: GateFacts) -> Iterator[str]:
    """Yield green, red or open for every check run and status that answers a requirement."""
    for check in facts.check_runs:
        if check.name == required.context and required.app_id in (None, check.app_id):
            if check.status != "completed":
                yield "open"
            else:
                yield "green" if check.conclusion in _GREEN else "red"
    for status in facts.statuses:
        if status.context == required.context and required.app_id in (None, status.app_id):
            yield {"success": "green", "pending": "open"}.get(status.state, "red")


# --- the facts ----------------------------------------------------------------------------------


async def load_gate_facts(
    repository: GitHubRepository, target: ReviewTarget, *, app_id: int, observed_at: datetime
) -> GateFacts:
    """Read everything the decision needs, afresh and completely.

    Raises GitHubError: without the facts there is no verdict.
    """
    pull, head, base_tip = await asyncio.gather(
        repository.pull(target.pull_number),
        repository.branch_sha(target.branch),
        repository.branch_sha(target.base),
    )
    facts = GateFacts(
        observed_at=observed_at, app_id=app_id, pull=pull, head=head, base_tip=base_tip
    )
    if pull is None or pull.merged or pull.state == "closed":
        return await _with_closing(repository, facts, target)
    if head != target.candidate_sha:
        return facts
    return await _with_reviews(repository, facts, target)


async def _with_closing(
    repository: GitHubRepository, facts: GateFacts, target: ReviewTarget
) -> GateFacts:
    pull = facts.pull
    if pull is None:
        return facts
    if pull.merged:
        merged = await repository.commit(pull.merge_commit_sha) if pull.merge_commit_sha else None
        return replace(facts, merged_commit=merged)
    closer = await repository.closed_by(target.pull_number)
    permissions = await _permissions(repository, [closer])
    return replace(facts, closed_by=closer, permissions=permissions)


async def _with_reviews(
    repository: GitHubRepository, facts: GateFacts, target: ReviewTarget
) -> GateFacts:
    """Read the reviews, and what GitHub would demand besides once somebody approved.

    Without an approval of this candidate nothing else can open the gate, so nothing else is asked.
    """
    reviews = await repository.reviews(target.pull_number)
    decisive = [review.author for review in reviews if review.state not in ("COMMENTED", "PENDING")]
    facts = replace(facts, reviews=reviews, permissions=await _permissions(repository, decisive))
    approved = {review.commit_id for review in reviews if review.state == "APPROVED"}
    if target.candidate_sha not in approved:
        return facts
    return await _with_demands(repository, facts, target)


async def _with_demands(
    repository: GitHubRepository, facts: GateFacts, target: ReviewTarget
) -> GateFacts:
    """Read branch protection, and only what it asks for: GitHub's decision, threads, checks."""
    facts = replace(facts, protection=await repository.protection(target.base))
    if demands_reviews(facts.protection) or demands_resolved_threads(facts.protection):
        facts = replace(facts, summary=await repository.review_summary(target.pull_number))
    if required_checks(facts.protection, app_id=facts.app_id):
        check_runs, statuses = await asyncio.gather(
            repository.check_runs(target.candidate_sha), repository.statuses(target.candidate_sha)
        )
        facts = replace(facts, check_runs=check_runs, statuses=statuses)
    return facts


async def _permissions(
    repository: GitHubRepository, accounts: Sequence[Account | None]
) -> dict[int, Permission]:
    people = {account.id: account for account in accounts if account and account.is_person}
    found = await asyncio.gather(
        *(repository.permission(person.id, person.login) for person in people.values())
    )
    return dict(zip(people, found, strict=True))
