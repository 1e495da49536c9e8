"""Attacks through files, planted for whoever reads or writes the workspace on the host later."""

import os
import stat
from pathlib import Path

import pytest

from tests.integration.sandbox.conftest import Run
from workspace.sandbox.backend import Job
from workspace.sandbox.bubblewrap import BubblewrapSandbox

pytestmark = pytest.mark.sandbox


@pytest.fixture
def victim(outside: Path) -> Path:
    """A folder of the host with one file, which anybody might write."""
    (outside / "file").write_text("untouched")
    (outside / "file").chmod(0o666)
    return outside


def untouched(victim: Path) -> bool:
    return [p.name for p in victim.iterdir()] == ["file"] and (
        (victim / "file").read_text() == "untouched"
    )


async def test_a_planted_link_is_not_followed_when_files_come_back(
    either: BubblewrapSandbox, workspace: Path, victim: Path
) -> None:
    """What a command writes where a link to a host folder was lands in the workspace only."""
    (workspace / "folder").mkdir()
    for script in (
        f"ln -s {victim} link; ln -s {victim}/file file-link; rmdir folder; ln -s {victim} folder",
        (
            "rm link folder file-link; mkdir link folder; echo planted > file-link;"
            "echo planted > link/file; echo planted > folder/file"
        ),
        f"rm -r link; ln -s {victim} link",
    ):
        outcome = await either.run(Job(command=("sh", "-c", script), workspace=workspace))
        assert outcome.exit_code == 0
    assert untouched(victim)
    assert (workspace / "folder" / "file").read_text() == "planted\n"
    assert not (workspace / "file-link").is_symlink()
    assert (workspace / "link").is_symlink()


async def test_writing_through_a_link_stays_inside(run: Run, workspace: Path, victim: Path) -> None:
    """A link to a host file leads nowhere inside, whoever made it."""
    (workspace / "link").symlink_to(victim / "file")
    outcome = await run("echo planted > link; cat link")
    assert outcome.exit_code
    assert untouched(victim)


async def test_a_link_in_the_out_folder_does_not_come_out(
    run: Run, tmp_path: Path, victim: Path
) -> None:
    """A report that is a link to a host file is no report; a linked folder is no folder."""
    out = tmp_path / "out"
    out.mkdir()
    await run(f"ln -s {victim}/file /out/junit.xml; ln -s {victim} /out/d", scratch=out)
    assert not list(out.iterdir())


async def test_the_out_folder_itself_cannot_be_replaced(
    run: Run, tmp_path: Path, victim: Path
) -> None:
    """/out stays the folder it is, so nothing can be put in its place."""
    out = tmp_path / "out"
    out.mkdir()
    outcome = await run(f"rmdir /out && ln -s {victim} /out; echo x > /out/r", scratch=out)
    assert outcome.exit_code == 0
    assert [path.name for path in out.iterdir()] == ["r"]
    assert untouched(victim)


async def test_pipes_and_sockets_do_not_stop_the_host(run: Run, tmp_path: Path) -> None:
    """FIFOs and sockets left in every place keep nobody waiting, and no socket is left."""
    out = tmp_path / "out"
    out.mkdir()
    outcome = await run(
        'mkfifo pipe /out/pipe; python3 -c "import socket; s = socket.socket(socket.AF_UNIX);'
        " s.bind('socket')\"; ls",
        scratch=out,
    )
    assert outcome.exit_code == 0
    workspace = tmp_path / "workspace"
    assert [p.name for p in workspace.iterdir()] == ["pipe"]
    assert stat.S_ISFIFO((workspace / "pipe").lstat().st_mode)
    assert not list(out.iterdir())


async def test_hard_links_come_back_as_files_of_their_own(
    either: BubblewrapSandbox, workspace: Path
) -> None:
    """No file on the host has two names, so whoever changes one changes no other."""
    (workspace / "given").write_text("given")
    script = "ln given second; echo x > new; ln new third; ln /usr/bin/env env; ln /etc/passwd p; :"
    await either.run(Job(command=("sh", "-c", script), workspace=workspace))
    assert {path.name for path in workspace.iterdir()} == {"given", "second", "new", "third"}
    assert {path.stat().st_nlink for path in workspace.iterdir()} == {1}


