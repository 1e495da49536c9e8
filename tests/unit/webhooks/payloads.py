"""Payloads as GitHub sends them, cut down to size: what a test does not vary stands here once."""

from typing import Any

SHA = "a" * 40
OTHER_SHA = "b" * 40
NO_SHA = "0" * 40

ADA: dict[str, Any] = {"id": 7, "login": "ada", "node_id": "U_7", "type": "User"}
BOT: dict[str, Any] = {"id": 8, "login": "helper[bot]", "node_id": "BOT_8", "type": "Bot"}
REPOSITORY: dict[str, Any] = {
    "id": 42,
    "node_id": "R_42",
    "name": "engine",
    "full_name": "analytical/engine",
    "default_branch": "main",
    "private": True,
    "archived": False,
    "fork": False,
    "owner": {"id": 5, "login": "analytical", "type": "Organization"},
    "stargazers_count": 3,
}
WHERE: dict[str, Any] = {"repository": REPOSITORY, "installation": {"id": 99}, "sender": ADA}
ISSUE: dict[str, Any] = {
    "id": 1001,
    "node_id": "I_1001",
    "number": 3,
    "title": "It leaks",
    "body": None,
    "state": "open",
    "locked": False,
    "user": None,
    "labels": [{"id": 2, "name": "bug", "color": "f00"}],
}
PULL_REQUEST: dict[str, Any] = {
    "id": 2002,
    "node_id": "PR_2002",
    "number": 4,
    "title": "Fix the leak",
    "body": "text",
    "state": "closed",
    "draft": False,
    "user": BOT,
    "head": {"ref": "ultracode/3-x", "sha": SHA, "repo": REPOSITORY},
    "base": {"ref": "main", "sha": OTHER_SHA, "repo": REPOSITORY},
    "merged": True,
    "merged_at": "2026-11-02T10:00:00Z",
    "merged_by": ADA,
    "merge_commit_sha": SHA,
}


def comment(body: str, **changes: Any) -> dict[str, Any]:
    """A comment by Ada."""
    return {
        "id": 5005,
        "node_id": "IC_5005",
        "body": body,
        "user": ADA,
        "created_at": "2026-11-02T09:00:00Z",
        "performed_via_github_app": None,
        **changes,
    }


def issue_comment(body: str = "/ultracode fix it", **changes: Any) -> dict[str, Any]:
    """The payload of `issue_comment`, where `changes` are the comment's."""
    return {"action": "created", "issue": ISSUE, "comment": comment(body, **changes), **WHERE}


def review(state: str = "approved", **changes: Any) -> dict[str, Any]:
    """The payload of `pull_request_review`, where `changes` are the review's."""
    return {
        "action": "submitted",
        "pull_request": PULL_REQUEST,
        "review": {
            "id": 6006,
            "node_id": "PRR_6006",
            "body": None,
            "state": state,
            "commit_id": SHA,
            "user": ADA,
            "submitted_at": "2026-11-02T09:30:00Z",
            **changes,
        },
        **WHERE,
    }


def check_run(action: str, **more: Any) -> dict[str, Any]:
    """The payload of `check_run`."""
    return {
        "action": action,
        "check_run": {
            "id": 7007,
            "name": "ultracode/review",
            "head_sha": SHA,
            "external_id": "run-1",
            "status": "completed",
            "conclusion": "action_required",
            "app": {"id": 11, "slug": "ultracode"},
            "check_suite": {"id": 7000},
            "pull_requests": [],
        },
        **WHERE,
        **more,
    }


def installation(action: str, **more: Any) -> dict[str, Any]:
    """The payload of `installation` and `installation_repositories`."""
    return {
        "action": action,
        "installation": {
            "id": 99,
            "account": REPOSITORY["owner"],
            "app_id": 11,
            "repository_selection": "selected",
            "permissions": {"contents": "write"},
            "events": ["push"],
            "created_at": 1557933591,
        },
        "sender": ADA,
        **more,
    }
