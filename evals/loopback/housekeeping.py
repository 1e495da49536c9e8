"""What befalls whole repositories: made, renamed, transferred, archived, forked, deleted.

In: an actor and a wish. Out: the changed record; `repository` events are published. Ids stay
through all of it, names do not, and old names redirect.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from evals.loopback import shapes
from evals.loopback.auth import Actor
from evals.loopback.bare import clone_bare
from evals.loopback.errors import forbidden, invalid_field
from evals.loopback.state import (
    Account,
    Json,
    Repository,
    Role,
)
from evals.loopback.world import World

_BARE_CONFIG = {
    "http.receivepack": "true",
    "receive.fsckObjects": "true",
    "receive.denyDeleteCurrent": "ignore",  # the hook says it in GitHub's words
    "uploadpack.allowFilter": "true",
    "uploadpack.allowAnySHA1InWant": "true",  # as GitHub does
    "gc.auto": "0",
    "core.logAllRefUpdates": "false",
}


async def make_repository(
    world: World, owner: Account, name: str, source: Path, *, config: Path, hooks: Path
) -> Repository:
    """A repository here, from any repository on disk; its HEAD becomes the default branch."""
    number = world.next_id()
    git = await clone_bare(source, config.parent / f"{number}.git", config)
    for key, value in {**_BARE_CONFIG, "core.hooksPath": str(hooks)}.items():
        await git.run("config", key, value)
    repository = Repository(
        id=number,
        owner=owner,
        name=name,
        git=git,
        default_branch=await git.default_branch(),
        created_at=world.now(),
    )
    world.repositories[number] = repository
    return repository


def grant(world: World, repository: Repository, account: Account, role: Role | str) -> None:
    """Give somebody a role; tests may pass a custom role's name, which stands on write."""
    del world
    if role == "none":
        repository.collaborators.pop(account.id, None)
        return
    repository.collaborators[account.id] = role  # type: ignore[assignment]


@dataclass(frozen=True, kw_only=True)
class Changes:
    """Settings of a repository to change; None leaves one as it is."""

    name: str | None = None
    archived: bool | None = None
    private: bool | None = None
    default_branch: str | None = None
    delete_branch_on_merge: bool | None = None
    description: str | None = None


async def edit(world: World, actor: Actor, repository: Repository, wanted: Changes) -> None:
    """Change settings; each kind of change is an event of its own."""
    for quiet in ("description", "delete_branch_on_merge"):
        if getattr(wanted, quiet) is not None:
            setattr(repository, quiet, getattr(wanted, quiet))
    if wanted.default_branch not in (None, repository.default_branch):
        await _change_default_branch(world, actor, repository, str(wanted.default_branch))
    if wanted.name not in (None, repository.name):
        _rename(world, actor, repository, str(wanted.name))
    if wanted.private not in (None, repository.private):
        repository.private = bool(wanted.private)
        _publish(world, actor, repository, "privatized" if wanted.private else "publicized")
    if wanted.archived not in (None, repository.archived):
        repository.archived = bool(wanted.archived)
        _publish(world, actor, repository, "archived" if wanted.archived else "unarchived")


async def _change_default_branch(
    world: World, actor: Actor, repository: Repository, branch: str
) -> None:
    if await repository.git.branch(branch) is None:
        raise invalid_field("Repository", "default_branch")
    await repository.git.run("symbolic-ref", "HEAD", f"refs/heads/{branch}")
    changes = {"default_branch": {"from": repository.default_branch}}
    repository.default_branch = branch
    _publish(world, actor, repository, "edited", changes=changes)


def _rename(world: World, actor: Actor, repository: Repository, name: str) -> None:
    if world.repository(repository.owner.login, name) is not None:
        raise invalid_field("Repository", "name", "custom", message="name already exists")
    repository.former_names.add(repository.full_name.casefold())
    changes = {"repository": {"name": {"from": repository.name}}}
    repository.name = name
    repository.former_names.discard(repository.full_name.casefold())
    _publish(world, actor, repository, "renamed", changes=changes)


def transfer(world: World, actor: Actor, repository: Repository, to: Account) -> None:
    """Another owner: installations on the old account see it no more."""
    before = repository.owner
    kind = "organization" if before.type == "Organization" else "user"
    changes = {"owner": {"from": {kind: shapes.user(world, before)}}}
    repository.former_names.add(repository.full_name.casefold())
    _publish(world, actor, repository, "transferred", changes=changes)
    repository.owner = to
    repository.former_names.discard(repository.full_name.casefold())
    _publish(world, actor, repository, "transferred", changes=changes)


def delete(world: World, actor: Actor, repository: Repository) -> None:
    """Gone, with its Git data."""
    _publish(world, actor, repository, "deleted")
    repository.deleted = True
    shutil.rmtree(repository.git.path, ignore_errors=True)


async def fork(world: World, actor: Actor, repository: Repository) -> Repository:
    """A copy under the actor's own account; asking twice gives the same one."""
    who = actor.who()
    if who.type != "User":
        raise forbidden()
    known = world.repository(who.login, repository.name)
    if known is not None:
        return known
    config = repository.git.path.parent / "gitconfig"
    hooks = repository.git.path.parent / "hooks"
    copy = await make_repository(
        world, who, repository.name, repository.git.path, config=config, hooks=hooks
    )
    copy.parent, copy.private = repository, repository.private
    return copy


def _publish(world: World, actor: Actor, repository: Repository, action: str, **more: Json) -> None:
    world.webhooks.publish(
        "repository", action, dict(more), repository=repository, sender=actor.who()
    )
