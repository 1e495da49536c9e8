"""Which rules hold for a branch, and whom they do not bind.

In: a repository and a branch. Out: its classic protection and every rule of every active ruleset.
https://docs.github.com/repositories/configuring-branches-and-merges-in-your-repository
"""

from __future__ import annotations

from wcmatch import glob

from evals.loopback.auth import Actor
from evals.loopback.state import ROLES, Json, Protection, Repository, Role, Ruleset
from evals.loopback.world import World

_FLAGS = glob.GLOBSTAR | glob.FORCEUNIX | glob.DOTGLOB  # `*` stops at a slash, as on GitHub
_ROLES_BY_ID: dict[int, Role] = {5: "admin", 4: "write", 2: "maintain"}  # GitHub's ids of roles


def classic_for(repository: Repository, branch: str) -> Protection | None:
    """The classic protection of a branch: an exact name goes before a pattern."""
    if branch in repository.protections:
        return repository.protections[branch]
    patterns = (p for p in repository.protections.values() if _fits(branch, p.branch))
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


def rules_for(repository: Repository, branch: str) -> list[tuple[Ruleset, Json]]:
    """Every single rule of every ruleset that holds for the branch."""
    return [
        (ruleset, rule) for ruleset in rulesets_for(repository, branch) for rule in ruleset.rules
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
    return _fits(f"refs/heads/{branch}", pattern)


def _fits(name: str, pattern: str) -> bool:
    return bool(glob.globmatch(name, pattern, flags=_FLAGS))


# --- who gets around them ---


def passes_classic(world: World, actor: Actor, repository: Repository, classic: Protection) -> bool:
    """Admins are bound only where protection says so; a locked branch binds everybody."""
    is_admin = actor.installation is None and world.role(actor.account, repository) == "admin"
    return is_admin and not classic.enforce_admins and not classic.lock_branch


def may_skip_pull_requests(actor: Actor, wants: Json | None) -> bool:
    """Whether classic protection lets this actor push without a pull request."""
    allowed = (wants or {}).get("bypass_pull_request_allowances") or {}
    if actor.installation is not None:
        return actor.installation.app.slug in allowed.get("apps", [])
    return actor.account is not None and actor.account.login in allowed.get("users", [])


def bypass_of(world: World, actor: Actor, repository: Repository, ruleset: Ruleset) -> str:
    """How the actor gets around a ruleset: `always`, `pull_requests_only` or `never`."""
    modes = [
        bypass.get("bypass_mode", "always")
        for bypass in ruleset.bypass_actors
        if _is_meant(world, actor, repository, bypass)
    ]
    if "always" in modes:
        return "always"
    return "pull_requests_only" if modes else "never"


def _is_meant(world: World, actor: Actor, repository: Repository, bypass: Json) -> bool:
    kind, number = bypass.get("actor_type"), bypass.get("actor_id")
    if kind == "Integration":
        return actor.installation is not None and actor.installation.app.id == number
    if actor.installation is not None:
        return False
    if kind == "OrganizationAdmin":
        return actor.account is repository.owner
    wanted = _ROLES_BY_ID.get(number or 0)
    have = world.role(actor.account, repository)
    return (
        kind == "RepositoryRole"
        and bool(wanted)
        and ROLES.index(have) >= ROLES.index(wanted or "admin")
    )
