"""Repositories, branches, collaborators: https://docs.github.com/rest/repos."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from evals.loopback import housekeeping, shapes
from evals.loopback.api.call import At, Caller, Repo
from evals.loopback.errors import GitHubError, forbidden, invalid_field, not_found
from evals.loopback.rulebook import classic_for, rules_for
from evals.loopback.shapes.protection import protection_summary
from evals.loopback.shapes.repositories import api_of, html_of
from evals.loopback.state import ROLES, Account, Json, Role

router = APIRouter()


@router.get("/repos/{owner}/{name}")
async def get_repository(at: Repo) -> Json:
    """One repository, with what the speaker may do there."""
    role = at.world.role(at.actor.account, at.repository)
    if at.actor.installation is not None:
        role = _role_of_app(at)
    return shapes.full_repository(at.world, at.repository, role)


def _role_of_app(at: At) -> Role:
    permissions = (at.actor.token and at.actor.token.permissions) or {}
    if permissions.get("administration") == "write":
        return "admin"
    return "write" if permissions.get("contents") == "write" else "read"


@router.patch("/repos/{owner}/{name}")
async def edit_repository(at: Repo) -> Json:
    """Rename, archive, change the default branch or the visibility."""
    at.demand("administration", "write" if not at.repository.archived else "read", "admin")
    values = await at.values()
    wanted = housekeeping.Changes(
        name=values.maybe_text("name"),
        archived=values.all.get("archived"),
        private=values.all.get("private"),
        default_branch=values.maybe_text("default_branch"),
        delete_branch_on_merge=values.all.get("delete_branch_on_merge"),
        description=values.maybe_text("description"),
    )
    await housekeeping.edit(at.world, at.actor, at.repository, wanted)
    return shapes.full_repository(at.world, at.repository, "admin")


@router.delete("/repos/{owner}/{name}", status_code=204)
async def delete_repository(at: Repo) -> Response:
    """Delete a repository."""
    at.demand("administration", "write", "admin")
    housekeeping.delete(at.world, at.actor, at.repository)
    return Response(status_code=204)


@router.post("/repos/{owner}/{name}/transfer", status_code=202)
async def transfer_repository(at: Repo) -> Json:
    """Give a repository to another account."""
    at.demand("administration", "write", "admin")
    values = await at.values()
    to = at.world.account(values.text("new_owner"))
    if to is None:
        raise invalid_field("Repository", "new_owner")
    housekeeping.transfer(at.world, at.actor, at.repository, to)
    return shapes.minimal_repository(at.world, at.repository)


@router.post("/repos/{owner}/{name}/forks", status_code=202)
async def fork_repository(at: Repo) -> Json:
    """A copy under the speaker's own account."""
    at.demand("contents", "read")
    fork = await housekeeping.fork(at.world, at.actor, at.repository)
    return shapes.full_repository(at.world, fork, "admin")


@router.get("/user/repos")
async def own_repositories(call: Caller) -> JSONResponse:
    """Repositories the person was let into."""
    who = call.actor.who()
    mine = [
        r
        for r in call.world.repositories.values()
        if not r.deleted and (r.owner is who or who.id in r.collaborators)
    ]
    return call.paged(
        mine, lambda r: shapes.full_repository(call.world, r, call.world.role(who, r))
    )


# --- branches ---


@router.get("/repos/{owner}/{name}/branches")
async def list_branches(at: Repo) -> JSONResponse:
    """All branches."""
    at.demand("contents", "read")
    refs = sorted((await at.repository.git.refs("refs/heads/")).items())
    return at.paged(refs, lambda ref: shapes.short_branch(at.world, at.repository, *ref))


