"""Attacks on what everybody shares: memory, processes, processor, disk, output and time."""

import os
from pathlib import Path

import pytest

from tests.integration.sandbox.conftest import Run
from workspace.sandbox.backend import MIB, Job, Limits, SandboxError
from workspace.sandbox.bubblewrap import BubblewrapSandbox

pytestmark = pytest.mark.sandbox


def bytes_in(folder: Path) -> int:
    """What a folder really takes on the host's disk."""
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))


async def test_one_greedy_process_is_ended(python: Run) -> None:
    """A process that takes more memory than it may is ended, and the reason is told."""
    outcome = await python(
        'kept = bytearray(b"x") * (200 << 20); print("kept")', limits=Limits(memory_bytes=64 * MIB)
    )
    assert (outcome.termination, outcome.exit_code) == ("oom", None)
    assert b"kept" not in outcome.output
    assert outcome.peak_memory_bytes
    assert outcome.peak_memory_bytes <= 64 * MIB


async def test_many_small_processes_count_together(python: Run) -> None:
    """Eight processes that are small each and too large together are ended."""
    source = """
import os, time
for _ in range(8):
    if not os.fork():
        kept = bytearray(b"x") * (20 << 20)
        time.sleep(30)
while True:
    os.wait()
"""
    outcome = await python(source, limits=Limits(memory_bytes=64 * MIB, wall_seconds=20))
    assert outcome.termination == "oom"


async def test_a_parent_that_shrugs_off_a_lost_child_is_ended_too(python: Run) -> None:
    """When a child was ended for memory, the command cannot go on as if nothing had happened."""
    source = """
import os, time
if not os.fork():
    kept = bytearray(b"x") * (200 << 20)
os.wait()
print("all is well")
"""
    outcome = await python(source, limits=Limits(memory_bytes=64 * MIB))
    assert (outcome.termination, outcome.exit_code) == ("oom", None)


@pytest.mark.parametrize("place", ["/dev/shm", "/tmp", "/home/sandbox", "/out", "/ws"])
async def test_memory_cannot_be_hidden_in_files(run: Run, place: str) -> None:
    """Files in any place that a command can write count as its memory until they are kept."""
    outcome = await run(
        f"head -c 300M /dev/zero > {place}/hoard; echo kept",
        limits=Limits(memory_bytes=64 * MIB, disk_bytes=400 * MIB),
    )
    assert outcome.termination == "oom"
    assert b"kept" not in outcome.output


async def test_buffers_of_sockets_count_as_memory(python: Run) -> None:
    """What lies unread in TCP connections is bounded, also where the kernel counts it apart."""
    source = """
import socket
server = socket.create_server(("127.0.0.1", 0))
kept, held = [], 0
while held < 400 << 20 and len(kept) < 400:
    one = socket.create_connection(server.getsockname())
    kept.append((one, server.accept()[0]))
    one.setblocking(False)
    try:
        while True:
            held += one.send(bytes(1 << 20))
    except BlockingIOError:
        pass
print(held >> 20)
"""
    outcome = await python(source, limits=Limits(memory_bytes=64 * MIB, wall_seconds=30))
    assert outcome.termination != "exit" or int(outcome.output) < 200


async def test_anonymous_files_count_as_memory(python: Run) -> None:
    """memfd_create hides nothing from the memory limit."""
    source = """
import os
hoard = os.memfd_create("hoard")
for _ in range(200):
    os.write(hoard, bytes(1 << 20))
print("kept")
"""
    outcome = await python(source, limits=Limits(memory_bytes=64 * MIB))
    assert outcome.termination == "oom"


async def test_a_fork_bomb_stops_at_the_limit(python: Run) -> None:
    """No more processes than allowed ever exist, whatever keeps forking."""
    source = """
import os, sys, time
count = 0
while True:
    try:
        if not os.fork():
            time.sleep(30)
            os._exit(0)
        count += 1
    except OSError as error:
        print(count, error.errno)
        break
"""
    outcome = await python(source, limits=Limits(processes=40))
    count, reason = map(int, outcome.output.split())
    assert count <= 40
    assert reason == 11  # EAGAIN


