"""Issues, comments, labels and reactions as JSON."""

from __future__ import annotations

from collections import Counter

from evals.loopback.shapes.apps import app_or_none
from evals.loopback.shapes.repositories import api_of, html_of
from evals.loopback.shapes.users import moment, user, user_or_none
from evals.loopback.state import (
    Account,
    Comment,
    Issue,
    Json,
    Label,
    Reaction,
    Repository,
    node_id,
)
from evals.loopback.world import World

REACTIONS = ("+1", "-1", "laugh", "hooray", "confused", "heart", "rocket", "eyes")


def association(account: Account, repository: Repository) -> str:
    """`author_association`: a hint for people, never a permission."""
    if account is repository.owner:
        return "OWNER"
    if account.id in repository.collaborators:
        return "MEMBER" if repository.owner.type == "Organization" else "COLLABORATOR"
    return "NONE"


def label(world: World, repository: Repository, record: Label) -> Json:
    """A `label`."""
    return {
        "id": record.id,
        "node_id": node_id("LA", record.id),
        "url": f"{api_of(world, repository)}/labels/{record.name}",
        "name": record.name,
        "color": record.color,
        "default": False,
        "description": record.description,
    }


def reaction(world: World, record: Reaction) -> Json:
    """A `reaction`."""
    return {
        "id": record.id,
        "node_id": node_id("REA", record.id),
        "user": user_or_none(world, record.user),
        "content": record.content,
        "created_at": moment(record.created_at),
    }


def reactions(url: str, records: list[Reaction]) -> Json:
    """A `reaction-rollup`."""
    count = Counter(record.content for record in records)
    shown = {content: count[content] for content in REACTIONS}
    return {"url": f"{url}/reactions", "total_count": len(records), **shown}


def issue_url(world: World, record: Issue) -> str:
    """The REST address of an issue (of a pull request seen as an issue)."""
    return f"{api_of(world, record.repository)}/issues/{record.number}"


def issue_page(world: World, record: Issue) -> str:
    """The address of an issue's or pull request's page."""
    kind = "pull" if record.pull else "issues"
    return f"{html_of(world, record.repository)}/{kind}/{record.number}"


def issue(world: World, record: Issue) -> Json:
    """An `issue`; pull requests carry `pull_request` links and `draft`."""
    url, page = issue_url(world, record), issue_page(world, record)
    shape: Json = {
        "url": url,
        "repository_url": api_of(world, record.repository),
        "labels_url": f"{url}/labels{{/name}}",
        "comments_url": f"{url}/comments",
        "events_url": f"{url}/events",
        "html_url": page,
        "id": record.id,
        "node_id": node_id("I", record.id),
        "number": record.number,
        "title": record.title,
        "user": user(world, record.user),
        "labels": [label(world, record.repository, item) for item in record.labels],
        "state": record.state,
        "locked": record.locked,
        "assignee": user(world, record.assignees[0]) if record.assignees else None,
        "assignees": [user(world, account) for account in record.assignees],
        "milestone": None,
        "comments": len(record.comments),
        "created_at": moment(record.created_at),
        "updated_at": moment(record.updated_at),
        "closed_at": moment(record.closed_at),
        "author_association": association(record.user, record.repository),
        "active_lock_reason": record.lock_reason,
        "body": record.body,
        "closed_by": user_or_none(world, record.closed_by),
        "reactions": reactions(url, record.reactions),
        "timeline_url": f"{url}/timeline",
        "performed_via_github_app": app_or_none(world, record.app),
        "state_reason": record.state_reason,
    }
    if record.pull is not None:
        shape["draft"] = record.pull.draft
        shape["pull_request"] = {
            "url": f"{api_of(world, record.repository)}/pulls/{record.number}",
            "html_url": page,
            "diff_url": f"{page}.diff",
            "patch_url": f"{page}.patch",
            "merged_at": moment(record.pull.merged_at),
        }
    return shape


def comment(world: World, record: Comment) -> Json:
    """An `issue-comment`."""
    api = api_of(world, record.issue.repository)
    url = f"{api}/issues/comments/{record.id}"
    return {
        "url": url,
        "html_url": f"{issue_page(world, record.issue)}#issuecomment-{record.id}",
        "issue_url": issue_url(world, record.issue),
        "id": record.id,
        "node_id": node_id("IC", record.id),
        "user": user(world, record.user),
        "created_at": moment(record.created_at),
        "updated_at": moment(record.updated_at),
        "author_association": association(record.user, record.issue.repository),
        "body": record.body,
        "reactions": reactions(url, record.reactions),
        "performed_via_github_app": app_or_none(world, record.app),
    }
