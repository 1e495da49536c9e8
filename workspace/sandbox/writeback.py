"""Brings what a command wrote back into its workspace, once everything it started is dead.

In: the upper layer of an overlay, or a changed copy, both made by hostile code. Out: the workspace
changed accordingly, with nothing but regular files, folders, links and FIFOs in it, no set-id bits,
and its owner able to read all of it. Works component by component on open folders and never follows
a link.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

MOST_DEEP = 200
"""Folders inside folders; deeper trees are refused, not followed."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SOURCE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_TARGET = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class TooDeep(Exception):
    """The command left folders nested deeper than anything real."""


@dataclass(slots=True)
class Held:
    """What a tree holds on disk."""

    size: int = 0
    files: int = 0

    def add(self, found: os.stat_result, sign: int = 1) -> None:
        """Count one entry in, or out."""
        self.size += sign * found.st_blocks * 512
        self.files += sign


Path = tuple[str, ...]
Snapshot = dict[Path, tuple[int, int]]
"""Of a fresh copy: inode and change time of each entry, which a command cannot forge."""


@dataclass(slots=True, kw_only=True)
class Copier:
    """Copies entries from one open folder to another."""

    owner: tuple[int, int]
    before_each: Callable[[], None] = lambda: None
    """Called before each entry; raises to stop."""
    only_files: bool = False
    """Leave out links and FIFOs (for what the host reads afterwards)."""
    opaque: str | None = None
    """The attribute of folders, in an upper layer, that hide what was there before."""
    unchanged: Snapshot = field(default_factory=dict)
    seen: Snapshot = field(default_factory=dict)
    held: Held = field(default_factory=Held)

    def copy_folder(self, source: int, target: int, path: Path = ()) -> None:
        """Make the target folder hold what the source folder says.

        Raises:
            TooDeep: nested deeper than `MOST_DEEP`.
            OSError: the target's file system refuses.
        """
        if len(path) > MOST_DEEP:
            raise TooDeep(f"folders nested deeper than {MOST_DEEP}")
        with os.scandir(source) as entries:
            found = [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries]
        for name, status in found:
            self._copy(source, target, name, status, (*path, name))

    def _copy(
        self, source: int, target: int, name: str, status: os.stat_result, path: Path
    ) -> None:
        self.before_each()
        kind = stat.S_IFMT(status.st_mode)
        self.seen[path] = (status.st_ino, status.st_ctime_ns)
        if kind == stat.S_IFDIR:
            self._copy_subfolder(source, target, name, status, path)
        elif self.unchanged.get(path) != self.seen[path]:
            self._remove(target, name)
            if kind == stat.S_IFREG:
                self._copy_file(source, target, name, status)
            elif not self.only_files:
                self._copy_special(source, target, name, kind)
            with suppress(FileNotFoundError):
                self.held.add(os.stat(name, dir_fd=target, follow_symlinks=False))

    def _copy_subfolder(
        self, source: int, target: int, name: str, status: os.stat_result, path: Path
    ) -> None:
        with opened(name, source) as inner:
            if self._is_opaque(inner) or not _is_folder(name, target):
                self._remove(target, name)
                os.mkdir(name, 0o700, dir_fd=target)
                self.held.files += 1
            with opened(name, target) as outer:
                self.copy_folder(inner, outer, path)
                self._finish(outer, status, 0o700)

    def _is_opaque(self, folder: int) -> bool:
        with suppress(OSError):
            return self.opaque is not None and os.getxattr(folder, self.opaque) == b"y"
        return False

    def _copy_file(self, source: int, target: int, name: str, status: os.stat_result) -> None:
        with (
            open(os.open(name, _SOURCE, dir_fd=source), "rb", buffering=0) as reading,
            open(os.open(name, _TARGET, 0o600, dir_fd=target), "wb", buffering=0) as writing,
        ):
            for position, end in _data_ranges(reading.fileno(), status.st_size):
                _send(reading.fileno(), writing.fileno(), position, end)
            os.truncate(writing.fileno(), status.st_size)
            self._finish(writing.fileno(), status, 0o600)

    def _copy_special(self, source: int, target: int, name: str, kind: int) -> None:
        """Links and FIFOs as they are; whiteouts and sockets leave nothing behind."""
        if kind == stat.S_IFLNK:
            os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
        elif kind == stat.S_IFIFO:
            os.mkfifo(name, 0o600, dir_fd=target)
        else:
            return
        os.chown(name, *self.owner, dir_fd=target, follow_symlinks=False)

    def _finish(self, descriptor: int, status: os.stat_result, least: int) -> None:
        os.fchown(descriptor, *self.owner)
        os.fchmod(descriptor, status.st_mode & 0o777 | least)
        os.utime(descriptor, ns=(status.st_atime_ns, status.st_mtime_ns))

    def _remove(self, target: int, name: str) -> None:
        try:
            found = os.stat(name, dir_fd=target, follow_symlinks=False)
        except FileNotFoundError:
            return
        if stat.S_ISDIR(found.st_mode):
            with opened(name, target) as folder:
                with os.scandir(folder) as entries:
                    inside = [entry.name for entry in entries]
                for entry in inside:
                    self._remove(folder, entry)
            os.rmdir(name, dir_fd=target)
        else:
            os.unlink(name, dir_fd=target)
        self.held.add(found, -1)

    def remove_missing(self, target: int, before: Iterable[Path]) -> None:
        """Take away what was there before and has not been seen while copying."""
        gone = [path for path in before if path not in self.seen]
        for path in sorted(gone, key=len):
            if path[:-1] in self.seen or not path[:-1]:
                self._remove_path(target, path)

    def _remove_path(self, target: int, path: Path) -> None:
        folder = os.dup(target)
        try:
            for name in path[:-1]:
                inner = os.open(name, _FOLDER, dir_fd=folder)
                os.close(folder)
                folder = inner
            self._remove(folder, path[-1])
        except (FileNotFoundError, NotADirectoryError):
            pass  # a file has taken the folder's place, so what was in it is gone already
        finally:
            os.close(folder)