async def test_threads_count_as_processes(python: Run) -> None:
    """Threads do not get around the limit."""
    source = """
import threading, time
count = 0
try:
    while count < 500:
        threading.Thread(target=time.sleep, args=(30,), daemon=True).start()
        count += 1
except RuntimeError:
    pass
print(count, flush=True)
import os
os._exit(0)
"""
    outcome = await python(source, limits=Limits(processes=40))
    assert int(outcome.output) <= 40


async def test_processor_time_is_shared(python: Run) -> None:
    """Two busy processes get no more than the processors they were given."""
    source = """
import os, time
start = time.monotonic()
child = os.fork()
while time.monotonic() < start + 1.5:
    pass
if child:
    os.wait()
    print(sum(os.times()[:4]))
"""
    outcome = await python(source, limits=Limits(cpus=0.05))
    assert float(outcome.output) < 0.25


async def test_the_disk_does_not_fill(run: Run, workspace: Path) -> None:
    """However many files it writes, a command stops at its cap; the host's disk holds no more."""
    outcome = await run(
        "i=0; while head -c 1M /dev/zero > file$i; do i=$((i+1)); done; echo $i",
        limits=Limits(disk_bytes=8 * MIB),
    )
    assert b"No space left" in outcome.output
    assert bytes_in(workspace) <= 9 * MIB


async def test_all_places_share_one_cap(run: Run, tmp_path: Path) -> None:
    """Writing a little everywhere is no way to write more."""
    out = tmp_path / "out"
    out.mkdir()
    outcome = await run(
        "for place in /ws /tmp /dev/shm /home/sandbox /out /var/tmp; do"
        " head -c 3M /dev/zero > $place/part; done; du -cm /ws /tmp /dev/shm /home /out | tail -1",
        limits=Limits(disk_bytes=8 * MIB),
        scratch=out,
    )
    assert b"No space left" in outcome.output
    assert int(outcome.output.split()[-2]) <= 9


async def test_the_cap_holds_over_many_commands(run: Run, workspace: Path) -> None:
    """A workspace does not grow beyond its cap however many commands each add a little."""
    limits = Limits(disk_bytes=8 * MIB)
    for number in range(5):
        outcome = await run(f"head -c 3M /dev/zero > file{number}", limits=limits)
    assert outcome.exit_code
    assert bytes_in(workspace) <= 9 * MIB
    await run("rm file*", limits=limits)
    assert (await run("head -c 3M /dev/zero > again", limits=limits)).exit_code == 0


async def test_deleting_makes_room_within_one_command(run: Run, workspace: Path) -> None:
    """A command that overwrites and deletes is not charged for what is gone."""
    outcome = await run(
        "for i in 1 2 3 4 5 6; do head -c 5M /dev/zero > file; rm file; done",
        limits=Limits(disk_bytes=8 * MIB),
    )
    assert outcome.exit_code == 0


async def test_empty_files_are_counted(run: Run, workspace: Path) -> None:
    """A flood of empty files, which take no bytes, stops at its own cap."""
    outcome = await run(
        'mkdir d; i=0; while : > "d/$i"; do i=$((i+1)); done', limits=Limits(files=500)
    )
    assert b"No space left" in outcome.output
    assert len(list((workspace / "d").iterdir())) < 1100


async def test_the_number_of_files_holds_over_many_commands(run: Run, workspace: Path) -> None:
    """A workspace does not collect files without end over many commands."""
    script = 'mkdir "$1"; for i in $(seq 300); do : > "$1/$i" || exit 1; done'
    limits = Limits(files=1000)
    codes = [(await run(script, name, limits=limits)).exit_code for name in "abcdef"]
    assert codes[:3] == [0, 0, 0]
    assert 0 not in codes[4:]
    assert len(list(workspace.rglob("*"))) < 2000
    assert (await run("rm a/1*", limits=limits)).exit_code == 0


async def test_one_file_does_not_grow_beyond_its_limit(run: Run, workspace: Path) -> None:
    """A single file stops at its own cap, before the disk's."""
    outcome = await run("head -c 5M /dev/zero > file", limits=Limits(file_bytes=2 * MIB))
    assert outcome.exit_code
    assert (workspace / "file").stat().st_size == 2 * MIB


