"""Trees of a repository as values: what a suite is judged on is composed here, then checked out.

In: the entries of a commit's tree. Out: the entries of the tree to judge, with some paths taken
from elsewhere. Composing entries instead of copying files means that no link a candidate planted
is ever followed, and that the judged tree has a name of its own that says exactly what ran.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from workspace.contracts import RepositoryId

#: Paths as text: bytes decoded as UTF-8 with `surrogateescape`, so that every name stays exact.
Entries = dict[str, "TreeEntry"]


class TreeEntry(NamedTuple):
    """One leaf of a tree: Git's mode (`100644`, `100755`, `120000`, `160000`) and object id."""

    mode: str
    object_id: str

    @property
    def is_file(self) -> bool:
        """Whether this is a regular file, not a link and not a submodule."""
        return self.mode.startswith("100")

    @property
    def is_blob(self) -> bool:
        """Whether there is content to read: that of a file, or where a link leads."""
        return self.mode != "160000"


class TreeStore(Protocol):
    """What judging needs of a repository's object store; `treeish` is a commit or tree id.

    Implemented over the host-owned mirror. Nothing here runs filters, hooks or submodules.
    """

    async def entries(self, repository: RepositoryId, treeish: str) -> Entries:
        """Return every leaf of a tree, recursively; paths decoded as `Entries` says."""
        ...

    async def read_blob(self, repository: RepositoryId, object_id: str) -> bytes:
        """Return a blob's bytes."""
        ...

    async def write_blob(self, repository: RepositoryId, content: bytes) -> str:
        """Store a blob and return its object id."""
        ...

    async def write_tree(self, repository: RepositoryId, entries: Mapping[str, TreeEntry]) -> str:
        """Store a tree (and its subtrees) and return its object id."""
        ...

    async def read_commit(self, repository: RepositoryId, commit: str) -> bytes:
        """Return the raw commit object: what `git cat-file commit` prints."""
        ...

    async def checkout(self, repository: RepositoryId, treeish: str, into: Path) -> None:
        """Write a tree's files into `into`, an empty folder that sandbox users can read."""
        ...


def parse_tree(commit: bytes) -> str:
    """Return the tree a raw commit object names in its first line."""
    return commit.split(b"\n", 1)[0].removeprefix(b"tree ").decode()


def raw_path(path: str) -> bytes:
    """Return the bytes of a path in `Entries`, as `workspace.contracts.git_path` wants them."""
    return path.encode("utf-8", "surrogateescape")


def with_entry(entries: Entries, path: str, entry: TreeEntry | None) -> None:
    """Put, replace or (None) remove one path; whatever stood in its way goes."""
    if entry is None:
        entries.pop(path, None)
        return
    parts = path.split("/")
    for length in range(1, len(parts)):
        entries.pop("/".join(parts[:length]), None)
    if path not in entries:
        for below in [other for other in entries if other.startswith(path + "/")]:
            del entries[below]
    entries[path] = entry


def changed_paths(old: Mapping[str, TreeEntry], new: Mapping[str, TreeEntry]) -> Iterable[str]:
    """Return the paths that differ, sorted by name."""
    return sorted(path for path in old.keys() | new.keys() if old.get(path) != new.get(path))
