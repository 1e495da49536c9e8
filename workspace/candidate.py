"""One commit out of what several workers changed: the candidate of a round.

In: records frozen from workspaces, the commit the round started from, the original base. Out: a
commit whose only parent is the original base, or the paths that two records both touch. Why: what
is tested, reviewed and merged is exactly this commit; it is composed from tree entries (mode,
object, path), never from text, and every value in it follows from the run, so that the same content
gives the same SHA on any machine and at any time.
"""

import asyncio
import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations

from workspace.contracts import (
    Artifact,
    ArtifactStore,
    Candidate,
    ChangedFile,
    CommitSha,
    Conflict,
    RunPin,
    WorkerRecord,
    git_path,
    path_bytes,
)
from workspace.errors import CommitMissing, WorkspaceRefusal
from workspace.files import beginnings
from workspace.freeze import collisions, load_links
from workspace.git import Place
from workspace.links import escaping_links
from workspace.mirror import Mirrors
from workspace.trees import ABSENT_MODE, LINK_MODE, Trees

PACK_MEDIA_TYPE = "application/x-git-packed-objects"
DIFF_MEDIA_TYPE = "text/x-diff; charset=utf-8"
_SHOWN = 50


class Composer:
    """Composes candidates in a mirror."""

    def __init__(self, mirrors: Mirrors, trees: Trees, artifacts: ArtifactStore) -> None:
        """Compose in `mirrors`; fetch workers' objects from, and keep diffs in, `artifacts`."""
        self._mirrors = mirrors
        self._trees = trees
        self._artifacts = artifacts

    async def compose(
        self, run: RunPin, records: Sequence[WorkerRecord], *, round: int, parent: CommitSha
    ) -> Candidate | Conflict:
        """Compose one commit on the original base from the records' tree entries.

        Raises:
            WorkspaceRefusal: a record is refused, or started from another commit than `parent`.
        """
        _require_lineage(records, parent)
        conflict = find_conflict(records)
        if conflict is not None:
            return conflict

        async def work(place: Place) -> Candidate | Conflict:
            await self._bring_objects(run, place, records)
            tree = await self._trees.compose(place, parent, _entries(records))
            changed = [file for record in records for file in record.changed_files]
            conflict = None
            if sum(bool(record.changed_files) for record in records) > 1:
                conflict = await self._find_conflict_in(place, parent, tree, changed)
            return conflict or await self._commit(run, place, tree, round=round, parent=parent)

        return await self._mirrors.using(run.repo, work)

    async def recompose(self, run: RunPin, candidate: Candidate) -> Candidate | Conflict:
        """Compose a candidate anew on `run.original_base_sha`, by Git's own three-way merge."""

        async def work(place: Place) -> Candidate | Conflict:
            base = run.original_base_sha
            if not await self._trees.are_related(place, base, candidate.sha):
                return Conflict(paths=(), reason="the base was replaced by an unrelated history")
            tree, paths = await self._trees.merge(place, base, candidate.sha)
            if paths:
                return _conflict(paths, "the base changed what the candidate changed")
            changes = await self._trees.changes(place, base, tree)
            changed = [change.as_changed_file() for change in changes]
            conflict = await self._find_conflict_in(place, base, tree, changed)
            return conflict or await self._commit(
                run, place, tree, round=candidate.round, parent=base
            )

        return await self._mirrors.using(run.repo, work)

    async def _commit(
        self, run: RunPin, place: Place, tree: str, *, round: int, parent: CommitSha
    ) -> Candidate:
        base = run.original_base_sha
        changes = await self._trees.changes(place, base, tree)
        (sha, pack), diff = await asyncio.gather(
            self._make(run, place, tree, round) if changes else _nothing(base),
            self._store_diff(run, place, tree),
        )
        return Candidate(
            id=f"{run.run_id}-r{round}",
            sha=sha,
            tree=tree,
            base_sha=parent,
            original_base_sha=base,
            round=round,
            changed_files=tuple(change.as_changed_file() for change in changes),
            diff_uri=diff.uri,
            diff_digest=diff.sha256,
            pack=pack,
        )

    async def restore(self, run: RunPin, candidate: Candidate) -> None:
        """Import a candidate's commit from its stored pack.

        Raises:
            CommitMissing: it has none, or the pack does not hold it.
        """

        async def work(place: Place) -> None:
            if candidate.pack is not None:
                get = self._artifacts.get
                pack = await get(run.repo.id, run.run_id, candidate.pack.sha256)
                await self._trees.unpack(place, pack)
            if not await self._mirrors.has(run.repo.id, candidate.sha):
                raise CommitMissing(f"Candidate {candidate.sha} cannot be had any more.")
            await self._mirrors.keep(run.repo.id, run.run_id, candidate.round, candidate.sha)

        await self._mirrors.using(run.repo, work)

    async def _make(
        self, run: RunPin, place: Place, tree: str, round: int
    ) -> tuple[CommitSha, Artifact]:
        """Make the commit, name it, and keep its objects where other machines find them."""
        base = run.original_base_sha
        sha = await self._trees.commit(place, tree, base, run.commit)
        await self._mirrors.keep(run.repo.id, run.run_id, round, sha)
        pack = await self._trees.pack_between(place, base, sha)
        put = self._artifacts.put
        return sha, await put(run.repo.id, run.run_id, pack, PACK_MEDIA_TYPE)

    async def _store_diff(self, run: RunPin, place: Place, tree: str) -> Artifact:
        content = await self._trees.diff(place, run.original_base_sha, tree)
        stored = await self._artifacts.put(run.repo.id, run.run_id, content, DIFF_MEDIA_TYPE)
        assert stored.sha256 == hashlib.sha256(content).hexdigest()
        return stored

    async def _bring_objects(
        self, run: RunPin, place: Place, records: Sequence[WorkerRecord]
    ) -> None:
        """Import the workers' objects that this machine's mirror does not hold."""
        wanted = [
            file.new_object
            for record in records
            for file in record.changed_files
            if file.new_mode != ABSENT_MODE
        ]
        if not await self._trees.missing(place, wanted):
            return
        for record in records:
            for artifact in record.artifacts:
                if artifact.media_type == PACK_MEDIA_TYPE:
                    pack = await self._artifacts.get(run.repo.id, run.run_id, artifact.sha256)
                    await self._trees.unpack(place, pack)

    async def _find_conflict_in(
        self, place: Place, parent: CommitSha, tree: str, changed: Sequence[ChangedFile]
    ) -> Conflict | None:
        """What only shows once several changes are put together."""
        added = [path_bytes(file.path) for file in changed if file.old_mode == ABSENT_MODE]
        linked = any(LINK_MODE in {file.old_mode, file.new_mode} for file in changed)
        if not (added or linked):
            return None
        entries = await self._trees.entries(place, tree)
        clashes = await asyncio.to_thread(collisions, entries, added)
        if clashes:
            return _conflict({path for path, _ in clashes}, clashes[0][1])
        if not linked:
            return None
        before = await load_links(self._trees, place, await self._trees.entries(place, parent))
        after = await load_links(self._trees, place, entries)
        leaving = escaping_links(after) - escaping_links(before)
        reason = "together these symbolic links lead out of the repository"
        return _conflict(leaving, reason) if leaving else None


