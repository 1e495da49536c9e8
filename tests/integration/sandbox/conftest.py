from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from workspace.sandbox.backend import Job, Limits, Outcome
from workspace.sandbox.bubblewrap import BubblewrapSandbox

Run = Callable[..., Awaitable[Outcome]]


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
def run(bubblewrap: BubblewrapSandbox, workspace: Path) -> Run:
    """Run a shell script in the sandbox."""

    async def shell(script: str, **fields: object) -> Outcome:
        fields = {"workspace": workspace, "limits": Limits(wall_seconds=60)} | fields
        return await bubblewrap.run(Job(command=("sh", "-c", script), **fields))  # type: ignore[arg-type]

    return shell
