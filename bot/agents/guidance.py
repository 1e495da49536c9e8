"""Which AGENTS.md files speak about given paths.

Comes in: paths or globs. Goes out: where guidance for them would be, the nearest folders first. The
root's own file is not among them: every agent of a run is given it anyway.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final

GUIDANCE_NAME: Final = "AGENTS.md"
MOST_PLACES: Final = 40
_WILDCARDS: Final = frozenset("*?[")


def guidance_paths(paths: Iterable[str]) -> tuple[str, ...]:
    """The places of AGENTS.md files in the folders above the paths, deepest first.

    Args:
        paths: paths or globs relative to the repository's root; a glob counts up to its first
            folder with a wildcard.
    """
    folders = {folder for path in paths for folder in _folders(path)}
    deepest_first = sorted(folders, key=lambda folder: (-len(folder.parts), str(folder)))
    return tuple(str(folder / GUIDANCE_NAME) for folder in deepest_first[:MOST_PLACES])


def _folders(path: str) -> Iterable[PurePosixPath]:
    """The folders above a path, the root left out."""
    folder = PurePosixPath()
    for part in PurePosixPath(path).parts[:-1]:
        if part in {"/", ".."} or _WILDCARDS & set(part):
            return
        folder /= part
        yield folder
