import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest


@asynccontextmanager
async def supervisor(
    file: Path, how: str, drain_seconds: float = 30
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A supervisor in a process of its own, gone at the end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.integration.supervisor.parent", str(file), how, str(drain_seconds)),
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


async def until_lines(file: Path, count: int) -> list[str]:
    async with asyncio.timeout(60):
        while True:
            if len(found := lines(file)) >= count:
                return found
            await asyncio.sleep(0.05)


async def until_gone(pid: int) -> None:
    """Wait until a process has ended; one that nobody has waited for yet counts as ended."""
    async with asyncio.timeout(60):
        while True:
            try:
                state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            except FileNotFoundError:
                return
            if state == "Z":
                return
            await asyncio.sleep(0.05)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "log"


async def test_what_ends_is_started_again(file: Path) -> None:
    """A child that ends, even with exit code 0, is started again."""
    async with supervisor(file, "exit"):
        assert len(set(await until_lines(file, 3))) >= 3


async def test_what_is_killed_is_started_again(file: Path) -> None:
    """A child that is killed is started again."""
    async with supervisor(file, "drain"):
        (first,) = await until_lines(file, 1)
        os.kill(int(first), signal.SIGKILL)
        assert (await until_lines(file, 2))[1] != first


async def test_sigterm_lets_children_drain(file: Path) -> None:
    """On SIGTERM children get the time they need to hand over, and nothing is started again."""
    async with supervisor(file, "drain") as process:
        (child,) = await until_lines(file, 1)
        process.terminate()
        assert await process.wait() == 0
        assert lines(file) == [child, "drained"]


async def test_whoever_does_not_drain_in_time_is_killed(file: Path) -> None:
    """A child that ignores SIGTERM is killed when its time is up."""
    async with supervisor(file, "stubborn", drain_seconds=0.3) as process:
        (child,) = await until_lines(file, 1)
        process.terminate()
        assert await process.wait() == 0
        await until_gone(int(child))


async def test_a_second_signal_kills(file: Path) -> None:
    """Whoever presses Ctrl-C twice does not wait."""
    async with supervisor(file, "stubborn", drain_seconds=3600) as process:
        (child,) = await until_lines(file, 1)
        process.send_signal(signal.SIGINT)
        await asyncio.sleep(0.3)
        assert process.returncode is None
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 0
        await until_gone(int(child))


async def test_children_die_with_the_supervisor(file: Path) -> None:
    """When the supervisor itself is killed, no child stays behind."""
    async with supervisor(file, "stubborn") as process:
        (child,) = await until_lines(file, 1)
        process.kill()
        await process.wait()
        await until_gone(int(child))


async def test_a_child_that_refuses_to_start_ends_everything(file: Path) -> None:
    """A wrong setting is said once, not in an endless loop."""
    async with supervisor(file, "refuse") as process:
        assert await process.wait() == 2
        assert len(lines(file)) == 1
