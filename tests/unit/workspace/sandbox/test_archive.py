"""Unpacking streams made from what hostile code left."""

import io
import tarfile
from pathlib import Path

import pytest

from workspace.sandbox.archive import pack, unpack
from workspace.sandbox.writeback import TooDeep


def stream(*members: tuple[str, bytes, dict[str, str]]) -> io.BytesIO:
    """A tar with members of any kind: name, type, attributes."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name, kind, attributes in members:
            member = tarfile.TarInfo(name)
            member.type, member.mode = kind, 0o6755
            for attribute, value in attributes.items():
                setattr(member, attribute, value)
            archive.addfile(member)
    content.seek(0)
    return content


def unpacked(folder: Path, *members: tuple[str, bytes, dict[str, str]]) -> list[str]:
    target = folder / "target"
    target.mkdir()
    unpack(stream(*members), target, most_bytes=1 << 20, most_files=100)
    return sorted(str(path.relative_to(target)) for path in target.rglob("*"))


def test_what_was_packed_comes_back(tmp_path: Path) -> None:
    """Files, folders, modes and links survive the journey."""
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "folder").mkdir(parents=True)
    target.mkdir()
    (source / "folder" / "script").write_text("run")
    (source / "folder" / "script").chmod(0o755)
    (source / "link").symlink_to("/etc/passwd")
    content = io.BytesIO()
    pack(source, content, owner=1000)
    content.seek(0)
    unpack(content, target, most_bytes=1 << 20, most_files=10)
    assert (target / "folder" / "script").read_text() == "run"
    assert (target / "folder" / "script").stat().st_mode & 0o777 == 0o755
    assert str((target / "link").readlink()) == "/etc/passwd"


@pytest.mark.parametrize("name", ["../outside", "folder/../../outside", "./../outside"])
def test_names_that_lead_upwards_are_refused(tmp_path: Path, name: str) -> None:
    """A name cannot leave the folder."""
    with pytest.raises(OSError, match="upwards"):
        unpacked(tmp_path, (name, tarfile.REGTYPE, {}))
    assert not (tmp_path / "outside").exists()


def test_an_absolute_name_lands_inside(tmp_path: Path) -> None:
    """A name from the root is a name from the folder."""
    assert unpacked(tmp_path, ("/file", tarfile.REGTYPE, {})) == ["file"]


def test_a_link_is_not_walked_through(tmp_path: Path) -> None:
    """A file below a link that the same stream made goes nowhere."""
    victim = tmp_path / "victim"
    victim.mkdir()
    with pytest.raises(OSError, match=r"link|directory"):
        unpacked(
            tmp_path,
            ("link", tarfile.SYMTYPE, {"linkname": str(victim)}),
            ("link/file", tarfile.REGTYPE, {}),
        )
    assert not list(victim.iterdir())


def test_set_id_bits_and_devices_do_not_arrive(tmp_path: Path) -> None:
    """Whatever the stream says, files are plain files."""
    names = unpacked(tmp_path, ("file", tarfile.REGTYPE, {}), ("device", tarfile.CHRTYPE, {}))
    assert names == ["file"]
    assert not (tmp_path / "target" / "file").stat().st_mode & 0o6000


def test_more_than_may_be_is_refused(tmp_path: Path) -> None:
    """A stream with too many entries, or too deep a tree, is refused in words."""
    with pytest.raises(OSError, match="more than 100 files"):
        unpacked(tmp_path, *((str(number), tarfile.REGTYPE, {}) for number in range(200)))
    with pytest.raises(TooDeep):
        unpack(
            stream(("d/" * 300 + "f", tarfile.REGTYPE, {})),
            tmp_path / "target",
            most_bytes=100,
            most_files=100,
        )


def test_a_damaged_stream_is_refused(tmp_path: Path) -> None:
    """What is no archive is said to be damaged."""
    with pytest.raises(OSError, match="damaged"):
        unpack(io.BytesIO(b"no archive" * 200), tmp_path, most_bytes=1, most_files=1)
