"""Pull requests, reviews and line comments as JSON."""

from __future__ import annotations

from dataclasses import dataclass

from evals.loopback.shapes.issues import association, issue_page, issue_url, label, reactions
from evals.loopback.shapes.repositories import api_of, repository
from evals.loopback.shapes.users import moment, user, user_or_none
from evals.loopback.state import (
    Account,
    Json,
    PullRequest,
    Repository,
    Review,
    ReviewComment,
    node_id,
)
from evals.loopback.world import World


@dataclass(frozen=True)
class PullFacts:
    """What only Git and the rules can say about a pull request at this moment."""

    commits: int = 0
    additions: int = 0
    deletions: int = 0
    changed_files: int = 0
    mergeable: bool | None = None
    mergeable_state: str = "unknown"


def pull_url(world: World, record: PullRequest) -> str:
    """The REST address of a pull request."""
    return f"{api_of(world, record.repository)}/pulls/{record.number}"


def pull(world: World, record: PullRequest, facts: PullFacts | None = None) -> Json:
    """A `pull-request` with `facts`, a `pull-request-simple` without."""
    api, url = api_of(world, record.repository), pull_url(world, record)
    page, issue = issue_page(world, record.issue), record.issue
    shape: Json = {
        "url": url,
        "id": record.id,
        "node_id": node_id("PR", record.id),
        "html_url": page,
        "diff_url": f"{page}.diff",
        "patch_url": f"{page}.patch",
        "issue_url": issue_url(world, issue),
        "number": record.number,
        "state": issue.state,
        "locked": issue.locked,
        "title": issue.title,
        "user": user(world, issue.user),
        "body": issue.body,
        "created_at": moment(issue.created_at),
        "updated_at": moment(issue.updated_at),
        "closed_at": moment(issue.closed_at),
        "merged_at": moment(record.merged_at),
        "merge_commit_sha": record.merge_commit_sha,
        "assignee": user(world, issue.assignees[0]) if issue.assignees else None,
        "assignees": [user(world, account) for account in issue.assignees],
        "requested_reviewers": [user(world, a) for a in record.requested_reviewers],
        "requested_teams": [team(world, record.repository, t) for t in record.requested_teams],
        "labels": [label(world, record.repository, item) for item in issue.labels],
        "milestone": None,
        "draft": record.draft,
        "commits_url": f"{url}/commits",
        "review_comments_url": f"{url}/comments",
        "review_comment_url": f"{api}/pulls/comments{{/number}}",
        "comments_url": f"{issue_url(world, issue)}/comments",
        "statuses_url": f"{api}/statuses/{record.head_sha}",
        "head": _end(world, record.head_repository, record.head_ref, record.head_sha),
        "base": _end(world, record.repository, record.base_ref, record.base_sha),
        "_links": _links(world, record),
        "author_association": association(issue.user, record.repository),
        "auto_merge": None,
        "active_lock_reason": issue.lock_reason,
    }
    return shape if facts is None else {**shape, **_details(world, record, facts)}


def pull_event(world: World, record: PullRequest, facts: PullFacts | None = None) -> Json:
    """A pull request as webhooks carry it: GitHub leaves what it has not computed yet `null`."""
    return {**pull(world, record), **_details(world, record, facts or PullFacts())}


def _details(world: World, record: PullRequest, facts: PullFacts) -> Json:
    return {
        "merged": record.merged_at is not None,
        "mergeable": facts.mergeable,
        "rebaseable": facts.mergeable,
        "mergeable_state": facts.mergeable_state,
        "merged_by": user_or_none(world, record.merged_by),
        "comments": len(record.issue.comments),
        "review_comments": len(record.review_comments()),
        "maintainer_can_modify": record.maintainer_can_modify,
        "commits": facts.commits,
        "additions": facts.additions,
        "deletions": facts.deletions,
        "changed_files": facts.changed_files,
    }


def _end(world: World, end: Repository, ref: str, sha: str) -> Json:
    return {
        "label": f"{end.owner.login}:{ref}",
        "ref": ref,
        "sha": sha,
        "user": user(world, end.owner),
        "repo": None if end.deleted else repository(world, end),
    }


