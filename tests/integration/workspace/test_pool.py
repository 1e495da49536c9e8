"""Workspaces: lent, returned, taken over, and nothing left of anybody."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.workspace.conftest import (
    RUN,
    Origin,
    folder_of,
    key,
    make_origin,
    make_pin,
    make_workshop,
    scope,
)
from tests.integration.workspace.git_server import GitServer
from workspace.contracts import Candidate
from workspace.errors import CommitMissing, WorkspaceGone
from workspace.service import Workshop

ALL = scope("**")


def slots(data: Path, origin: Origin, kind: str) -> list[Path]:
    folder = data / "workspaces" / str(origin.repo.id) / kind
    return sorted(folder.iterdir()) if folder.exists() else []


async def test_the_same_key_gives_the_same_workspace(
    workshop: Workshop, origin: Origin, tmp_path: Path
) -> None:
    """Asking twice, one after the other or at once, gives one folder with what was done in it."""
    base = origin.commit({"a.txt": b"1"})
    run = make_pin(origin, base)
    first, second = await asyncio.gather(
        *(workshop.create_worker(run, ALL, key=key(), parent=base, suites=()) for _ in range(2))
    )
    assert first.workspace_id == second.workspace_id
    await first.write_file("a.txt", "2")
    third = await workshop.create_worker(run, ALL, key=key(), parent=base, suites=())
    assert "2" in await third.read_file("a.txt")
    assert len(slots(tmp_path / "data", origin, "leased")) == 1


async def test_a_returned_workspace_is_used_again_and_clean(
    workshop: Workshop, origin: Origin, tmp_path: Path
) -> None:
    """The next worker gets the same folder on another commit, with nothing of the last one."""
    base = origin.commit({"a.txt": b"1", ".gitignore": b"*.log\n", "d/x": b"1"})
    following = origin.commit({"b.txt": b"2", "d/x": None, "d": b"file"})
    run, data = make_pin(origin, base), tmp_path / "data"
    await workshop.create_worker(run, ALL, key=key("one"), parent=base, suites=())
    folder = folder_of(data, origin, key("one"))
    inode = folder.stat().st_ino
    (folder / "secret.log").write_text("left behind")
    (folder / "a.txt").write_text("changed")
    (folder / "d/x").unlink()
    (folder / "deep/er").mkdir(parents=True)
    await workshop.inspect_and_freeze(run, ALL, key=key("one"), parent=base)
    await workshop.create_worker(run, ALL, key=key("two"), parent=following, suites=())
    again = folder_of(data, origin, key("two"))
    assert again.stat().st_ino == inode
    assert sorted(path.name for path in again.iterdir()) == [".gitignore", "a.txt", "b.txt", "d"]
    assert (again / "a.txt").read_bytes() == b"1"
    assert (again / "d").read_bytes() == b"file"


async def test_a_change_that_forges_its_time_is_seen(
    workshop: Workshop, origin: Origin, tmp_path: Path
) -> None:
    """Content changed under the old size and time neither escapes the record nor the cleaning."""
    base = origin.commit({"a.txt": b"good"})
    run, data = make_pin(origin, base), tmp_path / "data"
    await workshop.create_worker(run, ALL, key=key("one"), parent=base, suites=())
    target = folder_of(data, origin, key("one")) / "a.txt"
    before = target.stat()
    target.write_bytes(b"evil")
    os.utime(target, ns=(before.st_atime_ns, before.st_mtime_ns))
    record = await workshop.inspect_and_freeze(run, ALL, key=key("one"), parent=base)
    assert [file.path for file in record.changed_files] == ["a.txt"]
    await workshop.create_worker(run, ALL, key=key("two"), parent=base, suites=())
    assert (folder_of(data, origin, key("two")) / "a.txt").read_bytes() == b"good"


async def test_freezing_twice_gives_the_same_record(workshop: Workshop, origin: Origin) -> None:
    """A record that got lost on its way can be asked for again."""
    base = origin.commit({"a.txt": b"1"})
    run = make_pin(origin, base)
    tools = await workshop.create_worker(run, ALL, key=key(), parent=base, suites=())
    await tools.write_file("a.txt", "2")
    record = await workshop.inspect_and_freeze(run, ALL, key=key(), parent=base)
    assert await workshop.inspect_and_freeze(run, ALL, key=key(), parent=base) == record
    with pytest.raises(WorkspaceGone):
        await tools.read_file("a.txt")
    with pytest.raises(WorkspaceGone):
        await workshop.inspect_and_freeze(run, ALL, key=key("other"), parent=base)


async def test_tools_of_an_earlier_loan_are_dead(
    workshop: Workshop, origin: Origin, tmp_path: Path
) -> None:
    """When a key is lent anew, what held the earlier loan can no longer write."""
    base = origin.commit({"a.txt": b"1"})
    run = make_pin(origin, base)
    early = await workshop.create_worker(run, ALL, key=key(), parent=base, suites=())
    await workshop.inspect_and_freeze(run, ALL, key=key(), parent=base)
    late = await workshop.create_worker(run, ALL, key=key(), parent=base, suites=())
    with pytest.raises(WorkspaceGone):
        await early.write_file("a.txt", "2")
    assert "1" in await late.read_file("a.txt")


async def test_cancelling_wipes_and_ends_what_runs(
    workshop: Workshop, origin: Origin, tmp_path: Path
) -> None:
    """A cancelled run's command is killed, its folder gone, its tools dead; other runs go on."""
    base = origin.commit({"a.txt": b"1"})
    run, other = make_pin(origin, base), make_pin(origin, base, run_id="run00000002")
    tools = await workshop.create_worker(run, ALL, key=key(), parent=base, suites=())
    kept = await workshop.create_worker(
        other, ALL, key=key(run_id="run00000002"), parent=base, suites=()
    )
    running = asyncio.create_task(tools.run_command("echo $$ > pid; exec sleep 300"))
    pid_file = folder_of(tmp_path / "data", origin, key()) / "pid"
    while not (pid_file.exists() and pid_file.read_text().strip()):  # noqa: ASYNC110 - a file
        await asyncio.sleep(0.02)
    pid = int(pid_file.read_text())
    await workshop.cancel(RUN)
    with pytest.raises(WorkspaceGone):
        await running
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(WorkspaceGone):
        await tools.write_file("a.txt", "2")
    assert [s.name for s in slots(tmp_path / "data", origin, "leased")] == ["run00000002-r0-one"]
    assert slots(tmp_path / "data", origin, "doomed") == []
    assert "1" in await kept.read_file("a.txt")