async def test_deletion_markers_cannot_be_forged(python: Run, workspace: Path) -> None:
    """A device that means "deleted" to an overlay, or its attribute, cannot be made by hand."""
    (workspace / "kept").write_text("kept")
    (workspace / "folder").mkdir()
    (workspace / "folder" / "kept").write_text("kept")
    await python("""
import os
for attempt in (
    lambda: os.mknod("marker", 0o020000, 0),
    lambda: os.setxattr("folder", "trusted.overlay.opaque", b"y"),
    lambda: os.setxattr("folder", "user.overlay.opaque", b"y"),
    lambda: os.setxattr("folder", "trusted.overlay.redirect", b"/"),
):
    try:
        attempt()
    except OSError:
        pass
open("folder/new", "w").close()
""")
    assert sorted(path.name for path in (workspace / "folder").iterdir()) == ["kept", "new"]
    assert sorted(path.name for path in workspace.iterdir()) == ["folder", "kept"]


async def test_nothing_is_left_that_its_owner_cannot_read(
    either: BubblewrapSandbox, workspace: Path
) -> None:
    """Files and folders without any permission can still be read and removed on the host."""
    script = "mkdir d; echo x > d/f; chmod 0 d/f d; echo y > g; chmod 0 g"
    await either.run(Job(command=("sh", "-c", script), workspace=workspace))
    assert (workspace / "d").stat().st_mode & 0o700 == 0o700
    assert (workspace / "d" / "f").stat().st_mode & 0o600 == 0o600
    assert (workspace / "g").stat().st_mode & 0o600 == 0o600


async def test_odd_names_come_back_exactly(either: BubblewrapSandbox, workspace: Path) -> None:
    """Names that are no text, or look like options and paths, are names like any other."""
    program = """
import os
names = b"\\xff\\xfe", b"-rf", b"a\\nb", b"..a", b"\\x1b[2J", "\\u202egnp".encode(), b"x" * 255
for name in names:
    open(name, "w").close()
"""
    job = Job(command=("python3", "-c", program), workspace=workspace)
    assert (await either.run(job)).exit_code == 0
    assert {os.fsencode(path.name) for path in workspace.iterdir()} == {
        b"\xff\xfe", b"-rf", b"a\nb", b"..a", b"\x1b[2J", "\u202egnp".encode(), b"x" * 255,
    }  # fmt: skip


async def test_a_planted_git_directory_is_only_files(run: Run, workspace: Path) -> None:
    """Git configuration that runs programs is written down and run by nobody on the host."""
    await run(
        "mkdir -p .git/hooks;"
        " printf '[core]\\n\\tfsmonitor = touch /var/tmp/planted\\n' > .git/config;"
        " printf '#!/bin/sh\\ntouch /var/tmp/planted\\n' > .git/hooks/post-checkout;"
        " chmod +x .git/hooks/post-checkout"
    )
    assert (workspace / ".git" / "config").exists()
    assert not Path("/var/tmp/planted").exists()


async def test_devices_cannot_come_back(run: Run, workspace: Path) -> None:
    """No way of making a device leaves one on the host."""
    await run("mknod null c 1 3; cp -a /dev/null copy; tar -C / -cf - dev/zero | tar -xf -; :")
    assert not [p for p in workspace.rglob("*") if not (p.is_file() or p.is_dir())]


async def test_two_commands_never_see_each_other(
    bubblewrap: BubblewrapSandbox, tmp_path: Path
) -> None:
    """What one command leaves in /tmp, /dev/shm and its home is not there for the next."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        script = 'find /tmp /dev/shm /home -type f; echo x | tee /tmp/a /dev/shm/a "$HOME/a"'
        job = Job(command=("sh", "-c", script), workspace=tmp_path / name)
        assert (await bubblewrap.run(job)).output == b"x\n"
