"""What a job may count on: its files, its environment, its exit code and its limits' names."""

import asyncio
import os
import stat
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest

from tests.integration.sandbox.conftest import Run
from workspace.sandbox.backend import (
    Job,
    Limits,
    ReadOnlyMount,
    SandboxError,
    WorkspaceNotKept,
)
from workspace.sandbox.bubblewrap import BubblewrapSandbox

pytestmark = pytest.mark.sandbox


def tree(folder: Path) -> dict[str, str]:
    """Every path in a folder with its kind and content, as a person would list it."""
    found = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        name = str(path.relative_to(folder))
        if stat.S_ISLNK(mode):
            found[name] = f"-> {path.readlink()}"
        elif stat.S_ISREG(mode):
            found[name] = ("x " if mode & 0o100 else "") + path.read_text()
        else:
            found[name] = {stat.S_IFDIR: "folder", stat.S_IFIFO: "fifo"}[stat.S_IFMT(mode)]
    return found


async def test_exit_code_and_output_are_the_commands_own(run: Run) -> None:
    """What a command prints on either stream and the code it ends with come back."""
    outcome = await run("echo out; echo err >&2; exit 3")
    assert (outcome.exit_code, outcome.termination) == (3, "exit")
    assert outcome.output == b"out\nerr\n"
    assert outcome.peak_memory_bytes


async def test_a_command_that_is_not_found_ends_with_127(
    bubblewrap: BubblewrapSandbox, workspace: Path
) -> None:
    """A missing program is told apart from a failing one."""
    outcome = await bubblewrap.run(Job(command=("no-such-program",), workspace=workspace))
    assert (outcome.exit_code, outcome.termination) == (127, "exit")


async def test_a_crash_is_reported_as_128_and_the_signal(run: Run) -> None:
    """A command killed by its own signal ends by itself, with the shell's number for it."""
    outcome = await run("kill -SEGV $$")
    assert (outcome.exit_code, outcome.termination) == (139, "exit")


async def test_arguments_and_environment_arrive_unchanged(
    bubblewrap: BubblewrapSandbox, workspace: Path
) -> None:
    """No word of a command or its environment is interpreted on the way."""
    words = ("", "a b", "--args", "$HOME", "*", "'\"", "line\nend", "ünï")
    script = 'for word in "$@" "$ODD"; do printf "%s|" "$word"; done'
    job = Job(command=("sh", "-c", script, "x", *words), workspace=workspace, env={"ODD": "--x\n"})
    outcome = await bubblewrap.run(job)
    assert outcome.output.decode() == "".join(f"{word}|" for word in (*words, "--x\n"))


async def test_what_is_written_is_there_afterwards(
    either: BubblewrapSandbox, tmp_path: Path
) -> None:
    """Additions, changes, deletions, replacements, modes and links reach the host."""
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone" / "file").write_text("old")
    (tmp_path / "replaced").mkdir()
    (tmp_path / "replaced" / "old").write_text("old")
    for name in ("same", "changed", "deleted", "to-folder", "script"):
        (tmp_path / name).write_text(name)
    script = """
        set -e
        rm -r gone deleted to-folder replaced
        mkdir -p to-folder/deep replaced
        echo new > to-folder/deep/file
        echo new > replaced/new
        echo changed-twice > changed
        chmod +x script
        ln -s /etc/shadow link
        mkfifo pipe
        mkdir empty
        : > "odd name
with line end"
    """
    outcome = await either.run(Job(command=("sh", "-c", script), workspace=tmp_path))
    assert (outcome.exit_code, outcome.output) == (0, b"")
    assert tree(tmp_path) == {
        "same": "same",
        "changed": "changed-twice\n",
        "script": "x script",
        "to-folder": "folder",
        "to-folder/deep": "folder",
        "to-folder/deep/file": "new\n",
        "replaced": "folder",
        "replaced/new": "new\n",
        "link": "-> /etc/shadow",
        "pipe": "fifo",
        "empty": "folder",
        "odd name\nwith line end": "",
    }


async def test_the_next_command_sees_what_the_last_one_did(
    either: BubblewrapSandbox, workspace: Path
) -> None:
    """A workspace is one place over several commands."""
    for script in ("echo one > file", "echo two >> file; mkdir d; mv file d/file", "cat d/file"):
        outcome = await either.run(Job(command=("sh", "-c", script), workspace=workspace))
        assert outcome.exit_code == 0
    assert outcome.output == b"one\ntwo\n"


async def test_read_only_leaves_the_workspace_as_it_was(
    either: BubblewrapSandbox, workspace: Path
) -> None:
    """Writes of a read-only job work and are thrown away."""
    (workspace / "kept").write_text("before")
    (workspace / "folder").mkdir()
    script = "echo after > kept; chmod 700 kept; rmdir folder; touch new; cat kept"
    job = Job(command=("sh", "-c", script), workspace=workspace, read_only=True)
    outcome = await either.run(job)
    assert outcome.output == b"after\n"
    assert tree(workspace) == {"kept": "before", "folder": "folder"}


async def test_the_files_owner_on_the_host_stays(run: Run, workspace: Path) -> None:
    """Whatever user the command runs as, its files belong to whoever owns the workspace."""
    (workspace / "old").write_text("old")
    await run("echo new > new; echo more >> old; mkdir d")
    assert {path.stat().st_uid for path in workspace.iterdir()} == {workspace.stat().st_uid}


