"""What follows when refs have changed, whoever changed them and however.

In: the changes of one push (or of one REST call, or one merge). Out: `push` events, pull requests
that follow their branch, get marked merged or close, issues closed by keywords, check suites.
"""

from __future__ import annotations

from dataclasses import dataclass

from evals.loopback import checks, demands, issues, shapes
from evals.loopback.auth import Actor
from evals.loopback.bare import ZERO
from evals.loopback.git_output import GitPerson
from evals.loopback.shapes.repositories import api_of, html_of
from evals.loopback.shapes.users import moment
from evals.loopback.state import (
    Json,
    PullRequest,
    Repository,
)
from evals.loopback.world import World

_COMMITS_IN_EVENT = 2048


@dataclass(frozen=True)
class RefChange:
    """One ref before and after; None where it did not exist."""

    ref: str
    old: str | None
    new: str | None

    @property
    def branch(self) -> str | None:
        """The branch's name, or None for tags and other refs."""
        prefix = "refs/heads/"
        return self.ref.removeprefix(prefix) if self.ref.startswith(prefix) else None


def difference(before: dict[str, str], after: dict[str, str]) -> list[RefChange]:
    """The changes between two listings of refs."""
    changed = [ref for ref in {**before, **after} if before.get(ref) != after.get(ref)]
    return [RefChange(ref, before.get(ref), after.get(ref)) for ref in sorted(changed)]


async def after_push(
    world: World, repository: Repository, actor: Actor, changes: list[RefChange]
) -> None:
    """Let everything that hangs on these refs follow."""
    repository.pushed_at = world.now() if changes else repository.pushed_at
    for change in changes:
        if change.ref.startswith(("refs/heads/", "refs/tags/")):
            await _publish_push(world, repository, actor, change)
        if change.branch is not None:
            await _pulls_follow(world, repository, actor, change)
        if change.branch == repository.default_branch and change.new is not None:
            await _close_by_commits(world, repository, actor, change)
        if change.branch is not None and change.new is not None:
            await checks.request_suites(
                world, repository, actor, change.new, branch=change.branch, before=change.old
            )


# --- pull requests ---


async def _pulls_follow(
    world: World, repository: Repository, actor: Actor, change: RefChange
) -> None:
    for base in [r for r in world.repositories.values() if not r.deleted]:
        for pull in base.pulls():
            is_head = pull.head_repository is repository and pull.head_ref == change.branch
            if pull.open and is_head:
                world.later(world.pull_head_lag_seconds, _head_moved(world, actor, pull, change))
    for pull in repository.pulls():
        if pull.open and pull.base_ref == change.branch:
            await _base_moved(world, actor, pull, change)


async def _head_moved(world: World, actor: Actor, pull: PullRequest, change: RefChange) -> None:
    if not pull.open:
        return
    if change.new is None:
        issues.set_closed(world, actor, pull.issue)
        return
    await follow_head(world, actor, pull, change.new)


async def follow_head(world: World, actor: Actor, pull: PullRequest, tip: str) -> None:
    """Make the pull request show the commit its branch points to."""
    if tip == pull.head_sha:
        return
    git = pull.repository.git
    if pull.head_repository is not pull.repository:
        await git.run("fetch", "--quiet", str(pull.head_repository.git.path), tip)
    await git.run("update-ref", f"refs/pull/{pull.number}/head", tip)
    before, pull.head_sha = pull.head_sha, tip
    pull.base_sha = await git.branch(pull.base_ref) or pull.base_sha
    pull.last_pusher = actor.account
    pull.issue.updated_at = world.now()
    publish = world.webhooks.publish
    content: Json = {
        "number": pull.number,
        "pull_request": shapes.pull_event(world, pull),
        "before": before,
        "after": tip,
    }
    publish("pull_request", "synchronize", content, repository=pull.repository, sender=actor.who())
    demands.dismiss_stale(world, actor, pull)
    if await git.is_ancestor(tip, f"refs/heads/{pull.base_ref}"):
        issues.set_closed(world, actor, pull.issue)


