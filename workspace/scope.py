"""Where workers may write: decided before they start, and again on what Git says they changed.

In: the scopes of a plan, the policy's write rules, the paths of the base tree. Out: sentences that
say what is wrong, or the reason why one path may not be in a candidate. Why: scope is enforced
outside the model. Some paths steer reviews, agents or test runners; nobody may claim those unless
the repository's own policy lifts the denial.
"""

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from workspace.contracts import Scope, WriteRules
from workspace.files import beginnings
from workspace.globs import Glob, GlobError, common_path, parse_glob, path_outside
from workspace.paths import decode_path, fold_path, show_text
from workspace.runner_configuration import (
    RUNNER_FILES,
    RUNNER_FOLDERS,
    is_runner_configuration,
)
from workspace.shadowing import RUNNER_MODULES

MOST_GLOBS = 50
_SHOWN = 5

#: Folders that steer; a file or link of that name is denied with what is in it.
_STEERING_FOLDERS = (
    ".agents", ".amazonq", ".circleci", ".claude", ".clinerules", ".codex", ".continue", ".cursor",
    ".devcontainer", ".gemini", ".github", ".husky", ".junie", ".kiro", ".opencode", ".roo",
    ".vscode", ".windsurf",
)  # fmt: skip

#: Where a repository says who reviews, what Git and the CI do, and what agents are told.
STEERING = (
    "CODEOWNERS", ".gitmodules", ".gitattributes", ".lfsconfig", ".mailmap",
    "AGENTS.md", "AGENTS.override.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md", ".cursorrules",
    ".windsurfrules", ".roorules", ".roomodes", ".aider.conf.yml", "opencode.json",
    "opencode.jsonc", ".mcp.json", ".devcontainer.json", ".gitlab-ci.yml", "Jenkinsfile",
    "azure-pipelines.yml",
    *_STEERING_FOLDERS, *(f"{folder}/**" for folder in _STEERING_FOLDERS),
)  # fmt: skip

#: What decides how tests run, as globs: `is_runner_configuration` says the same of one path.
_RUNNER = (
    *RUNNER_FILES,
    *(f"{folder}/**" for folder in RUNNER_FOLDERS),
    *(f"{module}.py" for module in RUNNER_MODULES),
    *(f"{module}/__init__.py" for module in RUNNER_MODULES),
)


@dataclass(frozen=True, slots=True)
class Denials:
    """The paths no worker may write under one repository's policy."""

    built_in: tuple[Glob, ...]
    denied: tuple[Glob, ...]
    allowed: tuple[Glob, ...]

    def reason(self, path: str) -> str | None:
        """Return why a path may not be written, or None. Case and Unicode form do not matter."""
        folded = fold_path(path)
        if any(glob.matches(folded) for glob in self.denied):
            return "denied path: the policy's writes.deny names it"
        runner = is_runner_configuration(path)
        steering = any(glob.matches(folded) for glob in self.built_in)
        if not (runner or steering) or any(glob.matches(path) for glob in self.allowed):
            return None
        what = "it decides how tests run" if runner else "it steers reviews, Git, CI or agents"
        return f"denied path: {what}; only writes.allow in the repository's policy lifts this"

    def path_left(self, glob: Glob) -> str | None:
        """Return a path the glob names that may be written, or None when all are denied."""
        if glob.literal:
            return None if self.reason(glob.text) else glob.text
        folded = _folded(glob.text)
        sample = common_path(folded, folded) or ""
        if self.reason(sample) is None:
            return sample
        if path_outside(folded, self.denied) is None:
            return None
        for lifted in self.allowed:
            if (both := common_path(folded, _folded(lifted.text))) is not None:
                return both
        return path_outside(folded, self.built_in)


def load_denials(rules: WriteRules) -> Denials:
    """Return the built-in denials with what a policy adds and lifts.

    Raises:
        GlobError: the policy holds a text that is no glob.
    """
    return Denials(
        built_in=_built_in(),
        denied=tuple(_folded(text) for text in rules.deny),
        allowed=tuple(parse_glob(text) for text in rules.allow),
    )


