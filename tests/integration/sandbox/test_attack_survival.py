"""Attempts to outlive a command: each looked for from outside when the sandbox says it is over."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.sandbox.conftest import Run, running
from workspace.sandbox.backend import Job, Limits, Outcome, SandboxError
from workspace.sandbox.bubblewrap import BubblewrapSandbox
from workspace.sandbox.cgroup import PREFIX, load_hierarchies
from workspace.sandbox.witness import load_processes, new_token, until

pytestmark = pytest.mark.sandbox

TOLD_SECONDS = 5
STUBBORN = """
trap '' TERM HUP INT
(setsid sh -c 'trap "" TERM HUP INT; : TOKEN; (sleep 300; : TOKEN) & sleep 300; :' &)
setsid nohup sh -c ': TOKEN; kill -STOP $$; sleep 300; :' > /dev/null 2>&1 &
: TOKEN
"""


def script(token: str, end: str) -> str:
    return STUBBORN.replace("TOKEN", token) + end


async def seen(token: str, without: int = 0) -> None:
    """Wait until the survivors-to-be are there."""
    assert await until(lambda: len(load_processes(token, without=without)) >= 4)


def groups_of(launcher: int) -> list[Path]:
    """Control groups that a launcher's keepers have made."""
    return [
        folder
        for hierarchy in load_hierarchies()
        for folder in hierarchy.folder.glob(f"{PREFIX}{launcher}-*")
    ]


async def test_nothing_outlives_a_command_that_ended(run: Run) -> None:
    """Children that forked twice, left the session or stopped are gone when the code is told."""
    token = new_token()
    outcome = await run(script(token, "sleep 0.5; exit 5"))
    assert (outcome.exit_code, outcome.termination) == (5, "exit")
    assert load_processes(token) == {}


async def test_nothing_outlives_the_wall_clock(run: Run) -> None:
    """All are gone when a timeout is told."""
    token = new_token()
    outcome = await run(script(token, "sleep 300; :"), limits=Limits(wall_seconds=1))
    assert outcome.termination == "timeout"
    assert load_processes(token) == {}


async def test_nothing_outlives_a_cancellation(run: Run) -> None:
    """All are gone when the cancelled call returns."""
    token = new_token()
    async with running(run(script(token, "sleep 300; :"))) as task:
        await seen(token)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert load_processes(token) == {}


async def test_nothing_outlives_a_memory_death(python: Run) -> None:
    """When one process is ended for memory, the others go with it."""
    token = new_token()
    source = f"""
import os, time
token = {token!r}
for _ in range(3):
    if not os.fork():
        os.setsid()
        time.sleep(300)
kept = bytearray(b"x") * (200 << 20)
"""
    outcome = await python(source, limits=Limits(memory_bytes=64 << 20))
    assert outcome.termination == "oom"
    assert load_processes(token) == {}


def start_another(workspace: Path, token: str) -> subprocess.Popen[bytes]:
    """A second bot that runs a stubborn command."""
    command = ["sh", "-c", script(token, "sleep 300; :")]
    run = [sys.executable, "-m", "workspace.sandbox", "run", "--wall-seconds", "60"]
    return subprocess.Popen(
        [*run, "--workspace", workspace, "--", *command], stdout=subprocess.DEVNULL
    )


async def test_nothing_outlives_the_bot(workspace: Path) -> None:
    """When the bot is killed without warning, so is every command it runs, and its launcher."""
    token = new_token()
    bot = start_another(workspace, token)
    await seen(token, without=bot.pid)
    launchers = children_of(bot.pid)
    assert launchers
    bot.kill()
    bot.wait()
    assert await until(lambda: not load_processes(token), 2)
    assert await until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in launchers), 5)
    assert not [group for pid in launchers for group in groups_of(pid)]


async def test_nothing_outlives_the_launcher(workspace: Path) -> None:
    """When the launcher is killed, so is every command, and the bot says so and goes on."""
    token = new_token()
    sandbox = BubblewrapSandbox()
    job = Job(command=("sh", "-c", script(token, "sleep 300; :")), workspace=workspace)
    try:
        async with running(sandbox.run(job)) as task:
            await seen(token)
            kill_launcher(sandbox)
            await broken(task)
            assert await until(lambda: not load_processes(token), 2)
        outcome = await sandbox.run(Job(command=("true",), workspace=workspace))
        assert outcome.exit_code == 0
    finally:
        await sandbox.close()


def kill_launcher(sandbox: BubblewrapSandbox) -> None:
    launcher = sandbox._launcher
    assert launcher
    launcher._process.kill()
    launcher._process.wait()


