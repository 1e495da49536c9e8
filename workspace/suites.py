"""Suites on a candidate: real exit codes, real outcomes, compared with the base.

In: a candidate, and suites from policy. Out: a `TestReport`, and the document that proves it.
The candidate's tree is judged with the base's runner configuration; changed tests run in both
versions; a canary that must fail is looked for; all on fresh checkouts, without network. Code
inside the runner can still lie: a pass is evidence, not proof.

`prepare` needs no candidate: dependencies and the base's runs are made while others think.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
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
    Suite,
    TestReport,
    git_path,
)
from workspace.digest import RunFacts
from workspace.execution import Execution
from workspace.judging import Observation, SuiteFacts, decide_reason
from workspace.report import REPORT_MEDIA_TYPE, ReportDocument, SuiteRecord, build_report
from workspace.runner_configuration import base_tests_entries, judged_entries
from workspace.runner_settings import load_runner_settings
from workspace.sandbox.backend import Sandbox
from workspace.session import Session, open_session
from workspace.setup import Dependencies
from workspace.tree_entries import Entries, TreeStore, raw_path

_LOG_MEDIA_TYPE: Final = "text/plain; charset=utf-8"
_JUNIT_MEDIA_TYPE: Final = "application/xml"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    """The trees one candidate is judged on."""

    tree: str
    entries: Entries
    restored: tuple[str, ...]
    base_tests_tree: str | None
    """With the base's tests instead of those that the candidate changed or added; None: neither."""
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
            checkouts: A folder of this process for fresh checkouts; a judgement removes its own.
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
        async with self._open(pin, suites) as session:
            await self._run_bases(session, suites)

    async def test(self, pin: RunPin, candidate: Candidate, suites: Sequence[Suite]) -> TestReport:
        """Run the suites on a candidate and judge it.

        Raises:
            SetupFailed: The dependencies cannot be had.
            SandboxError: The sandbox failed.
        """
        async with self._open(pin, suites) as session:
            bases = await self._run_bases(session, suites)
            judged = await _judged_trees(session, candidate, suites)
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(
                        self._judge(session, candidate, judged, suite, bases[suite.id])
                    )
                    for suite in suites
                ]
        document = self._document(candidate, judged, [task.result() for task in tasks])
        stored = await self._artifacts.put(
            pin.repo.id, pin.run_id, document.encode(), REPORT_MEDIA_TYPE
        )
        return build_report(document, stored.uri)

    async def try_suite(self, pin: RunPin, suite: Suite, workspace: Path) -> Execution:
        """Run one suite on a worker's files as they stand; for the worker's eyes, never judged."""
        async with self._open(pin, [suite]) as session:
            return await session.run_in(suite, workspace)

    def _open(self, pin: RunPin, suites: Sequence[Suite]) -> AbstractAsyncContextManager[Session]:
        return open_session(
            pin,
            suites,
            sandbox=self._sandbox,
            trees=self._trees,
            dependencies=self._dependencies,
            folder=self._checkouts,
        )

    def _document(
        self, candidate: Candidate, judged: _Judged, records: Sequence[SuiteRecord]
    ) -> ReportDocument:
        return ReportDocument(
            candidate_id=candidate.id,
            candidate_sha=candidate.sha,
            judged_tree=judged.tree,
            restored=_shown(judged.restored),
            changed_tests=_shown(judged.changed_tests),
            sandbox=self._sandbox.name,
            guarantees=dict(self._sandbox.guarantees),
            suites=tuple(records),
        )

    # --- the base -------------------------------------------------------------------------------

    async def _run_bases(self, session: Session, suites: Sequence[Suite]) -> dict[str, BaseRun]:
        async with asyncio.TaskGroup() as group:
            tasks = {
                suite.id: group.create_task(self._run_base(session, suite)) for suite in suites
            }
        return {suite_id: task.result() for suite_id, task in tasks.items()}

    async def _run_base(self, session: Session, suite: Suite) -> BaseRun:
        """Run a suite on the base, or return what it did there before."""
        run_key = session.facts(suite, session.base_tree).run_key

        async def run() -> BaseRun:
            async with session.slots:
                tree = await session.write_tree(session.base, known=session.base_tree)
                execution = await session.run(suite, tree, run_key)
                return BaseRun(
                    observation=execution.observation,
                    canary_files=await _learn_canary(session, suite),
                )

        return await self._base_runs.get_or_run(session.repository, run_key, run)

    # --- the candidate --------------------------------------------------------------------------

    async def _judge(
        self, session: Session, candidate: Candidate, judged: _Judged, suite: Suite, base: BaseRun
    ) -> SuiteRecord:
        """Run one suite on the candidate as often as its judgement needs."""
        run = session.facts(suite, candidate.tree)
        async with session.slots:
            own = [await session.run(suite, judged.tree, run.run_key) for _ in range(suite.repeat)]
            facts = SuiteFacts(
                suite=suite,
                candidate=tuple(execution.observation for execution in own),
                base=base.observation,
                base_tests=await _run_base_tests(session, suite, judged),
                changed_tests=_shown(judged.changed_tests),
            )
            if suite.junit and not decide_reason(facts):
                canary = await _run_canary(session, suite, judged, base.canary_files)
                facts = facts.model_copy(update={"canary": canary})
        return await self._record(session.pin, run, facts, own)

    async def _record(
        self, pin: RunPin, run: RunFacts, facts: SuiteFacts, own: Sequence[Execution]
    ) -> SuiteRecord:
        owner = (pin.repo.id, pin.run_id)
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


