from typing import Any

import pytest

from bot.github.port import BranchProtection, ClassicProtection, PushAllowance, RequiredCheck, Rule
from bot.github.protection import (
    PlannedCommit,
    decide_bypass,
    decide_promotable,
    demands_reviews,
    required_checks,
)

APP = 7
PLANNED = PlannedCommit(
    message="Fix the flaky login test\n\nUltracode-Run: abcdef",
    author_email="7+ultracode[bot]@users.noreply.github.com",
    committer_email="7+ultracode[bot]@users.noreply.github.com",
    work_branch="ultracode/12-abcdef",
)
FREE = BranchProtection()


def rule(type_: str, **parameters: Any) -> Rule:
    return Rule(type=type_, parameters=parameters, source="acme")


def obstacles(base: BranchProtection, work: BranchProtection = FREE) -> list[str]:
    problems = decide_promotable(base, work, PLANNED, app_id=APP)
    return [f"{problem.obstacle}: {problem.setting}" for problem in problems]


def test_an_unprotected_branch_can_be_promoted() -> None:
    """Nothing stands in the way where nothing is protected."""
    assert obstacles(FREE) == []


@pytest.mark.parametrize(
    ("demands", "expected"),
    [
        ({"approvals": 2, "code_owners": True, "linear_history": True}, []),
        ({"required_checks": (RequiredCheck(context="ci"),), "strict_checks": True}, []),
        ({"enforce_admins": True, "conversation_resolution": True}, []),
        ({"signed_commits": True}, ["signed_commits: Require signed commits"]),
        ({"locked": True}, ["locked: Lock branch"]),
        (
            {"required_deployments": True},
            ["deployments: Require deployments to succeed"],
        ),
        (
            {"push_allowance": PushAllowance(user_ids=(1,))},
            ["push_restricted: Restrict who can push to matching branches"],
        ),
        ({"push_allowance": PushAllowance(app_ids=(APP,))}, []),
    ],
)
def test_classic_protection(demands: dict[str, Any], expected: list[str]) -> None:
    """Classic settings this App can never satisfy are named as GitHub names them."""
    assert obstacles(BranchProtection(classic=ClassicProtection(**demands))) == expected


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([rule("pull_request", required_approving_review_count=1)], []),
        ([rule("deletion"), rule("non_fast_forward"), rule("required_linear_history")], []),
        ([rule("required_status_checks")], []),
        ([rule("required_signatures")], ["signed_commits: required_signatures"]),
        ([rule("merge_queue")], ["merge_queue: merge_queue"]),
        ([rule("required_deployments")], ["deployments: required_deployments"]),
        ([rule("update")], ["push_restricted: update"]),
        ([rule("workflows")], ["unknown_rule: workflows"]),
        ([rule("code_scanning")], ["unknown_rule: code_scanning"]),
        ([rule("invented_tomorrow")], ["unknown_rule: invented_tomorrow"]),
    ],
)
def test_rulesets(rules: list[Rule], expected: list[str]) -> None:
    """Rules a fast-forward satisfies pass; others, and unknown ones, are obstacles."""
    assert obstacles(BranchProtection(rules=tuple(rules))) == expected


@pytest.mark.parametrize(
    ("parameters", "met"),
    [
        ({"operator": "starts_with", "pattern": "Fix"}, True),
        ({"operator": "starts_with", "pattern": "JIRA-"}, False),
        ({"operator": "starts_with", "pattern": "JIRA-", "negate": True}, True),
        ({"operator": "contains", "pattern": "Ultracode-Run"}, True),
        ({"operator": "ends_with", "pattern": "abcdef"}, True),
        ({"operator": "regex", "pattern": r"^Fix\b"}, True),
        ({"operator": "regex", "pattern": r"^JIRA-\d+"}, False),
        ({"operator": "regex", "pattern": r"(a+)+$(?=x)"}, False),
        ({"operator": "regex", "pattern": "("}, False),
        ({"operator": "regex", "pattern": "(", "negate": True}, False),
        ({"operator": "invented", "pattern": "Fix"}, False),
        ({}, False),
    ],
)
def test_commit_patterns(parameters: dict[str, Any], met: bool) -> None:
    """A commit that fails a metadata pattern, or one nobody can evaluate, is an obstacle."""
    base = BranchProtection(rules=(rule("commit_message_pattern", **parameters),))
    assert obstacles(base) == ([] if met else ["commit_pattern: commit_message_pattern"])


