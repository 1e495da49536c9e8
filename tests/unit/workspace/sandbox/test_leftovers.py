"""Temporary folders of processes that were killed."""

import subprocess
import sys
from pathlib import Path

from workspace.sandbox.leftovers import own_folder, remove_leftovers


def test_a_folder_goes_with_its_context() -> None:
    """Nothing is left of a folder when its work is done, whatever was put into it."""
    with own_folder() as folder:
        (folder / "inner").mkdir()
        assert folder.stat().st_mode & 0o777 == 0o700
    assert not folder.exists()


def test_a_killed_processs_folder_is_removed_by_the_next() -> None:
    """Folders of the living stay; those of the dead go."""
    program = """
import os, signal
from workspace.sandbox.leftovers import own_folder
with own_folder() as folder:
    (folder / "file").touch()
    print(folder, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    left = Path(done.stdout.decode().strip())
    assert left.exists()
    with own_folder() as living:
        assert remove_leftovers() >= 1
        assert not left.exists()
        assert living.exists()
