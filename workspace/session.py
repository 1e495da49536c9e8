"""What the executions for one judgement share: dependencies, toolchain, checkouts, CPUs.

In: what a run pinned, and its suites. Out: a `Session` that runs any of them on any tree and can
say what determined the run. It lasts as long as one judgement; its checkouts go with it.
"""

import asyncio
import platform
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from workspace.checkouts import Checkouts, open_checkouts
from workspace.contracts import RepositoryId, RunPin, Sha256, Suite
from workspace.digest import RunFacts
from workspace.environment import measure_toolchain, suite_environment
from workspace.execution import Execution, execute_suite
from workspace.judging import JUDGING_VERSION
from workspace.sandbox.backend import DEPS, Sandbox
from workspace.sealing import SealedDependencies
from workspace.setup import Dependencies
from workspace.tree_entries import Entries, TreeEntry, TreeStore, parse_tree, with_entry

#: For executions that nobody compares: they have no key.
NO_KEY: Sha256 = "0" * 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One judgement's means; made by `open_session`."""

    pin: RunPin
    sandbox: Sandbox
    trees: TreeStore
    checkouts: Checkouts
    deps: SealedDependencies
    toolchain: Mapping[str, dict[str, str]]
    base: Entries
    base_tree: str
    slots: asyncio.Semaphore
    """One for each suite that may run at the same time; whoever runs a suite holds one."""
    cpus_each: float

    @property
    def repository(self) -> RepositoryId:
        """Whose trees they are."""
        return self.pin.repo.id

    def facts(self, suite: Suite, tree: str) -> RunFacts:
        """Return what determines a run of a suite on a tree."""
        return RunFacts(
            tree=tree,
            base_commit=self.pin.original_base_sha,
            suite=suite,
            writes_allow=self.pin.writes.allow,
            environment=suite_environment(),
            toolchain=self.toolchain[suite.run],
            dependency_seal=self.deps.seal,
            architecture=platform.machine(),
            sandbox=self.sandbox.name,
            guarantees=dict(self.sandbox.guarantees),
            limits=self.pin.sandbox.model_dump(),
            judging_version=JUDGING_VERSION,
        )

    async def write_tree(self, entries: Entries, known: str | None = None) -> str:
        """Store a tree to run on and return its id.

        Args:
            entries: Its leaves.
            known: The id of a stored tree with just these leaves, if there is one.

        Node finds sealed packages only beside its code, so the tree gets a link to each of them;
        the folder itself stays writable, as Vite keeps files there while it runs.
        """
        if self.deps.has_node_modules and "node_modules" not in entries:
            entries, known = dict(entries), None
            home = DEPS if self.sandbox.name != "local" else str(self.deps.folder)
            for package in self.deps.node_packages:
                target = f"{home}/node_modules/{package}".encode()
                link = await self.trees.write_blob(self.repository, target)
                with_entry(entries, f"node_modules/{package}", TreeEntry("120000", link))
        return known or await self.trees.write_tree(self.repository, entries)

    async def run(self, suite: Suite, tree: str, run_key: Sha256 = NO_KEY) -> Execution:
        """Run a suite once on a stored tree."""
        return await self.run_in(suite, await self.checkouts.of(tree), run_key)

    async def run_in(self, suite: Suite, folder: Path, run_key: Sha256 = NO_KEY) -> Execution:
        """Run a suite once on the files of a folder, which stay as they are."""
        return await execute_suite(
            self.sandbox,
            suite,
            folder,
            scratch=self.checkouts.empty(),
            run_key=run_key,
            deps=self.deps.folder,
            limits=self.pin.sandbox,
            cpus=self.cpus_each,
        )


@asynccontextmanager
async def open_session(
    pin: RunPin,
    suites: Sequence[Suite],
    *,
    sandbox: Sandbox,
    trees: TreeStore,
    dependencies: Dependencies,
    folder: Path,
) -> AsyncIterator[Session]:
    """Give a session for these suites; `folder` is where its checkouts are made and removed.

    Raises:
        SetupFailed: The dependencies cannot be had.
        SandboxError: The sandbox failed.
    """
    deps = await dependencies.seal(pin)
    side_by_side = min(max(1, len(suites)), max(1, int(pin.sandbox.cpus)))
    async with open_checkouts(folder, trees, pin.repo.id) as checkouts:
        commands = [suite.run for suite in suites]
        yield Session(
            pin=pin,
            sandbox=sandbox,
            trees=trees,
            checkouts=checkouts,
            deps=deps,
            toolchain=await measure_toolchain(
                sandbox, checkouts.empty(), commands, image=pin.sandbox.image
            ),
            base=await trees.entries(pin.repo.id, pin.original_base_sha),
            base_tree=parse_tree(await trees.read_commit(pin.repo.id, pin.original_base_sha)),
            slots=asyncio.Semaphore(side_by_side),
            cpus_each=pin.sandbox.cpus / side_by_side,
        )
