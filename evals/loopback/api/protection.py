"""Branch protection and rulesets: https://docs.github.com/rest/branches and /rest/repos/rules."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from evals.loopback.api.call import At, Repo, Values
from evals.loopback.errors import GitHubError, forbidden, invalid_field, not_found
from evals.loopback.rulebook import bypass_of, rules_for
from evals.loopback.shapes import protection as shape
from evals.loopback.state import Json, Protection, Ruleset

router = APIRouter()
_AT = "/repos/{owner}/{name}"


# --- classic protection ---


@router.get(_AT + "/branches/{branch:path}/protection")
async def get_protection(at: Repo, branch: str) -> Json:
    """The protection of a branch; 404 "Branch not protected" without one."""
    at.demand("administration", "read", "admin")
    return shape.protection(at.world, at.repository, branch, await _known(at, branch))


def _demand_plan(at: At) -> None:
    """Private repositories of accounts that do not pay have no protection at all."""
    if not at.repository.rules_in_plan:
        raise forbidden(
            "Upgrade to GitHub Pro or make this repository public to enable this feature."
        )


async def _known(at: At, branch: str) -> Protection:
    _demand_plan(at)
    if await at.repository.git.branch(branch) is None:
        raise GitHubError(404, "Branch not found")
    if branch not in at.repository.protections:
        raise GitHubError(404, "Branch not protected")
    return at.repository.protections[branch]


@router.put(_AT + "/branches/{branch:path}/protection")
async def set_protection(at: Repo, branch: str) -> Json:
    """Protect a branch; four settings must be named, null switches one off."""
    at.demand("administration", "write", "admin")
    if await at.repository.git.branch(branch) is None:
        raise GitHubError(404, "Branch not found")
    record = protection_from(branch, await at.values())
    at.repository.protections[branch] = record
    return shape.protection(at.world, at.repository, branch, record)


def protection_from(branch: str, values: Values) -> Protection:
    """What a `PUT …/protection` body asks for."""
    for field in (
        "required_status_checks",
        "enforce_admins",
        "required_pull_request_reviews",
        "restrictions",
    ):
        if field not in values.all:
            message = f'Invalid request.\n\n"{field}" wasn\'t supplied.'
            raise GitHubError(422, message)
    return Protection(
        branch=branch,
        enforce_admins=values.flag("enforce_admins"),
        status_checks=_status_checks(values.all["required_status_checks"]),
        reviews=values.all["required_pull_request_reviews"],
        restrictions=_restrictions(values.all["restrictions"]),
        linear_history=values.flag("required_linear_history"),
        allow_force_pushes=values.flag("allow_force_pushes"),
        allow_deletions=values.flag("allow_deletions"),
        block_creations=values.flag("block_creations"),
        conversation_resolution=values.flag("required_conversation_resolution"),
        lock_branch=values.flag("lock_branch"),
    )


def _status_checks(wanted: Json | None) -> Json | None:
    if wanted is None:
        return None
    named = [{"context": c, "app_id": None} for c in wanted.get("contexts") or []]
    known = {check["context"] for check in wanted.get("checks") or []}
    checks = list(wanted.get("checks") or [])
    checks += [check for check in named if check["context"] not in known]
    return {"strict": bool(wanted.get("strict")), "checks": checks}


def _restrictions(wanted: Json | None) -> Json | None:
    if wanted is None:
        return None
    return {kind: list(wanted.get(kind) or []) for kind in ("users", "teams", "apps")}


@router.delete(_AT + "/branches/{branch:path}/protection", status_code=204)
async def remove_protection(at: Repo, branch: str) -> Response:
    """Unprotect a branch."""
    at.demand("administration", "write", "admin")
    await _known(at, branch)
    del at.repository.protections[branch]
    return Response(status_code=204)


@router.get(_AT + "/branches/{branch:path}/protection/required_status_checks")
async def get_status_checks(at: Repo, branch: str) -> Json:
    """The required checks of a branch."""
    at.demand("administration", "read", "admin")
    record = await _known(at, branch)
    if record.status_checks is None:
        raise GitHubError(404, "Required status checks not enabled")
    full = shape.protection(at.world, at.repository, branch, record)
    checks: Json = full["required_status_checks"]
    return checks


@router.post(_AT + "/branches/{branch:path}/protection/required_signatures")
async def demand_signatures(at: Repo, branch: str) -> Json:
    """Demand signed commits."""
    at.demand("administration", "write", "admin")
    record = await _known(at, branch)
    record.signatures = True
    full = shape.protection(at.world, at.repository, branch, record)
    signatures: Json = full["required_signatures"]
    return signatures


# --- rulesets ---


@router.get(_AT + "/rules/branches/{branch:path}")
async def rules_of_branch(at: Repo, branch: str) -> JSONResponse:
    """Every active rule that holds for a branch, whether or not it exists."""
    at.demand("metadata", "read")
    _demand_plan(at)
    found = rules_for(at.repository, branch)
    return at.paged(found, lambda one: shape.rule_of_branch(at.repository, *one))


@router.get(_AT + "/rulesets")
async def list_rulesets(at: Repo) -> JSONResponse:
    """All rulesets, without their rules."""
    at.demand("metadata", "read")
    hidden = ("rules", "conditions", "bypass_actors", "current_user_can_bypass")

    def short(record: Ruleset) -> Json:
        shown = shape.ruleset(at.world, at.repository, record)
        return {key: value for key, value in shown.items() if key not in hidden}

    return at.paged(list(at.repository.rulesets.values()), short)


@router.post(_AT + "/rulesets", status_code=201)
async def create_ruleset(at: Repo) -> Json:
    """Make a ruleset."""
    at.demand("administration", "write", "admin")
    record = ruleset_from(at, await at.values())
    at.repository.rulesets[record.id] = record
    return shape.ruleset(at.world, at.repository, record)


def ruleset_from(at: At, values: Values) -> Ruleset:
    """What a `POST …/rulesets` body asks for."""
    enforcement = values.text("enforcement")
    if enforcement not in ("active", "disabled", "evaluate"):
        raise invalid_field("Ruleset", "enforcement")
    now = at.world.now()
    return Ruleset(
        id=at.world.next_id(),
        name=values.text("name"),
        target=values.maybe_text("target") or "branch",
        enforcement=enforcement,
        bypass_actors=values.all.get("bypass_actors") or [],
        conditions=values.all.get("conditions") or {"ref_name": {"include": [], "exclude": []}},
        rules=values.all.get("rules") or [],
        created_at=now,
        updated_at=now,
    )


def _ruleset(at: At, number: int) -> Ruleset:
    if number not in at.repository.rulesets:
        raise not_found()
    return at.repository.rulesets[number]


@router.get(_AT + "/rulesets/{number}")
async def get_ruleset(at: Repo, number: int) -> Json:
    """One ruleset with its rules."""
    at.demand("metadata", "read")
    record = _ruleset(at, number)
    bypass = bypass_of(at.world, at.actor, at.repository, record)
    shown = shape.ruleset(at.world, at.repository, record, bypass=bypass)
    if at.world.role(at.actor.account, at.repository) != "admin":
        del shown["bypass_actors"]  # shown only to those who may change the ruleset
    return shown


@router.put(_AT + "/rulesets/{number}")
async def change_ruleset(at: Repo, number: int) -> Json:
    """Change a ruleset; what is not named stays."""
    at.demand("administration", "write", "admin")
    record, values = _ruleset(at, number), await at.values()
    for field in ("name", "enforcement", "bypass_actors", "conditions", "rules"):
        if field in values.all:
            setattr(record, field, values.all[field])
    record.updated_at = at.world.now()
    return shape.ruleset(at.world, at.repository, record)


@router.delete(_AT + "/rulesets/{number}", status_code=204)
async def delete_ruleset(at: Repo, number: int) -> Response:
    """Remove a ruleset."""
    at.demand("administration", "write", "admin")
    del at.repository.rulesets[_ruleset(at, number).id]
    return Response(status_code=204)
