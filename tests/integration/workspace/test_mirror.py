"""Mirrors: fetched a little at a time, shared by many, never trusted when damaged."""

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import SecretStr

from tests.integration.workspace.conftest import (
    Origin,
    StoredToken,
    folder_of,
    git,
    key,
    make_origin,
    make_pin,
    make_workshop,
    scope,
)
from tests.integration.workspace.git_server import GitServer
from workspace.contracts import RepoRef
from workspace.errors import (
    CommitMissing,
    GitDenied,
    GitUnreachable,
    MirrorDamaged,
    WorkspaceRefusal,
)
from workspace.git import Git, Place
from workspace.mirror import Mirrors
from workspace.service import Workshop
from workspace.trees import Trees


@pytest.fixture
def mirrors(server: GitServer, tmp_path: Path) -> Mirrors:
    return make_mirrors(server, tmp_path)


def make_mirrors(server: GitServer, folder: Path) -> Mirrors:
    return Mirrors(folder / "mirrors", Git(allow_loopback_http=True), StoredToken(server))


async def files_at(mirrors: Mirrors, origin: Origin, commit: str, folder: Path) -> dict[str, bytes]:
    """Every file of a commit, read through the mirror."""
    trees = Trees(Git(), folder)
    target = folder / "checkout"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    await mirrors.using(origin.repo, lambda place: trees.checkout(place, commit, target))
    return {
        str(path.relative_to(target)): path.read_bytes()
        for path in target.rglob("*")
        if path.is_file()
    }


async def test_a_second_fetch_brings_only_what_is_new(
    mirrors: Mirrors, origin: Origin, server: GitServer
) -> None:
    """After the first clone only new objects travel, and a commit that is here costs no request."""
    base = origin.commit({"big.bin": os.urandom(2_000_000)})
    place = await mirrors.fetch(origin.repo, want=base)
    following = origin.commit({"small.txt": b"x\n"})
    await mirrors.fetch(origin.repo, want=following)
    sizes = sorted(path.stat().st_size for path in (place.git_dir / "objects/pack").glob("*.pack"))
    assert sizes[0] < 2_000
    requests = len(server.requests)
    await mirrors.fetch(origin.repo, want=following)
    assert len(server.requests) == requests


async def test_branches_that_are_gone_go(mirrors: Mirrors, origin: Origin) -> None:
    """The mirror follows the branches, and nothing but the branches."""
    base = origin.commit({"a": b"1"})
    origin.git("push", "-q", str(origin.path), "HEAD:refs/heads/topic", "HEAD:refs/tags/v1")
    origin.git("push", "-q", str(origin.path), "HEAD:refs/pull/1/head")
    place = await mirrors.fetch(origin.repo)
    assert git("for-each-ref", "--format=%(refname)", cwd=place.git_dir).split() == [
        "refs/heads/main",
        "refs/heads/topic",
    ]
    origin.git("push", "-q", str(origin.path), ":refs/heads/topic", "HEAD:refs/heads/topic/below")
    await mirrors.fetch(origin.repo)
    listed = git("for-each-ref", "--format=%(refname)", cwd=place.git_dir).split()
    assert listed == ["refs/heads/main", "refs/heads/topic/below"]
    assert await mirrors.has(origin.repo.id, base)


async def test_a_commit_on_no_branch_is_missing(mirrors: Mirrors, origin: Origin) -> None:
    """Asking for a commit that is nowhere ends in a sentence."""
    origin.commit({"a": b"1"})
    with pytest.raises(CommitMissing, match="not on any branch"):
        await mirrors.fetch(origin.repo, want="1" * 40)