@router.get("/repos/{owner}/{name}/branches/{branch:path}")
async def get_branch(at: Repo, branch: str) -> Json:
    """One branch with its tip and whether it is protected."""
    at.demand("contents", "read")
    sha = await at.repository.git.branch(branch)
    if sha is None:
        raise GitHubError(404, "Branch not found")
    commit = await at.repository.git.commit(sha)
    classic = classic_for(at.repository, branch)
    url = f"{api_of(at.world, at.repository)}/branches/{branch}"
    return {
        "name": branch,
        "commit": shapes.commit(at.world, at.repository, commit),
        "_links": {"self": url, "html": f"{html_of(at.world, at.repository)}/tree/{branch}"},
        "protected": classic is not None or bool(rules_for(at.repository, branch)),
        "protection": protection_summary(classic),
        "protection_url": f"{url}/protection",
    }


# --- collaborators ---


@router.get("/repos/{owner}/{name}/collaborators")
async def list_collaborators(at: Repo) -> JSONResponse:
    """People with a grant of their own."""
    at.demand("metadata", "read", "write")
    accounts = [at.world.accounts[number] for number in at.repository.collaborators]
    return at.paged(accounts, lambda account: _collaborator(at, account))


def _collaborator(at: At, account: Account) -> Json:
    role = at.world.role(account, at.repository)
    shown = shapes.user(at.world, account)
    return {
        **shown,
        "permissions": shapes.permissions_of(role),
        "role_name": _role_name(at, account, role),
    }


def _role_name(at: At, account: Account, role: Role) -> str:
    return at.repository.role_names.get(account.id, role)


@router.get("/repos/{owner}/{name}/collaborators/{login}/permission")
async def permission(at: Repo, login: str) -> Json:
    """What somebody may do; the word `permission` folds maintain into write, triage into read.

    https://docs.github.com/rest/collaborators/collaborators#get-repository-permissions-for-a-user
    """
    at.demand("metadata", "read", "read")
    if at.actor.account is None:
        raise GitHubError(401, "Requires authentication")
    account = at.world.account(login)
    if account is None:
        raise GitHubError(404, f"{login} is not a user")
    role = at.world.role(account, at.repository)
    folded = {"maintain": "write", "triage": "read"}.get(role, role)
    return {
        "permission": folded,
        "user": _collaborator(at, account),
        "role_name": _role_name(at, account, role),
    }


@router.get("/repos/{owner}/{name}/collaborators/{login}", status_code=204)
async def is_collaborator(at: Repo, login: str) -> Response:
    """204 for collaborators, 404 for others."""
    at.demand("metadata", "read", "write")
    account = at.world.account(login)
    if account is None or account.id not in at.repository.collaborators:
        raise not_found()
    return Response(status_code=204)


@router.put("/repos/{owner}/{name}/collaborators/{login}", status_code=204)
async def add_collaborator(at: Repo, login: str) -> Response:
    """Grant a role."""
    at.demand("administration", "write", "admin")
    values = await at.values()
    wanted = values.maybe_text("permission") or "push"
    role = {"pull": "read", "push": "write"}.get(wanted, wanted)
    account = at.world.account(login)
    if account is None:
        raise not_found()
    if role not in ROLES:
        raise invalid_field("Collaborator", "permission")
    housekeeping.grant(at.world, at.repository, account, role)
    return Response(status_code=204)


@router.delete("/repos/{owner}/{name}/collaborators/{login}", status_code=204)
async def remove_collaborator(at: Repo, login: str) -> Response:
    """Take a role away."""
    at.demand("administration", "write", "admin")
    account = at.world.account(login)
    if account is None:
        raise not_found()
    if account is at.repository.owner:
        raise forbidden("Cannot remove the owner")
    at.repository.collaborators.pop(account.id, None)
    return Response(status_code=204)


@router.get("/repos/{owner}/{name}/teams")
async def list_teams(at: Repo) -> JSONResponse:
    """Teams of the organization that have access."""
    at.demand("administration", "read", "read")
    teams = list(at.repository.teams)
    return at.paged(teams, lambda slug: shapes.team(at.world, at.repository, slug))
