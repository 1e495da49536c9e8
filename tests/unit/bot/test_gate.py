"""The gate as a table: one line a case, the facts that differ from an approved pull request."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, assert_never

import pytest

from bot.gate import (
    Approved,
    BaseMoved,
    Blocked,
    ForApprovals,
    ForCheck,
    ForGitHubsDecision,
    ForReady,
    ForRetarget,
    ForSettling,
    ForThreads,
    GateFacts,
    Landed,
    MergedElsewhere,
    Paused,
    Rejected,
    ReviewRules,
    ReviewTarget,
    Verdict,
    Voided,
    Wait,
    Waiting,
    decide,
)
from bot.github.port import (
    Account,
    BranchProtection,
    CheckRun,
    ClassicProtection,
    CommitFacts,
    CommitStatus,
    Permission,
    PullFacts,
    RequiredCheck,
    Review,
    ReviewSummary,
    Rule,
)

CANDIDATE, BASE, OTHER, TREE = "c" * 40, "b" * 40, "d" * 40, "e" * 40
OUR_APP, THEIR_APP = 7, 8
PUSHED = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)
PUBLISHED = PUSHED + timedelta(minutes=5)
LATER = PUBLISHED + timedelta(hours=1)

ANNA = Account(id=1, login="anna")  # writer
ADAM = Account(id=2, login="adam")  # admin
MAX = Account(id=3, login="max")  # maintainer
TOM = Account(id=4, login="tom")  # triage
ROB = Account(id=5, login="rob")  # read
OUT = Account(id=6, login="out")  # no permission
BOT = Account(id=9, login="other[bot]", kind="Bot")
PERMISSIONS = {
    1: Permission.WRITE,
    2: Permission.ADMIN,
    3: Permission.MAINTAIN,
    4: Permission.TRIAGE,
    5: Permission.READ,
    9: Permission.ADMIN,
}

TARGET = ReviewTarget(
    pull_number=5,
    candidate_sha=CANDIDATE,
    candidate_tree=TREE,
    original_base_sha=BASE,
    branch="ultracode/3-abcdef",
    base="main",
    pushed_at=PUSHED,
    published_at=PUBLISHED,
    previous_sha=OTHER,
)
PULL = PullFacts(
    number=5,
    node_id="PR_5",
    title="",
    body="",
    author=Account(id=70, login="ultracode[bot]", kind="Bot"),
    state="open",
    draft=False,
    merged=False,
    merged_by=None,
    merge_commit_sha=None,
    head_ref="ultracode/3-abcdef",
    head_sha=CANDIDATE,
    head_repository_id=1,
    base_ref="main",
    base_sha=BASE,
    html_url="",
)


def review(
    by: Account | None = ANNA,
    state: Any = "APPROVED",
    *,
    at: str | None = CANDIDATE,
    minutes: float = 10,
    id: int = 0,  # noqa: A002 - GitHub's word
) -> Review:
    submitted = PUBLISHED + timedelta(minutes=minutes)
    return Review(
        id=id or int(minutes * 60) + 1000,
        author=by,
        state=state,
        commit_id=at,
        submitted_at=None if state == "PENDING" else submitted,
        body="",
        html_url="",
    )


def check(
    name: str = "ci",
    conclusion: str | None = "success",
    *,
    app: int | None = THEIR_APP,
    status: str = "completed",
) -> CheckRun:
    return CheckRun(
        id=1,
        name=name,
        app_id=app,
        external_id="",
        head_sha=CANDIDATE,
        status=status,
        conclusion=conclusion,
        html_url="",
    )


def status(context: str, state: Any, *, app: int | None = None) -> CommitStatus:
    return CommitStatus(context=context, state=state, app_id=app, creator=None)


def classic(**demands: Any) -> BranchProtection:
    return BranchProtection(classic=ClassicProtection(**demands))


def ruleset(type_: str, **parameters: Any) -> BranchProtection:
    return BranchProtection(rules=(Rule(type=type_, parameters=parameters),))


def decided(decision: Any, threads: int = 0) -> ReviewSummary:
    return ReviewSummary(decision=decision, unresolved_threads=threads)


def pull(**changes: Any) -> dict[str, Any]:
    return {"pull": replace(PULL, **changes)}


def merged(by: Account | None, sha: str, tree: str) -> dict[str, Any]:
    commit = CommitFacts(sha=sha, tree=tree, parents=(BASE,))
    changes = pull(state="closed", merged=True, merged_by=by, merge_commit_sha=sha)
    return {**changes, "merged_commit": commit, "base_tip": sha}


FACTS = GateFacts(
    observed_at=LATER,
    app_id=OUR_APP,
    pull=PULL,
    head=CANDIDATE,
    base_tip=BASE,
    reviews=(review(),),
    permissions=PERMISSIONS,
)
NEED_CI = (RequiredCheck(context="ci"),)
BOUND_CI = (RequiredCheck(context="ci", app_id=THEIR_APP),)


def in_words(verdict: Verdict) -> str:  # noqa: C901 - one line a verdict
    match verdict:
        case Approved(by=by):
            return "approved by " + ", ".join(a.login for a in by)
        case Waiting(waits=waits, approved=approved):
            return ("approved, waiting: " if approved else "waiting: ") + "; ".join(
                map(awaited, waits)
            )
        case Blocked(by=by, fresh=fresh):
            return f"blocked by {by.login}" + ("" if fresh else ", earlier candidate")
        case Rejected(by=by):
            return f"rejected by {by.login}"
        case Paused(by=by):
            return f"paused by {by.login if by else 'ghost'}"
        case MergedElsewhere(by=by, same_commit=commit, same_tree=tree):
            what = "same commit" if commit else "same tree" if tree else "other tree"
            return f"merged by {by.login if by else 'ghost'}: {what}"
        case Landed():
            return "landed"
        case Voided(head=head):
            return "voided: " + ("gone" if head is None else "other head")
        case BaseMoved(tip=tip):
            return "base moved" if tip else "base gone"
        case _:
            assert_never(verdict)


def awaited(wait: Wait) -> str:
    match wait:
        case ForApprovals(needed=needed, given_by=given, ignored=ignored):
            why = [f"{i.by.login if i.by else 'ghost'} {i.why}" for i in ignored]
            return f"approvals {len(given)}/{needed}" + (f" ({', '.join(why)})" if why else "")
        case ForGitHubsDecision():
            return "GitHub's decision"
        case ForThreads(count=count):
            return f"{count} threads"
        case ForCheck(context=context, red=red):
            return f"{context} {'red' if red else 'open'}"
        case ForReady():
            return "ready"
        case ForRetarget(base=base):
            return f"retarget from {base}"
        case ForSettling():
            return "settling"
        case _:
            assert_never(wait)


Changes = Mapping[str, Any]
none = "waiting: approvals 0/1"
APPROVAL_CASES: list[tuple[str, Changes, str]] = [
    ("a writer approves the candidate", {}, "approved by anna"),
    ("nobody reviewed", {"reviews": ()}, none),
    ("an admin approves", {"reviews": (review(ADAM),)}, "approved by adam"),
    (
        "triage approves",
        {"reviews": (review(TOM),)},
        f"{none} (tom no_permission)",
    ),
    ("a reader approves", {"reviews": (review(ROB),)}, f"{none} (rob no_permission)"),
    ("an outsider approves", {"reviews": (review(OUT),)}, f"{none} (out no_permission)"),
    ("another App approves", {"reviews": (review(BOT),)}, f"{none} (other[bot] not_a_person)"),
    ("a deleted user approves", {"reviews": (review(None),)}, f"{none} (ghost not_a_person)"),
    (
        "an approval at an older commit",
        {"reviews": (review(at=OTHER),)},
        f"{none} (anna other_commit)",
    ),
    (
        "an approval at a commit GitHub does not name",
        {"reviews": (review(at=None),)},
        f"{none} (anna other_commit)",
    ),
    (
        "an approval before the envelope",
        {"reviews": (review(minutes=-1),)},
        f"{none} (anna before_envelope)",
    ),
    (
        "an approval in the second of publication",
        {"reviews": (review(minutes=0),)},
        "approved by anna",
    ),
    ("a comment only", {"reviews": (review(state="COMMENTED"),)}, none),
    ("a review not yet submitted", {"reviews": (review(state="PENDING"),)}, none),
    ("a dismissed approval", {"reviews": (review(state="DISMISSED"),)}, none),
    (
        "an approval, then a comment",
        {"reviews": (review(), review(state="COMMENTED", minutes=20))},
        "approved by anna",
    ),
    (
        "an approval, then a change request",
        {"reviews": (review(), review(state="CHANGES_REQUESTED", minutes=20))},
        "blocked by anna",
    ),
    (
        "a change request, then an approval",
        {"reviews": (review(state="CHANGES_REQUESTED"), review(minutes=20))},
        "approved by anna",
    ),
    (
        "the same, listed in the wrong order",
        {"reviews": (review(minutes=20), review(state="CHANGES_REQUESTED"))},
        "approved by anna",
    ),
    (
        "two in one second: the later id counts",
        {"reviews": (review(id=2, state="CHANGES_REQUESTED"), review(id=1))},
        "blocked by anna",
    ),
    (
        "an approval, then a dismissed change request: no opinion is left",
        {"reviews": (review(), review(state="DISMISSED", minutes=20))},
        none,
    ),
    (
        "a change request by another writer",
        {"reviews": (review(), review(MAX, "CHANGES_REQUESTED"))},
        "blocked by max",
    ),
    (
        "a change request at the earlier candidate still stands",
        {"reviews": (review(), review(MAX, "CHANGES_REQUESTED", at=OTHER, minutes=-60))},
        "blocked by max, earlier candidate",
    ),
    (
        "a change request that its author's later approval lifted",
        {"reviews": (review(MAX, "CHANGES_REQUESTED", at=OTHER, minutes=-60), review(MAX))},
        "approved by max",
    ),
    (
        "a change request whose lifting approval was dismissed",
        {
            "reviews": (
                review(),
                review(MAX, "CHANGES_REQUESTED", minutes=1),
                review(MAX, "DISMISSED", minutes=2),
            )
        },
        "blocked by max",
    ),
    (
        "a dismissed change request",
        {"reviews": (review(), review(MAX, "DISMISSED"))},
        "approved by anna",
    ),
    (
        "a change request by triage",
        {"reviews": (review(), review(TOM, "CHANGES_REQUESTED"))},
        "approved by anna",
    ),
    (
        "a change request by an outsider",
        {"reviews": (review(), review(OUT, "CHANGES_REQUESTED"))},
        "approved by anna",
    ),
    (
        "a change request by another App",
        {"reviews": (review(), review(BOT, "CHANGES_REQUESTED"))},
        "approved by anna",
    ),
    (
        "a change request by a deleted user",
        {"reviews": (review(), review(None, "CHANGES_REQUESTED"))},
        "approved by anna",
    ),
    (
        "a hundred comments before a change request on page two",
        {
            "reviews": (
                *(review(ROB, "COMMENTED", minutes=n, id=n) for n in range(1, 101)),
                review(id=500),
                review(MAX, "CHANGES_REQUESTED", id=501),
            )
        },
        "blocked by max",
    ),
]
RULE_CASES: list[tuple[str, Changes, str]] = [
    (
        "two approvals demanded, one given",
        {"rules": ReviewRules(approvals=2)},
        "waiting: approvals 1/2",
    ),
    (
        "two approvals demanded, one person approves twice",
        {"rules": ReviewRules(approvals=2), "reviews": (review(), review(minutes=20))},
        "waiting: approvals 1/2",
    ),
    (
        "two approvals demanded, two given",
        {"rules": ReviewRules(approvals=2), "reviews": (review(), review(MAX))},
        "approved by anna, max",
    ),
    (
        "maintainers demanded, a writer approves",
        {"rules": ReviewRules(permission=Permission.MAINTAIN)},
        f"{none} (anna no_permission)",
    ),
    (
        "maintainers demanded, a maintainer approves",
        {"rules": ReviewRules(permission=Permission.MAINTAIN), "reviews": (review(MAX),)},
        "approved by max",
    ),
    (
        "maintainers demanded, a writer's change request does not block",
        {
            "rules": ReviewRules(permission=Permission.MAINTAIN),
            "reviews": (review(ANNA, "CHANGES_REQUESTED"), review(MAX)),
        },
        "approved by max",
    ),
    (
        "admins demanded, a maintainer approves",
        {"rules": ReviewRules(permission=Permission.ADMIN), "reviews": (review(MAX),)},
        f"{none} (max no_permission)",
    ),
    (
        "the requester approves, no review demanded by protection",
        {"rules": ReviewRules(contributors=frozenset({1}))},
        "approved by anna",
    ),
    (
        "the requester approves, protection demands reviews",
        {
            "rules": ReviewRules(contributors=frozenset({1})),
            "protection": classic(approvals=1),
            "summary": decided("APPROVED"),
        },
        f"{none} (anna contributor)",
    ),
    (
        "the requester approves, a ruleset demands reviews",
        {
            "rules": ReviewRules(contributors=frozenset({1})),
            "protection": ruleset("pull_request", required_approving_review_count=1),
            "summary": decided("APPROVED"),
        },
        f"{none} (anna contributor)",
    ),
    (
        "a ruleset that demands a pull request but no review",
        {
            "rules": ReviewRules(contributors=frozenset({1})),
            "protection": ruleset("pull_request", required_approving_review_count=0),
        },
        "approved by anna",
    ),
    (
        "the requester approves, policy says never",
        {"rules": ReviewRules(contributors=frozenset({1}), contributors_may_approve="never")},
        f"{none} (anna contributor)",
    ),
    (
        "the requester and another approve, policy says never",
        {
            "rules": ReviewRules(contributors=frozenset({1}), contributors_may_approve="never"),
            "reviews": (review(), review(MAX)),
        },
        "approved by max",
    ),
    (
        "a contributor's change request blocks all the same",
        {
            "rules": ReviewRules(contributors=frozenset({1}), contributors_may_approve="never"),
            "reviews": (review(ANNA, "CHANGES_REQUESTED"), review(MAX)),
        },
        "blocked by anna",
    ),
]
FOLLOWING = ReviewRules(refresh_when_behind=True)
PULL_CASES: list[tuple[str, Changes, str]] = [
    ("turned back into a draft", pull(draft=True), "waiting: ready"),
    (
        "a draft nobody reviewed",
        {**pull(draft=True), "reviews": ()},
        "waiting: ready; approvals 0/1",
    ),
    ("pointed at another base", pull(base_ref="dev"), "waiting: retarget from dev"),
    (
        "closed by a writer",
        {**pull(state="closed"), "closed_by": ANNA},
        "rejected by anna",
    ),
    ("closed by triage", {**pull(state="closed"), "closed_by": TOM}, "paused by tom"),
    ("closed by an outsider", {**pull(state="closed"), "closed_by": OUT}, "paused by out"),
    ("closed by another App", {**pull(state="closed"), "closed_by": BOT}, "paused by other[bot]"),
    ("closed by a deleted user", {**pull(state="closed"), "closed_by": None}, "paused by ghost"),
    ("closed, then reopened", {**pull(state="open"), "closed_by": ANNA}, "approved by anna"),
    ("the pull request is gone", {"pull": None}, "voided: other head"),
    ("pushed to by somebody", {"head": OTHER}, "voided: other head"),
    ("branch deleted", {"head": None}, "voided: gone"),
    (
        "our own push is not visible yet",
        {"head": OTHER, "observed_at": PUSHED + timedelta(seconds=5)},
        "waiting: settling",
    ),
    (
        "a foreign push right after ours",
        {"head": "f" * 40, "observed_at": PUSHED + timedelta(seconds=5)},
        "voided: other head",
    ),
    (
        "branch deleted right after our push",
        {"head": None, "observed_at": PUSHED + timedelta(seconds=5)},
        "voided: gone",
    ),
    (
        "the pull request lags behind the ref",
        {**pull(head_sha=OTHER), "observed_at": PUSHED + timedelta(seconds=5)},
        "waiting: settling",
    ),
    ("it lags for good: the ref counts", pull(head_sha=OTHER), "approved by anna"),
    ("merged by a person as it is", merged(ANNA, CANDIDATE, TREE), "merged by anna: same commit"),
    ("squashed by a person", merged(ANNA, OTHER, TREE), "merged by anna: same tree"),
    ("merged with something else", merged(ANNA, OTHER, OTHER), "merged by anna: other tree"),
    ("merged by another bot", merged(BOT, OTHER, TREE), "merged by other[bot]: same tree"),
    ("merged by a deleted user", merged(None, OTHER, TREE), "merged by ghost: same tree"),
    (
        "merged by a merge queue that names no commit",
        pull(state="closed", merged=True, merge_commit_sha=None),
        "merged by ghost: other tree",
    ),
    ("base moved, approved", {"base_tip": OTHER}, "base moved"),
    ("base deleted, approved", {"base_tip": None}, "base gone"),
    ("base moved, nobody reviewed", {"base_tip": OTHER, "reviews": ()}, none),
    (
        "base moved, nobody reviewed, policy follows the base",
        {"base_tip": OTHER, "reviews": (), "rules": FOLLOWING},
        "base moved",
    ),
    (
        "base moved, draft, policy follows the base",
        {**pull(draft=True), "base_tip": OTHER, "reviews": (), "rules": FOLLOWING},
        f"waiting: ready; {none.removeprefix('waiting: ')}",
    ),
    (
        "base deleted, nobody reviewed, policy follows the base",
        {"base_tip": None, "reviews": (), "rules": FOLLOWING},
        none,
    ),
    (
        "base moved, change request",
        {"base_tip": OTHER, "reviews": (review(state="CHANGES_REQUESTED"),)},
        "blocked by anna",
    ),
    ("base is at the candidate", {"base_tip": CANDIDATE}, "landed"),
    (
        "base is at the candidate, pull request closed",
        {**pull(state="closed"), "base_tip": CANDIDATE, "closed_by": ANNA},
        "landed",
    ),
]
open_ci = "approved, waiting: ci open"
CHECK_CASES: list[tuple[str, Changes, str]] = [
    (
        "protection demands reviews and GitHub is satisfied",
        {"protection": classic(approvals=1), "summary": decided("APPROVED")},
        "approved by anna",
    ),
    (
        "GitHub wants more reviews",
        {"protection": classic(approvals=2), "summary": decided("REVIEW_REQUIRED")},
        "waiting: GitHub's decision",
    ),
    (
        "code owners are demanded and have not approved",
        {"protection": classic(code_owners=True), "summary": decided("REVIEW_REQUIRED")},
        "waiting: GitHub's decision",
    ),
    (
        "code owners are demanded by a ruleset",
        {
            "protection": ruleset("pull_request", require_code_owner_review=True),
            "summary": decided("REVIEW_REQUIRED"),
        },
        "waiting: GitHub's decision",
    ),
    (
        "reviews are demanded and GitHub says nothing",
        {"protection": classic(approvals=1), "summary": decided(None)},
        "waiting: GitHub's decision",
    ),
    (
        "no review is demanded, whatever GitHub says",
        {"summary": decided("REVIEW_REQUIRED")},
        "approved by anna",
    ),
    (
        "an unresolved thread where they must be resolved",
        {"protection": classic(conversation_resolution=True), "summary": decided(None, 2)},
        "waiting: 2 threads",
    ),
    (
        "an unresolved thread where a ruleset wants them resolved",
        {
            "protection": ruleset("pull_request", required_review_thread_resolution=True),
            "summary": decided(None, 1),
        },
        "waiting: 1 threads",
    ),
    ("an unresolved thread where nobody minds", {"summary": decided(None, 2)}, "approved by anna"),
    ("a required check is missing", {"protection": classic(required_checks=NEED_CI)}, open_ci),
    (
        "a required check runs",
        {
            "protection": classic(required_checks=NEED_CI),
            "check_runs": (check(conclusion=None, status="in_progress"),),
        },
        open_ci,
    ),
    (
        "a required check is green",
        {"protection": classic(required_checks=NEED_CI), "check_runs": (check(),)},
        "approved by anna",
    ),
    *(
        (
            f"a required check ended {conclusion}",
            {
                "protection": classic(required_checks=NEED_CI),
                "check_runs": (check(conclusion=conclusion),),
            },
            expected,
        )
        for conclusion, expected in [
            ("skipped", "approved by anna"),
            ("neutral", "approved by anna"),
            ("failure", "approved, waiting: ci red"),
            ("cancelled", "approved, waiting: ci red"),
            ("timed_out", "approved, waiting: ci red"),
            ("action_required", "approved, waiting: ci red"),
            ("stale", "approved, waiting: ci red"),
            ("startup_failure", "approved, waiting: ci red"),
        ]
    ),
    (
        "a required check by the wrong App",
        {
            "protection": classic(required_checks=BOUND_CI),
            "check_runs": (check(app=99),),
        },
        open_ci,
    ),
    (
        "a required check by the right App",
        {"protection": classic(required_checks=BOUND_CI), "check_runs": (check(),)},
        "approved by anna",
    ),
    (
        "two check runs of one name, one red",
        {
            "protection": classic(required_checks=NEED_CI),
            "check_runs": (check(), check(conclusion="failure", app=99)),
        },
        "approved, waiting: ci red",
    ),
    (
        "a ruleset's required check",
        {
            "protection": ruleset(
                "required_status_checks",
                required_status_checks=[{"context": "ci", "integration_id": THEIR_APP}],
            ),
            "check_runs": (check(app=99),),
        },
        open_ci,
    ),
    (
        "a required status is pending",
        {
            "protection": classic(required_checks=NEED_CI),
            "statuses": (status("ci", "pending"),),
        },
        open_ci,
    ),
    (
        "a required status is red",
        {"protection": classic(required_checks=NEED_CI), "statuses": (status("ci", "error"),)},
        "approved, waiting: ci red",
    ),
    (
        "a required status is green",
        {"protection": classic(required_checks=NEED_CI), "statuses": (status("ci", "success"),)},
        "approved by anna",
    ),
    (
        "a bound status by somebody who is no App",
        {
            "protection": classic(required_checks=BOUND_CI),
            "statuses": (status("ci", "success"),),
        },
        open_ci,
    ),
    (
        "a bound status by the right App",
        {
            "protection": classic(required_checks=BOUND_CI),
            "statuses": (status("ci", "success", app=THEIR_APP),),
        },
        "approved by anna",
    ),
    ("a red check nobody requires", {"check_runs": (check("x", "failure"),)}, "approved by anna"),
    (
        "our own gate is required and still waits",
        {
            "protection": classic(
                required_checks=(RequiredCheck(context="ultracode/review", app_id=OUR_APP),)
            ),
            "check_runs": (check("ultracode/review", "action_required", app=OUR_APP),),
        },
        "approved by anna",
    ),
    (
        "a check named like our gate but bound to another App",
        {
            "protection": classic(
                required_checks=(RequiredCheck(context="ultracode/review", app_id=THEIR_APP),)
            ),
            "check_runs": (check("ultracode/review", app=OUR_APP),),
        },
        "approved, waiting: ultracode/review open",
    ),
    (
        "our own suite is required and green",
        {
            "protection": classic(
                required_checks=(RequiredCheck(context="ultracode/suite/unit", app_id=OUR_APP),)
            ),
            "check_runs": (check("ultracode/suite/unit", app=OUR_APP),),
        },
        "approved by anna",
    ),
    (
        "a check forged under our suite's name",
        {
            "protection": classic(
                required_checks=(RequiredCheck(context="ultracode/suite/unit", app_id=OUR_APP),)
            ),
            "check_runs": (check("ultracode/suite/unit", app=THEIR_APP),),
        },
        "approved, waiting: ultracode/suite/unit open",
    ),
    (
        "a required check is open and nobody approved",
        {"protection": classic(required_checks=NEED_CI), "reviews": ()},
        none,
    ),
]
CASES = [*APPROVAL_CASES, *RULE_CASES, *PULL_CASES, *CHECK_CASES]


@pytest.mark.parametrize(("changes", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_the_gate(changes: Changes, expected: str) -> None:
    """Each case of the table gets its verdict."""
    rules = changes.get("rules", ReviewRules())
    facts = replace(FACTS, **{key: value for key, value in changes.items() if key != "rules"})
    assert in_words(decide(facts, TARGET, rules)) == expected


def test_the_table_is_large_enough() -> None:
    """The table holds at least sixty different cases."""
    assert len({case[0] for case in CASES}) == len(CASES) >= 60


def test_facts_are_only_compared() -> None:
    """Deciding twice gives the same verdict, and the order of reviews does not matter."""
    changes: dict[str, Callable[[], tuple[Review, ...]]] = {
        "forwards": lambda: (review(), review(MAX, "CHANGES_REQUESTED")),
        "backwards": lambda: (review(MAX, "CHANGES_REQUESTED"), review()),
    }
    verdicts = {
        decide(replace(FACTS, reviews=r()), TARGET, ReviewRules()) for r in changes.values()
    }
    assert len(verdicts) == 1
