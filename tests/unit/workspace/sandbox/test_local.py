import asyncio
import os
from pathlib import Path

import pytest

from workspace.sandbox.backend import Job, Limits, SandboxUnavailable
from workspace.sandbox.choice import choose_sandbox
from workspace.sandbox.local import LocalSandbox


def shell(workspace: Path, script: str, **fields: object) -> Job:
    return Job(command=("sh", "-c", script), workspace=workspace, **fields)  # type: ignore[arg-type]


async def test_exit_code_and_output_are_the_commands_own(tmp_path: Path) -> None:
    """What a command prints on either stream and the code it ends with come back."""
    outcome = await LocalSandbox().run(shell(tmp_path, "echo out; echo err >&2; exit 3"))
    assert (outcome.exit_code, outcome.termination) == (3, "exit")
    assert outcome.output == b"out\nerr\n"


async def test_a_command_that_is_not_found_ends_with_127(tmp_path: Path) -> None:
    """A missing program is told apart from a failing one."""
    outcome = await LocalSandbox().run(Job(command=("no-such-program",), workspace=tmp_path))
    assert outcome.exit_code == 127


async def test_a_crash_is_reported_as_128_and_the_signal(tmp_path: Path) -> None:
    """A command killed by its own signal ends by itself, with the shell's number for it."""
    outcome = await LocalSandbox().run(shell(tmp_path, "kill -SEGV $$"))
    assert (outcome.exit_code, outcome.termination) == (139, "exit")


async def test_the_wall_clock_ends_the_group(tmp_path: Path) -> None:
    """A command over its time is killed with its background children and has no exit code."""
    job = shell(tmp_path, "sleep 60 & echo $! > pid; wait", limits=Limits(wall_seconds=0.3))
    outcome = await LocalSandbox().run(job)
    assert (outcome.exit_code, outcome.termination) == (None, "timeout")
    with pytest.raises(ProcessLookupError):
        await _gone(int((tmp_path / "pid").read_text()))


async def _gone(pid: int) -> None:
    for _ in range(100):
        os.kill(pid, 0)
        await asyncio.sleep(0.02)


async def test_a_flood_is_stopped_with_head_and_tail_kept(tmp_path: Path) -> None:
    """Printing without end ends the command; the first and last lines stay readable."""
    limits = Limits(output_bytes=200_000, kept_bytes=1000)
    outcome = await LocalSandbox().run(shell(tmp_path, "echo first; yes", limits=limits))
    assert outcome.termination == "output_limit"
    assert outcome.output.startswith(b"first\n")
    assert b"bytes left out" in outcome.output
    assert len(outcome.output) < 1100
    assert outcome.output_size > 200_000


async def test_a_child_that_left_the_group_does_not_hold_the_result_up(tmp_path: Path) -> None:
    """The result is there when the command has ended, even while a stray child holds its output."""
    job = shell(tmp_path, "setsid sleep 20 & echo done", limits=Limits(wall_seconds=10))
    outcome = await LocalSandbox().run(job)
    assert (outcome.exit_code, outcome.termination, outcome.output) == (0, "exit", b"done\n")


async def test_read_only_leaves_the_workspace_as_it_was(tmp_path: Path) -> None:
    """Writes of a read-only job work and are thrown away."""
    (tmp_path / "kept").write_text("before")
    outcome = await LocalSandbox().run(
        shell(tmp_path, "echo after > kept; touch new; cat kept", read_only=True)
    )
    assert outcome.output == b"after\n"
    assert (tmp_path / "kept").read_text() == "before"
    assert not (tmp_path / "new").exists()


async def test_paths_of_the_sandbox_work_locally(tmp_path: Path) -> None:
    """Commands and environment written for /ws, /deps and /out find the same things here."""
    workspace, deps, out = tmp_path / "w", tmp_path / "d", tmp_path / "o"
    for folder in (workspace, deps, out):
        folder.mkdir()
    (deps / "tool").write_text("tool")
    job = Job(
        command=("sh", "-c", 'cat "$TOOL" > "$REPORT"'),
        workspace=workspace,
        deps=deps,
        scratch=out,
        env={"TOOL": "/deps/tool", "REPORT": "/out/report", "PYTHONPATH": "/ws:/deps"},
    )
    assert (await LocalSandbox().run(job)).exit_code == 0
    assert (out / "report").read_text() == "tool"


async def test_the_unsandboxed_runner_needs_trust() -> None:
    """Without ULTRACODE_TRUST=trusted the local runner is refused, naming the setting."""
    with pytest.raises(SandboxUnavailable, match="ULTRACODE_TRUST=trusted"):
        await choose_sandbox("local", "untrusted")


def test_a_workdir_cannot_leave_the_workspace(tmp_path: Path) -> None:
    """A job that would start outside its workspace is no job."""
    with pytest.raises(ValueError, match="below the workspace"):
        Job(command=("true",), workspace=tmp_path, workdir="../elsewhere")


@pytest.mark.parametrize("limit", ["wall_seconds", "memory_bytes", "processes", "disk_bytes"])
def test_a_limit_of_nothing_is_refused(limit: str) -> None:
    """A limit that is zero is a mistake, said at once."""
    with pytest.raises(ValueError, match=limit):
        Limits(**{limit: 0})  # type: ignore[arg-type]
