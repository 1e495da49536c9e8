"""What is running for a run, or in one workspace, at this moment, so that an end reaches it.

In: work to do in the name of a run. Out: its result, or `WorkspaceGone` when the run is cancelled
or the workspace frozen meanwhile. Why: cancelling a workflow does not reach what its agents
started; cancelling the task that awaits a sandbox kills everything in it. And a folder is lent
again once it is frozen: whatever still writes there would write into somebody else's work.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from workspace.contracts import RunId, RunPin, Suite
from workspace.environment import suite_environment
from workspace.errors import GitFailed, WorkspaceGone
from workspace.pool import Pool, Workspace
from workspace.sandbox.backend import Job, Limits, Outcome, Sandbox, WorkspaceNotKept
from workspace.setup import Dependencies
from workspace.suites import SuiteRunner

T = TypeVar("T")
F = TypeVar("F", bound="asyncio.Future[Any]")
_TAKEN_BACK = "The workspace is taken back: its work is being recorded."


class RunningJobs:
    """Tasks by run, and by loan of a workspace (`Workspace.secret`)."""

    def __init__(self) -> None:
        self._tasks: defaultdict[str, set[asyncio.Task[Any]]] = defaultdict(set)
        self._threads: defaultdict[str, set[asyncio.Future[Any]]] = defaultdict(set)
        self._ended: set[str] = set()

    async def run(
        self, run_id: RunId, work: Coroutine[Any, Any, T], *, loan: str | None = None
    ) -> T:
        """Do work that `cancel`, or the end of the loan, can end.

        Raises:
            WorkspaceGone: the run was cancelled, or its workspace is taken back.
        """
        if loan in self._ended:
            work.close()
            raise WorkspaceGone(_TAKEN_BACK)
        task = asyncio.ensure_future(work)
        owners = [owner for owner in (run_id, loan) if owner is not None]
        for owner in owners:
            self._tasks[owner].add(task)
        try:
            return await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                raise
            said = _TAKEN_BACK if loan in self._ended else f"Run {run_id} was cancelled."
            raise WorkspaceGone(said) from None
        finally:
            for owner in owners:
                _discard(self._tasks, owner, task)

    async def in_thread(self, loan: str, work: Callable[[], T]) -> T:
        """Do short work on a loan's files in a thread, which nothing can end: it is waited for.

        Raises:
            WorkspaceGone: the workspace is taken back.
        """
        if loan in self._ended:
            raise WorkspaceGone(_TAKEN_BACK)
        thread = asyncio.ensure_future(asyncio.to_thread(work))
        self._threads[loan].add(thread)
        thread.add_done_callback(lambda done: _discard(self._threads, loan, done))
        return await asyncio.shield(thread)

    async def cancel(self, run_id: RunId) -> None:
        """End everything that runs for a run, and wait until it has ended."""
        await self._end(run_id)

    @asynccontextmanager
    async def ended(self, loan: str) -> AsyncIterator[None]:
        """End everything that runs in a workspace, and let nothing begin there for as long."""
        self._ended.add(loan)
        try:
            await self._end(loan)
            await asyncio.gather(*self._threads.get(loan, ()), return_exceptions=True)
            yield
        finally:
            self._ended.discard(loan)

    async def _end(self, owner: str) -> None:
        tasks = list(self._tasks.get(owner, ()))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _discard(
    work: defaultdict[str, set[F]],
    owner: str,
    done: F,
) -> None:
    work[owner].discard(done)
    if not work[owner]:
        del work[owner]


@dataclass(frozen=True, slots=True, kw_only=True)
class Equipment:
    """What all workers of one process share."""

    pool: Pool
    sandbox: Sandbox
    dependencies: Dependencies
    suites: SuiteRunner
    jobs: RunningJobs


class WorkerRunner:
    """Runs one worker's commands and suites, in the sandbox and in its workspace."""

    def __init__(
        self,
        equipment: Equipment,
        run: RunPin,
        workspace: Workspace,
        *,
        read_only: bool,
        strays: Callable[[], Coroutine[Any, Any, Sequence[bytes]]],
    ) -> None:
        """Bind everything to one run and workspace; with `read_only` nothing written stays."""
        self._with = equipment
        self._run = run
        self._workspace = workspace
        self._read_only = read_only
        self._strays = strays

    async def command(self, command: str, timeout_seconds: int) -> Outcome:
        """Run a shell command with the run's dependencies and limits.

        Raises:
            WorkspaceGone: the run was cancelled, the workspace taken back, or what the command
                wrote could not be kept.
        """
        return await self._do(self._command(command, timeout_seconds))

    async def suite(self, suite: Suite) -> str:
        """Run a suite and say how it ended, with the end of its log."""
        work = self._with.suites.try_suite(self._run, suite, self._workspace.files)
        execution = await self._do(work)
        seen = execution.observation
        counts: dict[str, int] = {}
        for test in seen.outcomes:
            counts[test.outcome] = counts.get(test.outcome, 0) + 1
        tests = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
        how = f"exit code {seen.exit_code}" if seen.termination == "exit" else seen.termination
        log = execution.log.decode("utf-8", "replace")
        return f"Suite {suite.id}: {how}{f'; {tests}' if tests else ''}\n{log}"

    async def strays(self) -> Sequence[bytes]:
        """Return what lies outside the scope; nothing where nothing written stays."""
        if self._read_only:
            return ()
        try:
            return await self._do(self._strays())
        except GitFailed:
            return ()

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Do short work on the workspace's files.

        Raises:
            WorkspaceGone: the workspace is taken back.
        """
        return await self._with.jobs.in_thread(self._workspace.secret, work)

    async def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return await self._with.jobs.run(self._run.run_id, work, loan=self._workspace.secret)

    async def _command(self, command: str, timeout_seconds: int) -> Outcome:
        sealed = await self._with.dependencies.seal(self._run)
        limits = self._run.sandbox
        job = Job(
            command=("/bin/sh", "-c", command),
            workspace=self._workspace.files,
            read_only=self._read_only,
            env=suite_environment(),
            deps=sealed.folder,
            image=limits.image,
            limits=Limits(
                wall_seconds=timeout_seconds,
                memory_bytes=limits.memory_bytes,
                cpus=limits.cpus,
                disk_bytes=limits.disk_bytes,
            ),
        )
        try:
            return await self._with.sandbox.run(job)
        except WorkspaceNotKept as error:
            await self._with.pool.quarantine(self._run.repo.id, self._workspace)
            raise WorkspaceGone(f"What the command wrote could not be kept: {error}") from error
