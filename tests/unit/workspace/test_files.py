"""The host's hands in a hostile folder."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from workspace.files import FileRefused, Folder, parse_path, wipe


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    inside = tmp_path / "ws"
    inside.mkdir()
    (tmp_path / "secret").write_text("top secret")
    with Folder(inside) as opened:
        yield opened


def read(folder: Folder, name: str) -> bytes:
    return folder.read(name.encode(), most_bytes=1000)


def test_reads_plain_files(folder: Folder) -> None:
    """An ordinary file is read."""
    (folder.path / "a").mkdir()
    (folder.path / "a/b").write_bytes(b"x")
    assert read(folder, "a/b") == b"x"


@pytest.mark.parametrize("kind", ["link", "folder link", "fifo", "hard link", "folder", "large"])
def test_refuses_what_is_not_plain(folder: Folder, kind: str) -> None:
    """Links, FIFOs, hard links, folders and large files are refused at once, never followed."""
    secret = folder.path.parent / "secret"
    target = folder.path / "x"
    if kind == "link":
        target.symlink_to(secret)
    elif kind == "folder link":
        (folder.path / "up").symlink_to(folder.path.parent)
        target = folder.path / "up/secret"
    elif kind == "fifo":
        os.mkfifo(target)
    elif kind == "hard link":
        os.link(secret, target)
    elif kind == "folder":
        target.mkdir()
    else:
        target.write_bytes(b"x" * 1001)
    with pytest.raises(FileRefused):
        folder.read(os.fsencode(target.relative_to(folder.path)), most_bytes=1000)


@pytest.mark.parametrize("through", ["x", "up/new"])
def test_writes_never_leave_the_folder(folder: Folder, through: str) -> None:
    """Writing through a planted link is refused, and the host's file keeps its content."""
    (folder.path / "x").symlink_to(folder.path.parent / "secret")
    (folder.path / "up").symlink_to(folder.path.parent)
    with pytest.raises(FileRefused):
        folder.write(through.encode(), b"evil")
    assert (folder.path.parent / "secret").read_text() == "top secret"
    assert not (folder.path.parent / "new").exists()


def test_overwriting_keeps_the_mode(folder: Folder) -> None:
    """An executable stays one."""
    (folder.path / "run.sh").write_bytes(b"old")
    (folder.path / "run.sh").chmod(0o755)
    folder.write(b"run.sh", b"new")
    assert (folder.path / "run.sh").read_bytes() == b"new"
    assert (folder.path / "run.sh").stat().st_mode & 0o777 == 0o755


def test_moving_and_deleting(folder: Folder) -> None:
    """Files move to free names only, and folders left empty go, as in Git."""
    folder.write(b"a/b/c", b"1")
    folder.write(b"d", b"2")
    with pytest.raises(FileRefused, match="exists already"):
        folder.move(b"a/b/c", b"d")
    folder.move(b"a/b/c", b"e/f")
    assert not (folder.path / "a").exists()
    folder.delete(b"e/f")
    assert [path.name for path in folder.path.iterdir()] == ["d"]


def test_a_folder_swapped_behind_our_back_is_not_touched(folder: Folder) -> None:
    """The folder that was opened is meant, not whatever has its name later."""
    folder.path.rename(folder.path.with_name("old"))
    folder.path.mkdir()
    folder.write(b"x", b"1")
    assert not (folder.path / "x").exists()
    assert (folder.path.with_name("old") / "x").exists()


@pytest.mark.parametrize(
    "text", ["", "/etc/passwd", "../x", "a/../../x", "a//b", ".git/config", "x/.GIT/y", "a\0b", "."]
)
def test_paths_that_lead_elsewhere_are_refused(text: str) -> None:
    """A model's path stays inside and out of Git's files."""
    with pytest.raises(FileRefused):
        parse_path(text)


@pytest.mark.parametrize("text", ["a/b", "./a/b", "/ws/a/b", " a/b "])
def test_paths_as_models_write_them(text: str) -> None:
    """The usual ways to write one path mean the same."""
    assert parse_path(text) == b"a/b"


def test_walk_does_not_follow_links(folder: Folder) -> None:
    """A link to the outside is listed as a link and not entered."""
    (folder.path / "out").symlink_to("/")
    folder.write(b"a/b", b"1")
    found = {entry.path: entry.kind for entry in folder.walk()}
    assert found == {b"a": "folder", b"a/b": "file", b"out": "link"}


def test_walk_gives_up_on_what_no_repository_is(folder: Folder) -> None:
    """A folder nested without end is refused, not followed."""
    path = folder.path
    for _ in range(300):
        path = path / "d"
    path.mkdir(parents=True)
    with pytest.raises(FileRefused):
        list(folder.walk())


def test_wipe_removes_the_deep_the_closed_and_the_odd(tmp_path: Path) -> None:
    """Nothing a worker can make survives, and nothing outside is touched."""
    keep = tmp_path / "keep"
    keep.write_text("kept")
    doomed = tmp_path / "doomed"
    doomed.mkdir()
    (doomed / "link").symlink_to(keep)
    os.mkfifo(doomed / "pipe")
    (doomed / "closed").mkdir()
    (doomed / "closed/file").write_text("x")
    (doomed / "closed").chmod(0)
    here = os.open(doomed, os.O_RDONLY)
    for _ in range(1200):  # a path far longer than any system call takes
        os.mkdir("deeper", dir_fd=here)
        inner = os.open("deeper", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    wipe(doomed)
    assert list(tmp_path.iterdir()) == [keep]
    assert keep.read_text() == "kept"
    wipe(doomed)
