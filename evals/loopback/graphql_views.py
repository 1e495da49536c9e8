"""Records as graphql-core reads them: dicts whose callables are fields computed when asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from evals.loopback import checks, demands, pulls, reviews, rulebook, statuses
from evals.loopback.errors import GitHubError
from evals.loopback.shapes.issues import issue_page
from evals.loopback.shapes.users import moment
from evals.loopback.state import (
    Account,
    Comment,
    Issue,
    Json,
    PullRequest,
    Repository,
    Review,
    ReviewComment,
    ReviewThread,
    node_id,
)
from evals.loopback.world import World

if TYPE_CHECKING:
    from evals.loopback.api.call import Call

T = TypeVar("T")
QUEUE = "merge_queue"


def rate_limit(world: World) -> Json:
    """Points left; GraphQL is not counted here."""
    return {"cost": 1, "limit": 5000, "remaining": 4999, "resetAt": moment(world.now()), "used": 1}


def actor(account: Account | None) -> Json | None:
    """An `Actor`; null where the account was deleted. Bots go by their slug."""
    if account is None or account.deleted:
        return None
    return {
        "__typename": account.type,
        "id": node_id("U", account.id),
        "databaseId": account.id,
        "login": account.login.removesuffix("[bot]"),
        "name": account.name,
    }


def connection(items: Sequence[T], view: Callable[[T], Any], args: Json) -> Json:
    """One page of a list; cursors are positions."""
    start, end = 0, len(items)
    if args.get("after"):
        start = int(args["after"])
    if args.get("first") is not None:
        end = min(end, start + args["first"])
    elif args.get("last") is not None:
        start = max(start, end - args["last"])
    return {
        "nodes": [view(item) for item in items[start:end]],
        "totalCount": len(items),
        "pageInfo": {
            "startCursor": str(start),
            "endCursor": str(end),
            "hasNextPage": end < len(items),
            "hasPreviousPage": start > 0,
        },
    }


def repository(call: Call, record: Repository) -> Json:
    """A `Repository`."""

    async def one_ref(_info: object, qualifiedName: str) -> Json | None:  # noqa: N803 - GitHub's
        return await ref(record, qualifiedName)

    async def default_branch(_info: object) -> Json | None:
        return await ref(record, record.default_branch)

    def queue(_info: object, branch: str = "") -> Json | None:
        wanted = branch or record.default_branch
        found = [r for r, rule in rulebook.rules_for(record, wanted) if rule["type"] == QUEUE]
        page = f"{call.world.url}/{record.full_name}/queue/{wanted}"
        return {"id": node_id("MQ", found[0].id), "url": page} if found else None

    return {
        "__typename": "Repository",
        "id": node_id("R", record.id),
        "databaseId": record.id,
        "name": record.name,
        "nameWithOwner": record.full_name,
        "isPrivate": record.private,
        "isArchived": record.archived,
        "defaultBranchRef": default_branch,
        "ref": one_ref,
        "mergeQueue": queue,
        "pullRequest": lambda _info, number: pull(call, _pull_numbered(record, number)),
        "issue": lambda _info, number: issue(call, _issue_numbered(record, number)),
    }


def _pull_numbered(record: Repository, number: int) -> PullRequest:
    found = record.issues.get(number)
    if found is None or found.pull is None:
        message = f"Could not resolve to a PullRequest with the number of {number}."
        raise GitHubError(404, message)
    return found.pull


def _issue_numbered(record: Repository, number: int) -> Issue:
    found = record.issues.get(number)
    if found is None or found.pull is not None:
        raise GitHubError(404, f"Could not resolve to an Issue with the number of {number}.")
    return found


async def ref(record: Repository, name: str) -> Json | None:
    """A `Ref`, by its full or its short name, with the classic protection that holds for it."""
    branch = name.removeprefix("refs/heads/")
    sha = await record.git.branch(branch)
    if sha is None:
        return None
    rule = rulebook.classic_for(record, branch)
    return {
        "__typename": "Ref",
        "id": node_id("REF", int(sha[:12], 16)),
        "name": branch,
        "target": commit(record, sha),
        "branchProtectionRule": rule
        and {
            "__typename": "BranchProtectionRule",
            "id": node_id("BPR", int(sha[:12], 16)),
            "pattern": rule.branch,
            "requiresDeployments": rule.deployments,
            "requiresCommitSignatures": rule.signatures,
            "lockBranch": rule.lock_branch,
        },
    }


def commit(record: Repository, sha: str) -> Json:
    """A `Commit` with the rollup of its checks."""

    async def message(_info: object) -> str:
        return (await record.git.commit(sha)).message

    def rollup(_info: object) -> Json | None:
        runs, said = checks.latest_runs(record, sha), statuses.latest(record, sha)
        if not runs and not said:
            return None
        if demands.all_green(record, sha):
            return {"state": "SUCCESS"}
        waiting = any(r.status != "completed" for r in runs)
        waiting = waiting or any(s.state == "pending" for s in said)
        return {"state": "PENDING" if waiting else "FAILURE"}

    return {
        "__typename": "Commit",
        "id": node_id("C", int(sha[:12], 16)),
        "oid": sha,
        "message": message,
        "statusCheckRollup": rollup,
    }


def issue(call: Call, record: Issue) -> Json:
    """An `Issue`."""
    return {
        **_conversation(call, record),
        "__typename": "Issue",
        "id": node_id("I", record.id),
        "databaseId": record.id,
        "state": record.state.upper(),
        "labels": lambda _info, **args: connection(
            record.labels, lambda x: {"id": node_id("LA", x.id), "name": x.name}, args
        ),
    }


def _conversation(call: Call, record: Issue) -> Json:
    return {
        "number": record.number,
        "title": record.title,
        "body": record.body or "",
        "locked": record.locked,
        "url": issue_page(call.world, record),
        "author": actor(record.user),
        "editor": actor(record.last_editor),
        "lastEditedAt": moment(record.last_edited_at),
        "repository": lambda _info: repository(call, record.repository),
        "comments": lambda _info, **args: connection(
            list(record.comments.values()), lambda x: comment(call, x), args
        ),
    }


def comment(call: Call, record: Comment) -> Json:
    """An `IssueComment`."""
    return {
        "__typename": "IssueComment",
        "id": node_id("IC", record.id),
        "databaseId": record.id,
        "author": actor(record.user),
        "body": record.body,
        "createdAt": moment(record.created_at),
        "viewerDidAuthor": record.user is call.actor.account,
    }


def pull(call: Call, record: PullRequest) -> Json:
    """A `PullRequest`."""
    state = "MERGED" if record.merged_at else record.issue.state.upper()
    merged = record.merge_commit_sha if record.merged_at else None
    return {
        **_conversation(call, record.issue),
        **_computed(call, record),
        "__typename": "PullRequest",
        "id": node_id("PR", record.id),
        "databaseId": record.id,
        "fullDatabaseId": str(record.id),
        "state": state,
        "isDraft": record.draft,
        "merged": record.merged_at is not None,
        "mergedAt": moment(record.merged_at),
        "mergedBy": actor(record.merged_by),
        "mergeCommit": commit(record.repository, merged) if merged else None,
        "baseRefName": record.base_ref,
        "baseRefOid": record.base_sha,
        "headRefName": record.head_ref,
        "headRefOid": record.head_sha,
        "reviewThreads": lambda _info, **args: connection(
            list(record.threads.values()), lambda x: thread(call, x), args
        ),
    }


def _computed(call: Call, record: PullRequest) -> Json:
    """Fields that Git or the rules must be asked for."""

    async def decision(_info: object) -> str | None:
        return await demands.review_decision(call.world, record)

    async def mergeable(_info: object) -> str:
        answer = (await pulls.facts(call.world, record)).mergeable
        return {True: "MERGEABLE", False: "CONFLICTING", None: "UNKNOWN"}[answer]

    async def merge_state(_info: object) -> str:
        return (await pulls.facts(call.world, record)).mergeable_state.upper()

    async def commits(_info: object, **args: Any) -> Json:
        git = record.repository.git
        start = await git.merge_base(record.base_sha, record.head_sha)
        shas = await git.between(start, record.head_sha)
        return connection(shas, lambda sha: {"commit": commit(record.repository, sha)}, args)

    def given(_info: object, *, states: Sequence[str] = (), **args: Any) -> Json:
        seen = reviews.visible(call.actor, record)
        wanted = [r for r in seen if not states or r.state in states]
        return connection(wanted, lambda x: review(record, x), args)

    def latest(_info: object, **args: Any) -> Json:
        newest = {r.user.id: r for r in reviews.visible(call.actor, record)}
        return connection(list(newest.values()), lambda x: review(record, x), args)

    def closing(_info: object, **args: Any) -> Json:
        here = record.repository
        numbers = pulls.closing_numbers(record) if record.base_ref == here.default_branch else []
        found = [here.issues[n] for n in numbers if n in here.issues]
        return connection(found, lambda x: issue(call, x), args)

    return {
        "reviewDecision": decision,
        "mergeable": mergeable,
        "mergeStateStatus": merge_state,
        "commits": commits,
        "reviews": given,
        "latestReviews": latest,
        "closingIssuesReferences": closing,
    }


def review(asked: PullRequest, record: Review) -> Json:
    """A `PullRequestReview`."""
    return {
        "__typename": "PullRequestReview",
        "id": node_id("PRR", record.id),
        "databaseId": record.id,
        "author": actor(record.user),
        "body": record.body,
        "state": record.state,
        "submittedAt": moment(record.submitted_at),
        "commit": commit(asked.repository, record.commit_id),
    }


def thread(call: Call, record: ReviewThread) -> Json:
    """A `PullRequestReviewThread`."""
    first = record.comments[0]
    return {
        "__typename": "PullRequestReviewThread",
        "id": node_id("PRRT", record.id),
        "isResolved": record.resolved_by is not None,
        "isOutdated": first.commit_id != record.pull.head_sha,
        "resolvedBy": actor(record.resolved_by),
        "path": first.path,
        "line": first.line,
        "diffSide": first.side,
        "comments": lambda _info, **args: connection(
            record.comments, lambda x: _line_comment(call, x), args
        ),
    }


def _line_comment(call: Call, record: ReviewComment) -> Json:
    del call
    return {
        "__typename": "PullRequestReviewComment",
        "id": node_id("PRRC", record.id),
        "databaseId": record.id,
        "author": actor(record.user),
        "body": record.body,
        "path": record.path,
        "line": record.line,
    }
