"""Commits and files of a diff as JSON."""

from __future__ import annotations

from evals.loopback.git_output import FileChange, GitCommit, GitPerson
from evals.loopback.shapes.repositories import api_of, html_of
from evals.loopback.shapes.users import moment, user
from evals.loopback.state import (
    Account,
    Json,
    Repository,
    node_id,
)
from evals.loopback.world import World


def account_of(world: World, person: GitPerson) -> Account | None:
    """The account a commit's address belongs to: `<id>+login@users.noreply…`."""
    number, plus, _ = person.email.partition("+")
    return world.accounts.get(int(number)) if plus and number.isdecimal() else None


def git_commit(world: World, repository: Repository, record: GitCommit) -> Json:
    """A `git-commit`, as the Git database answers."""
    api, html = api_of(world, repository), html_of(world, repository)
    return {
        "sha": record.sha,
        "node_id": node_id("C", int(record.sha[:12], 16)),
        "url": f"{api}/git/commits/{record.sha}",
        "html_url": f"{html}/commit/{record.sha}",
        "author": _person(record.author),
        "committer": _person(record.committer),
        "message": record.message,
        "tree": {"sha": record.tree, "url": f"{api}/git/trees/{record.tree}"},
        "parents": _parents(api, html, record, "git/commits"),
        "verification": _verification(record),
    }


def commit(
    world: World, repository: Repository, record: GitCommit, files: list[FileChange] | None = None
) -> Json:
    """A `commit`; with its files where one commit is asked for."""
    api, html = api_of(world, repository), html_of(world, repository)
    author, committer = account_of(world, record.author), account_of(world, record.committer)
    shape: Json = {
        "url": f"{api}/commits/{record.sha}",
        "sha": record.sha,
        "node_id": node_id("C", int(record.sha[:12], 16)),
        "html_url": f"{html}/commit/{record.sha}",
        "comments_url": f"{api}/commits/{record.sha}/comments",
        "commit": {
            "url": f"{api}/git/commits/{record.sha}",
            "author": _person(record.author),
            "committer": _person(record.committer),
            "message": record.message,
            "comment_count": 0,
            "tree": {"sha": record.tree, "url": f"{api}/git/trees/{record.tree}"},
            "verification": _verification(record),
        },
        "author": user(world, author) if author else None,
        "committer": user(world, committer) if committer else None,
        "parents": _parents(api, html, record, "commits"),
    }
    if files is not None:
        added, removed = sum(f.additions for f in files), sum(f.deletions for f in files)
        shape["stats"] = {"total": added + removed, "additions": added, "deletions": removed}
        shape["files"] = [file_change(world, repository, f, record.sha) for f in files]
    return shape


def file_change(world: World, repository: Repository, change: FileChange, sha: str) -> Json:
    """A `diff-entry`."""
    html = html_of(world, repository)
    shape: Json = {
        "sha": change.sha,
        "filename": change.path,
        "status": change.status,
        "additions": change.additions,
        "deletions": change.deletions,
        "changes": change.additions + change.deletions,
        "blob_url": f"{html}/blob/{sha}/{change.path}",
        "raw_url": f"{html}/raw/{sha}/{change.path}",
        "contents_url": f"{api_of(world, repository)}/contents/{change.path}?ref={sha}",
    }
    if change.patch is not None:
        shape["patch"] = change.patch
    if change.previous is not None:
        shape["previous_filename"] = change.previous
    return shape


def webhook_commit(
    world: World, repository: Repository, record: GitCommit, files: list[FileChange]
) -> Json:
    """A commit as `push` events carry it."""
    return {
        "id": record.sha,
        "tree_id": record.tree,
        "distinct": True,
        "message": record.message,
        "timestamp": record.committer.at.isoformat(),
        "url": f"{html_of(world, repository)}/commit/{record.sha}",
        "author": _named(world, record.author),
        "committer": _named(world, record.committer),
        "added": [f.path for f in files if f.status in ("added", "copied")],
        "removed": [f.path for f in files if f.status == "removed"],
        "modified": [f.path for f in files if f.status in ("modified", "changed", "renamed")],
    }


def head_commit(record: GitCommit) -> Json:
    """The `simple-commit` of check suites."""
    return {
        "id": record.sha,
        "tree_id": record.tree,
        "message": record.message,
        "timestamp": moment(record.committer.at),
        "author": {"name": record.author.name, "email": record.author.email},
        "committer": {"name": record.committer.name, "email": record.committer.email},
    }


def _person(person: GitPerson) -> Json:
    return {"name": person.name, "email": person.email, "date": moment(person.at)}


def _named(world: World, person: GitPerson) -> Json:
    account = account_of(world, person)
    named: Json = {"name": person.name, "email": person.email, "date": person.at.isoformat()}
    return {**named, "username": account.login} if account else named


def _parents(api: str, html: str, record: GitCommit, kind: str) -> list[Json]:
    return [
        {"sha": sha, "url": f"{api}/{kind}/{sha}", "html_url": f"{html}/commit/{sha}"}
        for sha in record.parents
    ]


def _verification(record: GitCommit) -> Json:
    reason = "unknown_key" if record.signed else "unsigned"
    return {
        "verified": False,
        "reason": reason,
        "signature": None,
        "payload": None,
        "verified_at": None,
    }