async def test_freezing_ends_what_still_runs_there(
    workshop: Workshop, origin: Origin, tmp_path: Path
) -> None:
    """A command still running at freeze writes into no folder that another run is lent next."""
    base = origin.commit({"a.txt": b"1"})
    run, other = make_pin(origin, base), make_pin(origin, base, run_id="run00000002")
    tools = await workshop.create_worker(run, ALL, key=key(), parent=base, suites=())
    running = asyncio.create_task(
        tools.run_command("echo $$ > pid; while :; do echo x > evil; sleep 0.05; done")
    )
    folder = folder_of(tmp_path / "data", origin, key())
    while not (folder / "evil").exists():  # noqa: ASYNC110 - a file
        await asyncio.sleep(0.02)
    pid, inode = int((folder / "pid").read_text()), folder.stat().st_ino
    await workshop.inspect_and_freeze(run, ALL, key=key(), parent=base)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(WorkspaceGone):
        await running
    other_key = key(run_id="run00000002")
    await workshop.create_worker(other, ALL, key=other_key, parent=base, suites=())
    assert folder_of(tmp_path / "data", origin, other_key).stat().st_ino == inode
    record = await workshop.inspect_and_freeze(other, ALL, key=other_key, parent=base)
    assert record.changed_files == ()


async def test_another_process_takes_over_and_the_old_one_writes_nowhere(
    workshop: Workshop, origin: Origin, server: GitServer, tmp_path: Path
) -> None:
    """A worker that woke up too late works on a folder that is no longer anybody's."""
    base = origin.commit({"a.txt": b"1"})
    run = make_pin(origin, base)
    stale = await workshop.create_worker(run, ALL, key=key(), parent=base, suites=())
    await stale.write_file("a.txt", "stale")
    other = make_workshop(server, tmp_path / "data", tmp_path / "artifacts")
    try:
        fresh = await other.create_worker(run, ALL, key=key(), parent=base, suites=())
        assert "1" in await fresh.read_file("a.txt")
        with pytest.raises(WorkspaceGone):
            await stale.write_file("a.txt", "stale again")
        assert "1" in await fresh.read_file("a.txt")
    finally:
        await other.close()


_CHILD = """
import asyncio, sys
from pathlib import Path
from tests.integration.workspace.conftest import make_workshop, key, scope
from workspace.contracts import RunPin

class Server:
    token = None

async def main():
    pin = RunPin.model_validate_json(sys.argv[2])
    shop = make_workshop(Server(), Path(sys.argv[1]) / "data", Path(sys.argv[1]) / "artifacts")
    await shop.create_worker(pin, scope("**"), key=key(), parent=pin.original_base_sha, suites=())
    print("ready", flush=True)
    await asyncio.sleep(300)

asyncio.run(main())
"""


async def test_nothing_is_left_of_a_killed_process(
    workshop: Workshop, origin: Origin, tmp_path: Path
) -> None:
    """After kill -9 the reaper removes the workspace, the temporary files and the mark of life."""
    base = origin.commit({"a.txt": b"1"})
    run, data = make_pin(origin, base), tmp_path / "data"
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _CHILD, str(tmp_path), run.model_dump_json(),
        stdout=subprocess.PIPE,
    )  # fmt: skip
    assert child.stdout is not None
    assert await child.stdout.readline() == b"ready\n"
    await workshop.reap()
    assert len(slots(data, origin, "leased")) == 1
    child.send_signal(signal.SIGKILL)
    await child.wait()
    await workshop.reap()
    assert slots(data, origin, "leased") == []
    assert slots(data, origin, "doomed") == []
    assert len(list((data / "owners").iterdir())) == 1
    assert len(list((data / "tmp").iterdir())) == 1


