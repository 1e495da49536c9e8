"""What people and checks must have said about a commit: required checks, reviews, conversations.

In: the demands of a branch and the pull request whose head the commit is. Out: objections in
GitHub's words, empty when none, and GraphQL's `reviewDecision`.
"""

from __future__ import annotations

from evals.loopback import checks, codeowners, reviews, statuses
from evals.loopback.auth import Actor
from evals.loopback.rulebook import classic_for, rules_for
from evals.loopback.state import ROLES, Account, Json, PullRequest, Repository, Review
from evals.loopback.world import World

_VERDICTS = ("APPROVED", "CHANGES_REQUESTED")
_GREEN = ("success", "neutral", "skipped")


async def rule_demand_objections(
    world: World, repository: Repository, rule: Json, pull: PullRequest | None, sha: str
) -> list[str]:
    """What one rule of a ruleset still wants to be said about a commit."""
    wants = rule.get("parameters") or {}
    if rule["type"] == "required_status_checks":
        named = wants.get("required_status_checks", [])
        bound = [{"context": c["context"], "app_id": c.get("integration_id")} for c in named]
        return check_objections(repository, {"checks": bound}, sha)
    if rule["type"] != "pull_request":
        return []
    lines = await review_objections(world, repository, wants, pull)
    if wants.get("required_review_thread_resolution") and pull and has_open_threads(pull):
        lines.append("A conversation must be resolved before this pull request can be merged.")
    return lines


def pull_with_head(repository: Repository, branch: str, sha: str) -> PullRequest | None:
    """The open pull request for that branch whose head is the commit."""
    found = (p for p in repository.pulls() if p.open and p.base_ref == branch)
    return next((p for p in found if p.head_sha == sha), None)


def has_open_threads(pull: PullRequest) -> bool:
    """Whether a conversation is not resolved."""
    return any(thread.resolved_by is None for thread in pull.threads.values())


# --- checks ---


def check_objections(repository: Repository, wants: Json | None, sha: str) -> list[str]:
    """Required checks and statuses that are not green."""
    lines = []
    for check in (wants or {}).get("checks", []):
        state = state_of_check(repository, sha, check["context"], check.get("app_id"))
        if state != "success":
            verb = {"failure": "failing", "pending": "pending"}.get(state, "expected")
            lines.append(f'Required status check "{check["context"]}" is {verb}.')
    return lines


def state_of_check(repository: Repository, sha: str, context: str, app_id: int | None) -> str:
    """`success`, `failure`, `pending` or `expected` for a required check, by App where bound."""
    anybody = app_id in (None, -1)
    states = [
        _state_of_run(run.status, run.conclusion)
        for run in checks.latest_runs(repository, sha)
        if run.name == context and (anybody or run.suite.app.id == app_id)
    ]
    states += [
        {"error": "failure"}.get(status.state, status.state)
        for status in statuses.latest(repository, sha)
        if status.context == context and (anybody or (status.app and status.app.id == app_id))
    ]
    return next((s for s in ("failure", "pending", "success") if s in states), "expected")


def _state_of_run(status: str, conclusion: str | None) -> str:
    if status != "completed":
        return "pending"
    return "success" if conclusion in _GREEN else "failure"


def all_green(repository: Repository, sha: str) -> bool:
    """Whether every check run and status on a commit, required or not, is green."""
    runs = checks.latest_runs(repository, sha)
    said = statuses.latest(repository, sha)
    return all(run.conclusion in _GREEN for run in runs) and all(
        status.state == "success" for status in said
    )


def demands_up_to_date(repository: Repository, branch: str) -> bool:
    """Whether a pull request must contain the tip of its base ("strict" checks)."""
    classic = classic_for(repository, branch)
    if classic and (classic.status_checks or {}).get("strict"):
        return True
    return any(
        (rule.get("parameters") or {}).get("strict_required_status_checks_policy")
        for _, rule in rules_for(repository, branch)
    )


# --- reviews ---


def review_demands(repository: Repository, branch: str) -> list[Json]:
    """What classic protection and rulesets demand of reviews; empty when nothing."""
    classic = classic_for(repository, branch)
    demands = [classic.reviews] if classic and classic.reviews is not None else []
    rules = (rule for _, rule in rules_for(repository, branch) if rule["type"] == "pull_request")
    return demands + [rule.get("parameters") or {} for rule in rules]


async def review_objections(
    world: World, repository: Repository, wants: Json | None, pull: PullRequest | None
) -> list[str]:
    """What is missing of one demand for reviews; None demands nothing."""
    if wants is None:
        return []
    if pull is None:
        return ["Changes must be made through a pull request."]
    latest = decisive_reviews(world, pull)
    if any(review.state == "CHANGES_REQUESTED" for review in latest.values()):
        return ["Changes have been requested."]
    approvals = [r for r in latest.values() if r.state == "APPROVED"]
    if wants.get("require_last_push_approval"):
        approvals = [r for r in approvals if r.user is not pull.last_pusher]
    needed = int(wants.get("required_approving_review_count") or 0)
    if len(approvals) < needed:
        noun = "review is" if needed == 1 else "reviews are"
        return [f"At least {needed} approving {noun} required by reviewers with write access."]
    if wants.get("require_code_owner_reviews") or wants.get("require_code_owner_review"):
        approvers = {review.user for review in approvals}
        if await codeowners.awaited(world, repository, pull, approvers):
            return ["Waiting on code owner review"]
    return []


async def review_decision(world: World, pull: PullRequest) -> str | None:
    """GraphQL's `reviewDecision`: null where the base branch demands no reviews."""
    demands = review_demands(pull.repository, pull.base_ref)
    if not demands:
        return None
    latest = decisive_reviews(world, pull)
    if any(review.state == "CHANGES_REQUESTED" for review in latest.values()):
        return "CHANGES_REQUESTED"
    for wants in demands:
        if await review_objections(world, pull.repository, wants, pull):
            return "REVIEW_REQUIRED"
    return "APPROVED"


def decisive_reviews(world: World, pull: PullRequest) -> dict[int, Review]:
    """The latest approval or change request of everybody who has write.

    A dismissal leaves that person without a verdict; what they said earlier does not come back.
    """
    latest: dict[int, Review] = {}
    for review in pull.reviews.values():
        if review.state == "DISMISSED":
            latest.pop(review.user.id, None)
        elif review.state in _VERDICTS and _counts(world, pull, review.user):
            latest[review.user.id] = review
    return latest


def _counts(world: World, pull: PullRequest, account: Account) -> bool:
    if account.deleted or account.type != "User":
        return False
    return ROLES.index(world.role(account, pull.repository)) >= ROLES.index("write")


def dismiss_stale(world: World, actor: Actor, pull: PullRequest) -> None:
    """After a push, approvals fall where the base branch says so."""
    fields = ("dismiss_stale_reviews", "dismiss_stale_reviews_on_push")
    demands = review_demands(pull.repository, pull.base_ref)
    if not any(wants.get(field) for wants in demands for field in fields):
        return
    for review in pull.reviews.values():
        if review.state == "APPROVED":
            reviews.set_dismissed(world, actor, review)
