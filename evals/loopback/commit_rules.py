"""What new commits must look like, whatever people said about them: shape, words, files.

In: one update of a branch, whose objects may still be in a push's quarantine. Out: objections in
GitHub's words, empty when none. A kind of rule that is not known here objects, rather than pass.
https://docs.github.com/repositories/configuring-branches-and-merges-in-your-repository/managing-rulesets/available-rules-for-rulesets
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from wcmatch import glob

from evals.loopback.git_output import GitCommit
from evals.loopback.state import Json, Protection, Repository


@dataclass(frozen=True)
class WantedUpdate:
    """One branch update somebody wants, with where its objects are (a push's quarantine)."""

    repository: Repository
    branch: str
    old: str | None
    new: str | None
    objects: Mapping[str, str] | None = None

    async def rewinds(self) -> bool:
        """Whether it removes commits."""
        if self.old is None or self.new is None:
            return False
        git = self.repository.git
        return not await git.is_ancestor(self.old, self.new, env=self.objects)

    async def commits(self) -> list[GitCommit]:
        """The commits it adds to the branch (to the default branch, when it makes one)."""
        git = self.repository.git
        start = self.old or await git.branch(self.repository.default_branch)
        shas = await git.between(start, self.new or "", env=self.objects)
        return [await git.commit(sha, self.objects) for sha in shas]

    async def paths(self) -> list[str]:
        """The paths that the added commits change."""
        git, changed = self.repository.git, set[str]()
        for commit in await self.commits():
            for parent in commit.parents[:1]:
                changed |= set(await git.changed_paths(parent, commit.sha, env=self.objects))
        return sorted(changed)


async def classic_objections(classic: Protection, update: WantedUpdate) -> list[str]:
    """What classic protection finds wrong with the new commits."""
    lines = []
    if not classic.allow_force_pushes and await update.rewinds():
        lines.append("Cannot force-push to this protected branch")
    if classic.linear_history and await _has_merges(update):
        lines.append("This branch must not contain merge commits.")
    if classic.signatures and await _has_unsigned(update):
        lines.append("Commits must have verified signatures.")
    if classic.deployments:
        lines.append("Required deployments have not succeeded.")
    return lines


async def rule_objections(rule: Json, update: WantedUpdate) -> list[str]:
    """What one rule of a ruleset finds wrong with an update of the branch."""
    kind = rule["type"]
    if update.new is None:
        return ["Cannot delete this branch"] if kind == "deletion" else []
    if kind not in _RULES:
        return [f"Rule {kind} is not satisfied."]
    return await _RULES[kind](rule.get("parameters") or {}, update)


async def _has_merges(update: WantedUpdate) -> bool:
    return any(len(commit.parents) > 1 for commit in await update.commits())


async def _has_unsigned(update: WantedUpdate) -> bool:
    return any(not commit.signed for commit in await update.commits())


# --- kinds of rules ---

_Rule = Callable[[Json, WantedUpdate], Awaitable[list[str]]]


async def _nothing(_wants: Json, _update: WantedUpdate) -> list[str]:
    return []


async def _creation(_wants: Json, update: WantedUpdate) -> list[str]:
    made = update.old is None
    return ["Cannot create ref due to creations being restricted."] if made else []


async def _update(_wants: Json, update: WantedUpdate) -> list[str]:
    return ["Cannot update this protected ref."] if update.old is not None else []


async def _forwards_only(_wants: Json, update: WantedUpdate) -> list[str]:
    return ["Cannot force-push to this branch"] if await update.rewinds() else []


async def _linear(_wants: Json, update: WantedUpdate) -> list[str]:
    return ["This branch must not contain merge commits."] if await _has_merges(update) else []


async def _signed(_wants: Json, update: WantedUpdate) -> list[str]:
    return ["Commits must have verified signatures."] if await _has_unsigned(update) else []


async def _queue(_wants: Json, _update: WantedUpdate) -> list[str]:
    return ["Changes must be made through the merge queue"]


async def _deployments(wants: Json, _update: WantedUpdate) -> list[str]:
    places = ", ".join(wants.get("required_deployment_environments", []))
    return [f"Required deployments have not succeeded: {places}"]


def _pattern(what: str, words: Callable[[GitCommit], str]) -> _Rule:
    async def check(wants: Json, update: WantedUpdate) -> list[str]:
        commits = await update.commits()
        wrong = [commit for commit in commits if not _matches(wants, words(commit))]
        name = wants.get("name") or wants.get("pattern", "")
        return [f"{what} must match: {name} ({commit.sha[:7]})" for commit in wrong]

    return check


async def _branch_name(wants: Json, update: WantedUpdate) -> list[str]:
    fine = _matches(wants, update.branch)
    return [] if fine else [f"Branch name must match: {wants.get('pattern', '')}"]


def _matches(wants: Json, text: str) -> bool:
    pattern = str(wants.get("pattern", ""))
    found = {
        "starts_with": text.startswith(pattern),
        "ends_with": text.endswith(pattern),
        "contains": pattern in text,
        "regex": wants.get("operator") == "regex" and bool(re.search(pattern, text)),
    }.get(str(wants.get("operator")), False)
    return found != bool(wants.get("negate"))


async def _file_paths(wants: Json, update: WantedUpdate) -> list[str]:
    patterns = wants.get("restricted_file_paths", [])
    flags = glob.GLOBSTAR | glob.FORCEUNIX | glob.DOTGLOB
    found = [p for p in await update.paths() if glob.globmatch(p, patterns, flags=flags)]
    return [f"File path {path} is restricted" for path in found]


async def _extensions(wants: Json, update: WantedUpdate) -> list[str]:
    unwanted = {str(e).lstrip("*.") for e in wants.get("restricted_file_extensions", [])}
    found = [p for p in await update.paths() if PurePosixPath(p).suffix.lstrip(".") in unwanted]
    return [f"File extension of {path} is restricted" for path in found]


async def _path_length(wants: Json, update: WantedUpdate) -> list[str]:
    most = int(wants.get("max_file_path_length", 256))
    return [f"File path {p} is too long" for p in await update.paths() if len(p) > most]


async def _file_size(wants: Json, update: WantedUpdate) -> list[str]:
    most = int(wants.get("max_file_size", 100)) * 1024 * 1024  # stated in MB
    git, lines = update.repository.git, []
    for path in await update.paths():
        entry = await git.entry(update.new or "", path, env=update.objects)
        if entry is not None and (entry.size or 0) > most:
            lines.append(f"File {path} is too large")
    return lines


_RULES: dict[str, _Rule] = {
    "branch_name_pattern": _branch_name,
    "commit_author_email_pattern": _pattern("Author email", lambda c: c.author.email),
    "commit_message_pattern": _pattern("Commit message", lambda c: c.message),
    "committer_email_pattern": _pattern("Committer email", lambda c: c.committer.email),
    "copilot_code_review": _nothing,
    "creation": _creation,
    "deletion": _nothing,
    "file_extension_restriction": _extensions,
    "file_path_restriction": _file_paths,
    "max_file_path_length": _path_length,
    "max_file_size": _file_size,
    "merge_queue": _queue,
    "non_fast_forward": _forwards_only,
    "pull_request": _nothing,  # what people said: `demands.py`
    "required_deployments": _deployments,
    "required_linear_history": _linear,
    "required_signatures": _signed,
    "required_status_checks": _nothing,  # what checks said: `demands.py`
    "tag_name_pattern": _nothing,
    "update": _update,
}
