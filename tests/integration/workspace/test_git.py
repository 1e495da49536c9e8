"""How Git is started: from nothing, in bounds, and never left behind."""

import asyncio
import os
from pathlib import Path

import pytest
from pydantic import SecretStr

from tests.integration.workspace.conftest import Origin, git
from tests.integration.workspace.git_server import GitServer
from workspace.errors import GitFailed, GitUnreachable, MirrorDamaged, WorkspaceRefusal
from workspace.git import Git, Place, Remote


@pytest.fixture
def place(tmp_path: Path) -> Place:
    git("init", "-q", "--bare", "r.git", cwd=tmp_path)
    return Place(git_dir=tmp_path / "r.git")


def children() -> list[bytes]:
    """The command lines of this process's children, and of theirs."""
    lines = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
                lines[int(entry.name)] = (int(stat[1]), (entry / "cmdline").read_bytes())
            except OSError:
                continue
    ours = {os.getpid()}
    for _ in range(5):
        ours |= {pid for pid, (parent, _) in lines.items() if parent in ours}
    found = [line for pid, (_, line) in lines.items() if pid in ours]
    return [line for line in found if b"git" in line.split(b"\0")[0].rpartition(b"/")[2]]


async def test_nothing_of_the_hosts_configuration_applies(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the host's files nor its environment reach Git."""
    (tmp_path / ".gitconfig").write_text("[core]\n\tpager = evil\n[alias]\n\tx = !touch evil\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", "'core.pager=evil'")
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", "evil")
    monkeypatch.setenv("GIT_WORK_TREE", "/")
    listed = await Git().output("config", "--list", "--show-origin", place=place)
    origins = {line.split(b"\t")[0] for line in listed.splitlines()}
    assert origins == {b"command line:", b"file:" + os.fsencode(place.git_dir / "config")}
    assert b"evil" not in listed


async def test_too_much_output_is_cut_off(place: Place) -> None:
    """A command that prints without end is ended, in words."""
    content = b"x" * 3_000_000
    blob = await Git().run("hash-object", "-w", "--stdin", place=place, stdin=content)
    with pytest.raises(WorkspaceRefusal, match="too large"):
        await Git().run(
            "cat-file", "blob", blob.stdout.decode().strip(), place=place, most_bytes=1_000_000
        )


async def test_a_command_that_hangs_is_killed(
    server: GitServer, origin: Origin, place: Place
) -> None:
    """Time running out, or a cancellation, ends Git with all that it started."""
    origin.commit({"a": b"1"})
    server.hold()
    url = origin.repo.url
    args = ("fetch", "--quiet", "--", url, "+refs/heads/*:refs/heads/*")
    runner = Git(allow_loopback_http=True)
    async with asyncio.timeout(30):  # the server would answer after a minute
        with pytest.raises(GitUnreachable, match="more than 1 second"):
            await runner.run(*args, place=place, remote=Remote(url), timeout_seconds=1)
    assert children() == []
    fetching = asyncio.create_task(runner.run(*args, place=place, remote=Remote(url)))
    while not children():  # noqa: ASYNC110 - processes send no event
        await asyncio.sleep(0.01)
    fetching.cancel()
    async with asyncio.timeout(30):
        with pytest.raises(asyncio.CancelledError):
            await fetching
    assert children() == []
    server.release()


async def test_the_token_is_in_no_command_line(
    server: GitServer, origin: Origin, place: Place
) -> None:
    """While Git talks to the server nobody can read the token off the list of processes."""
    origin.commit({"a": b"1"})
    server.hold()
    url = origin.repo.url
    fetching = asyncio.create_task(
        Git(allow_loopback_http=True).run(
            "fetch", "--", url, "+refs/heads/*:refs/heads/*",
            place=place, remote=Remote(url, SecretStr("ghs_topsecret")),
        )
    )  # fmt: skip
    while not any(b"remote-http" in line for line in children()):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    assert not any(b"topsecret" in line for line in children())
    server.release()
    await fetching
    assert any("Basic" in header for header in server.authorizations)


async def test_errors_are_told_apart(place: Place, tmp_path: Path) -> None:
    """What is ours, what is damage and what is the network are different errors."""
    with pytest.raises(GitFailed) as usage:
        await Git().run("ls-tree", "--nonsense", place=place)
    assert type(usage.value) is GitFailed
    with pytest.raises(MirrorDamaged):
        await Git().run("rev-parse", "HEAD", place=Place(git_dir=tmp_path / "nothing"))
    url = "http://127.0.0.1:9/x.git"
    with pytest.raises(GitUnreachable):
        await Git(allow_loopback_http=True).run("ls-remote", url, place=place, remote=Remote(url))


async def test_without_a_remote_nothing_is_spoken_to(
    server: GitServer, origin: Origin, place: Place
) -> None:
    """A local command cannot reach the network, whatever its arguments say."""
    origin.commit({"a": b"1"})
    with pytest.raises(GitFailed, match="not allowed"):
        await Git(allow_loopback_http=True).run("ls-remote", origin.repo.url, place=place)
    with pytest.raises(GitFailed, match="not allowed"):
        await Git().run("ls-remote", f"file://{origin.path}", place=place)
    assert server.requests == []


async def test_an_old_or_missing_git_is_named(tmp_path: Path, place: Place) -> None:
    """A Git without what we rely on is refused with the version that is needed."""
    old = tmp_path / "git"
    old.write_text("#!/bin/sh\necho git version 2.30.2\n")
    old.chmod(0o755)
    with pytest.raises(WorkspaceRefusal, match=r"2\.38 or newer"):
        await Git(binary=str(old)).run("version", place=place)
