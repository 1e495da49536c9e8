"""Folders as tar streams, for engines that take and give them that way.

In: an open folder, or a stream made from what hostile code left. Out: the stream, or a fresh folder
with the regular files, folders, links and FIFOs of it. Unpacking goes component by component
through open folders and never follows a link, so no name in a stream can lead out of the folder.
"""

import os
import stat
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from workspace.sandbox.writeback import MOST_DEEP, TooDeep

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 1024 * 1024


def pack(folder: Path, stream: IO[bytes], *, owner: int) -> None:
    """Write what is in a folder to a stream, as belonging to `owner`; special files are left out.

    Raises:
        OSError: something cannot be read.
    """

    def adopted(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        member.uid = member.gid = owner
        member.uname = member.gname = ""
        return member if member.isfile() or member.isdir() or member.issym() else None

    with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(folder.iterdir()):
            archive.add(path, arcname=path.name, filter=adopted)


def unpack(stream: IO[bytes], folder: Path, *, most_bytes: int, most_files: int) -> None:
    """Fill an empty folder from a stream.

    Raises:
        OSError: the stream is damaged, or holds more than it may.
        TooDeep: nested deeper than anything real.
    """
    files, size = 0, 0
    root = os.open(folder, _FOLDER)
    try:
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                files, size = files + 1, size + (member.size if member.isfile() else 0)
                if files > most_files or size > most_bytes:
                    raise OSError(f"more than {most_files} files or {most_bytes} bytes came back")
                _unpack_one(archive, member, root)
    except tarfile.TarError as error:
        raise OSError(f"a damaged archive came back: {error}") from error
    finally:
        os.close(root)


def _unpack_one(archive: tarfile.TarFile, member: tarfile.TarInfo, root: int) -> None:
    parts = [part for part in PurePosixPath(member.name).parts if part not in ("/", ".")]
    if ".." in parts:
        raise OSError("a name in the archive leads upwards")
    if len(parts) > MOST_DEEP:
        raise TooDeep(f"folders nested deeper than {MOST_DEEP}")
    if not parts:
        return
    with _parent(root, parts[:-1]) as parent:
        _make(archive, member, parent, parts[-1])


def _make(archive: tarfile.TarFile, member: tarfile.TarInfo, parent: int, name: str) -> None:
    mode = stat.S_IMODE(member.mode) & 0o777
    if member.isdir():
        os.mkdir(name, mode | 0o700, dir_fd=parent)
    elif member.issym():
        os.symlink(member.linkname, name, dir_fd=parent)
    elif member.isfifo():
        os.mkfifo(name, 0o600, dir_fd=parent)
    elif content := archive.extractfile(member):  # a hard link reads as the file it links to
        with open(os.open(name, _NEW_FILE, mode | 0o600, dir_fd=parent), "wb") as file:
            while chunk := content.read(_CHUNK):
                file.write(chunk)
            os.utime(file.fileno(), (member.mtime, member.mtime))


@contextmanager
def _parent(root: int, names: list[str]) -> Iterator[int]:
    folder = os.dup(root)
    try:
        for name in names:
            inner = os.open(name, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)
