"""Branch protection and rulesets: what a push, a merge or a REST update of a ref must satisfy.

In: the change somebody wants and what this GitHub knows about its commit. Out: objections in
GitHub's words, empty when none. Both kinds of rule are read: classic protection and rulesets.
https://docs.github.com/repositories/configuring-branches-and-merges-in-your-repository
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass

from evals.loopback import checks, codeowners, reviews
from evals.loopback.auth import Actor
from evals.loopback.bare import GitCommit
from evals.loopback.state import (
    ROLES,
    Account,
    Json,
    Protection,
    PullRequest,
    Repository,
    Review,
    Role,
    Ruleset,
    World,
)

_VERDICTS = ("APPROVED", "CHANGES_REQUESTED")
_GREEN = ("success", "neutral", "skipped")


@dataclass(frozen=True)
class WantedUpdate:
    """One branch update somebody wants, with where its objects are (a push's quarantine)."""

    branch: str
    old: str | None
    new: str | None
    objects: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Objections:
    """Why an update is refused: lines for people, and the word Git's client shows."""

    kind: str  # "protected branch hook declined" or "push declined due to …"
    lines: tuple[str, ...]


# --- which rules hold for a branch ---


def classic_for(repository: Repository, branch: str) -> Protection | None:
    """The classic protection of a branch: an exact name goes before a pattern."""
    if branch in repository.protections:
        return repository.protections[branch]
    patterns = (p for p in repository.protections.values() if fnmatch.fnmatch(branch, p.branch))
    return next(patterns, None)


def rulesets_for(repository: Repository, branch: str) -> list[Ruleset]:
    """Active rulesets whose conditions include the branch."""
    return [
        ruleset
        for ruleset in repository.rulesets.values()
        if ruleset.target == "branch"
        and ruleset.enforcement == "active"
        and _included(repository, ruleset, branch)
    ]


def _included(repository: Repository, ruleset: Ruleset, branch: str) -> bool:
    names = ruleset.conditions.get("ref_name", {})
    included = any(_names(repository, p, branch) for p in names.get("include", []))
    return included and not any(_names(repository, p, branch) for p in names.get("exclude", []))


def _names(repository: Repository, pattern: str, branch: str) -> bool:
    if pattern == "~ALL":
        return True
    if pattern == "~DEFAULT_BRANCH":
        return branch == repository.default_branch
    return fnmatch.fnmatch(f"refs/heads/{branch}", pattern)


def rules_for(repository: Repository, branch: str) -> list[tuple[Ruleset, Json]]:
    """Every single rule of every ruleset that holds for the branch."""
    return [
        (ruleset, rule) for ruleset in rulesets_for(repository, branch) for rule in ruleset.rules
    ]


def may_bypass(world: World, actor: Actor, repository: Repository, branch: str) -> bool:
    """Whether classic protection does not bind this actor: admins, unless it says so."""
    classic = classic_for(repository, branch)
    is_admin = actor.installation is None and world.role(actor.account, repository) == "admin"
    return (
        is_admin and not (classic and classic.enforce_admins) and not rules_for(repository, branch)
    )


def _ruleset_bypassed(world: World, actor: Actor, repository: Repository, ruleset: Ruleset) -> bool:
    role_ids: dict[int, Role] = {
        5: "admin",
        4: "write",
        2: "maintain",
    }  # GitHub's ids of the repository roles
    for bypass in ruleset.bypass_actors:
        kind, number = bypass.get("actor_type"), bypass.get("actor_id")
        if kind == "Integration" and actor.installation and actor.installation.app.id == number:
            return True
        if kind == "OrganizationAdmin" and actor.account is repository.owner:
            return True
        role = role_ids.get(number or 0)
        if kind == "RepositoryRole" and role and actor.installation is None:
            have = world.role(actor.account, repository)
            if ROLES.index(have) >= ROLES.index(role):
                return True
    return False


# --- updates of refs ---


async def objections_to_update(
    world: World, actor: Actor, repository: Repository, update: WantedUpdate
) -> Objections | None:
    """Why this update of a branch must not happen, or None."""
    classic = classic_for(repository, update.branch)
    if classic is not None and not _admin_passes(world, actor, repository, classic):
        lines = await _classic_objections(world, actor, repository, classic, update)
        if lines:
            return Objections("protected branch hook declined", tuple(lines))
    lines = []
    for ruleset in rulesets_for(repository, update.branch):
        if not _ruleset_bypassed(world, actor, repository, ruleset):
            for rule in ruleset.rules:
                lines += await _rule_objections(world, repository, rule, update)
    if lines:
        return Objections("push declined due to repository rule violations", tuple(lines))
    return None


def _admin_passes(world: World, actor: Actor, repository: Repository, classic: Protection) -> bool:
    is_admin = actor.installation is None and world.role(actor.account, repository) == "admin"
    return is_admin and not classic.enforce_admins and not classic.lock_branch


async def _classic_objections(
    world: World,
    actor: Actor,
    repository: Repository,
    classic: Protection,
    update: WantedUpdate,
) -> list[str]:
    if classic.lock_branch:
        return ["Cannot change this locked branch"]
    if update.new is None:
        return [] if classic.allow_deletions else ["Cannot delete this protected branch"]
    lines = []
    if not _may_push(actor, classic):
        lines.append("You're not authorized to push to this branch.")
    lines += await _classic_shape(repository, classic, update)
    if update.old is not None:
        lines += _check_objections(repository, classic.status_checks, update.new)
        pull = _pull_with_head(repository, update.branch, update.new)
        lines += await _review_objections(world, repository, classic.reviews, pull)
        if classic.conversation_resolution and pull and _open_threads(pull):
            lines.append("All comments must be resolved.")
    return lines


async def _classic_shape(
    repository: Repository, classic: Protection, update: WantedUpdate
) -> list[str]:
    """Objections to what the new commits look like, whatever people said about them."""
    lines = []
    if not classic.allow_force_pushes and await _rewinds(repository, update):
        lines.append("Cannot force-push to this protected branch")
    if classic.linear_history and await _has_merges(repository, update):
        lines.append("This branch must not contain merge commits.")
    if classic.signatures and await _has_unsigned(repository, update):
        lines.append("Commits must have verified signatures.")
    if classic.deployments:
        lines.append("Required deployments have not succeeded.")
    return lines


def _may_push(actor: Actor, classic: Protection) -> bool:
    if classic.restrictions is None:
        return True
    if actor.installation is not None:
        return actor.installation.app.slug in classic.restrictions["apps"]
    account = actor.account
    return account is not None and account.login in classic.restrictions["users"]


async def _rule_objections(
    world: World, repository: Repository, rule: Json, update: WantedUpdate
) -> list[str]:
    kind, wants = rule["type"], rule.get("parameters") or {}
    if update.new is None:
        return ["Cannot delete this branch"] if kind == "deletion" else []
    if update.old is None:
        return (
            ["Cannot create ref due to creations being restricted."] if kind == "creation" else []
        )
    checked = await _shape_objections(repository, kind, update)
    if kind == "required_status_checks":
        strict = wants.get("strict_required_status_checks_policy", False)
        wanted = [
            {"context": c["context"], "app_id": c.get("integration_id")}
            for c in wants.get("required_status_checks", [])
        ]
        checked += _check_objections(repository, {"strict": strict, "checks": wanted}, update.new)
    if kind == "pull_request":
        pull = _pull_with_head(repository, update.branch, update.new)
        checked += await _review_objections(world, repository, wants, pull)
        if wants.get("required_review_thread_resolution") and pull and _open_threads(pull):
            checked.append(
                "A conversation must be resolved before this pull request can be merged."
            )
    return checked


async def _shape_objections(repository: Repository, kind: str, update: WantedUpdate) -> list[str]:
    """The same for one rule of a ruleset."""
    if kind == "update":
        return ["Cannot update this protected ref."]
    if kind == "non_fast_forward" and await _rewinds(repository, update):
        return ["Cannot force-push to this branch"]
    if kind == "required_linear_history" and await _has_merges(repository, update):
        return ["This branch must not contain merge commits."]
    if kind == "required_signatures" and await _has_unsigned(repository, update):
        return ["Commits must have verified signatures."]
    if kind == "merge_queue":
        return ["Changes must be made through the merge queue"]
    return []


# --- facts about an update ---


async def _rewinds(repository: Repository, update: WantedUpdate) -> bool:
    if update.old is None or update.new is None:
        return False
    return not await repository.git.is_ancestor(update.old, update.new, env=update.objects)


async def _has_merges(repository: Repository, update: WantedUpdate) -> bool:
    return any(len(c.parents) > 1 for c in await _new_commits(repository, update))


async def _has_unsigned(repository: Repository, update: WantedUpdate) -> bool:
    return any(not c.signed for c in await _new_commits(repository, update))


async def _new_commits(repository: Repository, update: WantedUpdate) -> list[GitCommit]:
    assert update.new is not None
    shas = await repository.git.between(update.old, update.new, env=update.objects)
    return [await repository.git.commit(sha, update.objects) for sha in shas]


def _pull_with_head(repository: Repository, branch: str, sha: str) -> PullRequest | None:
    """The open pull request for that branch whose head is the pushed commit."""
    found = (p for p in repository.pulls() if p.open and p.base_ref == branch)
    return next((p for p in found if p.head_sha == sha), None)


def _open_threads(pull: PullRequest) -> bool:
    return any(thread.resolved_by is None for thread in pull.threads.values())


# --- required checks ---


def _check_objections(repository: Repository, wants: Json | None, sha: str) -> list[str]:
    if not wants:
        return []
    lines = []
    for check in wants["checks"]:
        state = state_of_check(repository, sha, check["context"], check.get("app_id"))
        if state != "success":
            verb = {"failure": "failing", "pending": "pending"}.get(state, "expected")
            lines.append(f'Required status check "{check["context"]}" is {verb}.')
    return lines


def state_of_check(repository: Repository, sha: str, context: str, app_id: int | None) -> str:
    """`success`, `failure`, `pending` or `expected` for a required check, by App where bound."""
    states = []
    for run in checks.latest_runs(repository, sha):
        if run.name == context and app_id in (None, -1, run.suite.app.id):
            done = run.status == "completed"
            states.append(
                ("success" if run.conclusion in _GREEN else "failure") if done else "pending"
            )
    for status in checks.latest_statuses(repository, sha):
        creator = status.app.id if status.app else None
        if status.context == context and app_id in (None, -1, creator):
            states.append({"error": "failure"}.get(status.state, status.state))
    return next((s for s in ("failure", "pending", "success") if s in states), "expected")


def all_green(repository: Repository, sha: str) -> bool:
    """Whether every check run and status on a commit, required or not, is green."""
    runs = checks.latest_runs(repository, sha)
    statuses = checks.latest_statuses(repository, sha)
    return all(run.conclusion in _GREEN for run in runs) and all(
        status.state == "success" for status in statuses
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


# --- required reviews ---


def review_demands(repository: Repository, branch: str) -> list[Json]:
    """What classic protection and rulesets demand of reviews; empty when nothing."""
    classic = classic_for(repository, branch)
    demands = [classic.reviews] if classic and classic.reviews else []
    rules = (rule for _, rule in rules_for(repository, branch) if rule["type"] == "pull_request")
    return demands + [rule.get("parameters") or {} for rule in rules]


async def review_decision(world: World, pull: PullRequest) -> str | None:
    """GraphQL's `reviewDecision`: null where the base branch demands no reviews."""
    demands = review_demands(pull.repository, pull.base_ref)
    if not demands:
        return None
    latest = decisive_reviews(world, pull)
    if any(review.state == "CHANGES_REQUESTED" for review in latest.values()):
        return "CHANGES_REQUESTED"
    for wants in demands:
        if await _review_objections(world, pull.repository, wants, pull):
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


async def _review_objections(
    world: World, repository: Repository, wants: Json | None, pull: PullRequest | None
) -> list[str]:
    if wants is None:
        return []
    needed = int(wants.get("required_approving_review_count") or 0)
    if pull is None:
        return ["Changes must be made through a pull request."]
    latest = decisive_reviews(world, pull)
    if any(review.state == "CHANGES_REQUESTED" for review in latest.values()):
        return ["Changes have been requested."]
    approvals = [r for r in latest.values() if r.state == "APPROVED"]
    if wants.get("require_last_push_approval"):
        approvals = [r for r in approvals if r.user is not pull.last_pusher]
    if len(approvals) < needed:
        noun = "review is" if needed == 1 else "reviews are"
        return [f"At least {needed} approving {noun} required by reviewers with write access."]
    if wants.get("require_code_owner_reviews") or wants.get("require_code_owner_review"):
        approvers = {review.user for review in approvals}
        if await codeowners.awaited(world, repository, pull, approvers):
            return ["Waiting on code owner review"]
    return []


def dismiss_stale(world: World, actor: Actor, pull: PullRequest) -> None:
    """After a push, approvals fall where the base branch says so."""
    demands = review_demands(pull.repository, pull.base_ref)
    if not any(
        d.get("dismiss_stale_reviews") or d.get("dismiss_stale_reviews_on_push") for d in demands
    ):
        return
    for review in pull.reviews.values():
        if review.state == "APPROVED":
            reviews.set_dismissed(world, actor, review)


# --- merging by the button ---


async def objections_to_merge(world: World, pull: PullRequest) -> list[str]:
    """Why the merge button would refuse."""
    repository, branch = pull.repository, pull.base_ref
    lines: list[str] = []
    classic = classic_for(repository, branch)
    if classic is not None:
        if classic.lock_branch:
            lines.append("Cannot change this locked branch")
        lines += _check_objections(repository, classic.status_checks, pull.head_sha)
        if classic.conversation_resolution and _open_threads(pull):
            lines.append("All comments must be resolved.")
    for wants in review_demands(repository, branch):
        lines += await _review_objections(world, repository, wants, pull)
    for _, rule in rules_for(repository, branch):
        update = WantedUpdate(branch, "", pull.head_sha)
        if rule["type"] in ("required_status_checks", "pull_request"):
            lines += await _rule_objections(world, repository, rule, update)
    return list(dict.fromkeys(lines))
