"""What a command left outside a worker's scope, told while the worker can still clean it up.

In: a workspace and its scope. Out: the changed or new paths outside it. Why: coverage files, caches
and build output that the repository does not ignore would refuse the whole record at freeze. This
look decides nothing; it only saves a round.
"""

import asyncio
from pathlib import Path

from workspace.contracts import Scope
from workspace.files import FileRefused, Folder
from workspace.git import Git, Place
from workspace.paths import decode_path, reads_as_git
from workspace.pool import Workspace
from workspace.scope import Denials, inside

_SECONDS = 20


async def find_strays(
    git: Git, mirror: Place, workspace: Workspace, scope: Scope, denials: Denials
) -> list[bytes]:
    """Return the paths that freezing would refuse; none when Git should not look in there now.

    Raises:
        GitFailed: Git could not read the files, or took too long.
    """
    if not await asyncio.to_thread(_safe_for_git, workspace.files):
        return []
    place = Place(git_dir=mirror.git_dir, work_tree=workspace.files, index=workspace.index)
    status = await git.run(
        "status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=all",
        "--ignore-submodules=all", place=place, timeout_seconds=_SECONDS,
    )  # fmt: skip
    return [
        path
        for path in _parse_status(status.stdout)
        if denials.reason(decode_path(path)) or not inside(scope, decode_path(path))
    ]


def _parse_status(out: bytes) -> list[bytes]:
    """Paths of `git status --porcelain=v1 -z`; the second column compares with the index."""
    records = [record for record in out.split(b"\0") if record]
    return [record[3:] for record in records if record[1:2] != b" "]


def _safe_for_git(files: Path) -> bool:
    """Whether there are only plain files, links and folders: nothing Git would wait on or enter."""
    try:
        with Folder(files) as folder:
            return not any(
                found.kind == "special" or reads_as_git(found.path.rpartition(b"/")[2])
                for found in folder.walk()
            )
    except FileRefused:
        return False
