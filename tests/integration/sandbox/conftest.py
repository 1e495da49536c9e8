import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from workspace.sandbox.backend import Job, Limits, Outcome
from workspace.sandbox.bubblewrap import BubblewrapSandbox

Run = Callable[..., Awaitable[Outcome]]
PYTHON_BASE = Path(sys.base_prefix).resolve()
PYTHON = str(PYTHON_BASE / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}")


@pytest.fixture(scope="session")
async def bubblewrap() -> AsyncIterator[BubblewrapSandbox]:
    sandbox = BubblewrapSandbox()
    yield sandbox
    await sandbox.close()


@pytest.fixture(scope="session")
async def copying() -> AsyncIterator[BubblewrapSandbox]:
    """As on kernels that have no overlay for this user: workspaces are copied."""
    sandbox = BubblewrapSandbox(overlay=False)
    yield sandbox
    await sandbox.close()


@pytest.fixture(params=["overlaid", "copied"])
def either(
    request: pytest.FixtureRequest, bubblewrap: BubblewrapSandbox, copying: BubblewrapSandbox
) -> BubblewrapSandbox:
    return bubblewrap if request.param == "overlaid" else copying


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def outside() -> Iterator[Path]:
    """A folder of the host that anybody may read and write, outside every workspace."""
    with TemporaryDirectory(prefix="ultracode-outside-", dir="/var/tmp") as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


@pytest.fixture
def run(bubblewrap: BubblewrapSandbox, workspace: Path) -> Run:
    """Run a shell script in the sandbox."""

    async def shell(script: str, *words: str, **fields: object) -> Outcome:
        fields = {"workspace": workspace, "limits": Limits(wall_seconds=60)} | fields
        return await bubblewrap.run(Job(command=("sh", "-c", script, "sh", *words), **fields))  # type: ignore[arg-type]

    return shell


@pytest.fixture
def python(bubblewrap: BubblewrapSandbox, workspace: Path) -> Run:
    """Run a Python program in the sandbox."""

    async def program(source: str, *words: str, **fields: object) -> Outcome:
        fields = {"workspace": workspace, "limits": Limits(wall_seconds=60)} | fields
        command = (PYTHON, "-I", "-S", "-c", source, *words)
        return await bubblewrap.run(Job(command=command, toolchains=(PYTHON_BASE,), **fields))  # type: ignore[arg-type]

    return program


@contextlib.asynccontextmanager
async def running(job: Awaitable[Outcome]) -> AsyncIterator["asyncio.Task[Outcome]"]:
    """A job in the background, cancelled at the latest when the test has seen enough."""
    task = asyncio.ensure_future(job)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