async def test_an_idle_workspace_expires(
    workshop: Workshop, origin: Origin, tmp_path: Path
) -> None:
    """A workspace nobody touches for hours is removed although its process lives."""
    base = origin.commit({"a.txt": b"1"})
    run = make_pin(origin, base)
    await workshop.create_worker(run, ALL, key=key(), parent=base, suites=())
    await workshop.reap()
    assert len(slots(tmp_path / "data", origin, "leased")) == 1
    now = workshop._pool._clock()
    workshop._pool._clock = lambda: now + 3 * 3600
    await workshop.reap()
    assert slots(tmp_path / "data", origin, "leased") == []


async def test_free_slots_are_few_and_do_not_stay_for_ever(
    workshop: Workshop, origin: Origin, tmp_path: Path
) -> None:
    """The pool keeps some folders for the next run, not all, and none for ever."""
    base = origin.commit({"a.txt": b"1"})
    run, data = make_pin(origin, base), tmp_path / "data"
    tasks = [f"task-{number}" for number in range(10)]
    for task in tasks:
        await workshop.create_worker(run, ALL, key=key(task), parent=base, suites=())
    for task in tasks:
        await workshop.inspect_and_freeze(run, ALL, key=key(task), parent=base)
    assert len(slots(data, origin, "free")) == 10
    await workshop.reap()
    assert len(slots(data, origin, "free")) == 8
    for slot in slots(data, origin, "free"):
        os.utime(slot, (0, 0))
    await workshop.reap()
    assert slots(data, origin, "free") == []


async def test_workspaces_never_cross_repositories(
    workshop: Workshop, origin: Origin, server: GitServer, tmp_path: Path
) -> None:
    """A folder that held one repository is never lent to another."""
    base = origin.commit({"a.txt": b"1"})
    other = make_origin(server, tmp_path, 4712)
    other_base = other.commit({"b.txt": b"2"})
    run = make_pin(origin, base)
    await workshop.create_worker(run, ALL, key=key(), parent=base, suites=())
    inode = folder_of(tmp_path / "data", origin, key()).stat().st_ino
    await workshop.inspect_and_freeze(run, ALL, key=key(), parent=base)
    foreign = make_pin(other, other_base, run_id="run00000002")
    foreign_key = key(run_id="run00000002")
    await workshop.create_worker(foreign, ALL, key=foreign_key, parent=other_base, suites=())
    assert folder_of(tmp_path / "data", other, foreign_key).stat().st_ino != inode


async def test_four_runs_share_one_mirror(workshop: Workshop, origin: Origin) -> None:
    """Four runs on one repository at once each get their own candidate."""
    base = origin.commit({f"{n}.txt": b"0" for n in range(4)})

    async def story(number: int) -> str:
        run_id = f"run0000000{number}"
        run = make_pin(origin, base, run_id=run_id)
        work_key = key(run_id=run_id)
        tools = await workshop.create_worker(run, ALL, key=work_key, parent=base, suites=())
        await tools.write_file(f"{number}.txt", f"changed by {number}")
        record = await workshop.inspect_and_freeze(run, ALL, key=work_key, parent=base)
        candidate = await workshop.compose(run, [record], round=0, parent=base)
        assert isinstance(candidate, Candidate)
        assert [file.path for file in candidate.changed_files] == [f"{number}.txt"]
        return candidate.sha

    assert len(set(await asyncio.gather(*(story(number) for number in range(4))))) == 4


async def test_another_machine_goes_on_from_the_records(
    workshop: Workshop, origin: Origin, server: GitServer, tmp_path: Path
) -> None:
    """A machine with an empty data folder composes the same commit, or takes it from its pack."""
    base = origin.commit({"a.txt": b"1"})
    run = make_pin(origin, base)
    tools = await workshop.create_worker(run, ALL, key=key(), parent=base, suites=())
    await tools.write_file("new.txt", "made in round 0")
    zero = await workshop.inspect_and_freeze(run, ALL, key=key(), parent=base)
    first = await workshop.compose(run, [zero], round=0, parent=base)
    assert isinstance(first, Candidate)
    other = make_workshop(server, tmp_path / "elsewhere", tmp_path / "artifacts")
    try:
        assert await other.compose(run, [zero], round=0, parent=base) == first
        third = make_workshop(server, tmp_path / "third", tmp_path / "artifacts")
        try:
            with pytest.raises(CommitMissing):
                await third.create_worker(run, ALL, key=key(round=1), parent=first.sha, suites=())
            await third.restore(run, first)
            again = await third.create_worker(
                run, ALL, key=key(round=1), parent=first.sha, suites=()
            )
            assert "made in round 0" in await again.read_file("new.txt")
        finally:
            await third.close()
    finally:
        await other.close()