async def _nothing(base: CommitSha) -> tuple[CommitSha, None]:
    """Without a change the candidate is the base, which every machine can fetch."""
    return base, None


def find_conflict(records: Sequence[WorkerRecord]) -> Conflict | None:
    """Return the paths that two records touch, or where one's file is another's folder."""
    touched = [
        (record.task_id, {path_bytes(file.path) for file in record.changed_files})
        for record in records
    ]
    for (one, ours), (other, theirs) in combinations(touched, 2):
        same = ours & theirs
        if same:
            return _conflict(same, f"tasks {one} and {other} changed the same paths")
        clashing = (ours & _folders(theirs)) | (theirs & _folders(ours))
        if clashing:
            below = {path for path in ours | theirs if clashing.intersection(beginnings(path))}
            return _conflict(
                clashing | below,
                f"what is a file in task {one} or {other} is a folder in the other",
            )
    return None


def _folders(paths: Iterable[bytes]) -> set[bytes]:
    return {folder for path in paths for folder in beginnings(path)}


def _conflict(paths: Collection[bytes], reason: str) -> Conflict:
    return Conflict(paths=tuple(git_path(path) for path in sorted(paths)[:_SHOWN]), reason=reason)


def _require_lineage(records: Sequence[WorkerRecord], parent: CommitSha) -> None:
    for record in records:
        if record.refused:
            raise WorkspaceRefusal(
                f"The record of {record.task_id} is refused; nothing of it is used."
            )
        if record.base_sha != parent:
            raise WorkspaceRefusal(
                f"Task {record.task_id} started from {record.base_sha}, not from {parent}."
            )


def _entries(records: Sequence[WorkerRecord]) -> list[tuple[bytes, str, str]]:
    """Path, mode and object of every change, in one order whatever the records' order was."""
    entries: Mapping[bytes, tuple[bytes, str, str]] = {
        path_bytes(file.path): (path_bytes(file.path), file.new_mode, file.new_object)
        for record in records
        for file in record.changed_files
    }
    return [entries[path] for path in sorted(entries)]
