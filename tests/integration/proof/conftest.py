"""Suites over real repositories in a real sandbox, with pytest from real wheels."""

import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

import pytest

from tests.integration.proof.repository import GitRepository
from workspace.artifacts import FolderArtifacts
from workspace.base_runs import BaseRuns
from workspace.contracts import (
    CommitTemplate,
    RepoRef,
    RunPin,
    SandboxLimits,
    Setup,
    Suite,
    TestReport,
    WriteRules,
)
from workspace.sandbox.backend import Sandbox
from workspace.sandbox.choice import choose_sandbox
from workspace.setup import Dependencies
from workspace.suites import SuiteRunner

REPOSITORY = 4711
RUN = "run00001"
PYTEST = Suite(
    id="unit", run='python3 -m pytest -q --junitxml="$ULTRACODE_JUNIT"', timeout_seconds=120
)
PYTEST_SETUP = Setup(
    run="python3 -m pip install -q --no-index --find-links vendor pytest", inputs=("vendor/*.whl",)
)
CACHE = Path(__file__).parents[3] / ".ultracode" / "tests"


def make_pin(base: str, **changes: object) -> RunPin:
    values: dict[str, object] = {
        "run_id": RUN,
        "repo": RepoRef(id=REPOSITORY, url="https://example.org/o/r.git"),
        "base_ref": "refs/heads/main",
        "original_base_sha": base,
        "commit": CommitTemplate(
            author_name="a", author_email="a@example.org", committed_at=0, message="m"
        ),
        "sandbox": SandboxLimits(memory_bytes=1024**3, disk_bytes=1024**3),
        **changes,
    }
    return RunPin(**values)  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def wheels() -> dict[str, bytes]:
    """Pytest and what it needs, as files that a repository can vendor; downloaded once."""
    folder = CACHE / "wheels"
    if not list(folder.glob("pytest-*.whl")):
        subprocess.run(
            ["/usr/bin/python3", "-m", "pip", "download", "-q", "-d", str(folder), "pytest==8.4.2"],
            check=True,
            capture_output=True,
        )
    return {f"vendor/{path.name}": path.read_bytes() for path in sorted(folder.glob("*.whl"))}


@pytest.fixture(scope="session")
async def sandbox() -> AsyncIterator[Sandbox]:
    sandbox = await choose_sandbox("bubblewrap")
    yield sandbox
    await sandbox.close()


class Proof:
    """One repository, one store, one runner."""

    def __init__(self, folder: Path, sandbox: Sandbox, shared: Path) -> None:
        self.folder = folder
        self.repository = GitRepository(folder / "repository.git")
        self.artifacts = FolderArtifacts(folder / "artifacts")
        self.sandbox = sandbox
        self.dependencies = Dependencies(shared / "deps", sandbox=sandbox, trees=self.repository)
        self.runner = SuiteRunner(
            sandbox=sandbox,
            trees=self.repository,
            artifacts=self.artifacts,
            dependencies=self.dependencies,
            base_runs=BaseRuns(shared / "base-runs"),
            checkouts=folder / "checkouts",
        )

    async def judge(
        self,
        base: dict[str, str | bytes],
        candidate: dict[str, str | bytes | None],
        *suites: Suite,
        **pin: object,
    ) -> TestReport:
        """Judge a candidate given as changes of the base's files (None deletes)."""
        before = self.repository.commit(base)
        files = {**base, **candidate}
        after = self.repository.commit({k: v for k, v in files.items() if v is not None}, before)
        self.pin = make_pin(before, **pin)
        self.candidate = self.repository.candidate(before, after)
        await self.artifacts.put(
            REPOSITORY, self.pin.run_id, self.repository.diff(before, after), "text/x-diff"
        )
        return await self.runner.test(self.pin, self.candidate, suites or [PYTEST])

    async def exit_code_unjudged(self, suite: Suite) -> int | None:
        """Run a suite on the candidate just as it is."""
        checkout = self.folder / "unjudged"
        checkout.mkdir()
        await self.repository.checkout(REPOSITORY, self.candidate.sha, checkout)
        return (await self.runner.try_suite(self.pin, suite, checkout)).observation.exit_code


class JudgePytest(Protocol):
    async def __call__(
        self,
        base: dict[str, str],
        candidate: dict[str, str | bytes | None],
        *suites: Suite,
        allow: tuple[str, ...] = (),
    ) -> TestReport: ...


@pytest.fixture(scope="session")
def shared_dependencies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Dependencies are sealed once for all tests, as they are for all runs of a repository."""
    folder = tmp_path_factory.mktemp("deps")
    folder.chmod(0o755)
    return folder


@pytest.fixture
def proof(tmp_path: Path, sandbox: Sandbox, shared_dependencies: Path) -> Proof:
    return Proof(tmp_path, sandbox, shared_dependencies)


@pytest.fixture
def judge_pytest(proof: Proof, wheels: dict[str, bytes]) -> JudgePytest:
    """Judge a candidate by pytest, installed by set-up from wheels in the repository."""

    async def judge(
        base: dict[str, str],
        candidate: dict[str, str | bytes | None],
        *suites: Suite,
        allow: tuple[str, ...] = (),
    ) -> TestReport:
        writes = WriteRules(allow=allow)
        return await proof.judge(
            {**wheels, **base}, candidate, *suites, setup=PYTEST_SETUP, writes=writes
        )

    return judge
