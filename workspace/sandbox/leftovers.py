"""Temporary folders that say whose they are, so that those of killed processes can be removed.

In: nothing. Out: a folder named after this process, gone when its context ends; and at the next
start of any bot of this user, gone as well when the process was killed before that. Control groups
and containers of killed bots are removed by whoever makes the next ones (`launcher`, `container`);
mounts, users and processes need nobody, as they end with the keeper that holds them.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workspace.sandbox.started import started_at

_PREFIX = "ultracode-sandbox-"


@contextmanager
def own_folder() -> Iterator[Path]:
    """An empty folder that nobody but this user can enter."""
    owner = f"{_PREFIX}{os.getpid()}-{started_at(os.getpid())}-"
    with tempfile.TemporaryDirectory(prefix=owner, ignore_cleanup_errors=True) as folder:
        yield Path(folder).resolve()


def remove_leftovers() -> int:
    """Remove this user's folders whose process is no more; says how many."""
    removed = 0
    for folder in Path(tempfile.gettempdir()).glob(_PREFIX + "*-*-*"):
        pid, started, _ = folder.name.removeprefix(_PREFIX).split("-", 2)
        is_ours = folder.lstat().st_uid == os.geteuid()
        if is_ours and pid.isdigit() and str(started_at(int(pid))) != started:
            shutil.rmtree(folder, ignore_errors=True)
            removed += 1
    return removed
