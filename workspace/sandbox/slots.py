"""Unprivileged users for commands when the bot itself runs as root: one per running command.

In: the user ids this system knows about. Out: an id that belongs to nobody, held by a lock for as
long as the command runs, so that two commands never share one, also across bots on one host.
"""

import contextlib
import fcntl
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

LOCKS = Path("/run/ultracode-sandbox")
# Ids that systemd's list leaves unused (systemd.io/UIDS-GIDS); the second for containers that map
# only 65536 ids.
_RANGES = (range(1_900_000_000, 1_900_000_256), range(65_520, 65_534))


class NoSlot(Exception):
    """No unprivileged user is free."""


@contextlib.contextmanager
def held_slot(candidates: list[int]) -> Iterator[int]:
    """A user id (and group id) of its own, until the context ends or the process does.

    Raises:
        NoSlot: every id is in use, or this system offers none.
    """
    _make_folder()
    for uid in candidates:
        lock = os.open(LOCKS / str(uid), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        try:
            yield uid
        finally:
            os.close(lock)
        return
    raise NoSlot("no unprivileged user id is free for a command")


def _make_folder() -> None:
    LOCKS.mkdir(mode=0o700, exist_ok=True)
    found = LOCKS.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise NoSlot(f"{LOCKS} does not belong to this user")


def load_candidates() -> list[int]:
    """Ids that no account, lender of ids or container limit keeps from us."""
    mapped = [tuple(map(int, line.split())) for line in _lines("/proc/self/uid_map")]
    subordinate = [
        (int(start), int(count))
        for file in ("/etc/subuid", "/etc/subgid")
        for _, start, count in (line.split(":") for line in _lines(file) if line.count(":") == 2)  # noqa: PLR2004 - name:start:count, man 5 subuid
    ]
    found = []
    for ids in _RANGES:
        for uid in ids:
            inside = any(first <= uid < first + count for first, _, count in mapped)
            lent = any(start <= uid < start + count for start, count in subordinate)
            if inside and not lent and not _has_account(uid):
                found.append(uid)
    return found


def _lines(file: str) -> list[str]:
    try:
        return Path(file).read_text().splitlines()
    except FileNotFoundError:
        return []


def _has_account(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True
