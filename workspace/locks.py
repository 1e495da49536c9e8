"""Locks between processes of one machine, released by the kernel when their holder dies.

In: a path. Out: the right to go on alone, or the knowledge that another process lives. Why: several
worker processes share one data folder, and any of them may be killed at any moment; a `flock` needs
no clock and no process id to tell (flock(2)).
"""

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncIterator
from pathlib import Path

_POLL_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)


@contextlib.asynccontextmanager
async def exclusive(path: Path) -> AsyncIterator[int]:
    """Hold the lock on `path`; yields its descriptor, which a child may inherit to hold it too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        attempt = 0
        while not _try_lock(descriptor):
            await asyncio.sleep(_POLL_SECONDS[min(attempt, len(_POLL_SECONDS) - 1)])
            attempt += 1
        yield descriptor
    finally:
        os.close(descriptor)


class Owner:
    """This process's name among those that share a folder; alive for as long as it runs."""

    def __init__(self, folder: Path, name: str) -> None:
        """Announce `name` in `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        self.name = name
        self._folder = folder
        self._path = folder / name
        newborn = folder.parent / f"{folder.name}.{name}"  # nobody may see it before it is locked
        self._descriptor = os.open(newborn, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        newborn.rename(self._path)

    def lives(self, name: str) -> bool:
        """Whether the owner called `name` is still running."""
        if name == self.name:
            return True
        try:
            descriptor = os.open(self._folder / name, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            return not _try_lock(descriptor)
        finally:
            os.close(descriptor)

    def forget_dead(self) -> None:
        """Remove the marks of owners that are gone."""
        for path in self._folder.iterdir():
            if not self.lives(path.name):
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """Stop being alive."""
        self._path.unlink(missing_ok=True)
        os.close(self._descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
