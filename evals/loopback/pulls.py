"""What may be done with pull requests: open, edit, draft, request reviewers, merge, and the facts.

In: an actor and a wish. Out: the changed record or a refusal; webhooks are published on the way.
Reviews are in `reviews.py`; what a push does to a pull request is in `pushes.py`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from evals.loopback import codeowners, demands, issues, protection, pushes, shapes
from evals.loopback.auth import Actor, demand, may
from evals.loopback.errors import GitHubError, invalid, invalid_field, not_found
from evals.loopback.git_output import GitPerson
from evals.loopback.shapes import PullFacts
from evals.loopback.state import (
    Account,
    PullRequest,
    Repository,
    Role,
)
from evals.loopback.world import World

PERMISSION = "pull_requests"


def find(repository: Repository, number: int) -> PullRequest:
    """The pull request of that number; 404 without one."""
    issue = repository.issues.get(number)
    if issue is None or issue.pull is None:
        raise not_found()
    return issue.pull


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """What a new pull request says; `head` is a branch here or `owner:branch` in a fork."""

    title: str
    body: str | None
    base: str
    head: str
    draft: bool = False
    maintainer_can_modify: bool = False


async def open_pull(
    world: World, actor: Actor, repository: Repository, wanted: Proposal
) -> PullRequest:
    """Open a pull request."""
    demand(world, actor, repository, PERMISSION, "write", "read")
    base, (source, branch) = wanted.base, _head_of(world, repository, wanted.head)
    base_sha, head_sha = await repository.git.branch(base), await source.git.branch(branch)
    if base_sha is None:
        raise invalid_field("PullRequest", "base")
    if head_sha is None:
        raise invalid_field("PullRequest", "head")
    if wanted.draft and not repository.drafts_allowed:
        raise invalid("Draft pull requests are not supported in this repository.")
    await _demand_new(repository, source, branch, base, head_sha)
    issue = issues.new_issue(world, actor, repository, title=wanted.title, body=wanted.body)
    pull = PullRequest(
        id=world.next_id(),
        issue=issue,
        base_ref=base,
        base_sha=base_sha,
        head_repository=source,
        head_ref=branch,
        head_sha=head_sha,
        draft=wanted.draft,
        maintainer_can_modify=wanted.maintainer_can_modify,
        last_pusher=actor.account,
    )
    issue.pull = pull
    await repository.git.run("update-ref", f"refs/pull/{pull.number}/head", head_sha)
    issues.publish(world, actor, issue, "opened")
    await _ask_code_owners(world, actor, pull)
    return pull


async def _ask_code_owners(world: World, actor: Actor, pull: PullRequest) -> None:
    """GitHub itself asks the code owners of what changes, once it is no draft."""
    if pull.draft:
        return
    names = [owner for owners in await codeowners.owners_of(pull) for owner in owners]
    for name in dict.fromkeys(name.removeprefix("@") for name in names):
        slug = name.split("/", 1)[-1]
        account = None if "/" in name else world.account(name)
        if account and account is not pull.issue.user and _grantee(account, pull.repository):
            _ask(world, actor, pull, account)
        elif "/" in name and slug in pull.repository.teams:
            _ask_team(world, actor, pull, slug)


async def _demand_new(
    repository: Repository, source: Repository, branch: str, base: str, head_sha: str
) -> None:
    for pull in repository.pulls():
        same = pull.head_repository is source and pull.head_ref == branch
        if pull.open and same and pull.base_ref == base:
            message = f"A pull request already exists for {source.owner.login}:{branch}."
            raise invalid({"resource": "PullRequest", "code": "custom", "message": message})
    if source is not repository:
        await repository.git.run("fetch", "--quiet", str(source.git.path), head_sha)
    if await repository.git.is_ancestor(head_sha, f"refs/heads/{base}"):
        message = f"No commits between {base} and {branch}"
        raise invalid({"resource": "PullRequest", "code": "custom", "message": message})


def _head_of(world: World, repository: Repository, head: str) -> tuple[Repository, str]:
    owner, colon, branch = head.partition(":")
    if not colon:
        return repository, head
    if owner.casefold() == repository.owner.login.casefold():
        return repository, branch
    for fork in world.repositories.values():
        if fork.parent is repository and fork.owner.login.casefold() == owner.casefold():
            return fork, branch
    raise invalid_field("PullRequest", "head")


async def edit(
    world: World,
    actor: Actor,
    pull: PullRequest,
    *,
    title: str | None = None,
    body: str | None = None,
    base: str | None = None,
) -> None:
    """Change title, body or the branch it aims at."""
    issues.edit(world, actor, pull.issue, title=title, body=body)
    if base is None or base == pull.base_ref:
        return
    issues.demand_edit(world, actor, pull.issue)
    sha = await pull.repository.git.branch(base)
    if sha is None:
        raise invalid_field("PullRequest", "base")
    changes = {"base": {"ref": {"from": pull.base_ref}, "sha": {"from": pull.base_sha}}}
    pull.base_ref, pull.base_sha = base, sha
    pull.issue.updated_at = world.now()
    issues.publish(world, actor, pull.issue, "edited", changes=changes)


async def reopen(world: World, actor: Actor, pull: PullRequest) -> None:
    """Open a closed pull request again, if its branch is still there and it was not merged."""
    tip = await pull.head_repository.git.branch(pull.head_ref)
    if pull.merged_at is not None or tip is None:
        raise invalid_field("PullRequest", "state", "custom", message="cannot be reopened")
    issues.reopen(world, actor, pull.issue)
    await pushes.follow_head(world, actor, pull, tip)


async def set_draft(world: World, actor: Actor, pull: PullRequest, *, draft: bool) -> None:
    """Mark ready for review, or a draft again; Apps need contents and pull requests to write."""
    own = actor.installation is None and actor.account is pull.issue.user
    role: Role = "read" if own else "write"
    demand(world, actor, pull.repository, PERMISSION, "write", role)
    demand(world, actor, pull.repository, "contents", "write", role)
    if pull.draft == draft:
        return
    if draft and not pull.repository.drafts_allowed:
        raise invalid("Draft pull requests are not supported in this repository.")
    pull.draft = draft
    pull.issue.updated_at = world.now()
    issues.publish(world, actor, pull.issue, "converted_to_draft" if draft else "ready_for_review")
    await _ask_code_owners(world, actor, pull)


def request_reviewers(
    world: World, actor: Actor, pull: PullRequest, logins: Sequence[str], teams: Sequence[str]
) -> None:
    """Ask people and teams for a review; the author cannot be asked."""
    demand(world, actor, pull.repository, PERMISSION, "write", "triage")
    for account in [_reviewer(world, pull, login) for login in logins]:
        _ask(world, actor, pull, account)
    for slug in teams:
        if slug not in pull.repository.teams:
            raise invalid("Could not resolve to a node with the given team.")
        _ask_team(world, actor, pull, slug)


def _ask(world: World, actor: Actor, pull: PullRequest, account: Account) -> None:
    if account not in pull.requested_reviewers:
        pull.requested_reviewers.append(account)
        shown = shapes.user(world, account)
        issues.publish(world, actor, pull.issue, "review_requested", requested_reviewer=shown)


def _ask_team(world: World, actor: Actor, pull: PullRequest, slug: str) -> None:
    if slug not in pull.requested_teams:
        pull.requested_teams.append(slug)
        team = shapes.team(world, pull.repository, slug)
        issues.publish(world, actor, pull.issue, "review_requested", requested_team=team)


def _reviewer(world: World, pull: PullRequest, login: str) -> Account:
    account = world.account(login)
    if account is pull.issue.user:
        raise invalid("Review cannot be requested from pull request author.")
    if account is None or not _grantee(account, pull.repository):
        raise invalid(
            "Reviews may only be requested from collaborators. One or more of the users or teams "
            f"you specified is not a collaborator of the {pull.repository.full_name} repository."
        )
    return account


def _grantee(account: Account, repository: Repository) -> bool:
    return account.id in repository.collaborators or account is repository.owner


def unrequest_reviewers(
    world: World, actor: Actor, pull: PullRequest, logins: Sequence[str], teams: Sequence[str]
) -> None:
    """Take requests back."""
    demand(world, actor, pull.repository, PERMISSION, "write", "triage")
    wanted = {login.casefold() for login in logins}
    for account in [a for a in pull.requested_reviewers if a.login.casefold() in wanted]:
        pull.requested_reviewers.remove(account)
        shown = shapes.user(world, account)
        issues.publish(world, actor, pull.issue, "review_request_removed", requested_reviewer=shown)
    pull.requested_teams = [slug for slug in pull.requested_teams if slug not in teams]


# --- facts ---


async def facts(world: World, pull: PullRequest) -> PullFacts:
    """Sizes and mergeability, from Git and from the rules of the base branch."""
    git = pull.repository.git
    base = await git.branch(pull.base_ref) or pull.base_sha
    fork_point = await git.merge_base(pull.base_sha, pull.head_sha) or pull.base_sha
    commits = await git.between(fork_point, pull.head_sha)
    files = await git.changes(fork_point, pull.head_sha)
    mergeable: bool | None = None
    state = "unknown"
    if pull.open:
        mergeable = await git.merge_tree(base, pull.head_sha) is not None
        state = await _mergeable_state(world, pull, base, mergeable=mergeable)
    return PullFacts(
        commits=len(commits),
        additions=sum(file.additions for file in files),
        deletions=sum(file.deletions for file in files),
        changed_files=len(files),
        mergeable=mergeable,
        mergeable_state=state,
    )


async def _mergeable_state(world: World, pull: PullRequest, base: str, *, mergeable: bool) -> str:
    if not mergeable:
        return "dirty"
    if pull.draft:
        return "draft"
    behind = not await pull.repository.git.is_ancestor(base, pull.head_sha)
    if behind and demands.demands_up_to_date(pull.repository, pull.base_ref):
        return "behind"
    if await protection.objections_to_merge(world, pull):
        return "blocked"
    return "clean" if demands.all_green(pull.repository, pull.head_sha) else "unstable"


# --- merging ---


async def merge(
    world: World,
    actor: Actor,
    pull: PullRequest,
    *,
    method: str = "merge",
    sha: str | None = None,
    message: str | None = None,
) -> str:
    """Merge the way the button does; returns the commit that the base now points to."""
    demand(world, actor, pull.repository, "contents", "write", "write")
    await _demand_mergeable(world, actor, pull, sha)
    git = pull.repository.git
    async with git.writing:
        old = await git.branch(pull.base_ref)
        tree = old and await git.merge_tree(old, pull.head_sha)
        if old is None or not tree:
            raise GitHubError(405, "Pull Request is not mergeable")
        new = await _merged_commit(world, actor, pull, method, message, old=old, tree=tree)
        if not await git.update_ref(f"refs/heads/{pull.base_ref}", new, old):
            raise GitHubError(409, "Base branch was modified. Review and try the merge again.")
    await pushes.mark_merged(world, actor, pull, new)
    change = pushes.RefChange(f"refs/heads/{pull.base_ref}", old, new)
    await pushes.after_push(world, pull.repository, actor, [change])
    return new


async def _demand_mergeable(world: World, actor: Actor, pull: PullRequest, sha: str | None) -> None:
    tip = await pull.head_repository.git.branch(pull.head_ref)
    if pull.merged_at is not None or not pull.open:
        raise GitHubError(405, "Pull Request is not mergeable")
    if pull.draft:
        raise GitHubError(405, "Pull Request is still a draft")
    if sha is not None and sha != tip:
        raise GitHubError(409, "Head branch was modified. Review and try the merge again.")
    objections = await protection.objections_to_merge(world, pull)
    if objections and not protection.may_bypass(world, actor, pull.repository, pull.base_ref):
        raise GitHubError(405, objections[0])


async def _merged_commit(
    world: World,
    actor: Actor,
    pull: PullRequest,
    method: str,
    message: str | None,
    *,
    old: str,
    tree: str,
) -> str:
    git, person = pull.repository.git, pushes.person_of(world, actor)
    title = f"{pull.issue.title} (#{pull.number})"
    if method == "squash":
        return await git.write_commit(tree, [old], message or title, person)
    if method == "merge":
        source = f"{pull.head_repository.owner.login}/{pull.head_ref}"
        words = message or f"Merge pull request #{pull.number} from {source}\n\n{pull.issue.title}"
        return await git.write_commit(tree, [old, pull.head_sha], words, person)
    if method != "rebase":
        raise invalid_field("PullRequest", "merge_method")
    return await _rebased(pull, old, person)


async def _rebased(pull: PullRequest, old: str, person: GitPerson) -> str:
    """Rebase merges always make new commits, also where a fast-forward would do."""
    git, tip = pull.repository.git, old
    for sha in await git.between(old, pull.head_sha):
        commit = await git.commit(sha)
        tree = await git.merge_tree(tip, sha)
        if tree is None:
            raise GitHubError(405, "Rebase failed")
        tip = await git.write_commit(tree, [tip], commit.message, person)
    return tip


async def update_branch(
    world: World, actor: Actor, pull: PullRequest, *, expected: str | None = None
) -> None:
    """Press "Update branch": a merge of the base becomes the new head."""
    source, git = pull.head_repository, pull.head_repository.git
    demand(world, actor, source, "contents", "write", "write")
    old, base = await git.branch(pull.head_ref), await pull.repository.git.branch(pull.base_ref)
    if old is None or base is None or (expected is not None and expected != old):
        raise invalid("expected_head_sha does not match the head of the pull request")
    if source is not pull.repository:
        await git.run("fetch", "--quiet", str(pull.repository.git.path), base)
    tree = await git.merge_tree(old, base)
    if tree is None:
        raise invalid("merge conflict between base and head")
    words = f"Merge branch '{pull.base_ref}' into {pull.head_ref}"
    person = pushes.person_of(world, actor)
    new = await git.write_commit(tree, [old, base], words, person)
    ref = f"refs/heads/{pull.head_ref}"
    async with git.writing:
        if not await git.update_ref(ref, new, old):
            raise GitHubError(422, "Head branch was modified. Review and try again.")
    await pushes.after_push(world, source, actor, [pushes.RefChange(ref, old, new)])


def closing_numbers(pull: PullRequest) -> list[int]:
    """Issues that merging this pull request closes."""
    return issues.closed_by_text(pull.issue.body or "", pull.repository)


def parse_head_filter(head: str) -> tuple[str, str]:
    """The `head` filter of a list: `owner:branch`."""
    match = re.fullmatch(r"([^:]+):(.+)", head)
    return (match[1], match[2]) if match else ("", head)


def matches_head(pull: PullRequest, head: str) -> bool:
    """Whether the pull request comes from `owner:branch`; GitHub ignores a bare branch name."""
    owner, branch = parse_head_filter(head)
    if not owner:
        return True
    same = pull.head_repository.owner.login.casefold() == owner.casefold()
    return same and pull.head_ref == branch


def may_review(world: World, actor: Actor, pull: PullRequest) -> bool:
    """Whether the actor may say anything on the diff."""
    return may(world, actor, pull.repository, PERMISSION, "write", "read")
