"""The sandbox as operators and attackers call it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from workspace.sandbox.guarantees import GUARANTEES

pytestmark = pytest.mark.sandbox


def test_the_command_line_runs_one_command(workspace: Path) -> None:
    """`python -m workspace.sandbox run` prints how a command ended, as one JSON object."""
    done = subprocess.run(
        [sys.executable, "-m", "workspace.sandbox", "run", "--workspace", workspace,
         "--memory", "256M", "--wall-seconds", "20", "--", "sh", "-c", "echo hello; exit 4"],
        capture_output=True,
        check=True,
    )  # fmt: skip
    result = json.loads(done.stdout)
    assert set(result) >= {
        "exit_code", "termination", "output", "peak_memory_bytes", "wall_seconds",
    }  # fmt: skip
    assert (result["exit_code"], result["termination"], result["output"]) == (4, "exit", "hello\n")


def test_the_selftest_names_every_guarantee() -> None:
    """`python -m workspace.sandbox selftest --json` says true for each of them."""
    done = subprocess.run(
        [sys.executable, "-m", "workspace.sandbox", "selftest", "--json"],
        capture_output=True,
        check=False,
    )
    assert json.loads(done.stdout) == dict.fromkeys(GUARANTEES, True), done.stderr.decode()
    assert done.returncode == 0


def test_a_sandbox_that_fails_says_so_in_one_line(tmp_path: Path) -> None:
    """A workspace that is not there is one sentence on standard error, not a traceback."""
    done = subprocess.run(
        [sys.executable, "-m", "workspace.sandbox", "run", "--workspace", tmp_path / "no", "true"],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(b"sandbox: ")
    assert done.stderr.count(b"\n") == 1
