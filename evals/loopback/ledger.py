"""The whole world as plain JSON, for invariants that are asserted from GitHub's side.

In: a world. Out: refs from Git, conversations, reviews, checks and reactions, by repository.
"""

from __future__ import annotations

from evals.loopback.shapes.users import moment
from evals.loopback.state import (
    CheckRun,
    Issue,
    Json,
    PullRequest,
    Reaction,
    Repository,
)
from evals.loopback.words import mentioned
from evals.loopback.world import World


async def state_of(world: World) -> Json:
    """Everything there is."""
    live = [r for r in world.repositories.values() if not r.deleted]
    return {r.full_name: await _repository(r) for r in live}


async def _repository(record: Repository) -> Json:
    return {
        "id": record.id,
        "default_branch": record.default_branch,
        "archived": record.archived,
        "refs": await record.git.refs(),
        "issues": [_issue(issue) for issue in record.issues.values()],
        "check_runs": [_check_run(run) for run in record.check_runs()],
        "statuses": [
            {"sha": s.sha, "context": s.context, "state": s.state, "by": s.creator.login}
            for s in record.statuses
        ],
    }


def _issue(issue: Issue) -> Json:
    return {
        "number": issue.number,
        "title": issue.title,
        "body": issue.body,
        "by": issue.user.login,
        "state": issue.state,
        "closed_by": issue.closed_by and issue.closed_by.login,
        "locked": issue.locked,
        "labels": [label.name for label in issue.labels],
        "reactions": [_reaction(r) for r in issue.reactions],
        "comments": [
            {
                "id": comment.id,
                "by": comment.user.login,
                "body": comment.body,
                "mentions": mentioned(comment.body),
                "created_at": moment(comment.created_at),
                "reactions": [_reaction(r) for r in comment.reactions],
            }
            for comment in issue.comments.values()
        ],
        "pull": issue.pull and _pull(issue.pull),
    }


def _reaction(reaction: Reaction) -> Json:
    return {"by": reaction.user.login, "content": reaction.content}


def _pull(pull: PullRequest) -> Json:
    return {
        "base": pull.base_ref,
        "head": pull.head_ref,
        "head_sha": pull.head_sha,
        "draft": pull.draft,
        "merged": pull.merged_at is not None,
        "merged_by": pull.merged_by and pull.merged_by.login,
        "merge_commit_sha": pull.merge_commit_sha,
        "requested_reviewers": [account.login for account in pull.requested_reviewers],
        "reviews": [
            {
                "id": review.id,
                "by": review.user.login,
                "state": review.state,
                "body": review.body,
                "commit_id": review.commit_id,
            }
            for review in pull.reviews.values()
        ],
        "threads": [
            {
                "resolved": thread.resolved_by is not None,
                "comments": [{"by": c.user.login, "body": c.body} for c in thread.comments],
            }
            for thread in pull.threads.values()
        ],
    }


def _check_run(run: CheckRun) -> Json:
    return {
        "id": run.id,
        "app": run.suite.app.slug,
        "name": run.name,
        "head_sha": run.suite.head_sha,
        "status": run.status,
        "conclusion": run.conclusion,
        "external_id": run.external_id,
        "title": run.title,
        "annotations": len(run.annotations),
    }
