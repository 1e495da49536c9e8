"""What suites did on base commits, kept by run key.

In: a run key and a way to run. Out: what the run did, from the cache where it was made before. Only
commands that ended by themselves are kept: a timeout or a lack of memory may be the machine's.
"""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from pydantic import ValidationError

from workspace.contracts import Frozen, RepositoryId, Sha256
from workspace.judging import Observation
from workspace.locks import exclusive


class BaseRun(Frozen):
    """One suite on one base commit."""

    observation: Observation
    canary_files: tuple[str, ...] = ()
    """Test files in which a planted failure shows in this suite's JUnit file."""


class BaseRuns:
    """A cache of base runs in a folder: `<folder>/<repository>/<run key>.json`."""

    def __init__(self, folder: Path) -> None:
        """Keep runs below `folder`."""
        self._folder = folder

    async def get_or_run(
        self, repository: RepositoryId, run_key: Sha256, run: Callable[[], Awaitable[BaseRun]]
    ) -> BaseRun:
        """Return the run of this key; whoever asks while it is being made waits for it."""
        path = self._folder / str(repository) / f"{run_key}.json"
        async with exclusive(path.with_suffix(".lock")):
            known = await asyncio.to_thread(_load, path)
            if known is not None:
                return known
            made = await run()
            if made.observation.termination == "exit":
                await asyncio.to_thread(_store, path, made)
            return made

    async def tidy(self, *, older_than_seconds: float) -> None:
        """Forget runs that were made longer ago; they are made again when they are wanted."""
        await asyncio.to_thread(_remove_old, self._folder, older_than_seconds)


def _remove_old(folder: Path, older_than_seconds: float) -> None:
    for path in folder.glob("*/*.json"):
        if time.time() - path.stat().st_mtime > older_than_seconds:
            path.unlink(missing_ok=True)


def _load(path: Path) -> BaseRun | None:
    try:
        return BaseRun.model_validate_json(path.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def _store(path: Path, run: BaseRun) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    temporary.write_text(run.model_dump_json(), encoding="utf-8")
    temporary.replace(path)
