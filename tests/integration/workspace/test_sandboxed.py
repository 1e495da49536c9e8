"""A worker's commands in the real sandbox, on the workspace the host keeps."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.workspace.conftest import (
    Origin,
    StoredToken,
    folder_of,
    key,
    make_pin,
    refused,
    scope,
)
from tests.integration.workspace.git_server import GitServer
from workspace.artifacts import FolderArtifacts
from workspace.sandbox.choice import choose_sandbox
from workspace.service import Workshop

pytestmark = pytest.mark.sandbox
ALL = scope("**")


@pytest.fixture
async def confined(server: GitServer, tmp_path: Path) -> AsyncIterator[Workshop]:
    """A workshop whose commands run under bubblewrap."""
    sandbox = await choose_sandbox("bubblewrap")
    opened = Workshop(
        tmp_path / "data",
        credentials=StoredToken(server),
        artifacts=FolderArtifacts(tmp_path / "artifacts"),
        sandbox=sandbox,
        allow_loopback_http=True,
    )
    yield opened
    await opened.close()
    await sandbox.close()


async def test_a_command_changes_the_workspace_and_git_sees_it(
    confined: Workshop, origin: Origin
) -> None:
    """What a sandboxed command writes, moves and deletes is what is frozen."""
    base = origin.commit({"a.txt": b"1\n", "b.txt": b"2\n", "run.sh": b"#!/bin/sh\n", "d/e": b"3"})
    run = make_pin(origin, base)
    tools = await confined.create_worker(run, ALL, key=key(), parent=base, suites=())
    answer = await tools.run_command(
        "echo one > a.txt && rm b.txt && chmod +x run.sh && mkdir -p n/m && echo new > n/m/f"
        " && ln -s a.txt link && rm -r d && echo d > d && ls -A"
    )
    assert answer.startswith("exit code 0"), answer
    assert "one" in await tools.read_file("a.txt")
    await tools.write_file("a.txt", "two\n")
    assert await tools.run_command("cat a.txt") == "exit code 0\ntwo\n"
    record = await confined.inspect_and_freeze(run, ALL, key=key(), parent=base)
    assert record.refused == ()
    assert {file.path: file.new_mode for file in record.changed_files} == {
        "a.txt": "100644",
        "b.txt": "000000",
        "d": "100644",
        "d/e": "000000",
        "link": "120000",
        "n/m/f": "100644",
        "run.sh": "100755",
    }


async def test_what_a_command_plants_does_no_harm(
    confined: Workshop, origin: Origin, tmp_path: Path
) -> None:
    """FIFOs, planted Git folders, odd modes and deep folders neither block nor stay."""
    base = origin.commit({"a.txt": b"1\n"})
    run = make_pin(origin, base)
    tools = await confined.create_worker(run, ALL, key=key(), parent=base, suites=())
    await tools.run_command(
        "mkfifo .gitignore; mkdir -p x/.git; mkfifo x/.git/HEAD; ln -s /etc/shadow s;"
        " touch f && chmod 000 f; mkdir c && touch c/g && chmod 000 c; ln a.txt hard; true"
    )
    assert "root:" not in await tools.read_file("s")
    record = await confined.inspect_and_freeze(run, ALL, key=key(), parent=base)
    assert {"s", "x"} <= set(refused(record))
    fresh = await confined.create_worker(run, ALL, key=key("two"), parent=base, suites=())
    assert await fresh.list_files() == "a.txt"
    folder = folder_of(tmp_path / "data", origin, key("two"))
    assert [path.name for path in folder.iterdir()] == ["a.txt"]


async def test_the_mirror_is_out_of_reach(confined: Workshop, origin: Origin) -> None:
    """No command sees the mirror, the index or the lease beside its folder."""
    base = origin.commit({"a.txt": b"1\n"})
    run = make_pin(origin, base)
    tools = await confined.create_worker(run, ALL, key=key(), parent=base, suites=())
    answer = await tools.run_command(
        "ls -a / /ws/.. ; find / -name '*.git' -o -name lease.json 2>&1"
    )
    assert "lease.json" not in answer
    assert ".git\n" not in answer
