"""What the sandbox costs: a start against bare bubblewrap, a suite against a plain process.

In: nothing but this machine. Out: medians and their ratios, measured alternately in one run, so
that whatever else the machine does weighs on both sides alike.
"""

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from evals.bench.row import Goal, Row
from workspace.sandbox.backend import Job, Limits
from workspace.sandbox.bubblewrap import BubblewrapSandbox

STARTS = 30
_COMMAND = ("/bin/sh", "-c", "true")  # as agents' and suites' commands are started
SUITES = 3
_PAUSE_SECONDS = 0.05  # between commands, as an agent makes them
_TEST = """
import hashlib, json, pathlib, tempfile, unittest

class FilesAndDigests(unittest.TestCase):
    def test_rounds(self):
        for number in range(150):
            with tempfile.TemporaryDirectory() as folder:
                file = pathlib.Path(folder, "file")
                file.write_text(json.dumps({"number": number, "list": list(range(5000))}))
                self.assertEqual(json.loads(file.read_text())["number"], number)
                self.assertTrue(hashlib.sha256(file.read_bytes() * 20).hexdigest())
"""
_BARE = """
--unshare-user --unshare-pid --unshare-net --unshare-ipc --unshare-uts --unshare-cgroup-try
--uid 1000 --gid 1000 --hostname sandbox --disable-userns --die-with-parent --new-session
--cap-drop ALL --clearenv --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib
--symlink usr/lib64 /lib64 --perms 0555 --dir /etc --proc /proc --dev /dev --tmpfs /tmp
--tmpfs /dev/shm --tmpfs /home/sandbox
"""


def _bare_command(workspace: Path) -> list[str]:
    """The same namespaces and mounts with bubblewrap alone: no limits, no filter, no other user."""
    read_only = ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/ws"]
    return ["bwrap", *_BARE.split(), "--bind", str(workspace), "/ws", *read_only, "--", *_COMMAND]


async def measure_sandbox() -> list[Row]:
    """Measure a start against bare bubblewrap, and a suite against no sandbox.

    Raises:
        SandboxUnavailable: there is no bubblewrap here.
    """
    sandbox = BubblewrapSandbox()
    try:
        with tempfile.TemporaryDirectory() as folder:
            start, bare = await _measure_starts(sandbox, Path(folder))
            suite, plain = await _measure_suites(sandbox, Path(folder))
    finally:
        await sandbox.close()
    return [
        Row("sandbox start", "bare bubblewrap", start, bare, "s", Goal(2)),
        Row("a suite in the sandbox", "the suite outside", suite, plain, "s", Goal(1.2)),
    ]


async def _measure_starts(sandbox: BubblewrapSandbox, folder: Path) -> tuple[float, float]:
    job = Job(command=_COMMAND, workspace=folder, read_only=True)
    bare = _bare_command(folder)
    await sandbox.run(job)
    return await _medians(STARTS, lambda: sandbox.run(job), lambda: _spawn(bare, cwd=folder))


async def _measure_suites(sandbox: BubblewrapSandbox, folder: Path) -> tuple[float, float]:
    (folder / "test_bench.py").write_text(_TEST)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    command = (str(Path(sys.base_prefix, "bin", version)), "-m", "unittest", "-q", "test_bench")
    job = Job(
        command=command,
        workspace=folder,
        read_only=True,
        toolchains=(Path(sys.base_prefix),),
        limits=Limits(cpus=float(os.cpu_count() or 1)),
    )
    return await _medians(SUITES, lambda: sandbox.run(job), lambda: _spawn([*command], cwd=folder))


async def _spawn(command: list[str], *, cwd: Path) -> None:
    await asyncio.to_thread(subprocess.run, command, cwd=cwd, check=True, stderr=subprocess.DEVNULL)


async def _medians(rounds: int, *sides: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    """Median seconds of two sides, measured in turn."""
    seconds: tuple[list[float], ...] = tuple([] for _ in sides)
    for _ in range(rounds):
        for side, taken in zip(sides, seconds, strict=True):
            await asyncio.sleep(_PAUSE_SECONDS)
            started = time.perf_counter()
            await side()
            taken.append(time.perf_counter() - started)
    first, second = (statistics.median(taken) for taken in seconds)
    return first, second