async def test_sparse_files_neither_pass_the_limit_nor_swell(python: Run, workspace: Path) -> None:
    """A hole beyond the limit is refused; one within it takes no room on the host."""
    outcome = await python(
        """
import os, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for name, size in (("huge", 1 << 40), ("sparse", 512 << 20)):
    try:
        os.truncate(os.open(name, os.O_CREAT | os.O_WRONLY), size)
    except OSError:
        print("refused", name)
with open("sparse", "r+b") as file:
    file.seek(300 << 20)
    file.write(b"middle")
""",
        limits=Limits(file_bytes=600 * MIB, disk_bytes=8 * MIB),
    )
    assert outcome.output == b"refused huge\n"
    assert (workspace / "sparse").stat().st_size == 512 * MIB
    assert bytes_in(workspace) < MIB
    with (workspace / "sparse").open("rb") as file:
        file.seek(300 * MIB)
        assert file.read(7) == b"middle\0"


async def test_preallocation_is_counted(run: Run, workspace: Path) -> None:
    """fallocate, which takes room without writing, takes none beyond the cap."""
    outcome = await run(
        "fallocate -l 64M file; du -m file", limits=Limits(disk_bytes=8 * MIB, cpus=1)
    )
    assert b"No space left" in outcome.output
    assert bytes_in(workspace) <= 9 * MIB


async def test_limits_of_the_process_cannot_be_raised(run: Run, workspace: Path) -> None:
    """A command cannot lift its own file size limit."""
    outcome = await run(
        "ulimit -f unlimited; ulimit -Hf unlimited; head -c 5M /dev/zero > file",
        limits=Limits(file_bytes=2 * MIB),
    )
    assert outcome.exit_code
    assert (workspace / "file").stat().st_size == 2 * MIB


async def test_a_flood_of_output_is_stopped(run: Run) -> None:
    """Printing without end ends the command; its first and last lines stay readable."""
    outcome = await run(
        "echo first; exec yes",
        limits=Limits(output_bytes=2 * MIB, kept_bytes=1000, wall_seconds=20),
    )
    assert (outcome.termination, outcome.exit_code) == ("output_limit", None)
    assert outcome.output.startswith(b"first\n")
    assert b"bytes left out" in outcome.output
    assert len(outcome.output) < 1100
    assert 2 * MIB < outcome.output_size < 3 * MIB


async def test_time_runs_out_for_everybody(run: Run) -> None:
    """A command that ignores every signal it can is ended at the wall clock."""
    outcome = await run(
        'trap "" TERM INT HUP QUIT ALRM; while :; do sleep 1; done', limits=Limits(wall_seconds=0.5)
    )
    assert (outcome.termination, outcome.exit_code) == ("timeout", None)


async def test_what_was_written_before_the_end_is_kept(run: Run, workspace: Path) -> None:
    """A command that ran out of time leaves what it had written, as a person would expect."""
    outcome = await run("echo half > file; sleep 60", limits=Limits(wall_seconds=1))
    assert outcome.termination == "timeout"
    assert (workspace / "file").read_text() == "half\n"


async def test_folders_nested_without_end_do_no_harm(
    bubblewrap: BubblewrapSandbox, python: Run, workspace: Path
) -> None:
    """A tree too deep to be real is refused in words, and the sandbox works on."""
    source = """
import os
for _ in range(3000):
    os.mkdir("deeper")
    os.chdir("deeper")
"""
    with pytest.raises(SandboxError, match="nested deeper"):
        await python(source)
    clean = workspace.parent / "clean"
    clean.mkdir()
    outcome = await bubblewrap.run(Job(command=("true",), workspace=clean))
    assert outcome.exit_code == 0


async def test_a_large_output_is_read_whole_when_it_may_be(run: Run) -> None:
    """What is kept of a long log within its bound is every byte of it."""
    outcome = await run("seq 200000", limits=Limits(kept_bytes=2 * MIB))
    assert outcome.output == b"".join(b"%d\n" % n for n in range(1, 200001))
    assert outcome.output_size == len(outcome.output)


async def test_the_hosts_clock_and_priorities_stay(python: Run) -> None:
    """A command can neither set the clock nor run ahead of everybody else."""
    outcome = await python("""
import os, time
for attempt in (
    lambda: time.clock_settime(time.CLOCK_REALTIME, 0),
    lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10)),
    lambda: os.nice(-5),
):
    try:
        attempt()
        print("POSSIBLE")
    except PermissionError:
        print("refused")
""")
    assert outcome.output.split() == [b"refused"] * 3
    assert os.getpriority(os.PRIO_PROCESS, 0) >= -20
