"""Fresh checkouts for one judgement: each tree once, all of them gone at its end.

In: tree ids. Out: folders with their files, which the sandbox shows read-only, so that any number
of suites may run on one at the same time.
"""

import asyncio
import secrets
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from workspace.contracts import RepositoryId
from workspace.tree_entries import TreeStore


class Checkouts:
    """Checkouts of one repository's trees below one folder."""

    def __init__(self, folder: Path, trees: TreeStore, repository: RepositoryId) -> None:
        """Check out below `folder`; see `open_checkouts`."""
        self._folder = folder
        self._trees = trees
        self._repository = repository
        self._known: dict[str, asyncio.Task[Path]] = {}

    async def of(self, tree: str) -> Path:
        """Return a folder that holds a tree's files; whoever asks next gets the same."""
        if tree not in self._known:
            self._known[tree] = asyncio.create_task(self._make(tree))
        return await asyncio.shield(self._known[tree])

    def empty(self) -> Path:
        """Return an empty folder of its own."""
        folder = self._folder / secrets.token_hex(8)
        folder.mkdir(mode=0o755)
        return folder

    async def close(self) -> None:
        """Remove all of it."""
        for task in self._known.values():
            task.cancel()
        await asyncio.gather(*self._known.values(), return_exceptions=True)
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    async def _make(self, tree: str) -> Path:
        folder = self.empty()
        await self._trees.checkout(self._repository, tree, folder)
        return folder


@asynccontextmanager
async def open_checkouts(
    parent: Path, trees: TreeStore, repository: RepositoryId
) -> AsyncIterator[Checkouts]:
    """Give checkouts in a new folder below `parent`, removed at the end."""
    folder = parent / secrets.token_hex(8)
    await asyncio.to_thread(folder.mkdir, parents=True, mode=0o755)
    checkouts = Checkouts(folder, trees, repository)
    try:
        yield checkouts
    finally:
        await checkouts.close()
