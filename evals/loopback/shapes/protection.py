"""Branch protection and rulesets as JSON."""

from __future__ import annotations

from evals.loopback.shapes.apps import app
from evals.loopback.shapes.pulls import team
from evals.loopback.shapes.repositories import api_of, html_of
from evals.loopback.shapes.users import moment, user
from evals.loopback.state import (
    Json,
    Protection,
    Repository,
    Ruleset,
    node_id,
)
from evals.loopback.world import World


def protection_summary(record: Protection | None) -> Json:
    """The short `protection` of a branch; without protection it is switched off."""
    checks = (record.status_checks if record else None) or {"checks": []}
    level = (
        "off"
        if not checks["checks"]
        else "everyone"
        if record and record.enforce_admins
        else "non_admins"
    )
    contexts = [check["context"] for check in checks["checks"]]
    return {
        "enabled": record is not None,
        "required_status_checks": {
            "enforcement_level": level,
            "contexts": contexts,
            "checks": [_check(check) for check in checks["checks"]],
        },
    }


def protection(world: World, repository: Repository, branch: str, record: Protection) -> Json:
    """A `branch-protection`: settings that are off are left out or `enabled: false`."""
    url = f"{api_of(world, repository)}/branches/{branch}/protection"
    shape: Json = {
        "url": url,
        "required_signatures": {
            "url": f"{url}/required_signatures",
            "enabled": record.signatures,
        },
        "enforce_admins": {"url": f"{url}/enforce_admins", "enabled": record.enforce_admins},
        "required_linear_history": {"enabled": record.linear_history},
        "allow_force_pushes": {"enabled": record.allow_force_pushes},
        "allow_deletions": {"enabled": record.allow_deletions},
        "block_creations": {"enabled": record.block_creations},
        "required_conversation_resolution": {"enabled": record.conversation_resolution},
        "lock_branch": {"enabled": record.lock_branch},
        "allow_fork_syncing": {"enabled": False},
    }
    if record.status_checks is not None:
        shape["required_status_checks"] = status_checks(url, record.status_checks)
    if record.reviews is not None:
        shape["required_pull_request_reviews"] = {
            "url": f"{url}/required_pull_request_reviews",
            "dismiss_stale_reviews": bool(record.reviews.get("dismiss_stale_reviews")),
            "require_code_owner_reviews": bool(record.reviews.get("require_code_owner_reviews")),
            "required_approving_review_count": int(
                record.reviews.get("required_approving_review_count") or 0
            ),
            "require_last_push_approval": bool(record.reviews.get("require_last_push_approval")),
        }
        allowed = record.reviews.get("bypass_pull_request_allowances")
        if allowed is not None:
            named = {kind: allowed.get(kind, []) for kind in ("users", "teams", "apps")}
            shape["required_pull_request_reviews"]["bypass_pull_request_allowances"] = _named(
                world, repository, named
            )
    if record.restrictions is not None:
        shape["restrictions"] = restrictions(world, repository, url, record.restrictions)
    return shape


def status_checks(url: str, wanted: Json) -> Json:
    """The `required_status_checks` of a protection."""
    return {
        "url": f"{url}/required_status_checks",
        "strict": bool(wanted.get("strict")),
        "contexts": [check["context"] for check in wanted["checks"]],
        "contexts_url": f"{url}/required_status_checks/contexts",
        "checks": [_check(check) for check in wanted["checks"]],
    }


def _check(check: Json) -> Json:
    app_id = check.get("app_id")
    return {"context": check["context"], "app_id": None if app_id == -1 else app_id}


def restrictions(world: World, repository: Repository, url: str, wanted: Json) -> Json:
    """Who may push at all."""
    return {
        "url": f"{url}/restrictions",
        "users_url": f"{url}/restrictions/users",
        "teams_url": f"{url}/restrictions/teams",
        "apps_url": f"{url}/restrictions/apps",
        **_named(world, repository, wanted),
    }


def _named(world: World, repository: Repository, wanted: Json) -> Json:
    people = [world.account(login) for login in wanted["users"]]
    return {
        "users": [user(world, account) for account in people if account],
        "teams": [team(world, repository, slug) for slug in wanted["teams"]],
        "apps": [app(world, one) for one in world.apps.values() if one.slug in wanted["apps"]],
    }


def ruleset(
    world: World, repository: Repository, record: Ruleset, *, bypass: str = "never"
) -> Json:
    """A `repository-ruleset`; `bypass` is how the speaker gets around it."""
    url = f"{api_of(world, repository)}/rulesets/{record.id}"
    return {
        "id": record.id,
        "name": record.name,
        "target": record.target,
        "source_type": "Repository",
        "source": repository.full_name,
        "enforcement": record.enforcement,
        "bypass_actors": record.bypass_actors,
        "current_user_can_bypass": bypass,
        "node_id": node_id("RRS", record.id),
        "_links": {
            "self": {"href": url},
            "html": {"href": f"{html_of(world, repository)}/rules/{record.id}"},
        },
        "conditions": record.conditions,
        "rules": record.rules,
        "created_at": moment(record.created_at),
        "updated_at": moment(record.updated_at),
    }


def rule_of_branch(repository: Repository, record: Ruleset, rule: Json) -> Json:
    """A `repository-rule-detailed`: a rule with the ruleset it comes from."""
    return {
        **rule,
        "ruleset_source_type": "Repository",
        "ruleset_source": repository.full_name,
        "ruleset_id": record.id,
    }
