"""Workspaces: folders checked out from a commit, lent to one worker at a time, and used again.

In: a key (run, round, task) and a commit. Out: a `Workspace` whose files are exactly that commit's.
Why: resetting a folder is many times cheaper than filling one, if nothing of its last user stays.

On disk, below one folder per repository id, so that nothing crosses repositories:

    free/<slot>/           reset to some commit, owned by nobody
    leased/<workspace id>/ in use; `lease.json` says whose
    doomed/<name>/         to be wiped: timed out, cancelled, taken over, left by a dead process

A slot holds `files/` and, beside them where no worker reaches, Git's `index` of them. It changes
hands by being renamed, which one process only can win. Who is alive is told by kernel locks, not by
clocks or process ids: `workspace.locks`.
"""

import asyncio
import contextlib
import json
import os
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from workspace.contracts import CommitSha, RepoRef, RepositoryId, RunId, WorkKey
from workspace.errors import WorkspaceGone
from workspace.files import FileRefused, wipe
from workspace.git import Git, Place
from workspace.locks import Owner, exclusive
from workspace.mirror import Mirrors

IDLE_SECONDS = 2 * 3600.0
FREE_SECONDS = 3600.0
MOST_FREE = 8
LOCK_SECONDS = 24 * 3600.0  # keys name a round of a run, which does not last that long


@dataclass(frozen=True, slots=True)
class Workspace:
    """One folder on loan. `secret` tells this loan from any other of the same key."""

    id: str
    slot: Path
    secret: str
    parent: CommitSha

    @property
    def files(self) -> Path:
        """The folder a worker sees."""
        return self.slot / "files"

    @property
    def index(self) -> Path:
        """Git's index of the files; the host's alone."""
        return self.slot / "index"


def workspace_id(key: WorkKey) -> str:
    """Return the name of a key's workspace."""
    return f"{key.run_id}-r{key.round}-{key.task_id}"


