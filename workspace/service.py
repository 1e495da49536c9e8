"""The whole workshop behind one door: the production `WorkspaceService`.

In: what a run pinned, scopes, records. Out: records, candidates, reports, evidence, pushes. Why:
the workflow speaks to this class alone; each method here is a few lines that hand the work to the
module that knows how. Several processes may share one data folder, and several machines may each
have their own: what a run made elsewhere is fetched, or composed again from its stored records.
"""

import asyncio
import contextlib
import shutil
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from workspace.answers import tree_map
from workspace.base_runs import BaseRuns
from workspace.bundle import store_statement
from workspace.candidate import PACK_MEDIA_TYPE, Composer
from workspace.contracts import (
    Artifact,
    ArtifactStore,
    Candidate,
    CommitSha,
    Conflict,
    Credentials,
    EvidenceManifest,
    Moved,
    Progress,
    Pushed,
    PushRefused,
    ReadTools,
    RunId,
    RunPin,
    Scope,
    Suite,
    TestReport,
    WorkerRecord,
    WorkKey,
    WorkspaceEvent,
    WorkspaceTools,
)
from workspace.errors import GitFailed, WorkspaceRefusal
from workspace.evidence import build_evidence, verify_evidence
from workspace.freeze import Freezer, Frozen
from workspace.git import Git, Place
from workspace.globs import GlobError
from workspace.locks import Owner
from workspace.mirror import Mirrors
from workspace.mirror_trees import MirrorTrees
from workspace.paths import decode_path
from workspace.pool import Pool, Workspace
from workspace.promotion import Promoter
from workspace.records import Records
from workspace.runs import Equipment, RunningJobs, WorkerRunner
from workspace.sandbox.backend import Sandbox
from workspace.scope import Denials, decide_scopes, load_denials
from workspace.setup import Dependencies
from workspace.signing import Signer
from workspace.strays import find_strays
from workspace.suites import SuiteRunner
from workspace.tools import Bench, TreeTools, WorkerTools
from workspace.trees import Trees

TIDY_SECONDS = 3600.0
KEEP_RECORDS_SECONDS = 24 * 3600.0
KEEP_CANDIDATES_SECONDS = 60 * 24 * 3600.0
KEEP_UNUSED_SECONDS = 30 * 24 * 3600.0


