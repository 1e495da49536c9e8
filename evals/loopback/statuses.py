"""Commit statuses, the older kind of check: anybody who may write the repository sets them.

In: an actor and the request's values. Out: the record, or a refusal; the event is published.
"""

from __future__ import annotations

from evals.loopback import shapes
from evals.loopback.auth import Actor, demand
from evals.loopback.errors import invalid, invalid_field
from evals.loopback.state import CommitStatus, Json, Repository
from evals.loopback.world import World

STATES = ("error", "failure", "pending", "success")


async def set_status(
    world: World, actor: Actor, repository: Repository, sha: str, wanted: Json
) -> CommitStatus:
    """Set the status of a commit in one context."""
    demand(world, actor, repository, "statuses", "write", "write")
    if wanted.get("state") not in STATES:
        raise invalid_field("Status", "state")
    if await repository.git.resolve(sha) != sha:
        raise invalid(f"No commit found for SHA: {sha}", message="No commit found for SHA")
    status = CommitStatus(
        id=world.next_id(),
        sha=sha,
        state=wanted["state"],
        context=wanted.get("context") or "default",
        description=wanted.get("description"),
        target_url=wanted.get("target_url"),
        creator=actor.who(),
        app=actor.app,
        created_at=world.now(),
    )
    repository.statuses.append(status)
    await _publish_status(world, actor, repository, status)
    return status


async def _publish_status(
    world: World, actor: Actor, repository: Repository, status: CommitStatus
) -> None:
    commit = await repository.git.commit(status.sha)
    refs = await repository.git.refs("refs/heads/")
    heads = [ref for ref, tip in refs.items() if tip == status.sha]
    shown = shapes.commit_status(world, repository, status)
    content: Json = {
        **{k: shown[k] for k in ("id", "state", "description", "target_url", "context")},
        **{k: shown[k] for k in ("created_at", "updated_at", "avatar_url")},
        "sha": status.sha,
        "name": repository.full_name,
        "commit": shapes.commit(world, repository, commit),
        "branches": [shapes.short_branch(world, repository, ref, status.sha) for ref in heads],
    }
    world.webhooks.publish("status", None, content, repository=repository, sender=actor.who())


def latest(repository: Repository, sha: str) -> list[CommitStatus]:
    """The newest status of every context on a commit, newest first."""
    newest: dict[str, CommitStatus] = {}
    for status in repository.statuses:
        if status.sha == sha:
            newest[status.context] = status
    return sorted(newest.values(), key=lambda status: -status.id)
