"""Suites over real repositories in a real sandbox, with pytest from real wheels."""

import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

import pytest

from tests.integration.proof.scenario import Proof
from workspace.contracts import Setup, Suite, TestReport, WriteRules
from workspace.sandbox.backend import Sandbox
from workspace.sandbox.choice import choose_sandbox

PYTEST = Suite(
    id="unit", run='python3 -m pytest -q --junitxml="$ULTRACODE_JUNIT"', timeout_seconds=120
)
PYTEST_SETUP = Setup(
    run="python3 -m pip install -q --no-index --find-links vendor pytest", inputs=("vendor/*.whl",)
)
CACHE = Path(__file__).parents[3] / ".ultracode" / "tests"


@pytest.fixture(scope="session")
def wheels() -> dict[str, bytes]:
    """Pytest and what it needs, as files that a repository can vendor; downloaded once."""
    folder = CACHE / "wheels"
    if not list(folder.glob("pytest-*.whl")):
        python = shutil.which("python3", path="/usr/local/bin:/usr/bin") or "python3"
        subprocess.run(
            [python, "-m", "pip", "download", "-q", "-d", str(folder), "pytest==8.4.2"],
            check=True,
            capture_output=True,
        )
    return {f"vendor/{path.name}": path.read_bytes() for path in sorted(folder.glob("*.whl"))}


@pytest.fixture(scope="session")
async def sandbox() -> AsyncIterator[Sandbox]:
    sandbox = await choose_sandbox("bubblewrap")
    yield sandbox
    await sandbox.close()


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
            {**wheels, **base}, candidate, *(suites or [PYTEST]), setup=PYTEST_SETUP, writes=writes
        )

    return judge