def walk(folder: int, path: Path = ()) -> Iterator[tuple[Path, os.stat_result]]:
    """What lies in an open folder, at any depth, links not followed.

    Raises:
        TooDeep: nested deeper than `MOST_DEEP`.
    """
    if len(path) > MOST_DEEP:
        raise TooDeep(f"folders nested deeper than {MOST_DEEP}")
    with os.scandir(folder) as entries:
        for entry in entries:
            inner_path = (*path, entry.name)
            yield inner_path, entry.stat(follow_symlinks=False)
            if entry.is_dir(follow_symlinks=False):
                with opened(entry.name, folder) as inner:
                    yield from walk(inner, inner_path)


def measure(folder: int) -> Held:
    """What lies in an open folder."""
    held = Held()
    for _, status in walk(folder):
        held.add(status)
    return held


def take_snapshot(folder: int) -> Snapshot:
    """What to compare with later, to see what was changed in an open folder."""
    return {path: (status.st_ino, status.st_ctime_ns) for path, status in walk(folder)}


@contextmanager
def opened(name: str, parent: int | None = None) -> Iterator[int]:
    """A folder, open: inside an open folder, or by its path."""
    descriptor = os.open(name, _FOLDER, dir_fd=parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _data_ranges(descriptor: int, size: int) -> Iterator[tuple[int, int]]:
    """Where a file holds data, so that holes stay holes."""
    position = 0
    while position < size:
        try:
            start = os.lseek(descriptor, position, os.SEEK_DATA)
        except OSError:  # ENXIO: nothing but a hole is left
            return
        position = os.lseek(descriptor, start, os.SEEK_HOLE)
        yield start, position


def _send(source: int, target: int, position: int, end: int) -> None:
    os.lseek(target, position, os.SEEK_SET)
    while position < end:
        sent = os.sendfile(target, source, position, end - position)
        if not sent:
            raise OSError(errno.EIO, "a file became shorter while it was copied")
        position += sent


def _is_folder(name: str, folder: int) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False
