"""The container sandbox, with Podman, runc and an image made of this system's own files."""

import asyncio
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.sandbox.conftest import running
from workspace.sandbox.backend import MIB, Job, Limits, Outcome, SandboxError, WorkspaceNotKept
from workspace.sandbox.container import ContainerSandbox
from workspace.sandbox.witness import load_processes, new_token, until

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.skipif(not shutil.which("podman"), reason="needs podman and runc"),
]

IMAGE = "localhost/ultracode-sandbox-test"
PROGRAMS = (
    "sh",
    "tar",
    "cat",
    "chmod",
    "sleep",
    "head",
    "id",
    "ls",
    "mkdir",
    "rm",
    "yes",
    "seq",
    "grep",
)


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    """The programs above and the libraries they need, from this machine."""
    files = {Path(f"/usr/bin/{name}").resolve() for name in PROGRAMS}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name in (
            "usr/bin",
            "ws",
            "out",
            "deps",
            "tmp",
            "proc",
            "sys",
            "dev",
            "etc",
            "usr/lib64",
        ):
            (root / name).mkdir(parents=True, exist_ok=True)
        for name in ("bin", "lib", "lib64"):
            (root / name).symlink_to(f"usr/{name}")
        for file in files:
            shutil.copy(file, root / "usr" / "bin" / file.name)
            for library in libraries_of(file):
                target = root / "usr" / library.relative_to("/")
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(library, target)
        if not (root / "usr/bin/sh").exists():
            (root / "usr/bin/sh").symlink_to(Path("/usr/bin/sh").resolve().name)
        archive = root / "image.tar"
        with tarfile.open(archive, "w") as tar:
            for name in (
                "usr",
                "bin",
                "lib",
                "lib64",
                "ws",
                "out",
                "deps",
                "tmp",
                "proc",
                "sys",
                "dev",
                "etc",
            ):
                tar.add(root / name, arcname=name)
        subprocess.run(["podman", "import", "-q", archive, IMAGE], check=True, capture_output=True)
    yield IMAGE
    subprocess.run(["podman", "rmi", "-f", IMAGE], check=True, capture_output=True)


def libraries_of(program: Path) -> set[Path]:
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    return {Path(word) for word in said.split() if word.startswith("/lib")}


@pytest.fixture
def container(image: str) -> ContainerSandbox:
    return ContainerSandbox(image=image, runtime="runc")


async def execute(
    container: ContainerSandbox, workspace: Path, script: str, **fields: object
) -> Outcome:
    fields = {"limits": Limits(wall_seconds=60, disk_bytes=32 * MIB)} | fields
    return await container.run(Job(command=("sh", "-c", script), workspace=workspace, **fields))  # type: ignore[arg-type]


async def test_a_job_is_the_same_as_anywhere(
    container: ContainerSandbox, workspace: Path, tmp_path: Path
) -> None:
    """Exit code, output, written and deleted files and reports are as under bubblewrap."""
    out, deps = tmp_path / "out", tmp_path / "deps"
    out.mkdir()
    deps.mkdir()
    (deps / "tool").write_text("tool\n")
    (workspace / "old").write_text("old\n")
    (workspace / "gone").mkdir()
    script = "cat old /deps/tool; rm -r gone; mkdir d; echo new > d/new; echo r > /out/r; exit 3"
    outcome = await execute(container, workspace, script, scratch=out, deps=deps)
    assert (outcome.exit_code, outcome.termination) == (3, "exit")
    assert outcome.output == b"old\ntool\n"
    assert outcome.peak_memory_bytes
    assert sorted(str(p.relative_to(workspace)) for p in workspace.rglob("*")) == [
        "d",
        "d/new",
        "old",
    ]
    assert (out / "r").read_text() == "r\n"


async def test_read_only_leaves_the_workspace_as_it_was(
    container: ContainerSandbox, workspace: Path
) -> None:
    """Writes of a read-only job work and are thrown away."""
    (workspace / "kept").write_text("before")
    outcome = await execute(container, workspace, "echo after > kept; cat kept", read_only=True)
    assert outcome.output == b"after\n"
    assert (workspace / "kept").read_text() == "before"