def decide_scopes(
    scopes: Sequence[Scope], denials: Denials, tree: Iterable[bytes]
) -> tuple[str, ...]:
    """Return what is wrong with a plan's scopes, one sentence each; empty when they are sound.

    Args:
        scopes: One per task.
        denials: What nobody may write.
        tree: Every path of the commit the workers start from.
    """
    problems: list[str] = []
    parsed: dict[str, list[Glob]] = {}
    for scope in scopes:
        globs, wrong = _parse_scope(scope)
        parsed[scope.task_id] = globs
        problems += wrong
    paths = [decode_path(path) for path in tree]
    folders = {decode_path(folder) for path in tree for folder in beginnings(path)}
    for task, globs in parsed.items():
        problems += _claims_nothing(task, globs, denials, paths, folders)
    for one, other in combinations(parsed, 2):
        problems += _overlap(one, parsed[one], other, parsed[other], paths)
    return tuple(problems)


def inside(scope: Scope, path: str) -> bool:
    """Whether a path is one of those a scope may write."""
    return any(parse_glob(text).matches(path) for text in scope.write_globs)


def outside_reason(scope: Scope) -> str:
    """Say that a path is outside a scope, and what the scope is."""
    if scope.read_only:
        return f"outside the scope: task {scope.task_id} is read-only"
    globs = ", ".join(scope.write_globs[:_SHOWN])
    more = len(scope.write_globs) - _SHOWN
    return f"outside the scope of {scope.task_id}: {globs}" + (f" and {more} more" * (more > 0))


@functools.cache
def _built_in() -> tuple[Glob, ...]:
    return tuple(_folded(f"**/{text}") for text in (*STEERING, *_RUNNER))


def _folded(text: str) -> Glob:
    return parse_glob(fold_path(text))


def _parse_scope(scope: Scope) -> tuple[list[Glob], list[str]]:
    if scope.read_only != (not scope.write_globs):
        wanted = "none, as it is read-only" if scope.read_only else "at least one"
        return [], [f"Task {scope.task_id} must have {wanted} of write_globs."]
    if len(scope.write_globs) > MOST_GLOBS:
        return [], [f"Task {scope.task_id} has more than {MOST_GLOBS} write_globs."]
    globs, wrong = [], []
    for text in scope.write_globs:
        try:
            globs.append(parse_glob(text))
            _folded(text)  # folding can lengthen it beyond what a glob may have
        except GlobError as error:
            wrong.append(f"Task {scope.task_id}: {error}")
    return globs, wrong


def _claims_nothing(
    task: str, globs: Sequence[Glob], denials: Denials, paths: Sequence[str], folders: set[str]
) -> list[str]:
    """What is wrong with single globs: they name a folder, or only what is denied."""
    problems = []
    for glob in globs:
        text = show_text(glob.text)
        if glob.text in folders:
            problems.append(f"Task {task}: {text} is a folder; write {text}/** for its files.")
            continue
        if denials.path_left(glob) is None:
            matched = [path for path in paths if glob.matches(path)]
            problems.append(
                f"Task {task}: {text} names only denied paths"
                f"{_examples(matched)}; they cannot be claimed."
            )
    return problems


def _overlap(
    one: str, globs: Sequence[Glob], other: str, others: Sequence[Glob], paths: Sequence[str]
) -> list[str]:
    """The sentence for two tasks that could write one path, with the paths."""
    for first, second in product(globs, others):
        shown = _shared(first, second, paths) or _shared_folded(first, second, paths)
        if shown:
            both = f"{show_text(first.text)} and {show_text(second.text)}"
            return [f"Tasks {one} and {other} overlap ({both}){shown}. Give each path to one task."]
    return []


def _shared(first: Glob, second: Glob, paths: Sequence[str]) -> str:
    """What both globs name, in words; empty when they name nothing in common."""
    made = common_path(first, second)
    if made is None:
        return ""
    existing = [path for path in paths if first.matches(path) and second.matches(path)]
    return _examples(existing) or f": {show_text(made)} could be made by both"


def _shared_folded(first: Glob, second: Glob, paths: Sequence[str]) -> str:
    """The same where a file system ignores case or Unicode form: no candidate can hold both."""
    one, other = _folded(first.text), _folded(second.text)
    made = None if (one.text, other.text) == (first.text, second.text) else common_path(one, other)
    if made is None:
        return ""
    folded = ((path, fold_path(path)) for path in paths)
    existing = [path for path, form in folded if one.matches(form) and other.matches(form)]
    shown = _examples(existing) or f": {show_text(made)} could be made by both"
    return f" where case or Unicode form is folded{shown}"


def _examples(paths: Sequence[str]) -> str:
    if not paths:
        return ""
    more = len(paths) - _SHOWN
    listed = ", ".join(show_text(path) for path in paths[:_SHOWN])
    return f": {listed}" + (f" and {more} more" if more > 0 else "")
