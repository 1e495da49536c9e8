"""Suites on a candidate: real exit codes, real outcomes, compared with the base.

In: a candidate, and suites from policy. Out: a `TestReport`, and the document that proves it.
The candidate's tree is judged with the base's runner configuration; changed tests run in both
versions; a canary that must fail is looked for; all on fresh checkouts, without network. Code
inside the runner can still lie: a pass is evidence, not proof.

`prepare` needs no candidate: dependencies and the base's runs are made while others think.
"""

import asyncio
import platform
import secrets
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from workspace.base_runs import BaseRun, BaseRuns
from workspace.canary import plant_canary
from workspace.contracts import (
    ArtifactStore,
    Canary,
    Candidate,
    RunPin,
    Sha256,
    Suite,
    TestReport,
    git_path,
)
from workspace.digest import RunFacts
from workspace.environment import measure_toolchain, suite_environment
from workspace.execution import Execution, execute_suite
from workspace.judging import JUDGING_VERSION, Observation, SuiteFacts, decide_reason
from workspace.report import REPORT_MEDIA_TYPE, ReportDocument, SuiteRecord, build_report
from workspace.runner_configuration import base_tests_entries, judged_entries
from workspace.sandbox.backend import DEPS, Sandbox
from workspace.setup import Dependencies, SealedDependencies
from workspace.tree_entries import Entries, TreeEntry, TreeStore, raw_path, with_entry

_LOG_MEDIA_TYPE: Final = "text/plain; charset=utf-8"
_JUNIT_MEDIA_TYPE: Final = "application/xml"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bench:
    """What all executions for one run share."""

    pin: RunPin
    deps: SealedDependencies
    toolchain: Mapping[str, dict[str, str]]
    base: Entries
    base_tree: str
    slots: asyncio.Semaphore
    cpus_each: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    """The trees one candidate is judged on."""

    tree: str
    entries: Entries
    restored: tuple[str, ...]
    base_tests_tree: str | None
    """With the base's version of the tests that the candidate changed; None: it changed none."""
    changed_tests: tuple[str, ...]