async def test_nothing_outlives_its_keeper(bubblewrap: BubblewrapSandbox, workspace: Path) -> None:
    """When the keeper of a command is killed, the command goes with it."""
    token = new_token()
    job = Job(command=("sh", "-c", script(token, "sleep 300; :")), workspace=workspace)
    async with running(bubblewrap.run(job)) as task:
        await seen(token)
        outermost = min(load_processes(token))
        os.kill(parent_of(outermost), signal.SIGKILL)
        await broken(task)
        assert await until(lambda: not load_processes(token), 2)


async def test_a_killed_keeper_leaves_no_group(workspace: Path) -> None:
    """The launcher clears up after a keeper that was killed."""
    token = new_token()
    sandbox = BubblewrapSandbox()
    job = Job(command=("sh", "-c", script(token, "sleep 300; :")), workspace=workspace)
    try:
        async with running(sandbox.run(job)) as task:
            await seen(token)
            os.kill(parent_of(min(load_processes(token))), signal.SIGKILL)
            await broken(task)
            launcher = sandbox._launcher
            assert launcher
            assert await until(lambda: len({g.name for g in groups_of(launcher.pid)}) == 1, 5)
    finally:
        await sandbox.close()


async def test_a_killed_launcher_leaves_no_group_for_long(workspace: Path) -> None:
    """The next launcher on this host clears up after one that was killed."""
    token = new_token()
    sandbox = BubblewrapSandbox()
    job = Job(command=("sh", "-c", script(token, "sleep 300; :")), workspace=workspace)
    try:
        async with running(sandbox.run(job)) as task:
            await seen(token)
            assert (launcher := sandbox._launcher)
            kill_launcher(sandbox)
            await broken(task)
        await sandbox.run(Job(command=("true",), workspace=workspace))
        assert not groups_of(launcher.pid)
    finally:
        await sandbox.close()


async def test_nothing_outlives_bubblewrap(bubblewrap: BubblewrapSandbox, workspace: Path) -> None:
    """When somebody on the host kills bubblewrap itself, the end is told as a kill."""
    token = new_token()
    job = Job(command=("sh", "-c", script(token, "sleep 300; :")), workspace=workspace)
    async with running(bubblewrap.run(job)) as task:
        await seen(token)
        os.kill(min(load_processes(token)), signal.SIGKILL)
        outcome: Outcome = await task
    assert (outcome.termination, outcome.exit_code) == ("killed", None)
    assert load_processes(token) == {}


async def test_nothing_outlives_closing(workspace: Path) -> None:
    """Closing the sandbox ends what still runs in it."""
    token = new_token()
    sandbox = BubblewrapSandbox()
    job = Job(command=("sh", "-c", script(token, "sleep 300; :")), workspace=workspace)
    async with running(sandbox.run(job)) as task:
        await seen(token)
        await sandbox.close()
        assert load_processes(token) == {}
        assert (await task).termination == "killed"


def mounts() -> list[str]:
    """The host's mounts, without those a container engine keeps for itself."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line for line in lines if "/containers/" not in line]


async def test_no_mount_or_group_is_left(
    bubblewrap: BubblewrapSandbox, run: Run, workspace: Path
) -> None:
    """After a command the host's mounts are what they were, and its control group is gone."""
    before = mounts()
    for ending in ("exit 0", "kill -9 $$", "sleep 300; :"):
        await run(script(new_token(), ending), limits=Limits(wall_seconds=1))
    assert mounts() == before
    launcher = bubblewrap._launcher
    assert launcher  # one group is that of the keeper that stands ready for the next command
    assert await until(lambda: len({g.name for g in groups_of(launcher.pid)}) == 1)
    assert not [path for path in workspace.parent.iterdir() if path != workspace]


async def broken(task: "asyncio.Task[Outcome]") -> None:
    """The bot is told soon: by the keeper, if there was time for that, or by its silence.

    Without end another launcher of this host would remove the group, and hide a lost guard.
    """
    try:
        async with asyncio.timeout(TOLD_SECONDS):
            outcome = await task
    except SandboxError:
        return
    assert (outcome.termination, outcome.exit_code) == ("killed", None)


def parent_of(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[1])


def children_of(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


_MAPPING = """\
import os, sys
from workspace.sandbox.layers import Identity, map_owner
print("begun", flush=True)
while True:
    os.close(map_owner((0, 0), Identity(65534, 65534, is_slot=False)))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="mapping another user takes root")
async def test_a_keeper_killed_while_it_prepares_leaves_no_helper() -> None:
    """The process that holds a user namespace open for a moment ends with whoever asked for it."""
    token = new_token()
    for milliseconds in range(20):
        with subprocess.Popen(
            [sys.executable, "-c", _MAPPING, token], stdout=subprocess.PIPE
        ) as keeper:
            assert keeper.stdout
            assert keeper.stdout.readline() == b"begun\n"
            await asyncio.sleep(milliseconds / 1000)
            keeper.kill()
    assert await until(lambda: not load_processes(token)), load_processes(token)
