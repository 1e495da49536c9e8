"""Which workflows of a repository the bot's pushes would start. In: files. Out: their triggers.

Why: a push by an App starts the repository's own CI, with its secrets, on code nobody has read.
Syntax: https://docs.github.com/actions/writing-workflows/workflow-syntax-for-github-actions#on
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import yaml
from wcmatch import glob

FOLDER: Final = ".github/workflows/"
_SUFFIXES: Final = (".yml", ".yaml")
_PULL_EVENTS: Final = ("pull_request", "pull_request_target")
_Loader: Final[type[Any]] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def is_workflow(path: str) -> bool:
    """Whether GitHub reads a file as a workflow."""
    name = path.removeprefix(FOLDER)
    return path.startswith(FOLDER) and "/" not in name and name.endswith(_SUFFIXES)


def decide_triggers(content: bytes, *, work_branch: str, base: str) -> tuple[str, ...] | None:
    """Return the events by which the bot's publications start a workflow; None if unreadable.

    Paths are not looked at: a candidate may touch any file that policy allows. Events such as
    `issue_comment` run the default branch's own code and are left out.
    """
    try:
        # A subclass of SafeLoader where libyaml is there; aliases are references, never copies.
        document = yaml.load(content, Loader=_Loader)  # noqa: S506 - see above
    except yaml.YAMLError:
        return None
    if not isinstance(document, Mapping):
        return None
    on = document.get("on", document.get(True))  # YAML 1.1 reads the key `on` as true
    triggers = _named(on)
    started: list[str] = []
    if "push" in triggers and _admits(triggers["push"], work_branch, tags_alone=True):
        started.append("push")
    started += [event for event in ("create",) if event in triggers]
    started += [e for e in _PULL_EVENTS if e in triggers and _admits(triggers[e], base)]
    return tuple(started)


def _named(on: Any) -> dict[str, Any]:
    if isinstance(on, str):
        return {on: None}
    if isinstance(on, list):
        return {event: None for event in on if isinstance(event, str)}
    return {str(k): v for k, v in on.items()} if isinstance(on, Mapping) else {}


def _admits(filters: Any, branch: str, *, tags_alone: bool = False) -> bool:
    if not isinstance(filters, Mapping):
        return True
    if "branches" in filters:
        return _matches(filters["branches"], branch)
    if "branches-ignore" in filters:
        return not _matches(filters["branches-ignore"], branch)
    return not (tags_alone and ("tags" in filters or "tags-ignore" in filters))


def _matches(patterns: Any, branch: str) -> bool:
    """Whether a list of patterns takes a branch in; later ones with `!` take it out again."""
    listed = [patterns] if isinstance(patterns, str) else patterns
    taken = False
    for pattern in (str(one) for one in listed if isinstance(listed, list)):
        bare = pattern.removeprefix("!")
        # `**` crosses slashes on GitHub wherever it stands, in wcmatch only between them
        wide = bare.replace("**", "*")
        flags = glob.GLOBSTAR | glob.DOTGLOB
        fits = glob.globmatch(branch, bare, flags=flags) or (
            "**" in bare and glob.globmatch(branch.replace("/", "_"), wide.replace("/", "_"))
        )
        if fits:
            taken = not pattern.startswith("!")
    return taken