def truncate_pack(mirror: Path) -> None:
    for pack in (mirror / "objects/pack").glob("*.pack"):
        pack.chmod(0o644)
        os.truncate(pack, pack.stat().st_size // 2)


def flip_a_byte(mirror: Path) -> None:
    for pack in (mirror / "objects/pack").glob("*.pack"):
        pack.chmod(0o644)
        content = bytearray(pack.read_bytes())
        content[len(content) // 2] ^= 0xFF
        pack.write_bytes(content)


def lose_packs(mirror: Path) -> None:
    for pack in (mirror / "objects/pack").iterdir():
        pack.unlink()


def lose_head(mirror: Path) -> None:
    (mirror / "HEAD").unlink()


def lose_refs(mirror: Path) -> None:
    shutil.rmtree(mirror / "refs")
    (mirror / "packed-refs").unlink(missing_ok=True)


def garble_refs(mirror: Path) -> None:
    (mirror / "packed-refs").write_bytes(b"# pack-refs\n" + os.urandom(200))
    for ref in (mirror / "refs/heads").iterdir():
        ref.write_text("garbage")


def plant_configuration(mirror: Path) -> None:
    with (mirror / "config").open("a") as file:
        file.write('[filter "evil"]\n\tclean = touch /tmp/evil\n')


def plant_alternates(mirror: Path) -> None:
    (mirror / "objects/info/alternates").write_text("/nonexistent/objects\n")


def plant_exclusions(mirror: Path) -> None:
    (mirror / "info/exclude").write_text("*\n")


def plant_grafts(mirror: Path) -> None:
    (mirror / "info/grafts").write_text("0" * 40 + "\n")


@pytest.mark.parametrize(
    "damage",
    [
        truncate_pack,
        flip_a_byte,
        lose_packs,
        lose_head,
        lose_refs,
        garble_refs,
        plant_configuration,
        plant_alternates,
        plant_exclusions,
        plant_grafts,
        shutil.rmtree,
    ],
)
async def test_a_damaged_mirror_is_rebuilt(
    server: GitServer, origin: Origin, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    """Whatever happened to the mirror between two starts, the files come out right."""
    origin.commit({"b.bin": os.urandom(50_000)})
    base = origin.commit({"a.txt": b"alpha\n" * 100, "b.bin": None})
    place = await make_mirrors(server, tmp_path).fetch(origin.repo, want=base)
    damage(place.git_dir)
    fresh = make_mirrors(server, tmp_path)
    await fresh.fetch(origin.repo, want=base)
    files = await files_at(fresh, origin, base, tmp_path)
    assert files["a.txt"] == b"alpha\n" * 100
    git("fsck", "--full", cwd=place.git_dir)
    for planted in ("objects/info/alternates", "info/exclude", "info/grafts"):
        assert not (place.git_dir / planted).exists()
    assert "evil" not in (place.git_dir / "config").read_text()


@pytest.mark.parametrize("damage", [truncate_pack, lose_packs, shutil.rmtree])
async def test_a_mirror_damaged_while_in_use_is_rebuilt(
    mirrors: Mirrors, origin: Origin, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    """Damage that shows only while reading is noticed there, and the reading done again."""
    base = origin.commit({"a.txt": b"alpha\n" * 100})
    place = await mirrors.fetch(origin.repo, want=base)
    damage(place.git_dir)
    assert (await files_at(mirrors, origin, base, tmp_path))["a.txt"] == b"alpha\n" * 100


async def test_words_alone_do_not_make_a_mirror_damaged(mirrors: Mirrors, origin: Origin) -> None:
    """What only sounds like damage is looked into, and costs the mirror nothing."""
    base = origin.commit({"a": b"1"})
    place = await mirrors.fetch(origin.repo, want=base)
    inode = place.git_dir.stat().st_ino

    async def complain(_: Place) -> None:
        raise MirrorDamaged("error: invalid path 'fatal: object file is corrupt'")

    with pytest.raises(MirrorDamaged):
        await mirrors.using(origin.repo, complain)
    assert place.git_dir.stat().st_ino == inode


async def test_names_like_complaints_are_refused_like_others(
    workshop: Workshop, origin: Origin, tmp_path: Path
) -> None:
    """A path Git will not take, with words of damage in its name, refuses the record."""
    base = origin.commit({"a": b"1"})
    run = make_pin(origin, base)
    await workshop.create_worker(run, scope("**"), key=key(), parent=base, suites=())
    odd = folder_of(tmp_path / "data", origin, key()) / "fatal: object corrupt\nerror: missing blob"
    odd.mkdir()
    (odd / ".gitmodules").symlink_to("x")
    record = await workshop.inspect_and_freeze(run, scope("**"), key=key(), parent=base)
    assert [entry.reason for entry in record.refused] == ["a name that Git does not take"]


async def test_locks_of_a_killed_fetch_are_removed(mirrors: Mirrors, origin: Origin) -> None:
    """A lock file left by a killed Git does not stop the next fetch."""
    origin.commit({"a": b"1"})
    place = await mirrors.fetch(origin.repo)
    (place.git_dir / "packed-refs.lock").touch()
    (place.git_dir / "refs/heads/main.lock").touch()
    following = origin.commit({"a": b"2"})
    assert await mirrors.fetch(origin.repo, want=following) == place


async def test_several_processes_share_one_mirror(
    server: GitServer, origin: Origin, tmp_path: Path
) -> None:
    """Many first fetches at once end in one whole mirror."""
    base = origin.commit({f"{number}.txt": b"x" * number for number in range(50)})
    many = [make_mirrors(server, tmp_path) for _ in range(6)]
    places = await asyncio.gather(*(one.fetch(origin.repo, want=base) for one in many))
    assert len(set(places)) == 1
    git("fsck", "--full", cwd=places[0].git_dir)


async def test_repositories_never_share(
    mirrors: Mirrors, origin: Origin, server: GitServer, tmp_path: Path
) -> None:
    """Another repository's commit is not found, even if it is on the same disk."""
    base = origin.commit({"a": b"1"})
    other = make_origin(server, tmp_path, 4712)
    other.commit({"b": b"2"})
    await mirrors.fetch(origin.repo, want=base)
    with pytest.raises(CommitMissing):
        await mirrors.fetch(other.repo, want=base)


async def test_a_rename_on_the_other_side_keeps_the_mirror(
    mirrors: Mirrors, origin: Origin, server: GitServer
) -> None:
    """The mirror belongs to the id: under a new URL it is fetched on, not cloned again."""
    base = origin.commit({"a": b"1"})
    await mirrors.fetch(origin.repo, want=base)
    (server.root / "renamed.git").symlink_to(origin.path)
    renamed = RepoRef(id=origin.repo.id, url=f"{server.url}/renamed.git")
    following = origin.commit({"a": b"2"})
    await mirrors.fetch(renamed, want=following)
    assert await mirrors.has(renamed.id, base)


async def test_tidying_drops_old_candidates_only(
    workshop: Workshop, origin: Origin, mirrors: Mirrors, server: GitServer, tmp_path: Path
) -> None:
    """Candidates of runs long gone lose their name; the branches and young ones stay."""
    base = origin.commit({"a": b"1"})
    place = await mirrors.fetch(origin.repo, want=base)
    await mirrors.keep(origin.repo.id, "run00000001", 0, base)
    await mirrors.tidy(origin.repo.id, older_than_seconds=10**10)
    refs = git("for-each-ref", "--format=%(refname)", cwd=place.git_dir)
    assert "refs/candidates/run00000001/r0" in refs
    await mirrors.tidy(origin.repo.id, older_than_seconds=60)
    refs = git("for-each-ref", "--format=%(refname)", cwd=place.git_dir)
    assert refs.split() == ["refs/heads/main"]


# --- the other side ------------------------------------------------------------------------------


async def test_the_token_goes_to_the_server_and_nowhere_else(
    mirrors: Mirrors, origin: Origin, server: GitServer, tmp_path: Path
) -> None:
    """The token is in the request's header, in no file, and in no error."""
    server.token = "ghs_verysecrettoken"
    base = origin.commit({"a": b"1"})
    await mirrors.fetch(origin.repo, want=base)
    assert any(authorization for authorization in server.authorizations)
    for path in (tmp_path / "mirrors").rglob("*"):
        if path.is_file():
            assert b"verysecrettoken" not in path.read_bytes()
    with pytest.raises((GitDenied, GitUnreachable)) as caught:
        await Git(allow_loopback_http=True).run(
            "fetch",
            f"{server.url}/nowhere.git",
            place=mirrors.place(origin.repo.id),
            remote=await mirrors.remote(origin.repo, write=False),
        )
    assert "verysecrettoken" not in f"{caught.value} {caught.value.stderr}"


class Rotating(StoredToken):
    """Gives a dead token first and a living one afterwards."""

    asked = 0

    async def token(self, repo: RepoRef, *, write: bool) -> SecretStr | None:
        self.asked += 1
        return SecretStr("dead" if self.asked == 1 else "alive")


async def test_a_dead_token_is_replaced_once(
    server: GitServer, origin: Origin, tmp_path: Path
) -> None:
    """A refused credential is asked for anew, one time."""
    origin.commit({"a": b"1"})
    server.token = "alive"
    credentials = Rotating(server)
    mirrors = Mirrors(tmp_path / "mirrors", Git(allow_loopback_http=True), credentials)
    answer = await mirrors.speak(origin.repo, "ls-remote", "--", "URL")
    assert b"refs/heads/main" in answer.stdout
    server.token = "another"
    with pytest.raises(GitDenied):
        await mirrors.speak(origin.repo, "ls-remote", "--", "URL")


async def test_redirects_are_not_followed(
    mirrors: Mirrors, origin: Origin, server: GitServer, tmp_path: Path
) -> None:
    """A redirect to another host gets neither a request nor the token."""
    origin.commit({"a": b"1"})
    elsewhere = GitServer(server.root)
    try:
        server.token, server.redirect_to = "ghs_token", elsewhere.url
        with pytest.raises(Exception, match=r"redirect|302|unable to access"):
            await mirrors.fetch(origin.repo)
        assert elsewhere.requests == []
    finally:
        elsewhere.close()


@pytest.mark.parametrize(
    "url",
    [
        "ext::sh -c touch% /tmp/x",
        "file:///etc",
        "/etc",
        "ssh://host/x",
        "git://host/x",
        "http://example.test/x",
        "https://user:pass@host/x",
        "--upload-pack=evil",
    ],
)
async def test_only_https_is_spoken(mirrors: Mirrors, url: str) -> None:
    """No other protocol, no user in the URL, and plain HTTP to this machine only."""
    with pytest.raises(WorkspaceRefusal, match="https only"):
        await mirrors.fetch(RepoRef(id=1, url=url))


async def test_http_is_for_the_stage_only(
    server: GitServer, origin: Origin, tmp_path: Path
) -> None:
    """Without the stage's permission not even loopback is spoken to in plain HTTP."""
    mirrors = Mirrors(tmp_path / "mirrors", Git(), StoredToken(server))
    with pytest.raises(WorkspaceRefusal, match="https only"):
        await mirrors.fetch(origin.repo)
    assert server.requests == []


async def test_a_shallow_repository_is_refused_in_words(
    mirrors: Mirrors, origin: Origin, server: GitServer, tmp_path: Path
) -> None:
    """A repository without its history cannot prove ancestry, and the refusal says so."""
    origin.commit({"a": b"1"})
    base = origin.commit({"a": b"2"})
    git("clone", "-q", "--bare", "--depth=1", f"file://{origin.path}", "s.git", cwd=server.root)
    with pytest.raises(WorkspaceRefusal, match="shallow"):
        await mirrors.fetch(RepoRef(id=99, url=f"{server.url}/s.git"), want=base)


async def test_a_partial_clone_is_refused_in_words(
    mirrors: Mirrors, origin: Origin, server: GitServer
) -> None:
    """A repository that lacks contents, and whose source is gone, is refused with that reason."""
    origin.commit({"a": b"1"})
    base = origin.commit({"a": b"2"})
    git("config", "uploadpack.allowFilter", "true", cwd=origin.path)
    source = f"file://{origin.path}"
    git("clone", "-q", "--bare", "--filter=blob:none", source, "p.git", cwd=server.root)
    git("config", "remote.origin.url", "file:///nonexistent", cwd=server.root / "p.git")
    with pytest.raises(WorkspaceRefusal, match="partial clone"):
        await mirrors.fetch(RepoRef(id=98, url=f"{server.url}/p.git"), want=base)


async def test_an_unreachable_server_is_said_to_be_that(mirrors: Mirrors) -> None:
    """No answer is a failure that may pass, not a refusal."""
    with pytest.raises(GitUnreachable):
        await mirrors.fetch(RepoRef(id=5, url="http://127.0.0.1:9/x.git"))


async def test_an_lfs_repository_is_worked_on_as_pointers(
    workshop: Workshop, origin: Origin
) -> None:
    """Where content lives in Git LFS the pointers are what there is, and nothing runs git-lfs."""
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 1\n"
    base = origin.commit({".gitattributes": b"*.bin filter=lfs\n", "a.bin": pointer})
    tools = await workshop.tools_at(make_pin(origin, base), base)
    assert "git-lfs.github.com" in await tools.read_file("a.bin")


async def test_two_workshops_on_one_folder(
    server: GitServer, origin: Origin, tmp_path: Path
) -> None:
    """Two processes' workshops may use one data folder at the same time."""
    base = origin.commit({"a": b"1"})
    shops = [make_workshop(server, tmp_path / "data", tmp_path / "artifacts") for _ in range(2)]
    try:
        await asyncio.gather(*(shop.prepare(make_pin(origin, base), ()) for shop in shops))
    finally:
        await asyncio.gather(*(shop.close() for shop in shops))
