"""What a push, a merge or a REST update of a branch must satisfy, all rules taken together.

In: the change somebody wants and what this GitHub knows about its commit. Out: objections in
GitHub's words, none when it may happen. Both kinds of rule are read: classic protection and
rulesets.
"""

from __future__ import annotations

from dataclasses import dataclass

from evals.loopback import commit_rules, demands, rulebook
from evals.loopback.auth import Actor
from evals.loopback.commit_rules import WantedUpdate
from evals.loopback.rulebook import classic_for, rules_for, rulesets_for
from evals.loopback.state import Protection, PullRequest, Repository, Ruleset
from evals.loopback.world import World


@dataclass(frozen=True)
class Objections:
    """Why an update is refused: lines for people, and the word Git's client shows."""

    kind: str  # "protected branch hook declined" or "push declined due to …"
    lines: tuple[str, ...]


async def objections_to_update(
    world: World, actor: Actor, update: WantedUpdate
) -> Objections | None:
    """Why this update of a branch must not happen, or None."""
    repository = update.repository
    classic = classic_for(repository, update.branch)
    if classic is not None and not rulebook.passes_classic(world, actor, repository, classic):
        lines = await _classic_objections(world, actor, classic, update)
        if lines:
            return Objections("protected branch hook declined", tuple(lines))
    lines = []
    for ruleset in rulesets_for(repository, update.branch):
        if rulebook.bypass_of(world, actor, repository, ruleset) != "always":
            lines += await _ruleset_objections(world, ruleset, update)
    if lines:
        return Objections("push declined due to repository rule violations", tuple(lines))
    return None


async def _classic_objections(
    world: World, actor: Actor, classic: Protection, update: WantedUpdate
) -> list[str]:
    if classic.lock_branch:
        return ["Cannot change this locked branch"]
    if update.new is None:
        return [] if classic.allow_deletions else ["Cannot delete this protected branch"]
    lines = []
    if not _may_push(actor, classic):
        lines.append("You're not authorized to push to this branch.")
    lines += await commit_rules.classic_objections(classic, update)
    if update.old is None:
        return lines
    repository = update.repository
    pull = demands.pull_with_head(repository, update.branch, update.new)
    lines += demands.check_objections(repository, classic.status_checks, update.new)
    if not rulebook.may_skip_pull_requests(actor, classic.reviews):
        lines += await demands.review_objections(world, repository, classic.reviews, pull)
    if classic.conversation_resolution and pull and demands.has_open_threads(pull):
        lines.append("All comments must be resolved.")
    return lines


def _may_push(actor: Actor, classic: Protection) -> bool:
    if classic.restrictions is None:
        return True
    if actor.installation is not None:
        return actor.installation.app.slug in classic.restrictions["apps"]
    account = actor.account
    return account is not None and account.login in classic.restrictions["users"]


async def _ruleset_objections(world: World, ruleset: Ruleset, update: WantedUpdate) -> list[str]:
    lines = []
    for rule in ruleset.rules:
        lines += await commit_rules.rule_objections(rule, update)
        if update.new is not None and not _spared(rule, update):
            pull = demands.pull_with_head(update.repository, update.branch, update.new)
            lines += await demands.rule_demand_objections(
                world, update.repository, rule, pull, update.new
            )
    return lines


def _spared(rule: dict[str, object], update: WantedUpdate) -> bool:
    """Checks may be set not to be enforced on the creation of a branch."""
    wants = rule.get("parameters")
    spared = isinstance(wants, dict) and bool(wants.get("do_not_enforce_on_create"))
    return update.old is None and spared


# --- merging by the button ---


async def objections_to_merge(world: World, pull: PullRequest) -> list[str]:
    """Why the merge button would refuse."""
    repository, branch = pull.repository, pull.base_ref
    lines: list[str] = []
    classic = classic_for(repository, branch)
    if classic is not None:
        if classic.lock_branch:
            lines.append("Cannot change this locked branch")
        lines += demands.check_objections(repository, classic.status_checks, pull.head_sha)
        lines += await demands.review_objections(world, repository, classic.reviews, pull)
        if classic.conversation_resolution and demands.has_open_threads(pull):
            lines.append("All comments must be resolved.")
    for _, rule in rules_for(repository, branch):
        lines += await demands.rule_demand_objections(world, repository, rule, pull, pull.head_sha)
    return list(dict.fromkeys(lines))


def may_bypass(world: World, actor: Actor, repository: Repository, branch: str) -> bool:
    """Whether the merge button gives way to this actor in spite of objections."""
    classic = classic_for(repository, branch)
    passes = classic is None or rulebook.passes_classic(world, actor, repository, classic)
    return passes and all(
        rulebook.bypass_of(world, actor, repository, ruleset) != "never"
        for ruleset in rulesets_for(repository, branch)
    )
