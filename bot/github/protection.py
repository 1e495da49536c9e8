"""What a repository demands before a branch moves. In: protection facts. Out: what is in the way.

Why: a base that this App can never fast-forward is refused before tokens are spent, naming the
setting to change, and the gate holds a candidate to what GitHub itself would demand. Classic
protection and rulesets are read alike; a rule type nobody here knows counts as an obstacle.
Rule types and parameters: GitHub's REST description, "Get rules for a branch".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import StringConstraints, TypeAdapter, ValidationError
from pydantic_core import SchemaError

from bot.github.port import BranchProtection, ClassicProtection, RequiredCheck, Rule

GATE_CHECK: Final = "ultracode/review"


class Obstacle(StrEnum):
    """Why a branch cannot be moved by this App, or may be moved too easily."""

    SIGNED_COMMITS = "signed_commits"
    MERGE_QUEUE = "merge_queue"
    LOCKED = "locked"
    PUSH_RESTRICTED = "push_restricted"
    DEPLOYMENTS = "deployments"
    COMMIT_PATTERN = "commit_pattern"
    UNKNOWN_RULE = "unknown_rule"
    WORK_BRANCH = "work_branch"
    BYPASS = "bypass"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One obstacle. `setting` names the rule as GitHub does; `source` is the ruleset or classic."""

    obstacle: Obstacle
    setting: str
    source: str = "branch protection"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCommit:
    """What the commit and its branch will look like, as far as rules can ask."""

    message: str
    author_email: str
    committer_email: str
    work_branch: str


def decide_promotable(
    base: BranchProtection, work: BranchProtection, planned: PlannedCommit, *, app_id: int
) -> tuple[Problem, ...]:
    """Return all that keeps this App from publishing on the work branch and moving the base."""
    return (
        *_classic_problems(base.classic, app_id),
        *([Problem(obstacle=Obstacle.MERGE_QUEUE, setting="merge queue")] * base.merge_queue),
        *(problem for rule in base.rules for problem in _rule_problems(rule, planned)),
        *_work_branch_problems(work, planned, app_id),
    )


def decide_bypass(base: BranchProtection, *, app_id: int) -> tuple[Problem, ...]:
    """Return where this App could get around the protection it is to be held by."""
    sources = {rule.source for rule in base.rules if rule.bypass != "never"}
    problems = [
        Problem(obstacle=Obstacle.BYPASS, setting="bypass list", source=source)
        for source in sorted(sources)
    ]
    if base.classic and app_id in base.classic.review_bypass_app_ids:
        problems.append(Problem(obstacle=Obstacle.BYPASS, setting="bypass required pull requests"))
    return tuple(problems)


# --- what the gate asks -------------------------------------------------------------------------


def demands_reviews(base: BranchProtection) -> bool:
    """Whether a rule asks for approving reviews, by anybody or by code owners."""
    classic = base.classic
    if classic and (classic.approvals or classic.code_owners or classic.last_push_approval):
        return True
    return any(
        rule.parameters.get(name)
        for rule in base.rules
        if rule.type == "pull_request"
        for name in (
            "required_approving_review_count",
            "require_code_owner_review",
            "require_last_push_approval",
            "required_reviewers",
        )
    )


def demands_resolved_threads(base: BranchProtection) -> bool:
    """Whether every review thread must be resolved."""
    if base.classic and base.classic.conversation_resolution:
        return True
    return any(
        rule.parameters.get("required_review_thread_resolution")
        for rule in base.rules
        if rule.type == "pull_request"
    )


def required_checks(base: BranchProtection, *, app_id: int) -> tuple[RequiredCheck, ...]:
    """Return the checks and statuses that must be green, but for the gate's own check run."""
    found = list(base.classic.required_checks) if base.classic else []
    for rule in base.rules:
        if rule.type == "required_status_checks":
            found += _required_of(rule)
    own = {RequiredCheck(context=GATE_CHECK, app_id=bound) for bound in (None, app_id)}
    return tuple(check for check in dict.fromkeys(found) if check not in own)


def _required_of(rule: Rule) -> Iterator[RequiredCheck]:
    checks = rule.parameters.get("required_status_checks")
    for check in checks if isinstance(checks, Sequence) else ():
        if isinstance(check, Mapping):
            bound = check.get("integration_id")
            yield RequiredCheck(
                context=str(check.get("context")), app_id=bound if isinstance(bound, int) else None
            )


# --- classic protection -------------------------------------------------------------------------


