"""Code owners: whose approval a pull request waits for.

In: the CODEOWNERS file of the base branch and the files of a pull request. Out: the owners that
have not approved. https://docs.github.com/repositories/managing-your-repositorys-settings-and-features/customizing-your-repository/about-code-owners
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache

from evals.loopback.state import (
    Account,
    PullRequest,
    Repository,
)
from evals.loopback.world import World

_PLACES = (".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS")


async def rules_at(repository: Repository, branch: str) -> list[tuple[str, list[str]]]:
    """Pattern and owners of every line, in the file's order; empty without a file."""
    for path in _PLACES:
        entry = await repository.git.entry(f"refs/heads/{branch}", path)
        if entry is not None and entry.type == "blob":
            text = (await repository.git.object(entry.sha)).decode(errors="replace")
            lines = (line.split("#", 1)[0].split() for line in text.splitlines())
            return [(words[0], words[1:]) for words in lines if words]
    return []


async def owners_of(pull: PullRequest) -> list[list[str]]:
    """For each changed file that is owned, its owners; the last matching line counts."""
    git = pull.repository.git
    rules = await rules_at(pull.repository, pull.base_ref)
    if not rules:
        return []
    start = await git.merge_base(pull.base_sha, pull.head_sha) or pull.base_sha
    owned = []
    for path in await git.changed_paths(start, pull.head_sha):
        owners: list[str] = []
        for pattern, names in rules:
            if _matcher(pattern).search(path):
                owners = names
        if owners:
            owned.append(owners)
    return owned


async def awaited(
    world: World, repository: Repository, pull: PullRequest, approvers: Collection[Account]
) -> list[str]:
    """Owners of which none has approved, for every owned file; empty when all are content."""
    return [
        " or ".join(owners)
        for owners in await owners_of(pull)
        if not any(_speaks_for(world, repository, owner, approvers) for owner in owners)
    ]


def _speaks_for(
    world: World, repository: Repository, owner: str, approvers: Collection[Account]
) -> bool:
    name = owner.removeprefix("@")
    if "/" in name:
        members = repository.teams.get(name.split("/", 1)[1], set())
        return any(account.id in members for account in approvers)
    return world.account(name) in approvers


@lru_cache(maxsize=256)
def _matcher(pattern: str) -> re.Pattern[str]:
    """A gitignore-like pattern as a regular expression over the whole path."""
    anchored = "/" in pattern.rstrip("/")
    body = re.escape(pattern.strip("/"))
    body = body.replace(r"\*\*/", "(?:.*/)?").replace(r"\*\*", ".*").replace(r"\*", "[^/]*")
    body = body.replace(r"\?", "[^/]")
    start = "^" if anchored else "(?:^|/)"
    end = "/" if pattern.endswith("/") else "(?:/|$)"
    return re.compile(f"{start}{body}{end}")
