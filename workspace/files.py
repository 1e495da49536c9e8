"""The host's own hands in a folder that something hostile may have written.

In: a folder and names below it. Out: contents, a listing, or a sentence that says why not. Why: a
naive open follows planted links out of the folder, waits for ever on a FIFO and reads what a hard
link lends it. Here every name is walked component by component without following links, opened
without blocking, and only regular files with one link and a bounded size are read or written.
"""

import contextlib
import errno
import os
import stat
import uuid
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from workspace.paths import decode_path, show_text

Kind = Literal["file", "link", "folder", "special"]

_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MOST_ENTRIES = 1_000_000
_LONGEST_PATH = 4000  # Linux takes none longer than 4096 bytes
_DEEPEST = 200


class FileRefused(Exception):
    """A sentence for whoever asked for the file."""


@dataclass(frozen=True, slots=True)
class Found:
    """One thing in a folder. `mode` holds the permission bits; `links` is that of a file."""

    path: bytes
    kind: Kind
    size: int
    links: int
    mode: int


class Folder:
    """A folder held open: what it is called may change, what it is does not."""

    def __init__(self, path: Path) -> None:
        """Open the folder.

        Raises:
            FileNotFoundError: it is not there.
        """
        self.path = path
        self._root = os.open(path, _OPEN_FOLDER)
        self._let_go = weakref.finalize(self, os.close, self._root)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the folder; it also is when nobody holds this any more."""
        self._let_go()

    def read(self, path: bytes, *, most_bytes: int) -> bytes:
        """Return a regular file's content.

        Raises:
            FileRefused: it is not there, not a plain file, or too large.
        """
        with self._parent(path) as (parent, name):
            found = _look(parent, name, path)
            _require_plain(found, path, most_bytes)
            descriptor = _open_file(parent, name, os.O_RDONLY, path)
            with os.fdopen(descriptor, "rb") as file:
                _require_plain(os.fstat(file.fileno()), path, most_bytes)
                content = file.read(most_bytes + 1)
        if len(content) > most_bytes:
            raise FileRefused(f"{shown(path)} is larger than {most_bytes} bytes.")
        return content

    def write(self, path: bytes, content: bytes, *, mode: int = 0o644) -> None:
        """Create or overwrite a regular file; folders on the way are made.

        Raises:
            FileRefused: something else than a plain file stands there or on the way.
        """
        with self._parent(path, make=True) as (parent, name):
            found = _look_for(parent, name, path)
            if found is not None:
                _require_plain(found, path, None)
                mode = stat.S_IMODE(found.st_mode)
            temporary = f".write-{uuid.uuid4().hex}".encode()
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(temporary, flags, 0o600, dir_fd=parent)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(content)
                    os.fchmod(file.fileno(), mode & 0o777)
                os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException:
                os.unlink(temporary, dir_fd=parent)
                raise

    def move(self, source: bytes, destination: bytes) -> None:
        """Move a file or link to a free name.

        Raises:
            FileRefused: no file there, or the new name is taken.
        """
        with self._parent(source) as (old_parent, old_name):
            found = _look(old_parent, old_name, source)
            if stat.S_ISDIR(found.st_mode):
                raise FileRefused(f"{shown(source)} is a folder; move its files one by one.")
            with self._parent(destination, make=True) as (new_parent, new_name):
                if _look_for(new_parent, new_name, destination) is not None:
                    raise FileRefused(f"{shown(destination)} exists already.")
                os.rename(old_name, new_name, src_dir_fd=old_parent, dst_dir_fd=new_parent)
        self._drop_empty_folders(source)

    def delete(self, path: bytes) -> None:
        """Delete a file or link, and the folders it leaves empty, as Git would.

        Raises:
            FileRefused: no file there.
        """
        with self._parent(path) as (parent, name):
            if stat.S_ISDIR(_look(parent, name, path).st_mode):
                raise FileRefused(f"{shown(path)} is a folder; delete its files one by one.")
            os.unlink(name, dir_fd=parent)
        self._drop_empty_folders(path)

    def link_target(self, path: bytes) -> bytes | None:
        """Return where a symbolic link points, or None for anything else."""
        try:
            with self._parent(path) as (parent, name):
                return os.readlink(name, dir_fd=parent)
        except (FileRefused, OSError):
            return None

    def set_mode(self, path: bytes, mode: int) -> None:
        """Set the permission bits of a file or folder, never through a link."""
        with self._parent(path) as (parent, name):
            _set_mode(parent, name, mode)

    def discard(self, path: bytes) -> None:
        """Remove whatever stands there, a whole folder too; nothing there is fine."""
        with contextlib.suppress(FileRefused), self._parent(path) as (parent, name):
            _remove(parent, name, self._root)

    def walk(self, *, enter: Callable[[bytes], bool] = lambda _: True) -> Iterator[Found]:
        """Yield everything below, links not followed, folders before what they hold.

        Args:
            enter: Whether to look into a folder.

        Raises:
            FileRefused: there is more, or it lies deeper, than any repository has.
        """
        waiting = [b""]
        seen = 0
        while waiting:
            prefix = waiting.pop()
            for name, status in self._list(prefix):
                seen += 1
                path = prefix + name
                deep = len(path) > _LONGEST_PATH or path.count(b"/") > _DEEPEST
                if seen > _MOST_ENTRIES or deep:
                    raise FileRefused("The folder holds more, or deeper, than can be looked at.")
                kind = _kind(status)
                mode = stat.S_IMODE(status.st_mode)
                yield Found(path, kind, status.st_size, status.st_nlink, mode)
                if kind == "folder" and enter(path):
                    waiting.append(path + b"/")

    def _list(self, prefix: bytes) -> list[tuple[bytes, os.stat_result]]:
        with self._parent(prefix + b".") as (parent, _), os.scandir(parent) as entries:
            return sorted(
                (os.fsencode(entry.name), entry.stat(follow_symlinks=False)) for entry in entries
            )

    @contextlib.contextmanager
    def _parent(self, path: bytes, *, make: bool = False) -> Iterator[tuple[int, bytes]]:
        """The folder a name stands in, opened one component at a time, and the last component."""
        *folders, name = path.split(b"/")
        descriptor = os.dup(self._root)
        try:
            for folder in folders:
                inner = _open_folder(descriptor, folder, path, make=make)
                os.close(descriptor)
                descriptor = inner
            yield descriptor, name
        finally:
            os.close(descriptor)

    def _drop_empty_folders(self, path: bytes) -> None:
        parts = path.split(b"/")[:-1]
        while parts:
            with contextlib.suppress(FileRefused), self._parent(b"/".join(parts)) as (parent, name):
                try:
                    os.rmdir(name, dir_fd=parent)
                except OSError:
                    return
            parts.pop()


def parse_path(text: str) -> bytes:
    """Return the raw name a tool's caller means, relative to the workspace.

    Raises:
        FileRefused: it leads out of the workspace or into Git's own files.
    """
    path = text.strip()
    for prefix in ("/ws/", "./"):
        path = path.removeprefix(prefix)
    parts = path.split("/")
    if not path or path.startswith("/") or "\0" in path or ".." in parts:
        raise FileRefused(f"{show_text(text)!r} is no path inside the workspace.")
    if any(part in {"", "."} for part in parts):
        raise FileRefused(f"{show_text(text)!r} is not a plain path: write it as a/b/c.")
    if any(part.casefold() == ".git" for part in parts):
        raise FileRefused("Git's own files are not part of the workspace.")
    return path.encode("utf-8", "surrogateescape")


def shown(path: bytes) -> str:
    """Return a raw name for people and models."""
    return show_text(decode_path(path)).replace("\n", "\\n").replace("\t", "\\t")


def wipe(path: Path) -> None:
    """Remove a folder however deep, closed or odd; a folder that is not there is fine."""
    with contextlib.suppress(FileNotFoundError):
        parent = os.open(path.parent, _OPEN_FOLDER)
        try:
            _remove(parent, os.fsencode(path.name), parent)
        finally:
            os.close(parent)


def _remove(parent: int, name: bytes, trash: int) -> None:
    """Remove one thing; folders in it go to `trash` first, so that no depth is too deep."""
    waiting: list[tuple[int, bytes]] = [(parent, name)]
    while waiting:
        holder, current = waiting.pop()
        try:
            os.unlink(current, dir_fd=holder)
            continue
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno not in {errno.EISDIR, errno.EPERM, errno.EACCES}:
                raise
        _open_up(holder, current)
        for child, is_folder in _children(holder, current):
            inside = _open_folder(holder, current, current)
            try:
                if not is_folder:
                    os.unlink(child, dir_fd=inside)
                    continue
                _open_up(inside, child)
                moved = b".trash-" + uuid.uuid4().hex.encode()
                os.rename(child, moved, src_dir_fd=inside, dst_dir_fd=trash)
                waiting.append((trash, moved))
            finally:
                os.close(inside)
        os.rmdir(current, dir_fd=holder)


def _children(holder: int, name: bytes) -> list[tuple[bytes, bool]]:
    inside = _open_folder(holder, name, name)
    try:
        with os.scandir(inside) as entries:
            return [
                (os.fsencode(entry.name), entry.is_dir(follow_symlinks=False)) for entry in entries
            ]
    finally:
        os.close(inside)


def _open_up(parent: int, name: bytes) -> None:
    """Give ourselves the right to list and change a folder whose mode denies it."""
    with contextlib.suppress(OSError):
        _set_mode(parent, name, 0o700)


def _set_mode(parent: int, name: bytes, mode: int) -> None:
    descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        if not stat.S_ISLNK(os.fstat(descriptor).st_mode):
            os.chmod(f"/proc/self/fd/{descriptor}", mode)  # noqa: PTH101 - by descriptor
    finally:
        os.close(descriptor)


def _open_folder(parent: int, name: bytes, path: bytes, *, make: bool = False) -> int:
    if make:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=parent)
    try:
        return os.open(name, _OPEN_FOLDER, dir_fd=parent)
    except PermissionError:
        _open_up(parent, name)
        return os.open(name, _OPEN_FOLDER, dir_fd=parent)
    except FileNotFoundError:
        raise FileRefused(f"There is no file {shown(path)}.") from None
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENOTDIR}:
            raise FileRefused(f"{shown(path)} leads through something that is no folder.") from None
        raise FileRefused(f"{shown(path)} cannot be opened: {error.strerror}.") from None


def _open_file(parent: int, name: bytes, flags: int, path: bytes) -> int:
    try:
        return os.open(name, flags | _OPEN_FILE, dir_fd=parent)
    except OSError as error:
        raise FileRefused(f"{shown(path)} cannot be opened: {error.strerror}.") from None


def _look(parent: int, name: bytes, path: bytes) -> os.stat_result:
    found = _look_for(parent, name, path)
    if found is None:
        raise FileRefused(f"There is no file {shown(path)}.")
    return found


def _look_for(parent: int, name: bytes, path: bytes) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FileRefused(f"{shown(path)} cannot be looked at: {error.strerror}.") from None


def _require_plain(found: os.stat_result, path: bytes, most_bytes: int | None) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise FileRefused(f"{shown(path)} is a folder.")
    if stat.S_ISLNK(found.st_mode):
        raise FileRefused(f"{shown(path)} is a symbolic link, which is not followed.")
    if not stat.S_ISREG(found.st_mode):
        raise FileRefused(f"{shown(path)} is no regular file.")
    if found.st_nlink != 1:
        raise FileRefused(f"{shown(path)} has more than one hard link.")
    if most_bytes is not None and found.st_size > most_bytes:
        raise FileRefused(
            f"{shown(path)} has {found.st_size} bytes; at most {most_bytes} are read at once."
        )


def _kind(status: os.stat_result) -> Kind:
    mode = status.st_mode
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "special"


def beginnings(path: bytes) -> Sequence[bytes]:
    """Return every folder a path lies in, outermost first."""
    parts = path.split(b"/")
    return [b"/".join(parts[:count]) for count in range(1, len(parts))]