class Pool:
    """Lends workspaces of any repository below one folder."""

    def __init__(
        self,
        root: Path,
        git: Git,
        mirrors: Mirrors,
        owner: Owner,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Lend folders below `root` in the name of `owner`, filled from `mirrors`."""
        self._root = root
        self._git = git
        self._mirrors = mirrors
        self._owner = owner
        self._clock = clock
        self._used_at: dict[tuple[RepositoryId, str], float] = {}

    async def lend(self, repo: RepoRef, key: WorkKey, parent: CommitSha) -> Workspace:
        """Return the workspace of a key, with the files of `parent`; the same one if it is lent.

        A workspace of the same key that another process holds is taken over: the files start anew.
        """
        name = workspace_id(key)
        leased = self._folder(repo.id, "leased") / name
        async with exclusive(self._folder(repo.id) / "locks" / name):
            held = self._held(leased)
            if held is not None and held.parent == parent:
                self.touch(repo.id, name)
                return held
            self._doom(repo.id, leased)
            lent = await self._take(repo, leased, parent)
        await self.wipe_doomed(repo.id)
        return lent

    def find(self, repository: RepositoryId, key: WorkKey) -> Workspace:
        """Return the workspace lent under a key.

        Raises:
            WorkspaceGone: it is not lent, or no longer to this process.
        """
        name = workspace_id(key)
        held = self._held(self._folder(repository, "leased") / name)
        if held is None:
            raise WorkspaceGone(f"Workspace {name} is not in use any more.")
        return held

    def require(self, workspace: Workspace) -> None:
        """Check that a loan still stands, before each use of its files.

        Raises:
            WorkspaceGone: it does not.
        """
        held = self._held(workspace.slot)
        if held is None or held.secret != workspace.secret:
            raise WorkspaceGone(f"Workspace {workspace.id} is not in use any more.")

    def touch(self, repository: RepositoryId, name: str) -> None:
        """Note that a workspace is in use at this moment."""
        self._used_at[repository, name] = self._clock()

    async def give_back(self, repo: RepoRef, workspace: Workspace) -> None:
        """Reset a workspace in which nothing runs and put it where the next worker finds it.

        Raises:
            WorkspaceGone: it was taken out of use meanwhile.
        """
        self.require(workspace)
        self._used_at.pop((repo.id, workspace.id), None)
        try:
            await self._reset(repo, workspace.slot, workspace.parent)
            await asyncio.to_thread(wipe, workspace.slot / "objects")
        except BaseException:
            await self.quarantine(repo.id, workspace)
            raise
        (workspace.slot / "lease.json").unlink(missing_ok=True)
        free = self._folder(repo.id, "free")
        _make_folder(free)
        with contextlib.suppress(FileNotFoundError):
            workspace.slot.rename(free / uuid.uuid4().hex)

    async def quarantine(self, repository: RepositoryId, workspace: Workspace) -> None:
        """Take a workspace out of use and wipe it."""
        self._used_at.pop((repository, workspace.id), None)
        held = self._held(workspace.slot)
        if held is not None and held.secret == workspace.secret:
            self._doom(repository, workspace.slot)
        await self.wipe_doomed(repository)

    async def cancel(self, run_id: RunId) -> None:
        """Take every workspace of a run out of use and wipe it, whoever holds it."""
        for repository in self._repositories():
            for slot in _children(self._folder(repository, "leased")):
                if slot.name.startswith(f"{run_id}-r"):
                    self._used_at.pop((repository, slot.name), None)
                    self._doom(repository, slot)
            await self.wipe_doomed(repository)

    async def reap(self) -> None:
        """Wipe what nobody owns: loans of dead processes, idle loans, slots free for too long."""
        for repository in self._repositories():
            for slot in _children(self._folder(repository, "leased")):
                if self._abandoned(repository, slot):
                    self._doom(repository, slot)
            for slot in self._superfluous(repository):
                self._doom(repository, slot)
            for lock in _children(self._folder(repository, "locks")):
                if _age_seconds(lock) > LOCK_SECONDS:
                    lock.unlink(missing_ok=True)
            await self.wipe_doomed(repository)
        self._owner.forget_dead()

    def idle(self, repository: RepositoryId) -> bool:
        """Whether no workspace of a repository is lent."""
        return not _children(self._folder(repository, "leased"))

    async def wipe_doomed(self, repository: RepositoryId) -> None:
        """Remove what is doomed, in a thread that finishes even when the caller is cancelled."""
        doomed = _children(self._folder(repository, "doomed"))
        if doomed:
            await asyncio.shield(asyncio.to_thread(_wipe_all, doomed))

    # --- one slot -------------------------------------------------------------------------------

    async def _take(self, repo: RepoRef, leased: Path, parent: CommitSha) -> Workspace:
        """Get a slot, free or new, and fill it."""
        if not self._claim_free(repo.id, leased):
            _make_folder(leased / "files")
        lent = Workspace(leased.name, leased, uuid.uuid4().hex, parent)
        self._write_lease(lent, ready=False)
        self.touch(repo.id, lent.id)
        try:
            await self._reset(repo, leased, parent)
        except BaseException:
            self._doom(repo.id, leased)
            await self.wipe_doomed(repo.id)
            raise
        self._write_lease(lent, ready=True)
        return lent

    def _claim_free(self, repository: RepositoryId, leased: Path) -> bool:
        _make_folder(leased.parent)
        for slot in _children(self._folder(repository, "free")):
            with contextlib.suppress(FileNotFoundError):
                slot.rename(leased)
                return True
        return False

    async def _reset(self, repo: RepoRef, slot: Path, commit: CommitSha) -> None:
        """Make the files exactly those of a commit; ignored files and nested repositories go."""

        async def reset(place: Place) -> None:
            at = Place(git_dir=place.git_dir, work_tree=slot / "files", index=slot / "index")
            await self._git.output("read-tree", "--reset", "-u", commit, place=at)
            await self._git.output("clean", "-ffdxq", place=at)

        (slot / "index.lock").unlink(missing_ok=True)
        await self._mirrors.using(repo, reset)

    def _held(self, slot: Path) -> Workspace | None:
        """The loan that a slot's lease names, if it is ready and ours."""
        try:
            lease = json.loads((slot / "lease.json").read_text())
        except (OSError, ValueError):
            return None
        if not lease["ready"] or lease["owner"] != self._owner.name:
            return None
        return Workspace(slot.name, slot, lease["secret"], lease["parent"])

    def _write_lease(self, workspace: Workspace, *, ready: bool) -> None:
        lease = {
            "owner": self._owner.name,
            "secret": workspace.secret,
            "parent": workspace.parent,
            "ready": ready,
        }
        written = workspace.slot / "lease.new"
        written.write_text(json.dumps(lease))
        written.replace(workspace.slot / "lease.json")

    # --- what is left over ----------------------------------------------------------------------

    def _doom(self, repository: RepositoryId, slot: Path) -> None:
        doomed = self._folder(repository, "doomed")
        _make_folder(doomed)
        with contextlib.suppress(FileNotFoundError):
            slot.rename(doomed / f"{slot.name}.{uuid.uuid4().hex}")

    def _abandoned(self, repository: RepositoryId, slot: Path) -> bool:
        try:
            owner = json.loads((slot / "lease.json").read_text())["owner"]
        except (OSError, ValueError, KeyError):
            return _seconds_since_renamed(slot) > FREE_SECONDS
        if owner != self._owner.name:
            return not self._owner.lives(owner)
        used_at = self._used_at.get((repository, slot.name), self._clock())
        return self._clock() - used_at > IDLE_SECONDS

    def _superfluous(self, repository: RepositoryId) -> list[Path]:
        free = sorted(_children(self._folder(repository, "free")), key=_age_seconds)
        return [
            slot
            for number, slot in enumerate(free)
            if number >= MOST_FREE or _age_seconds(slot) > FREE_SECONDS
        ]

    def _folder(self, repository: RepositoryId, name: str = "") -> Path:
        return self._root / str(int(repository)) / name

    def _repositories(self) -> list[RepositoryId]:
        return [int(path.name) for path in _children(self._root) if path.name.isdigit()]


def _make_folder(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True, mode=0o755)


def _children(folder: Path) -> list[Path]:
    try:
        return [Path(entry.path) for entry in os.scandir(folder)]
    except FileNotFoundError:
        return []


def _age_seconds(slot: Path) -> float:
    try:
        return time.time() - slot.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _seconds_since_renamed(slot: Path) -> float:
    try:
        return time.time() - slot.stat().st_ctime
    except FileNotFoundError:
        return 0.0


def _wipe_all(folders: list[Path]) -> None:
    for folder in folders:
        # FileRefused: somebody else wipes it at the same time, and will have finished.
        with contextlib.suppress(OSError, FileRefused):
            wipe(folder)