def _classic_problems(classic: ClassicProtection | None, app_id: int) -> Iterator[Problem]:
    if classic is None:
        return
    if classic.signed_commits:
        yield Problem(obstacle=Obstacle.SIGNED_COMMITS, setting="Require signed commits")
    if classic.locked:
        yield Problem(obstacle=Obstacle.LOCKED, setting="Lock branch")
    if classic.required_deployments:
        yield Problem(obstacle=Obstacle.DEPLOYMENTS, setting="Require deployments to succeed")
    if classic.push_allowance and app_id not in classic.push_allowance.app_ids:
        yield Problem(
            obstacle=Obstacle.PUSH_RESTRICTED,
            setting="Restrict who can push to matching branches",
        )


# --- rulesets -----------------------------------------------------------------------------------

#: Rules that a fast-forward of a reviewed, tested commit satisfies, or that the gate waits for.
_HARMLESS: Final = {
    "branch_name_pattern",
    "copilot_code_review",
    "creation",
    "deletion",
    "file_extension_restriction",
    "file_path_restriction",
    "max_file_path_length",
    "max_file_size",
    "non_fast_forward",
    "pull_request",
    "required_linear_history",
    "required_status_checks",
    "tag_name_pattern",
}
_OBSTACLES: Final = {
    "merge_queue": Obstacle.MERGE_QUEUE,
    "required_deployments": Obstacle.DEPLOYMENTS,
    "required_signatures": Obstacle.SIGNED_COMMITS,
    "update": Obstacle.PUSH_RESTRICTED,
}
_PATTERNS: Final[Mapping[str, Callable[[PlannedCommit], str]]] = {
    "commit_message_pattern": lambda planned: planned.message,
    "commit_author_email_pattern": lambda planned: planned.author_email,
    "committer_email_pattern": lambda planned: planned.committer_email,
}
#: Rules that refuse the first push to a work branch, or the leased force-push of a later round.
_WORK_OBSTACLES: Final = {
    "creation",
    "merge_queue",
    "non_fast_forward",
    "pull_request",
    "required_deployments",
    "required_signatures",
    "required_status_checks",
    "update",
}


def _rule_problems(rule: Rule, planned: PlannedCommit) -> Iterator[Problem]:
    if rule.type in _PATTERNS:
        if not _satisfies(rule.parameters, _PATTERNS[rule.type](planned)):
            yield _problem(rule, Obstacle.COMMIT_PATTERN)
    elif rule.type not in _HARMLESS:
        yield _problem(rule, _OBSTACLES.get(rule.type, Obstacle.UNKNOWN_RULE))


def _work_branch_problems(
    work: BranchProtection, planned: PlannedCommit, app_id: int
) -> Iterator[Problem]:
    classic = work.classic
    if classic and (not classic.allow_force_pushes or [*_classic_problems(classic, app_id)]):
        yield Problem(obstacle=Obstacle.WORK_BRANCH, setting="Allow force pushes")
    for rule in work.rules:
        named = rule.type == "branch_name_pattern"
        misnamed = named and not _satisfies(rule.parameters, planned.work_branch)
        unfit = rule.type in _PATTERNS and [*_rule_problems(rule, planned)]
        unknown = rule.type not in {*_HARMLESS, *_OBSTACLES, *_PATTERNS}
        if misnamed or unfit or unknown or rule.type in _WORK_OBSTACLES:
            yield _problem(rule, Obstacle.WORK_BRANCH)


def _problem(rule: Rule, obstacle: Obstacle) -> Problem:
    return Problem(obstacle=obstacle, setting=rule.type, source=rule.source or "a ruleset")


def _satisfies(parameters: Mapping[str, object], text: str) -> bool:
    """Whether a text meets a pattern rule; a pattern nobody can evaluate is not met."""
    pattern = str(parameters.get("pattern", ""))
    tests: dict[str, Callable[[], bool]] = {
        "starts_with": lambda: text.startswith(pattern),
        "ends_with": lambda: text.endswith(pattern),
        "contains": lambda: pattern in text,
        "regex": lambda: _matches(pattern, text),
    }
    test = tests.get(str(parameters.get("operator", "")))
    try:
        return test is not None and test() != bool(parameters.get("negate", False))
    except SchemaError:
        return False


def _matches(pattern: str, text: str) -> bool:
    """Search with pydantic's Rust engine: the dialect is close to GitHub's, the time is linear.

    Raises SchemaError for a pattern it cannot compile.
    """
    adapter: TypeAdapter[Any] = TypeAdapter(Annotated[str, StringConstraints(pattern=pattern)])
    try:
        adapter.validate_python(text)
    except ValidationError:
        return False
    return True
