"""A look at a workspace before Git is let near it.

In: a folder that nobody writes any more. Out: what in it Git must not open (`Survey`), with odd
things taken away and permissions put right. Why: Git reads `.gitignore` and friends wherever they
stand, would wait on a FIFO, and would look into a repository somebody planted; after this it meets
plain files, folders and links only.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from workspace.files import Folder, Found
from workspace.paths import reads_as_git

_FILE_MODES = (0o644, 0o755)
_FOLDER_MODE = 0o755
_OWNER_EXECUTES = 0o100


@dataclass(slots=True)
class Survey:
    """What was found and set aside. Paths are raw."""

    specials: list[bytes] = field(default_factory=list)
    """FIFOs, sockets and devices; removed."""
    repositories: list[bytes] = field(default_factory=list)
    """Folders that held a `.git`, which was removed; the workspace itself is not among them."""
    lookalikes: list[bytes] = field(default_factory=list)
    """Names that some systems read as `.git`; removed."""
    own_git: bool = False
    """Whether the worker had made a `.git` for itself at the top; removed."""
    too_large: dict[bytes, int] = field(default_factory=dict)
    hard_linked: list[bytes] = field(default_factory=list)
    in_submodules: list[bytes] = field(default_factory=list)

    @property
    def unreadable(self) -> list[bytes]:
        """Files that Git must leave alone."""
        return [*self.too_large, *self.hard_linked]


def survey(folder: Folder, *, most_file_bytes: int, submodules: Collection[bytes]) -> Survey:
    """Walk a workspace once; see the module's docstring.

    Raises:
        FileRefused: it holds more, or deeper, than any repository has.
    """
    result = Survey()
    for found in list(folder.walk(enter=lambda path: not _is_git(path))):
        if _is_git(found.path):
            _note_git(result, found.path)
            folder.discard(found.path)
        elif found.kind == "special":
            result.specials.append(found.path)
            folder.discard(found.path)
        else:
            _note_plain(result, found, most_file_bytes, submodules)
            _put_mode_right(folder, found)
    return result


def _is_git(path: bytes) -> bool:
    return reads_as_git(path.rsplit(b"/", 1)[-1])


def _note_git(result: Survey, path: bytes) -> None:
    parent, _, name = path.rpartition(b"/")
    if name.lower() != b".git":
        result.lookalikes.append(path)
    elif parent:
        result.repositories.append(parent)
    else:
        result.own_git = True


def _note_plain(
    result: Survey, found: Found, most_file_bytes: int, submodules: Collection[bytes]
) -> None:
    if any(found.path.startswith(submodule + b"/") for submodule in submodules):
        result.in_submodules.append(found.path)
    if found.kind != "file":
        return
    if found.links > 1:
        result.hard_linked.append(found.path)
    elif found.size > most_file_bytes:
        result.too_large[found.path] = found.size


def _put_mode_right(folder: Folder, found: Found) -> None:
    """Leave only the bits Git records, so that the next worker finds no trace of this one."""
    if found.kind == "folder" and found.mode != _FOLDER_MODE:
        folder.set_mode(found.path, _FOLDER_MODE)
    elif found.kind == "file" and found.mode not in _FILE_MODES:
        folder.set_mode(found.path, 0o755 if found.mode & _OWNER_EXECUTES else 0o644)