async def test_a_command_has_nothing_but_its_limits(
    container: ContainerSandbox, workspace: Path
) -> None:
    """An ordinary user without capabilities or network, a read-only root, and a filter."""
    outcome = await execute(
        container,
        workspace,
        "id -u; grep -E 'CapEff|CapPrm|NoNewPrivs|Seccomp:' /proc/self/status; ls /sys/class/net;"
        " echo x > /usr/planted; echo x > /dev/planted; kill -9 1; echo alive",
    )
    words = outcome.output.decode().split()
    assert words[0] == "65532", outcome.output
    assert words[words.index("NoNewPrivs:") + 1] == "1"
    assert words[words.index("Seccomp:") + 1] == "2"
    assert words[words.index("CapEff:") + 1].strip("0") == ""
    assert [word for word in words if word in ("lo", "eth0")] == ["lo"]
    assert words[-1] == "alive"
    assert not list(workspace.iterdir())


async def test_limits_hold_and_are_told_apart(container: ContainerSandbox, workspace: Path) -> None:
    """Memory, output, time and disk end a command, each by its own name, and nothing is left."""
    here = set(Path.cwd().iterdir())
    limits = {"wall_seconds": 60.0, "disk_bytes": 32 * MIB}

    async def ended(script: str, **limit: float) -> str:
        given = Limits(**(limits | limit))  # type: ignore[arg-type]
        outcome = await execute(container, workspace, script, limits=given, read_only=True)
        return outcome.termination

    assert await ended("x=$(yes | head -c 100M)", memory_bytes=32 * MIB) == "oom"
    assert await ended("yes", output_bytes=MIB) == "output_limit"
    assert await ended("sleep 300", wall_seconds=1) == "timeout"
    full = await execute(container, workspace, "head -c 100M /dev/zero > big")
    assert b"No space left" in full.output
    assert not [path for path in set(Path.cwd().iterdir()) - here if path.name == "oom"]


async def test_nothing_outlives_a_cancellation(
    container: ContainerSandbox, workspace: Path
) -> None:
    """Cancelling ends the container with everything in it."""
    token = new_token()
    script = f"trap '' TERM; (sh -c ': {token}; sleep 300; :' &) ; : {token}; sleep 300; :"
    async with running(execute(container, workspace, script)) as task:
        assert await until(lambda: len(inside(token)) >= 2, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert await until(lambda: not load_processes(token), 5)


def inside(token: str) -> list[dict[str, str]]:
    """Processes in a namespace of their own, unlike the engine's clients."""
    return [s for s in load_processes(token).values() if len(s["NSpid"].split()) > 1]


async def test_what_a_command_left_behind_keeps_nobody_waiting(
    container: ContainerSandbox, workspace: Path
) -> None:
    """A command that has ended is over, though children of its own still hold its output."""
    outcome = await execute(container, workspace, "sleep 300 & echo done; exit 3")
    assert (outcome.exit_code, outcome.output) == (3, b"done\n")
    assert outcome.wall_seconds < 50, "it was not the wall clock that ended it"


async def test_more_files_than_may_be_do_not_come_back(
    container: ContainerSandbox, workspace: Path
) -> None:
    """A flood of empty files never reaches the host."""
    limits = Limits(wall_seconds=60, files=200, disk_bytes=32 * MIB)
    script = "for i in $(seq 500); do : > $i; done"
    with pytest.raises(WorkspaceNotKept, match="more than 200 files"):
        await execute(container, workspace, script, limits=limits)
    assert not list(workspace.iterdir())


async def test_an_image_that_is_not_there_is_said_to_be_so(workspace: Path) -> None:
    """Nothing is fetched behind the operator's back."""
    missing = ContainerSandbox(image="localhost/ultracode-no-such-image")
    with pytest.raises(SandboxError, match="no container starts"):
        await execute(missing, workspace, "true")


def test_nothing_is_left() -> None:
    """No container of ours remains."""
    command = [
        "podman",
        "ps",
        "-a",
        "--filter",
        f"name=ultracode-job-{os.getpid()}-",
        "--format",
        "{{.Names}}",
    ]
    assert not subprocess.run(command, capture_output=True, check=True).stdout
