"""Repositories as JSON."""

from __future__ import annotations

from evals.loopback.shapes.users import moment, user
from evals.loopback.state import (
    ROLES,
    Json,
    Repository,
    Role,
    node_id,
)
from evals.loopback.world import World

_LINKS = {
    "archive_url": "/{archive_format}{/ref}",
    "assignees_url": "/assignees{/user}",
    "blobs_url": "/git/blobs{/sha}",
    "branches_url": "/branches{/branch}",
    "collaborators_url": "/collaborators{/collaborator}",
    "comments_url": "/comments{/number}",
    "commits_url": "/commits{/sha}",
    "compare_url": "/compare/{base}...{head}",
    "contents_url": "/contents/{+path}",
    "contributors_url": "/contributors",
    "deployments_url": "/deployments",
    "downloads_url": "/downloads",
    "events_url": "/events",
    "forks_url": "/forks",
    "git_commits_url": "/git/commits{/sha}",
    "git_refs_url": "/git/refs{/sha}",
    "git_tags_url": "/git/tags{/sha}",
    "hooks_url": "/hooks",
    "issue_comment_url": "/issues/comments{/number}",
    "issue_events_url": "/issues/events{/number}",
    "issues_url": "/issues{/number}",
    "keys_url": "/keys{/key_id}",
    "labels_url": "/labels{/name}",
    "languages_url": "/languages",
    "merges_url": "/merges",
    "milestones_url": "/milestones{/number}",
    "notifications_url": "/notifications{?since,all,participating}",
    "pulls_url": "/pulls{/number}",
    "releases_url": "/releases{/id}",
    "stargazers_url": "/stargazers",
    "statuses_url": "/statuses/{sha}",
    "subscribers_url": "/subscribers",
    "subscription_url": "/subscription",
    "tags_url": "/tags",
    "teams_url": "/teams",
    "trees_url": "/git/trees{/sha}",
}


def api_of(world: World, repository: Repository) -> str:
    """The REST address of a repository."""
    return f"{world.api_url}/repos/{repository.full_name}"


def html_of(world: World, repository: Repository) -> str:
    """The address of its page."""
    return f"{world.url}/{repository.full_name}"


def permissions_of(role: Role) -> dict[str, bool]:
    """The five booleans; each role has those below it."""
    rank = ROLES.index(role)
    return {
        "admin": rank >= ROLES.index("admin"),
        "maintain": rank >= ROLES.index("maintain"),
        "push": rank >= ROLES.index("write"),
        "triage": rank >= ROLES.index("triage"),
        "pull": rank >= ROLES.index("read"),
    }


def minimal_repository(world: World, repository: Repository) -> Json:
    """A `minimal-repository`."""
    api = api_of(world, repository)
    return {
        "id": repository.id,
        "node_id": node_id("R", repository.id),
        "name": repository.name,
        "full_name": repository.full_name,
        "private": repository.private,
        "owner": user(world, repository.owner),
        "html_url": html_of(world, repository),
        "description": repository.description,
        "fork": repository.parent is not None,
        "url": api,
        **{key: api + path for key, path in _LINKS.items()},
    }


def repository(world: World, record: Repository) -> Json:
    """A `repository`, as webhooks and pull requests carry it."""
    html = html_of(world, record)
    issues = sum(issue.state == "open" for issue in record.issues.values())
    return {
        **minimal_repository(world, record),
        "created_at": moment(record.created_at),
        "updated_at": moment(record.created_at),
        "pushed_at": moment(record.pushed_at or record.created_at),
        "git_url": f"{html.replace('http://', 'git://', 1)}.git",
        "ssh_url": f"git@localhost:{record.full_name}.git",
        "clone_url": f"{html}.git",
        "svn_url": html,
        "homepage": None,
        "size": 1,
        "stargazers_count": 0,
        "watchers_count": 0,
        "language": None,
        "has_issues": True,
        "has_projects": False,
        "has_downloads": False,
        "has_wiki": False,
        "has_pages": False,
        "has_discussions": False,
        "forks_count": 0,
        "mirror_url": None,
        "archived": record.archived,
        "disabled": False,
        "open_issues_count": issues,
        "license": None,
        "allow_forking": True,
        "is_template": False,
        "web_commit_signoff_required": False,
        "topics": [],
        "visibility": "private" if record.private else "public",
        "forks": 0,
        "open_issues": issues,
        "watchers": 0,
        "default_branch": record.default_branch,
    }


def full_repository(world: World, record: Repository, role: Role) -> Json:
    """A `full-repository`, as `GET /repos/{owner}/{repo}` answers to somebody with that role."""
    shape = {
        **repository(world, record),
        "network_count": 0,
        "subscribers_count": 0,
        "permissions": permissions_of(role),
        "allow_squash_merge": True,
        "allow_merge_commit": True,
        "allow_rebase_merge": True,
        "allow_auto_merge": False,
        "delete_branch_on_merge": record.delete_branch_on_merge,
    }
    if record.owner.type == "Organization":
        shape["organization"] = user(world, record.owner)
    if record.parent is not None:
        shape["parent"] = repository(world, record.parent)
        shape["source"] = shape["parent"]
    return shape
