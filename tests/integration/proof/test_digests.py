"""The report's digest depends on what happened, and on nothing else."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.proof.repeated import digests
from tests.integration.proof.scenario import BUG, FIX, TINY, TINY_FILES, Proof
from workspace.sandbox.backend import Sandbox
from workspace.sandbox.bubblewrap import BubblewrapSandbox

ROOT = Path(__file__).parents[3]


@pytest.mark.sandbox
async def test_twenty_runs_of_one_candidate_have_one_digest(
    tmp_path: Path, sandbox: Sandbox
) -> None:
    """Serial or four at once, in two folders: the same candidate, the same digest."""
    serial = await digests(tmp_path / "one", sandbox, times=10, at_once=1)
    parallel = await digests(tmp_path / "two", sandbox, times=10, at_once=4)
    assert len(set(serial + parallel)) == 1


@pytest.mark.sandbox
async def test_another_user_gets_the_same_digest(tmp_path: Path) -> None:
    """Who runs the bot does not matter to what it reports, where the same guarantees hold."""
    python = _interpreter_for_others()
    if os.getuid() != 0 or python is None:
        pytest.skip("needs root, and an interpreter that other users can run")
    sandbox = BubblewrapSandbox()
    try:
        (own,) = await digests(tmp_path / "own", sandbox, times=1, at_once=1)
    finally:
        await sandbox.close()
    folder = Path(f"/tmp/ultracode-proof-{os.getpid()}")
    folder.mkdir(mode=0o700)
    try:
        os.chown(folder, 12345, 12345)
        done = subprocess.run(
            [python, "-m", "tests.integration.proof.repeated", str(folder), "1", "1"],
            cwd=ROOT,
            env={"PATH": os.defpath, "HOME": str(folder), "PYTHONPATH": _site_packages()},
            user=12345,
            group=12345,
            extra_groups=[],
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        shutil.rmtree(folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [own]


def _site_packages() -> str:
    return next(path for path in sys.path if path.endswith("site-packages"))


def _interpreter_for_others() -> str | None:
    """Return a Python of this version that is not below somebody's home."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    system = shutil.which(name, path="/usr/local/bin:/usr/bin")
    if Path(sys.executable).resolve().is_relative_to("/root"):
        return system
    return sys.executable


@pytest.mark.sandbox
async def test_whatever_differs_changes_the_digest(proof: Proof) -> None:
    """Another outcome, exit code, termination, suite definition or policy is another digest."""
    quiet = {"calc.py": FIX, "notes.txt": "the trees differ as well"}
    slow = {"calc.py": f"import time\ntime.sleep(30)\n{FIX}"}
    seen = {
        "fixed": await proof.judge(TINY_FILES, {"calc.py": FIX}, TINY),
        "another tree": await proof.judge(TINY_FILES, quiet, TINY),
        "not fixed": await proof.judge(TINY_FILES, {"calc.py": BUG + "\n"}, TINY),
        "timed out": await proof.judge(
            TINY_FILES, slow, TINY.model_copy(update={"timeout_seconds": 2})
        ),
        "another definition": await proof.judge(
            TINY_FILES, {"calc.py": FIX}, TINY.model_copy(update={"timeout_seconds": 61})
        ),
        "not required": await proof.judge(
            TINY_FILES, {"calc.py": FIX}, TINY.model_copy(update={"required": False})
        ),
    }
    assert seen["timed out"].suites[0].termination == "timeout"
    assert len({report.digest for report in seen.values()}) == len(seen)


@pytest.mark.sandbox
async def test_a_suite_that_does_not_repeat_is_flaky(proof: Proof) -> None:
    """Repetitions that end differently never pass, though each exits 0."""
    odd = "<testcase name='$(date +%s%N)'><skipped/></testcase>"
    chance = TINY.model_copy(
        update={
            "repeat": 2,
            "run": f'{TINY.run}; sed -i "s#</testsuite>#{odd}</testsuite>#" "$ULTRACODE_JUNIT"',
        }
    )
    report = await proof.judge(TINY_FILES, {"calc.py": FIX}, chance)
    assert (report.passed, report.suites[0].flaky) == (False, True)