async def _judged_trees(session: Session, candidate: Candidate, suites: Sequence[Suite]) -> _Judged:
    """Compose the trees a candidate is judged on."""
    settings = await load_runner_settings(session.trees, session.repository, session.base)
    entries, restored = await judged_entries(
        session.trees,
        session.repository,
        session.base,
        await session.trees.entries(session.repository, candidate.tree),
        allow=session.pin.writes.allow,
        commands=[suite.run for suite in suites],
        importable=session.deps.importable,
        settings=settings,
    )
    with_base_tests, changed_tests = base_tests_entries(session.base, entries, settings)
    return _Judged(
        tree=await session.write_tree(entries, known=None if restored else candidate.tree),
        entries=entries,
        restored=restored,
        base_tests_tree=await session.write_tree(with_base_tests) if changed_tests else None,
        changed_tests=changed_tests,
    )


async def _run_base_tests(session: Session, suite: Suite, judged: _Judged) -> Observation | None:
    """Run the base's tests without what a candidate changed of them or added to them, if it did."""
    if judged.base_tests_tree is None:
        return None
    run_key = session.facts(suite, judged.base_tests_tree).run_key
    return (await session.run(suite, judged.base_tests_tree, run_key)).observation


async def _learn_canary(session: Session, suite: Suite) -> tuple[str, ...]:
    """Return the base's test files in which a planted failure shows in the JUnit file."""
    if not suite.junit:
        return ()
    settings = await load_runner_settings(session.trees, session.repository, session.base)
    entries, canary = await plant_canary(
        session.trees, session.repository, session.base, is_test=settings.names_test
    )
    if not canary.files:
        return ()
    execution = await session.run(suite, await session.write_tree(entries))
    return tuple(sorted(canary.seen_failing(execution.observation.outcomes)))


async def _run_canary(
    session: Session, suite: Suite, judged: _Judged, files: Sequence[str]
) -> Canary:
    """Look for the planted failure in every file where the base's run showed it.

    A file that is gone, or has become a link, cannot show it: that is no way to do without.
    """
    if not files:
        return "not_placed"
    expected = {path for path in files if path in judged.entries and judged.entries[path].is_file}
    if expected != set(files):
        return "not_failed"
    entries, canary = await plant_canary(
        session.trees, session.repository, judged.entries, only=expected
    )
    execution = await session.run(suite, await session.write_tree(entries))
    seen = canary.seen_failing(execution.observation.outcomes)
    return "failed" if seen == expected else "not_failed"


def _shown(paths: Sequence[str]) -> tuple[str, ...]:
    return tuple(git_path(raw_path(path)) for path in paths)


def _joined_logs(executions: Sequence[Execution]) -> bytes:
    if len(executions) == 1:
        return executions[0].log
    return b"".join(
        b"--- run %d of %d ---\n%s\n" % (number, len(executions), execution.log)
        for number, execution in enumerate(executions, start=1)
    )