class SuiteRunner:
    """Runs suites and judges candidates by them."""

    def __init__(
        self,
        *,
        sandbox: Sandbox,
        trees: TreeStore,
        artifacts: ArtifactStore,
        dependencies: Dependencies,
        base_runs: BaseRuns,
        checkouts: Path,
    ) -> None:
        """Compose the runner.

        Args:
            sandbox: Where suites run.
            trees: The mirror's objects.
            artifacts: Where logs, JUnit files and report documents go.
            dependencies: Sealed dependencies.
            base_runs: What suites did on base commits.
            checkouts: A folder for fresh checkouts, which sandbox users can reach; emptied of each
                checkout as soon as its runs have ended.
        """
        self._sandbox = sandbox
        self._trees = trees
        self._artifacts = artifacts
        self._dependencies = dependencies
        self._base_runs = base_runs
        self._checkouts = checkouts

    async def prepare(self, pin: RunPin, suites: Sequence[Suite]) -> None:
        """Seal the dependencies and run the suites on the base; a repetition costs nothing.

        Raises:
            SetupFailed: The dependencies cannot be had.
            SandboxError: The sandbox failed.
        """
        bench = await self._open(pin, suites)
        await self._run_bases(bench, suites)

    async def test(self, pin: RunPin, candidate: Candidate, suites: Sequence[Suite]) -> TestReport:
        """Run the suites on a candidate and judge it.

        Raises:
            SetupFailed: The dependencies cannot be had.
            SandboxError: The sandbox failed.
        """
        bench = await self._open(pin, suites)
        bases = await self._run_bases(bench, suites)
        judged = await self._judged(bench, candidate, suites)
        records = await self._judge_all(bench, candidate, judged, suites, bases)
        document = ReportDocument(
            candidate_id=candidate.id,
            candidate_sha=candidate.sha,
            judged_tree=judged.tree,
            restored=tuple(git_path(raw_path(path)) for path in judged.restored),
            changed_tests=tuple(git_path(raw_path(path)) for path in judged.changed_tests),
            sandbox=self._sandbox.name,
            guarantees=dict(self._sandbox.guarantees),
            suites=records,
        )
        stored = await self._artifacts.put(
            pin.repo.id, pin.run_id, document.encode(), REPORT_MEDIA_TYPE
        )
        return build_report(document, stored.uri)

    async def try_suite(self, pin: RunPin, suite: Suite, workspace: Path) -> Execution:
        """Run one suite on a worker's files as they stand; for the worker's eyes, never judged."""
        bench = await self._open(pin, [suite])
        return await self._execute(bench, suite, workspace, "0" * 64)

    async def _open(self, pin: RunPin, suites: Sequence[Suite]) -> _Bench:
        deps = await self._dependencies.seal(pin)
        async with self._folder() as empty:
            commands = [suite.run for suite in suites]
            toolchain = await measure_toolchain(
                self._sandbox, empty, commands, image=pin.sandbox.image
            )
        base = await self._trees.entries(pin.repo.id, pin.original_base_sha)
        side_by_side = min(max(1, len(suites)), max(1, int(pin.sandbox.cpus)))
        return _Bench(
            pin=pin,
            deps=deps,
            toolchain=toolchain,
            base=base,
            base_tree=await self._trees.write_tree(pin.repo.id, base),
            slots=asyncio.Semaphore(side_by_side),
            cpus_each=pin.sandbox.cpus / side_by_side,
        )

    def _facts(self, bench: _Bench, suite: Suite, tree: str) -> RunFacts:
        return RunFacts(
            tree=tree,
            base_commit=bench.pin.original_base_sha,
            suite=suite,
            writes_allow=bench.pin.writes.allow,
            environment=suite_environment(),
            toolchain=bench.toolchain[suite.run],
            dependency_seal=bench.deps.seal,
            architecture=platform.machine(),
            sandbox=self._sandbox.name,
            guarantees=dict(self._sandbox.guarantees),
            limits=bench.pin.sandbox.model_dump(),
            judging_version=JUDGING_VERSION,
        )

    # --- the base -------------------------------------------------------------------------------

    async def _run_bases(self, bench: _Bench, suites: Sequence[Suite]) -> dict[str, BaseRun]:
        async with asyncio.TaskGroup() as group:
            tasks = {suite.id: group.create_task(self._run_base(bench, suite)) for suite in suites}
        return {suite_id: task.result() for suite_id, task in tasks.items()}

    async def _run_base(self, bench: _Bench, suite: Suite) -> BaseRun:
        """Run a suite on the base, or return what it did there before."""
        run_key = self._facts(bench, suite, bench.base_tree).run_key

        async def run() -> BaseRun:
            async with bench.slots:
                tree = await self._write(bench, bench.base)
                async with self._checkout(bench, tree) as folder:
                    execution = await self._execute(bench, suite, folder, run_key)
                return BaseRun(
                    observation=execution.observation,
                    canary_files=await self._learn_canary(bench, suite),
                )

        return await self._base_runs.get_or_run(bench.pin.repo.id, run_key, run)

    async def _learn_canary(self, bench: _Bench, suite: Suite) -> tuple[str, ...]:
        """Return the base's test files in which a planted failure shows in the JUnit file."""
        if not suite.junit:
            return ()
        entries, canary = await plant_canary(self._trees, bench.pin.repo.id, bench.base)
        if not canary.files:
            return ()
        tree = await self._write(bench, entries)
        async with self._checkout(bench, tree) as folder:
            execution = await self._execute(bench, suite, folder, "0" * 64)
        return tuple(sorted(canary.seen_failing(execution.observation.outcomes)))

    # --- the candidate --------------------------------------------------------------------------

    async def _judged(
        self, bench: _Bench, candidate: Candidate, suites: Sequence[Suite]
    ) -> _Judged:
        repository = bench.pin.repo.id
        entries, restored = await judged_entries(
            self._trees,
            repository,
            bench.base,
            await self._trees.entries(repository, candidate.tree),
            allow=bench.pin.writes.allow,
            commands=[suite.run for suite in suites],
            importable=bench.deps.importable,
        )
        with_base_tests, changed_tests = base_tests_entries(bench.base, entries)
        return _Judged(
            tree=await self._write(bench, entries),
            entries=entries,
            restored=restored,
            base_tests_tree=await self._write(bench, with_base_tests) if changed_tests else None,
            changed_tests=changed_tests,
        )

    async def _judge_all(
        self,
        bench: _Bench,
        candidate: Candidate,
        judged: _Judged,
        suites: Sequence[Suite],
        bases: Mapping[str, BaseRun],
    ) -> tuple[SuiteRecord, ...]:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._judge(bench, candidate, judged, suite, bases[suite.id]))
                for suite in suites
            ]
        return tuple(task.result() for task in tasks)

    async def _judge(
        self, bench: _Bench, candidate: Candidate, judged: _Judged, suite: Suite, base: BaseRun
    ) -> SuiteRecord:
        """Run one suite on the candidate as often as its judgement needs."""
        run = self._facts(bench, suite, candidate.tree)
        async with bench.slots:
            own = await self._run_repeated(bench, suite, judged.tree, run.run_key)
            facts = SuiteFacts(
                suite=suite,
                candidate=tuple(execution.observation for execution in own),
                base=base.observation,
                base_tests=await self._run_base_tests(bench, suite, judged),
                changed_tests=tuple(git_path(raw_path(path)) for path in judged.changed_tests),
            )
            if suite.junit and not decide_reason(facts):
                canary = await self._run_canary(bench, suite, judged, base.canary_files)
                facts = facts.model_copy(update={"canary": canary})
        return await self._record(bench, run, facts, own)

    async def _run_repeated(
        self, bench: _Bench, suite: Suite, tree: str, run_key: Sha256
    ) -> list[Execution]:
        async with self._checkout(bench, tree) as folder:
            return [await self._execute(bench, suite, folder, run_key) for _ in range(suite.repeat)]

    async def _run_base_tests(
        self, bench: _Bench, suite: Suite, judged: _Judged
    ) -> Observation | None:
        if judged.base_tests_tree is None:
            return None
        run_key = self._facts(bench, suite, judged.base_tests_tree).run_key
        async with self._checkout(bench, judged.base_tests_tree) as folder:
            return (await self._execute(bench, suite, folder, run_key)).observation

    async def _run_canary(
        self, bench: _Bench, suite: Suite, judged: _Judged, files: Sequence[str]
    ) -> Canary:
        """Look for the planted failure in every file where the base's run showed it."""
        expected = {path for path in files if path in judged.entries}
        if not expected:
            return "not_placed"
        entries, canary = await plant_canary(
            self._trees, bench.pin.repo.id, judged.entries, only=expected
        )
        tree = await self._write(bench, entries)
        async with self._checkout(bench, tree) as folder:
            execution = await self._execute(bench, suite, folder, "0" * 64)
        seen = canary.seen_failing(execution.observation.outcomes)
        return "failed" if seen == expected else "not_failed"

    async def _record(
        self, bench: _Bench, run: RunFacts, facts: SuiteFacts, own: Sequence[Execution]
    ) -> SuiteRecord:
        owner = (bench.pin.repo.id, bench.pin.run_id)
        log = await self._artifacts.put(*owner, _joined_logs(own), _LOG_MEDIA_TYPE)
        junit = own[0].junit
        return SuiteRecord(
            run=run,
            facts=facts,
            duration_seconds=sum(execution.seconds for execution in own),
            log=log,
            junit=None
            if junit is None
            else await self._artifacts.put(*owner, junit, _JUNIT_MEDIA_TYPE),
        )

    # --- executions -----------------------------------------------------------------------------

    async def _execute(
        self, bench: _Bench, suite: Suite, folder: Path, run_key: Sha256
    ) -> Execution:
        async with self._folder() as scratch:
            return await execute_suite(
                self._sandbox,
                suite,
                folder,
                scratch=scratch,
                run_key=run_key,
                deps=bench.deps.folder,
                limits=bench.pin.sandbox,
                cpus=bench.cpus_each,
            )

    async def _write(self, bench: _Bench, entries: Entries) -> str:
        """Store a tree to run on; Node finds sealed packages only by a link beside its code."""
        if bench.deps.has_node_modules and "node_modules" not in entries:
            inside = self._sandbox.name != "local"
            target = f"{DEPS}/node_modules" if inside else str(bench.deps.folder / "node_modules")
            link = await self._trees.write_blob(bench.pin.repo.id, target.encode())
            entries = dict(entries)
            with_entry(entries, "node_modules", TreeEntry("120000", link))
        return await self._trees.write_tree(bench.pin.repo.id, entries)

    @asynccontextmanager
    async def _checkout(self, bench: _Bench, tree: str) -> AsyncIterator[Path]:
        async with self._folder() as folder:
            await self._trees.checkout(bench.pin.repo.id, tree, folder)
            yield folder

    @asynccontextmanager
    async def _folder(self) -> AsyncIterator[Path]:
        """Give an empty folder that sandbox users can read, gone afterwards."""
        folder = self._checkouts / secrets.token_hex(8)
        await asyncio.to_thread(folder.mkdir, parents=True, mode=0o755)
        try:
            yield folder
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def _joined_logs(executions: Sequence[Execution]) -> bytes:
    if len(executions) == 1:
        return executions[0].log
    return b"".join(
        b"--- run %d of %d ---\n%s\n" % (number, len(executions), execution.log)
        for number, execution in enumerate(executions, start=1)
    )