async def test_only_regular_files_come_out_of_the_out_folder(run: Run, tmp_path: Path) -> None:
    """Reports left in /out reach the host; links and FIFOs do not."""
    out = tmp_path / "out"
    out.mkdir()
    await run(
        "echo '<xml/>' > /out/junit.xml; ln -s /etc/shadow /out/x; mkfifo /out/p", scratch=out
    )
    assert tree(out) == {"junit.xml": "<xml/>\n"}


async def test_deps_and_mounts_can_be_read_and_not_written(run: Run, tmp_path: Path) -> None:
    """What is shown to a command is read-only, and need not be readable by its user outside."""
    private = tmp_path / "private"
    (private / "deps").mkdir(parents=True)
    private.chmod(0o700)
    (private / "deps" / "tool").write_text("tool")
    (private / "one-file").write_text("one")
    outcome = await run(
        "cat /deps/tool /given/file; echo x > /deps/tool; echo x > /given/file; rm /deps/tool",
        deps=private / "deps",
        read_only_mounts=(
            ReadOnlyMount(source=private / "one-file", target=PurePosixPath("/given/file")),
        ),
    )
    assert outcome.output.startswith(b"toolone")
    assert outcome.exit_code
    assert (private / "deps" / "tool").read_text() == "tool"
    assert (private / "one-file").read_text() == "one"


async def test_an_interpreter_outside_usr_works_when_given(
    bubblewrap: BubblewrapSandbox, workspace: Path
) -> None:
    """A Python below a home directory runs, with its virtual environment's packages."""
    environment, base = Path(sys.prefix), Path(sys.base_prefix)
    job = Job(
        command=(str(environment / "bin" / "python"), "-c", "import pydantic; print('ok')"),
        workspace=workspace,
        toolchains=(base, environment),
    )
    outcome = await bubblewrap.run(job)
    assert (outcome.exit_code, outcome.output) == (0, b"ok\n")


async def test_the_usual_tools_work(run: Run) -> None:
    """What /usr offers runs: a shell, make, and localhost for tests that talk to themselves."""
    outcome = await run("printf 'all:\\n\\t@echo made\\n' > Makefile; make; getent hosts localhost")
    assert outcome.exit_code == 0
    assert b"made" in outcome.output


async def test_output_is_heard_as_it_comes(bubblewrap: BubblewrapSandbox, workspace: Path) -> None:
    """Whoever listens hears every chunk."""
    heard: list[bytes] = []
    job = Job(command=("sh", "-c", "echo one; echo two"), workspace=workspace)
    outcome = await bubblewrap.run(job, on_output=heard.append)
    assert b"".join(heard) == outcome.output == b"one\ntwo\n"


async def test_jobs_run_side_by_side(bubblewrap: BubblewrapSandbox, tmp_path: Path) -> None:
    """Eight commands at once each find their own workspace, as a user of their own when root."""
    folders = [tmp_path / str(number) for number in range(8)]
    for folder in folders:
        folder.mkdir()
    jobs = [Job(command=("sh", "-c", f"echo {f.name} > id"), workspace=f) for f in folders]
    outcomes = await asyncio.gather(*(bubblewrap.run(job) for job in jobs))
    assert {outcome.exit_code for outcome in outcomes} == {0}
    assert [(folder / "id").read_text() for folder in folders] == [f"{n}\n" for n in range(8)]


async def test_a_workspace_that_is_too_large_is_refused_in_words(run: Run, workspace: Path) -> None:
    """A workspace far beyond its cap is said to be that, instead of failing at the first write."""
    (workspace / "large").write_bytes(os.urandom(500_000))
    with pytest.raises(SandboxError, match="may hold 200000"):
        await run("true", limits=Limits(disk_bytes=200_000))


async def test_a_missing_source_is_named(run: Run, tmp_path: Path) -> None:
    """A job whose dependencies are not there says so, with the path."""
    with pytest.raises(SandboxError, match="not-there"):
        await run("true", deps=tmp_path / "not-there")


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting an overlay takes root")
async def test_a_file_system_without_id_mapped_mounts_is_copied(run: Run, tmp_path: Path) -> None:
    """A workspace that lies on an overlay itself, as in a container, works all the same."""
    for name in ("lower", "upper", "work", "merged"):
        (tmp_path / name).mkdir()
    (tmp_path / "lower" / "old").write_text("old\n")
    layers = f"lowerdir={tmp_path}/lower,upperdir={tmp_path}/upper,workdir={tmp_path}/work"
    merged = tmp_path / "merged"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, merged], check=True)
    try:
        outcome = await run("cat old; echo new > old; touch added", workspace=merged)
        assert (outcome.exit_code, outcome.output) == (0, b"old\n")
        assert tree(merged) == {"old": "new\n", "added": ""}
    finally:
        subprocess.run(["umount", merged], check=True)


async def test_a_workspace_taken_away_is_not_written_to(
    either: BubblewrapSandbox, tmp_path: Path
) -> None:
    """What a command wrote stays out of a folder that was moved, and so lent again, meanwhile."""
    workspace, moved, signals = tmp_path / "ws", tmp_path / "moved", tmp_path / "signals"
    for folder in (workspace, signals):
        folder.mkdir()
        folder.chmod(0o755)
    wait = "echo go; while [ ! -e /deps/moved ]; do sleep 0.02; done; echo evil > evil"

    def move(_: bytes) -> None:
        workspace.rename(moved)
        (signals / "moved").touch()

    job = Job(command=("sh", "-c", wait), workspace=workspace, deps=signals)
    with pytest.raises(WorkspaceNotKept):
        await either.run(job, on_output=move)
    assert list(moved.iterdir()) == []
