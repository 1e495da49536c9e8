"""The sandbox of a bot that is not root: with control groups delegated to it, and without."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyseccomp
import pytest

from workspace.sandbox.cgroup import load_hierarchies
from workspace.sandbox.guarantees import GUARANTEES

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.skipif(os.geteuid() != 0, reason="then every other test here runs as such a user"),
]

USER = 65_531
ROOT = Path(__file__).resolve().parents[3]
LIMITS = {"memory_capped", "processes_capped", "cpu_capped"}


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder of that user's, with the sandbox's code in it."""
    with tempfile.TemporaryDirectory(prefix="ultracode-user-", dir="/var/tmp") as folder:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(
            ROOT / "workspace" / "sandbox", Path(folder, "workspace", "sandbox"), ignore=ignored
        )
        shutil.copy(ROOT / "workspace" / "__init__.py", Path(folder, "workspace"))
        shutil.copy(pyseccomp.__file__, folder)
        subprocess.run(["chown", "-R", f"{USER}:{USER}", folder], check=True)
        yield Path(folder)


def as_user(
    home: Path, *command: str, groups: tuple[Path, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a command as that user, inside these control groups."""
    enter = "".join(f"echo $$ > {group}/cgroup.procs; " for group in groups)
    drop = f'exec setpriv --reuid {USER} --regid {USER} --clear-groups "$@"'
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(home), "HOME": str(home)}
    return subprocess.run(
        ["sh", "-c", enter + drop, "sh", *command],
        cwd=home, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def python_of(home: Path) -> str:
    """A Python this user can run: our own unless it lies in somebody's home, or the system's."""
    for candidate in (str(Path(sys.executable).resolve()), "/usr/bin/python3"):
        # through a shell, since setpriv itself still has root's capabilities while it starts one
        if as_user(home, "sh", "-c", '"$0" -c "import ctypes"', candidate).returncode == 0:
            return candidate
    raise AssertionError("no Python on this machine can be run by an ordinary user")


@contextmanager
def delegated() -> Iterator[tuple[Path, ...]]:
    """Control groups that belong to the user, as a service manager delegates them."""
    made = []
    try:
        for hierarchy in load_hierarchies():
            if hierarchy.controllers or hierarchy.version == 2:
                folder = hierarchy.folder / f"ultracode-test-{os.getpid()}"
                folder.mkdir()
                made.append(folder)
                for path in (folder, *folder.iterdir()):
                    os.chown(path, USER, USER)
        yield tuple(made)
    finally:
        for folder in made:
            for inner in sorted(folder.glob("**/"), reverse=True):
                inner.rmdir()


def selftest(home: Path, groups: tuple[Path, ...] = ()) -> dict[str, bool]:
    """What the self-test finds for that user."""
    words = (python_of(home), "-m", "workspace.sandbox", "selftest", "--json")
    done = as_user(home, *words, groups=groups)
    assert done.stdout, done.stderr
    found: dict[str, bool] = json.loads(done.stdout)
    assert {name for name, held in found.items() if not held} <= LIMITS, done.stderr
    return found


def test_every_guarantee_holds_with_delegated_groups(home: Path) -> None:
    """An ordinary user to whom control groups are delegated has all of the sandbox."""
    with delegated() as groups:
        assert selftest(home, groups) == dict.fromkeys(GUARANTEES, True)


def test_limits_are_named_missing_without_them(home: Path) -> None:
    """Without control groups exactly the limits over all processes together are missing."""
    assert {name for name, held in selftest(home).items() if not held} == LIMITS


def test_untrusted_mode_is_refused_with_what_to_do(home: Path) -> None:
    """A sandbox that lacks a guarantee is refused, with the names and the way to get them."""
    program = """
import asyncio
from workspace.sandbox.backend import SandboxUnavailable
from workspace.sandbox.choice import choose_sandbox
try:
    asyncio.run(choose_sandbox("bubblewrap", "untrusted"))
except SandboxUnavailable as refusal:
    print(refusal)
"""
    done = as_user(home, python_of(home), "-c", program)
    for word in ("memory_capped", "processes_capped", "cpu_capped", "Delegate=yes"):
        assert word in done.stdout, done.stderr


@pytest.mark.parametrize("copying", [False, True])
def test_workspaces_keep_what_is_written(home: Path, copying: bool) -> None:
    """Writing, replacing folders and deleting come back, by overlay and by copy."""
    program = f"""
import asyncio
from pathlib import Path
from workspace.sandbox.backend import Job
from workspace.sandbox.bubblewrap import BubblewrapSandbox
folder = Path("work")
(folder / "d").mkdir(parents=True)
(folder / "d" / "old").touch()
(folder / "gone").touch()
async def main():
    sandbox = BubblewrapSandbox(overlay={not copying})
    script = "rm -r d gone; mkdir d; echo x > d/new; chmod 0 d"
    outcome = await sandbox.run(Job(command=("sh", "-c", script), workspace=folder))
    print(outcome.exit_code, sorted(str(path) for path in folder.rglob("*")))
    await sandbox.close()
asyncio.run(main())
"""
    done = as_user(home, python_of(home), "-c", program)
    assert done.stdout == "0 ['work/d', 'work/d/new']\n", done.stderr
