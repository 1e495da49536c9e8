"""What is running for a run at this moment, so that a cancellation reaches it.

In: work to do in the name of a run. Out: its result, or `WorkspaceGone` when the run is cancelled
meanwhile. Why: cancelling a workflow does not reach what its agents started; cancelling the task
that awaits a sandbox kills everything in it.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Sequence
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


class RunningJobs:
    """Tasks by run."""

    def __init__(self) -> None:
        self._tasks: defaultdict[RunId, set[asyncio.Task[Any]]] = defaultdict(set)

    async def run(self, run_id: RunId, work: Coroutine[Any, Any, T]) -> T:
        """Do work that `cancel` can end.

        Raises:
            WorkspaceGone: the run was cancelled.
        """
        task = asyncio.ensure_future(work)
        self._tasks[run_id].add(task)
        try:
            return await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                raise
            raise WorkspaceGone(f"Run {run_id} was cancelled.") from None
        finally:
            self._tasks[run_id].discard(task)
            if not self._tasks[run_id]:
                del self._tasks[run_id]

    async def cancel(self, run_id: RunId) -> None:
        """End everything that runs for a run, and wait until it has ended."""
        tasks = list(self._tasks.get(run_id, ()))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


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
        strays: Callable[[], Awaitable[Sequence[bytes]]],
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
            WorkspaceGone: the run was cancelled, or what the command wrote could not be kept.
        """
        return await self._with.jobs.run(self._run.run_id, self._command(command, timeout_seconds))

    async def suite(self, suite: Suite) -> str:
        """Run a suite and say how it ended, with the end of its log."""
        work = self._with.suites.try_suite(self._run, suite, self._workspace.files)
        execution = await self._with.jobs.run(self._run.run_id, work)
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
            return await self._strays()
        except GitFailed:
            return ()

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