def _links(world: World, record: PullRequest) -> Json:
    api, url = api_of(world, record.repository), pull_url(world, record)
    links = {
        "self": url,
        "html": issue_page(world, record.issue),
        "issue": issue_url(world, record.issue),
        "comments": f"{issue_url(world, record.issue)}/comments",
        "review_comments": f"{url}/comments",
        "review_comment": f"{api}/pulls/comments{{/number}}",
        "commits": f"{url}/commits",
        "statuses": f"{api}/statuses/{record.head_sha}",
    }
    return {name: {"href": href} for name, href in links.items()}


def pull_minimal(world: World, record: PullRequest) -> Json:
    """A `pull-request-minimal`, as check runs list them."""

    def end(side: Repository, ref: str, sha: str) -> Json:
        place = {"id": side.id, "url": api_of(world, side), "name": side.name}
        return {"ref": ref, "sha": sha, "repo": place}

    return {
        "id": record.id,
        "number": record.number,
        "url": pull_url(world, record),
        "head": end(record.head_repository, record.head_ref, record.head_sha),
        "base": end(record.repository, record.base_ref, record.base_sha),
    }


def team(world: World, record: Repository, slug: str) -> Json:
    """A `team` of the organization."""
    url = f"{world.api_url}/organizations/{record.owner.id}/team/{slug}"
    number = int.from_bytes(slug.encode()[:4], "big")
    return {
        "id": number,
        "node_id": node_id("T", number),
        "name": slug,
        "slug": slug,
        "description": None,
        "privacy": "closed",
        "notification_setting": "notifications_enabled",
        "url": url,
        "html_url": f"{world.url}/orgs/{record.owner.login}/teams/{slug}",
        "members_url": f"{url}/members{{/member}}",
        "repositories_url": f"{url}/repos",
        "permission": "push",
        "parent": None,
        "type": "organization",
        "organization_id": record.owner.id,
    }


def review(world: World, record: Review) -> Json:
    """A `pull-request-review`; `user` is null when the account was deleted."""
    page = f"{issue_page(world, record.pull.issue)}#pullrequestreview-{record.id}"
    url = pull_url(world, record.pull)
    shape: Json = {
        "id": record.id,
        "node_id": node_id("PRR", record.id),
        "user": user_or_none(world, record.user),
        "body": record.body,
        "state": record.state,
        "html_url": page,
        "pull_request_url": url,
        "author_association": association(record.user, record.pull.repository),
        "_links": {"html": {"href": page}, "pull_request": {"href": url}},
        "commit_id": record.commit_id,
    }
    if record.submitted_at is not None:
        shape["submitted_at"] = moment(record.submitted_at)
    return shape


def review_comment(world: World, record: ReviewComment) -> Json:
    """A `pull-request-review-comment`."""
    asked = record.review.pull
    url = f"{api_of(world, asked.repository)}/pulls/comments/{record.id}"
    page = f"{issue_page(world, asked.issue)}#discussion_r{record.id}"
    shape: Json = {
        "url": url,
        "pull_request_review_id": record.review.id,
        "id": record.id,
        "node_id": node_id("PRRC", record.id),
        "diff_hunk": record.diff_hunk,
        "path": record.path,
        "commit_id": record.commit_id,
        "original_commit_id": record.original_commit_id,
        "user": user(world, record.user),
        "body": record.body,
        "created_at": moment(record.created_at),
        "updated_at": moment(record.updated_at),
        "html_url": page,
        "pull_request_url": pull_url(world, asked),
        "author_association": association(record.user, asked.repository),
        "_links": {
            "self": {"href": url},
            "html": {"href": page},
            "pull_request": {"href": pull_url(world, asked)},
        },
        "reactions": reactions(url, record.reactions),
        "start_line": record.start_line,
        "original_start_line": record.start_line,
        "start_side": record.side if record.start_line else None,
        "line": record.line,
        "original_line": record.line,
        "side": record.side,
        "position": record.line,
        "original_position": record.line,
        "subject_type": "line" if record.line else "file",
    }
    if record.in_reply_to is not None:
        shape["in_reply_to_id"] = record.in_reply_to
    return shape


def requested_reviewers(world: World, record: PullRequest) -> Json:
    """A `pull-request-review-request`."""
    people: list[Account] = record.requested_reviewers
    return {
        "users": [user(world, account) for account in people],
        "teams": [team(world, record.repository, slug) for slug in record.requested_teams],
    }