@pytest.mark.parametrize(
    ("work", "blocked"),
    [
        (rule("deletion"), False),
        (rule("creation"), True),
        (rule("update"), True),
        (rule("non_fast_forward"), True),
        (rule("pull_request"), True),
        (rule("required_signatures"), True),
        (rule("invented_tomorrow"), True),
        (rule("branch_name_pattern", operator="starts_with", pattern="ultracode/"), False),
        (rule("branch_name_pattern", operator="regex", pattern="^feature/"), True),
        (rule("commit_message_pattern", operator="starts_with", pattern="JIRA-"), True),
    ],
)
def test_work_branches(work: Rule, blocked: bool) -> None:
    """Rules that refuse the work branch, or its later rounds, are obstacles."""
    found = obstacles(FREE, BranchProtection(rules=(work,)))
    assert found == ([f"work_branch: {work.type}"] if blocked else [])


def test_classic_protection_of_work_branches_forbids_later_rounds() -> None:
    """A protected work branch is an obstacle unless force pushes are allowed."""
    strict = BranchProtection(classic=ClassicProtection())
    lenient = BranchProtection(classic=ClassicProtection(allow_force_pushes=True))
    assert obstacles(FREE, strict) == ["work_branch: Allow force pushes"]
    assert obstacles(FREE, lenient) == []


def test_a_merge_queue_of_classic_protection_is_an_obstacle() -> None:
    """A queue cannot be fast-forwarded past, wherever it was configured."""
    assert obstacles(BranchProtection(merge_queue=True)) == ["merge_queue: merge queue"]


def test_an_app_that_may_bypass_is_told_so() -> None:
    """Protection that does not hold this App is reported, by ruleset."""
    base = BranchProtection(
        classic=ClassicProtection(review_bypass_app_ids=(APP,)),
        rules=(
            Rule(type="deletion", source="acme", bypass="always"),
            Rule(type="pull_request", source="acme", bypass="always"),
            Rule(type="update", source="other"),
        ),
    )
    found = [(p.setting, p.source) for p in decide_bypass(base, app_id=APP)]
    assert found == [
        ("bypass list", "acme"),
        ("bypass required pull requests", "branch protection"),
    ]


def test_required_checks_come_from_both_and_leave_out_the_gate() -> None:
    """Classic and ruleset checks are joined; the gate's own check run is not waited for."""
    base = BranchProtection(
        classic=ClassicProtection(
            required_checks=(
                RequiredCheck(context="ci"),
                RequiredCheck(context="ultracode/review"),
                RequiredCheck(context="ultracode/review", app_id=APP),
                RequiredCheck(context="ultracode/review", app_id=8),
            )
        ),
        rules=(
            rule(
                "required_status_checks",
                required_status_checks=[
                    {"context": "ci"},
                    {"context": "e2e", "integration_id": 15368},
                ],
            ),
        ),
    )
    found = [(c.context, c.app_id) for c in required_checks(base, app_id=APP)]
    assert found == [("ci", None), ("ultracode/review", 8), ("e2e", 15368)]


@pytest.mark.parametrize(
    ("base", "demanded"),
    [
        (FREE, False),
        (BranchProtection(classic=ClassicProtection(approvals=0)), False),
        (BranchProtection(classic=ClassicProtection(approvals=1)), True),
        (BranchProtection(classic=ClassicProtection(code_owners=True)), True),
        (BranchProtection(rules=(rule("pull_request", required_approving_review_count=0),)), False),
        (BranchProtection(rules=(rule("pull_request", require_last_push_approval=True),)), True),
        (BranchProtection(rules=(rule("pull_request", required_reviewers=[{}]),)), True),
    ],
)
def test_when_reviews_are_demanded(base: BranchProtection, demanded: bool) -> None:
    """A rule that asks for a pull request but for no review demands none."""
    assert demands_reviews(base) is demanded