class Workshop:
    """`WorkspaceService` over one data folder, one sandbox and one artifact store."""

    def __init__(
        self,
        data_dir: Path,
        *,
        credentials: Credentials,
        artifacts: ArtifactStore,
        sandbox: Sandbox,
        progress: Progress | None = None,
        signer: Signer | None = None,
        allow_loopback_http: bool = False,
    ) -> None:
        """Open the workshop.

        Args:
            data_dir: Where mirrors, workspaces and dependencies are kept.
            credentials: Gives tokens at the moment of use.
            artifacts: Keeps diffs, logs, packs and bundles.
            sandbox: Runs commands and suites; it stays the caller's to close.
            progress: Hears what happens.
            signer: Signs what is said of a candidate; without it bundles are unsigned.
            allow_loopback_http: On the stage only: Git may speak plain HTTP to this machine.
        """
        self._data = data_dir
        self._artifacts = artifacts
        self._progress = progress
        self._signer = signer
        self._owner = Owner(data_dir / "owners", uuid.uuid4().hex)
        self._own = data_dir / "tmp" / self._owner.name
        (self._own / "indexes").mkdir(parents=True)
        self._git = Git(allow_loopback_http=allow_loopback_http)
        self._trees = Trees(self._git, self._own / "indexes")
        self._mirrors = Mirrors(data_dir / "mirrors", self._git, credentials)
        self._pool = Pool(data_dir / "workspaces", self._git, self._mirrors, self._owner)
        self._records = Records(data_dir / "records")
        self._freezer = Freezer(self._git, self._trees)
        self._composer = Composer(self._mirrors, self._trees, artifacts)
        self._promoter = Promoter(self._mirrors, self._trees)
        self._tree_store = MirrorTrees(self._mirrors, self._trees)
        self._dependencies = Dependencies(
            data_dir / "dependencies",
            sandbox=sandbox,
            trees=self._tree_store,
            temporary=self._own / "set-up",
        )
        self._base_runs = BaseRuns(data_dir / "base-runs")
        self._suites = SuiteRunner(
            sandbox=sandbox,
            trees=self._tree_store,
            artifacts=artifacts,
            dependencies=self._dependencies,
            base_runs=self._base_runs,
            checkouts=self._own / "checkouts",
        )
        self._jobs = RunningJobs()
        self._equipment = Equipment(
            pool=self._pool,
            sandbox=sandbox,
            dependencies=self._dependencies,
            suites=self._suites,
            jobs=self._jobs,
        )
        self._tidied_at = -TIDY_SECONDS

    async def close(self) -> None:
        """Give up what this process holds; another may take it at once."""
        await asyncio.to_thread(shutil.rmtree, self._own, ignore_errors=True)
        self._owner.close()

    # --- before and beside workers --------------------------------------------------------------

    async def prepare(self, run: RunPin, suites: Sequence[Suite]) -> None:
        """Fetch the mirror, seal `setup`, run the suites on the base: all that needs no model.

        Raises:
            WorkspaceRefusal: the repository or its set-up cannot be used; the sentence says why.
        """
        await self._tell(run, "mirror", "fetching the repository")
        await self._mirrors.fetch(run.repo, want=run.original_base_sha)
        await self._tell(run, "base", "preparing dependencies and the base's suites")
        await self._jobs.run(run.run_id, self._suites.prepare(run, suites))

    async def repository_map(self, run: RunPin, *, limit: int = 400) -> str:
        """Return the base tree as text, at most `limit` lines; deep folders become counts."""
        place = await self._mirrors.fetch(run.repo, want=run.original_base_sha)
        entries = await self._trees.entries(place, run.original_base_sha)
        return tree_map([decode_path(entry.path) for entry in entries], limit)

    async def read_base_file(self, run: RunPin, path: str, *, limit: int) -> bytes | None:
        """Return a file of the original base cut to `limit` bytes, or None."""
        await self._mirrors.fetch(run.repo, want=run.original_base_sha)
        entries = await self._tree_store.entries(run.repo.id, run.original_base_sha)
        entry = entries.get(path)
        if entry is None or not entry.is_file:
            return None
        return (await self._tree_store.read_blob(run.repo.id, entry.object_id))[:limit]

    async def tools_at(self, run: RunPin, commit: CommitSha) -> ReadTools:
        """Return read-only tools over a commit: for the planner and the reviewers."""
        place = await self._mirrors.fetch(run.repo, want=commit)
        return TreeTools(self._git, self._trees, place, commit)

    async def check_scopes(
        self, run: RunPin, scopes: Sequence[Scope], *, parent: CommitSha
    ) -> tuple[str, ...]:
        """Return what is wrong with the scopes of a plan, a sentence each; empty when sound."""
        place = await self._mirrors.fetch(run.repo, want=parent)
        entries = await self._trees.entries(place, parent)
        paths = [entry.path for entry in entries]
        return await asyncio.to_thread(decide_scopes, scopes, _denials(run), paths)

    # --- workers --------------------------------------------------------------------------------

    async def create_worker(
        self, run: RunPin, scope: Scope, *, key: WorkKey, parent: CommitSha, suites: Sequence[Suite]
    ) -> WorkspaceTools:
        """Check out `parent` for one worker. The same key gives the same workspace.

        Raises:
            CommitMissing: `parent` is not to be had; a candidate comes back by `restore`.
        """
        denials = _denials(run)
        await self._mirrors.fetch(run.repo, want=parent)
        workspace = await self._pool.lend(run.repo, key, parent)
        self._records.forget(run.repo.id, key)
        await self._tell(run, "workspace", f"{key.task_id} has a workspace")
        runner = WorkerRunner(
            self._equipment,
            run,
            workspace,
            read_only=scope.read_only,
            strays=lambda: find_strays(
                self._git, self._mirrors.place(run.repo.id), workspace, scope, denials
            ),
        )
        return WorkerTools(
            Bench(workspace, scope, denials, tuple(suites), runner, self._require(run, workspace))
        )

    async def inspect_and_freeze(
        self, run: RunPin, scope: Scope, *, key: WorkKey, parent: CommitSha
    ) -> WorkerRecord:
        """End what still runs in the workspace, record what Git says changed, give it back.

        Asked again, it returns the same record.

        Raises:
            WorkspaceGone: there is no such workspace and no record of it.
        """
        stored = await asyncio.to_thread(self._records.load, run.repo.id, key, parent)
        if stored is not None:
            return stored
        workspace = self._pool.find(run.repo.id, key)
        async with self._jobs.ended(workspace.secret):
            record = await self._freeze(run, scope, key, workspace)
        await self._tell(run, "frozen", f"{key.task_id}: {_count(record)}")
        return record

    async def _freeze(
        self, run: RunPin, scope: Scope, key: WorkKey, workspace: Workspace
    ) -> WorkerRecord:
        denials = _denials(run)

        async def work(place: Place) -> tuple[WorkerRecord, bool]:
            frozen = await self._freezer.freeze(place, workspace, scope, denials)
            return await self._record(run, key, workspace, place, frozen), frozen.spoiled

        record, spoiled = await self._mirrors.using(run.repo, work)
        await asyncio.to_thread(self._records.store, run.repo.id, record)
        if spoiled:
            await self._pool.quarantine(run.repo.id, workspace)
        else:
            await self._pool.give_back(run.repo, workspace)
        return record

    async def _record(
        self, run: RunPin, key: WorkKey, workspace: Workspace, place: Place, frozen: Frozen
    ) -> WorkerRecord:
        """Bring what was frozen into the mirror and the artifact store, unless it is refused."""
        artifacts: tuple[Artifact, ...] = ()
        if frozen.pack:
            await self._trees.unpack(place, frozen.pack)
            put = self._artifacts.put
            artifacts = (await put(run.repo.id, run.run_id, frozen.pack, PACK_MEDIA_TYPE),)
        return WorkerRecord(
            task_id=key.task_id,
            round=key.round,
            workspace_id=workspace.id,
            base_sha=workspace.parent,
            tree=frozen.tree,
            changed_files=tuple(change.as_changed_file() for change in frozen.changes),
            ignored=frozen.ignored,
            refused=frozen.refused,
            warnings=frozen.warnings,
            artifacts=artifacts,
        )

    # --- candidates -----------------------------------------------------------------------------

    async def compose(
        self, run: RunPin, records: Sequence[WorkerRecord], *, round: int, parent: CommitSha
    ) -> Candidate | Conflict:
        """Compose one commit on the original base from the records' tree entries."""
        await self._mirrors.fetch(run.repo, want=run.original_base_sha)
        await self._mirrors.fetch(run.repo, want=parent)
        composed = await self._composer.compose(run, records, round=round, parent=parent)
        if isinstance(composed, Candidate):
            files = len(composed.changed_files)
            await self._tell(run, "composed", f"candidate {composed.sha[:12]}, {files} files")
        return composed

    async def restore(self, run: RunPin, candidate: Candidate) -> None:
        """Bring a stored candidate's commit to this machine, if it is not here.

        Raises:
            CommitMissing: it is in no branch and its pack is gone.
        """
        await self._mirrors.fetch(run.repo, want=run.original_base_sha)
        if not await self._mirrors.has(run.repo.id, candidate.sha):
            await self._composer.restore(run, candidate)

    async def recompose_on(self, run: RunPin, candidate: Candidate) -> Candidate | Conflict:
        """Compose a candidate of an earlier attempt anew on `run.original_base_sha`.

        Git merges three ways; a conflict names the files.
        """
        await self.restore(run, candidate)
        return await self._composer.recompose(run, candidate)

    async def test(self, run: RunPin, candidate: Candidate, suites: Sequence[Suite]) -> TestReport:
        """Run the suites on a fresh checkout of the candidate, and on the base (cached)."""
        await self.restore(run, candidate)
        await self._tell(run, "testing", f"{len(suites)} suites on {candidate.sha[:12]}")
        return await self._jobs.run(run.run_id, self._suites.test(run, candidate, suites))

    async def evidence(
        self,
        run: RunPin,
        candidate: Candidate,
        report: TestReport,
        documents: Mapping[str, bytes],
        *,
        lineage: Mapping[str, str],
    ) -> EvidenceManifest:
        """Bind diff, report, logs and documents into one digest, and sign what is said of them.

        Args:
            run: What the run pinned.
            candidate: What was tested.
            report: What the suites did on it.
            documents: What else led to it, by name: plan, policy, request, …; stored under the run.
            lineage: What the run came from, as `workspace.bundle` says it.
        """
        await self.restore(run, candidate)
        bindings = {
            name: (await self._artifacts.put(run.repo.id, run.run_id, content, "text/plain")).sha256
            for name, content in documents.items()
        }
        manifest = await build_evidence(run, candidate, report, bindings, artifacts=self._artifacts)
        statement = await store_statement(
            run,
            candidate,
            report,
            manifest,
            artifacts=self._artifacts,
            trees=self._tree_store,
            signer=self._signer,
            lineage=lineage,
        )
        signed_by = self._signer.key_id if self._signer else None
        return manifest.model_copy(update={"statement_uri": statement.uri, "signed_by": signed_by})

    async def verify_evidence(
        self, run: RunPin, candidate: Candidate, report: TestReport, manifest: EvidenceManifest
    ) -> tuple[str, ...]:
        """Recompute every digest from the stored bytes; return the broken links, if any."""
        return await verify_evidence(run, candidate, report, manifest, artifacts=self._artifacts)

    # --- the other side -------------------------------------------------------------------------

    async def publish_branch(
        self, run: RunPin, branch: str, sha: CommitSha, *, expected: CommitSha | None
    ) -> Pushed | Moved | PushRefused:
        """Move refs/heads/`branch` under a lease on `expected` (None: must not exist).

        Raises:
            WorkspaceRefusal: the branch is the base, which only `promote` moves.
        """
        ref = f"refs/heads/{branch}"
        if ref == run.base_ref:
            raise WorkspaceRefusal("The base branch is moved by a promotion only.")
        return await self._promoter.place(run.repo, ref, sha, expected=expected)

    async def promote(
        self, run: RunPin, sha: CommitSha, *, expected: CommitSha
    ) -> Pushed | Moved | PushRefused:
        """Fast-forward the base branch from `expected` to `sha`, and to nothing else."""
        return await self._promoter.fast_forward(run.repo, run.base_ref, sha, expected=expected)

    # --- clean-up -------------------------------------------------------------------------------

    async def cancel(self, run_id: RunId) -> None:
        """Kill what runs for this run and wipe its workspaces."""
        await self._jobs.cancel(run_id)
        await self._pool.cancel(run_id)

    async def reap(self) -> None:
        """Remove what nobody owns: at start, and every minute."""
        await self._pool.reap()
        await asyncio.to_thread(self._remove_leftovers)
        if time.monotonic() - self._tidied_at > TIDY_SECONDS:
            self._tidied_at = time.monotonic()
            await self._tidy()

    async def _tidy(self) -> None:
        """Drop what is old; a mirror that fails here is looked at again when it is next used."""
        await self._dependencies.tidy(older_than_seconds=KEEP_UNUSED_SECONDS)
        await self._base_runs.tidy(older_than_seconds=KEEP_UNUSED_SECONDS)
        await asyncio.to_thread(self._records.tidy, older_than_seconds=KEEP_RECORDS_SECONDS)
        for repository in self._mirrors.repositories():
            if self._pool.idle(repository):
                with contextlib.suppress(GitFailed):
                    await self._mirrors.tidy(repository, older_than_seconds=KEEP_CANDIDATES_SECONDS)

    def _remove_leftovers(self) -> None:
        """Remove temporary folders of dead processes."""
        for folder in (self._data / "tmp").iterdir():
            if not self._owner.lives(folder.name):
                shutil.rmtree(folder, ignore_errors=True)

    # --- small parts ----------------------------------------------------------------------------

    def _require(self, run: RunPin, workspace: Workspace) -> Callable[[], None]:
        def require() -> None:
            self._pool.require(workspace)
            self._pool.touch(run.repo.id, workspace.id)

        return require

    async def _tell(self, run: RunPin, kind: str, text: str) -> None:
        if self._progress is not None:
            await self._progress(WorkspaceEvent(run_id=run.run_id, kind=kind, text=text))


def _denials(run: RunPin) -> Denials:
    try:
        return load_denials(run.writes)
    except GlobError as error:
        raise WorkspaceRefusal(f"The policy's writes rules: {error}") from error


def _count(record: WorkerRecord) -> str:
    if record.refused:
        return f"refused, {len(record.refused)} paths"
    return f"{len(record.changed_files)} files changed"
