"""The mirrors as the suites see them: a `TreeStore` by repository id.

In: a repository id and object ids. Out: entries, blobs, commits, checkouts. Why: what judges suites
knows values and one small Protocol, not how mirrors are kept; a mirror that turns out damaged is
rebuilt behind its back.
"""

from collections.abc import Mapping
from pathlib import Path

from workspace.contracts import RepositoryId
from workspace.git import Place
from workspace.mirror import Mirrors
from workspace.paths import decode_path
from workspace.tree_entries import Entries, TreeEntry, raw_path
from workspace.trees import Entry, Trees


class MirrorTrees:
    """`TreeStore` over the mirrors."""

    def __init__(self, mirrors: Mirrors, trees: Trees) -> None:
        """Read and write objects of `mirrors` through `trees`."""
        self._mirrors = mirrors
        self._trees = trees

    async def entries(self, repository: RepositoryId, treeish: str) -> Entries:
        """Return every leaf of a tree, recursively."""

        async def work(place: Place) -> Entries:
            return {
                decode_path(entry.path): TreeEntry(entry.mode, entry.object)
                for entry in await self._trees.entries(place, treeish)
            }

        return await self._mirrors.using_id(repository, work)

    async def read_blob(self, repository: RepositoryId, object_id: str) -> bytes:
        """Return a blob's bytes."""

        async def work(place: Place) -> bytes:
            return (await self._trees.blobs(place, [object_id]))[object_id]

        return await self._mirrors.using_id(repository, work)

    async def write_blob(self, repository: RepositoryId, content: bytes) -> str:
        """Store a blob and return its object id."""
        return await self._trees.write_blob(self._mirrors.place(repository), content)

    async def write_tree(self, repository: RepositoryId, entries: Mapping[str, TreeEntry]) -> str:
        """Store a tree (and its subtrees) and return its object id."""
        leaves = [
            Entry(raw_path(path), entry.mode, entry.object_id) for path, entry in entries.items()
        ]
        return await self._mirrors.using_id(
            repository, lambda place: self._trees.write_tree(place, leaves)
        )

    async def read_commit(self, repository: RepositoryId, commit: str) -> bytes:
        """Return the raw commit object."""
        return await self._mirrors.using_id(
            repository, lambda place: self._trees.raw_commit(place, commit)
        )

    async def checkout(self, repository: RepositoryId, treeish: str, into: Path) -> None:
        """Write a tree's files into `into`, an empty folder."""
        await self._mirrors.using_id(
            repository, lambda place: self._trees.checkout(place, treeish, into)
        )
