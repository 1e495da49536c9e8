"""Taking a guard away in a copy of the code, to see the tests that show it turn red.

In: a `Guard`, the edits that take it away and the tests named for it. Out: which of them pass all
the same. A guard without a red test is not known to do anything.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 120
"""A test that hangs without its guard is as red as one that fails."""


@dataclass(frozen=True)
class Edit:
    """One change to a file, named from the folder that a table of guards is about."""

    file: str
    old: str
    new: str = ""


@dataclass(frozen=True)
class Guard:
    """What holds an attack off, how to take it away, and which tests then fail."""

    name: str
    edits: tuple[Edit, ...]
    tests: tuple[str, ...]
    says: str = ""
    """What each failure must say, where a test can fail before the attack has succeeded."""


@contextmanager
def copied(folder: Path, tests: Path) -> Iterator[Path]:
    """Copy the workspace and a folder of its tests, to be changed at will."""
    for name in ("workspace", str(tests)):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for parent in (Path("tests"), Path("tests", "integration")):
        shutil.copy(ROOT / parent / "__init__.py", folder / parent)
    shutil.copy(ROOT / "tests" / "integration" / "guards.py", folder / "tests" / "integration")
    shutil.copy(ROOT / "pyproject.toml", folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def take_away(guard: Guard, source: Path) -> None:
    """Edit the copy; a table that no longer fits the code fails here."""
    for edit in guard.edits:
        file = source / edit.file
        text = file.read_text()
        assert edit.old in text, f"{edit.file} no longer says {edit.old!r}"
        file.write_text(text.replace(edit.old, edit.new))


def still_passing(guard: Guard, tests: Path) -> set[str]:
    """Return the guard's tests that do not fail as they should; when they hang, they do."""
    command = [
        "env",
        "COLUMNS=1000",
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--no-header",
    ]
    try:
        done = subprocess.run(
            [*command, *(str(tests / test) for test in guard.tests)],
            cwd=tests.parents[2],
            timeout=PATIENCE_SECONDS,
            capture_output=True,
            text=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return set()
    assert done.returncode in (0, 1), done.stdout + done.stderr
    said = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    red = {
        test for test in guard.tests if any(test in line and guard.says in line for line in said)
    }
    return set(guard.tests) - red