async def _base_moved(world: World, actor: Actor, pull: PullRequest, change: RefChange) -> None:
    """GitHub marks a pull request merged when its head is reached by the default branch."""
    if change.new is None:
        issues.set_closed(world, actor, pull.issue)
        return
    if pull.base_ref != pull.repository.default_branch:
        return
    git = pull.repository.git
    head = await pull.head_repository.git.branch(pull.head_ref) or pull.head_sha
    had_it = change.old is not None and await git.is_ancestor(head, change.old)
    if not had_it and await git.is_ancestor(head, change.new):
        if world.merged_lag_seconds:
            marking = _mark_if_open(world, actor, pull, head)
            world.later(world.merged_lag_seconds, marking)
        else:
            await _mark_if_open(world, actor, pull, head)


async def _mark_if_open(world: World, actor: Actor, pull: PullRequest, head: str) -> None:
    if pull.open:
        pull.head_sha = head
        await mark_merged(world, actor, pull, head)


async def mark_merged(world: World, actor: Actor, pull: PullRequest, sha: str) -> None:
    """Show the pull request as merged, close what it closes, delete its branch if so set."""
    pull.merged_at, pull.merged_by, pull.merge_commit_sha = world.now(), actor.who(), sha
    issues.set_closed(world, actor, pull.issue)
    here = pull.repository
    if pull.base_ref == here.default_branch:
        for number in issues.closed_by_text(pull.issue.body or "", here):
            _close_issue(world, actor, here, number)
    if here.delete_branch_on_merge and pull.head_repository is here:
        ref, old = f"refs/heads/{pull.head_ref}", await here.git.branch(pull.head_ref)
        if old is not None and await here.git.delete_ref(ref, old):
            await after_push(world, here, actor, [RefChange(ref, old, None)])


async def _close_by_commits(
    world: World, repository: Repository, actor: Actor, change: RefChange
) -> None:
    if change.new is None or change.old is None:
        return
    for sha in await repository.git.between(change.old, change.new):
        commit = await repository.git.commit(sha)
        for number in issues.closed_by_text(commit.message, repository):
            _close_issue(world, actor, repository, number)


def _close_issue(world: World, actor: Actor, repository: Repository, number: int) -> None:
    issue = repository.issues.get(number)
    if issue is not None and issue.pull is None:
        issues.set_closed(world, actor, issue)


def person_of(world: World, actor: Actor) -> GitPerson:
    """The author of commits that GitHub makes for somebody."""
    who = actor.who()
    return GitPerson(who.name or who.login, who.email, world.now())


# --- the event ---


async def _publish_push(
    world: World, repository: Repository, actor: Actor, change: RefChange
) -> None:
    git, who = repository.git, actor.who()
    forced = False
    shown: list[Json] = []
    if change.new is not None and change.branch is not None:
        forced = change.old is not None and not await git.is_ancestor(change.old, change.new)
        start = change.old or await git.branch(repository.default_branch)
        start = None if start == change.new else start
        for sha in await git.between(start, change.new, limit=_COMMITS_IN_EVENT):
            commit = await git.commit(sha)
            files = await git.changes(commit.parents[0], sha) if commit.parents else []
            shown.append(shapes.webhook_commit(world, repository, commit, files))
    old, new = change.old or ZERO, change.new or ZERO
    html = html_of(world, repository)
    payload: Json = {
        "ref": change.ref,
        "before": old,
        "after": new,
        "base_ref": None,
        "created": change.old is None,
        "deleted": change.new is None,
        "forced": forced,
        "compare": f"{html}/compare/{old[:12]}...{new[:12]}",
        "commits": shown,
        "head_commit": shown[-1] if shown else None,
        "pusher": {"name": who.login, "email": who.email},
        "repository": _repository_of_push(world, repository),
    }
    world.webhooks.publish("push", None, payload, repository=repository, sender=who)


def _repository_of_push(world: World, repository: Repository) -> Json:
    """In `push` events the times are numbers and the owner has a name."""
    shown = shapes.repository(world, repository)
    pushed = repository.pushed_at or repository.created_at
    return {
        **shown,
        "created_at": int(repository.created_at.timestamp()),
        "updated_at": moment(repository.created_at),
        "pushed_at": int(pushed.timestamp()),
        "url": api_of(world, repository),
        "owner": {**shown["owner"], "name": repository.owner.login, "email": None},
        "stargazers": 0,
        "master_branch": repository.default_branch,
    }
