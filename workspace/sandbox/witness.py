"""What the host's kernel says about processes, by a word in their command lines.

In: a random token that a job carries in its command. Out: its processes as /proc shows them,
whatever they forked, renamed or detached, so that self-test and attack tests judge from outside.
"""

import asyncio
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_PATIENCE_SECONDS = 20.0
_STEP_SECONDS = 0.01


def new_token() -> str:
    """A word that occurs in no other command line."""
    return "token" + secrets.token_hex(12)


def load_processes(token: str, *, without: int = 0) -> dict[int, dict[str, str]]:
    """Processes with the token in their command line: process id → fields of its status."""
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == without:
            continue
        with suppress(OSError):
            if token.encode() in (folder / "cmdline").read_bytes():
                lines = (folder / "status").read_text().splitlines()
                fields = dict(line.split(":", 1) for line in lines if ":" in line)
                found[int(folder.name)] = {name: text.strip() for name, text in fields.items()}
    return found


async def until(condition: Callable[[], bool], seconds: float = _PATIENCE_SECONDS) -> bool:
    """Wait for a condition; False when it did not come true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(_STEP_SECONDS)
    return True
