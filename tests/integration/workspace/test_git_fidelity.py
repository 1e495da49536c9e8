"""What workers leave behind and what the candidate must be: the cases of git-fidelity.yaml."""

import os
import socket
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.workspace.conftest import (
    Origin,
    folder_of,
    git_bytes,
    key,
    make_pin,
    read_tree,
    refused,
    scope,
)
from workspace.artifacts import FolderArtifacts, parse_artifact_uri
from workspace.contracts import (
    Candidate,
    ChangeKind,
    Conflict,
    RunPin,
    WorkerRecord,
    WriteRules,
    git_path,
)
from workspace.service import Workshop

Act = Callable[[Path], object]
BASE: Mapping[str | bytes, bytes | None] = {
    "README.md": b"hello\n",
    "src/a.py": b"a = 1\n",
    "src/c.py": b"c = 1\n",
    "run.sh": b"#!/bin/sh\n",
    "docs/v2/index.md": b"v2\n",
}


@dataclass
class Stage:
    """A workshop over one repository, and its data folder."""

    workshop: Workshop
    origin: Origin
    folder: Path

    async def freeze(self, act: Act, *globs: str, run: RunPin, task: str = "one") -> WorkerRecord:
        """Let a worker without any tool act on its folder, and freeze it."""
        work_scope, work_key = scope(*globs, task=task), key(task)
        await self.workshop.create_worker(
            run, work_scope, key=work_key, parent=run.original_base_sha, suites=()
        )
        act(folder_of(self.folder / "data", self.origin, work_key))
        return await self.workshop.inspect_and_freeze(
            run, work_scope, key=work_key, parent=run.original_base_sha
        )

    async def compose(self, run: RunPin, *records: WorkerRecord) -> Candidate:
        candidate = await self.workshop.compose(run, records, round=0, parent=run.original_base_sha)
        assert isinstance(candidate, Candidate)
        return candidate

    async def candidate(self, act: Act, *globs: str, run: RunPin) -> Candidate:
        record = await self.freeze(act, *globs, run=run)
        assert record.refused == ()
        return await self.compose(run, record)

    @property
    def mirror(self) -> Path:
        return self.folder / "data" / "mirrors" / f"{self.origin.repo.id}.git"

    def tree(self, candidate: Candidate) -> dict[bytes, tuple[str, bytes]]:
        return read_tree(self.mirror, candidate.sha)

    async def diff(self, candidate: Candidate) -> bytes:
        repository, run_id, digest = parse_artifact_uri(candidate.diff_uri)
        return await FolderArtifacts(self.folder / "artifacts").get(repository, run_id, digest)


@pytest.fixture
def stage(workshop: Workshop, origin: Origin, tmp_path: Path) -> Stage:
    return Stage(workshop, origin, tmp_path)


def put(files: Mapping[str | bytes, bytes]) -> Act:
    """An act that writes files."""

    def act(folder: Path) -> None:
        for name, content in files.items():
            path = folder / os.fsdecode(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    return act


async def test_rename_plus_edit(stage: Stage) -> None:
    """Both ends of a rename count: the old path outside the scope refuses the record."""
    run = make_pin(stage.origin, stage.origin.commit(BASE))

    def act(folder: Path) -> None:
        (folder / "src/a.py").rename(folder / "src/b.py")
        (folder / "src/c.py").write_bytes(b"c = 2\n")

    record = await stage.freeze(act, "src/b.py", "src/c.py", run=run)
    assert list(refused(record)) == ["src/a.py"]
    assert "outside the scope" in refused(record)["src/a.py"]


async def test_mode_change(stage: Stage) -> None:
    """Making a file executable is a change by itself."""
    run = make_pin(stage.origin, stage.origin.commit(BASE))
    candidate = await stage.candidate(lambda f: (f / "run.sh").chmod(0o755), "run.sh", run=run)
    (changed,) = candidate.changed_files
    assert (changed.path, changed.kind, changed.new_mode) == ("run.sh", ChangeKind.MODE, "100755")
    assert stage.tree(candidate)[b"run.sh"] == ("100755", b"#!/bin/sh\n")


async def test_symlink_inside(stage: Stage) -> None:
    """A link within the tree is composed as a link, not as what it points to."""
    run = make_pin(stage.origin, stage.origin.commit(BASE))
    candidate = await stage.candidate(
        lambda f: (f / "docs/latest").symlink_to("v2"), "docs/**", run=run
    )
    assert stage.tree(candidate)[b"docs/latest"] == ("120000", b"v2")


async def test_symlink_outside(stage: Stage) -> None:
    """Links that leave the tree are refused, each by name."""
    run = make_pin(stage.origin, stage.origin.commit(BASE))

    def act(folder: Path) -> None:
        (folder / "x").symlink_to("/etc/passwd")
        (folder / "y").symlink_to("../../z")

    record = await stage.freeze(act, "*", run=run)
    assert set(refused(record)) == {"x", "y"}
    assert all("leads out of the repository" in reason for reason in refused(record).values())


async def test_symlinks_that_leave_together(stage: Stage) -> None:
    """Two links of two workers, each harmless alone, are a conflict when together they leave."""
    run = make_pin(stage.origin, stage.origin.commit(BASE))
    one = await stage.freeze(
        lambda f: (f / "docs/up").symlink_to(".."), "docs/*", run=run, task="one"
    )
    two = await stage.freeze(
        lambda f: (f / "out").symlink_to("docs/up/../x"), "out", run=run, task="two"
    )
    assert one.refused == two.refused == ()
    composed = await stage.workshop.compose(run, [one, two], round=0, parent=run.original_base_sha)
    assert isinstance(composed, Conflict)
    assert composed.paths == ("out",)


async def test_crlf(stage: Stage) -> None:
    """Editing one line of a CRLF file changes one line, whatever the attributes say."""
    attributes = b"* text=auto\n*.txt text eol=crlf\n"
    base = stage.origin.commit({"a.txt": b"one\n"})
    stage.origin.git("config", "core.autocrlf", "false")
    blob = stage.origin.git("hash-object", "-w", "--stdin", stdin=b"1\r\n2\r\n3\r\n").strip()
    spec = f"100644 {blob}\tdos.txt\0".encode()
    marker = stage.origin.git("hash-object", "-w", "--stdin", stdin=attributes).strip()
    spec += f"100644 {marker}\t.gitattributes\0".encode()
    stage.origin.git("update-index", "-z", "--index-info", stdin=spec)
    base = stage.origin.commit_index()
    run = make_pin(stage.origin, base)
    tools = await stage.workshop.create_worker(
        run, scope("*.txt"), key=key(), parent=base, suites=()
    )
    await tools.edit_file("dos.txt", "2", "two")
    record = await stage.workshop.inspect_and_freeze(run, scope("*.txt"), key=key(), parent=base)
    candidate = await stage.compose(run, record)
    lines = (await stage.diff(candidate)).split(b"\n")
    changed = [line for line in lines if line[:1] in b"+-" and line[:3] not in (b"+++", b"---")]
    assert [line for line in changed if line] == [b"-2\r", b"+two\r"]


async def test_binary(stage: Stage) -> None:
    """A binary file comes through byte for byte, and the diff says that it is binary."""
    run = make_pin(stage.origin, stage.origin.commit({"logo.png": os.urandom(300_000)}))
    picture = b"\x89PNG\r\n" + os.urandom(300_000)
    candidate = await stage.candidate(put({"logo.png": picture}), "logo.png", run=run)
    assert stage.tree(candidate)[b"logo.png"][1] == picture
    assert b"GIT binary patch" in await stage.diff(candidate)


async def test_raw_name(stage: Stage) -> None:
    """Names that are not UTF-8, and those that are not ASCII, are both composed exactly."""
    run = make_pin(stage.origin, stage.origin.commit(BASE))
    candidate = await stage.candidate(
        put({b"\xff.txt": b"raw\n", "é.txt": b"accent\n"}), "*.txt", run=run
    )
    assert {file.path for file in candidate.changed_files} == {git_path(b"\xff.txt"), "é.txt"}
    tree = stage.tree(candidate)
    assert tree[b"\xff.txt"][1] == b"raw\n"
    assert tree["é.txt".encode()][1] == b"accent\n"
    assert Candidate.model_validate_json(candidate.model_dump_json()) == candidate


async def test_magic_name(stage: Stage) -> None:
    """Names that look like options or pathspecs are names."""
    run = make_pin(stage.origin, stage.origin.commit(BASE))
    files = {":(exclude)x": b"1\n", "-rf": b"2\n", ":!y": b"3\n", "#z": b"4\n", "*": b"5\n"}
    candidate = await stage.candidate(put(dict(files)), "*", run=run)
    tree = stage.tree(candidate)
    assert {name: tree[name.encode()][1] for name in files} == files


async def test_spaces(stage: Stage) -> None:
    """Spaces, quotes, tabs and line breaks in names come through."""
    run = make_pin(stage.origin, stage.origin.commit(BASE))
    names = ["my file.txt", "new\nline.txt", "tab\t.txt", 'quote".txt', "back\\slash.txt"]
    candidate = await stage.candidate(put(dict.fromkeys(names, b"x\n")), "*.txt", run=run)
    assert {name.encode() for name in names} <= set(stage.tree(candidate))


async def test_no_change(stage: Stage) -> None:
    """A worker that changes nothing leaves the base itself as the candidate."""
    run = make_pin(stage.origin, stage.origin.commit(BASE))
    candidate = await stage.candidate(lambda _: None, "src/**", run=run)
    assert candidate.sha == run.original_base_sha
    assert not candidate.changed


async def test_delete_only(stage: Stage) -> None:
    """A deleted file is not in the candidate."""
    run = make_pin(stage.origin, stage.origin.commit(BASE))
    candidate = await stage.candidate(lambda f: (f / "src/a.py").unlink(), "src/a.py", run=run)
    assert b"src/a.py" not in stage.tree(candidate)
    assert candidate.changed_files[0].kind is ChangeKind.DELETED


async def test_empty_dir(stage: Stage) -> None:
    """An empty folder is no change."""
    run = make_pin(stage.origin, stage.origin.commit(BASE))
    candidate = await stage.candidate(lambda f: (f / "new").mkdir(), "new/**", run=run)
    assert not candidate.changed


async def test_empty_file(stage: Stage) -> None:
    """An empty file is a file."""
    run = make_pin(stage.origin, stage.origin.commit(BASE))
    candidate = await stage.candidate(put({"new/empty": b""}), "new/**", run=run)
    assert stage.tree(candidate)[b"new/empty"] == ("100644", b"")


async def test_ignored_file(stage: Stage) -> None:
    """What .gitignore ignores is not in the candidate, and the record says that it was there."""
    run = make_pin(stage.origin, stage.origin.commit({**BASE, ".gitignore": b"build/\n*.o\n"}))
    record = await stage.freeze(
        put({"build/out.o": b"x", "src/a.py": b"a = 2\n"}), "build/**", "src/**", run=run
    )
    assert record.ignored == ("build/",)
    candidate = await stage.compose(run, record)
    assert [file.path for file in candidate.changed_files] == ["src/a.py"]


async def test_nested_repo(stage: Stage) -> None:
    """A repository inside the repository is refused, and its files do not slip in either."""
    run = make_pin(stage.origin, stage.origin.commit(BASE))

    def act(folder: Path) -> None:
        (folder / "vendor/x").mkdir(parents=True)
        subprocess.run(["git", "init", "-q", "vendor/x"], cwd=folder, check=True)
        (folder / "vendor/x/file").write_text("x")
        commit = ["git", "-c", "user.name=x", "-c", "user.email=x", "commit", "-qm", "x"]
        subprocess.run(["git", "add", "."], cwd=folder / "vendor/x", check=True)
        subprocess.run(commit, cwd=folder / "vendor/x", check=True)

    record = await stage.freeze(act, "vendor/**", run=run)
    assert refused(record)["vendor/x"] == "embedded repository"


def with_submodule(origin: Origin) -> str:
    """A base that holds a submodule's entry at `lib`."""
    origin.commit({**BASE, ".gitmodules": b'[submodule "lib"]\n\tpath = lib\n\turl = ../lib\n'})
    origin.git(
        "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},lib",
    )  # fmt: skip
    return origin.commit_index()


async def test_gitmodules(stage: Stage) -> None:
    """.gitmodules is denied, and a moved submodule pointer is refused."""
    run = make_pin(stage.origin, with_submodule(stage.origin))

    def act(folder: Path) -> None:
        (folder / ".gitmodules").write_text("[submodule]\n")
        subprocess.run(["git", "init", "-q", "lib"], cwd=folder, check=True)
        (folder / "lib/file").write_text("x")

    record = await stage.freeze(act, "**", run=run)
    assert "denied path" in refused(record)[".gitmodules"]
    assert "embedded repository" in refused(record)["lib"]
    assert "inside a submodule" in refused(record)["lib/file"]


async def test_a_submodule_nobody_touched_stays(stage: Stage) -> None:
    """A repository with submodules can be worked on; its entries come through untouched."""
    run = make_pin(stage.origin, with_submodule(stage.origin))
    candidate = await stage.candidate(put({"src/a.py": b"a = 2\n"}), "src/**", run=run)
    assert [file.path for file in candidate.changed_files] == ["src/a.py"]
    assert stage.tree(candidate)[b"lib"][0] == "160000"


async def test_a_submodule_replaced_by_a_file_is_refused(stage: Stage) -> None:
    """A submodule's entry may not be replaced or removed."""
    run = make_pin(stage.origin, with_submodule(stage.origin))

    def act(folder: Path) -> None:
        (folder / "lib").rmdir()
        (folder / "lib").write_text("x")

    record = await stage.freeze(act, "**", run=run)
    assert "submodule" in refused(record)["lib"]


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12\n"


async def test_lfs(stage: Stage) -> None:
    """Raw content where the attributes demand an LFS pointer is refused; a pointer is not."""
    base = stage.origin.commit({"logo.psd": POINTER, ".gitattributes": b"*.psd filter=lfs -text\n"})
    run = make_pin(stage.origin, base)
    record = await stage.freeze(put({"logo.psd": b"raw pixels"}), "*.psd", run=run)
    assert "not an LFS pointer" in refused(record)["logo.psd"]
    moved = POINTER.replace(b"size 12", b"size 13")
    other = await stage.freeze(put({"new.psd": moved}), "*.psd", run=run, task="two")
    assert other.refused == ()


async def test_attributes_filter(stage: Stage, tmp_path: Path) -> None:
    """Planted attributes, configuration and hooks never make the host run anything."""
    run = make_pin(stage.origin, stage.origin.commit(BASE))
    witness = tmp_path / "witness"

    def act(folder: Path) -> None:
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
        for name in (
            "filter.evil.clean",
            "filter.evil.smudge",
            "core.fsmonitor",
            "core.sshCommand",
        ):
            subprocess.run(["git", "config", name, f"touch {witness}; cat"], cwd=folder, check=True)
        hook = folder / ".git/hooks/post-checkout"
        hook.write_text(f"#!/bin/sh\ntouch {witness}\n")
        hook.chmod(0o755)
        (folder / ".gitattributes").write_text("* filter=evil\n")
        (folder / "src/a.py").write_text("a = 2\n")

    record = await stage.freeze(act, "**", run=run)
    assert "denied path" in refused(record)[".gitattributes"]
    assert ".git" in record.ignored
    assert not witness.exists()
    again = await stage.freeze(lambda _: None, "src/**", run=run, task="two")
    assert again.changed_files == ()
    assert not witness.exists()


async def test_attributes_that_policy_allows_run_nothing_either(
    stage: Stage, tmp_path: Path
) -> None:
    """Where policy lets .gitattributes in, content is still taken as it stands."""
    base = stage.origin.commit(BASE)
    run = make_pin(stage.origin, base, writes=WriteRules(allow=(".gitattributes",)))
    attributes = b"* text eol=lf ident working-tree-encoding=UTF-16 filter=lfs2\n"
    files = {".gitattributes": attributes, "src/d.txt": b"$Id$\r\n\xff\xfe"}
    candidate = await stage.candidate(put(dict(files)), "**", run=run)
    tree = stage.tree(candidate)
    assert tree[b"src/d.txt"][1] == files["src/d.txt"]
    record = await stage.freeze(lambda _: None, "src/**", run=run, task="two")
    assert record.changed_files == ()


async def test_same_new_file(stage: Stage) -> None:
    """Two tasks that could make the same file are rejected before any worker starts."""
    run = make_pin(stage.origin, stage.origin.commit(BASE))
    problems = await stage.workshop.check_scopes(
        run,
        [scope("src/**", task="a"), scope("src/*.py", task="b")],
        parent=run.original_base_sha,
    )
    assert len(problems) == 1
    assert "Tasks a and b overlap" in problems[0]
    assert "src/a.py" in problems[0]
    unborn = await stage.workshop.check_scopes(
        run, [scope("new/**", task="a"), scope("*/new.py", task="b")], parent=run.original_base_sha
    )
    assert "new/new.py could be made by both" in unborn[0]


async def test_file_versus_folder(stage: Stage) -> None:
    """A file of one worker that is a folder of another is a conflict with both paths."""
    run = make_pin(stage.origin, stage.origin.commit(BASE))
    one = await stage.freeze(put({"x": b"1"}), "x", run=run, task="a")
    two = await stage.freeze(put({"x/y": b"2"}), "x/*", run=run, task="b")
    composed = await stage.workshop.compose(run, [one, two], round=0, parent=run.original_base_sha)
    assert isinstance(composed, Conflict)
    assert composed.paths == ("x", "x/y")


async def test_file_becomes_folder(stage: Stage) -> None:
    """One worker may turn a file into a folder, and a folder into a file."""
    run = make_pin(stage.origin, stage.origin.commit({**BASE, "d/e": b"1", "f": b"2"}))

    def act(folder: Path) -> None:
        (folder / "d/e").unlink()
        (folder / "d").rmdir()
        (folder / "d").write_bytes(b"file")
        (folder / "f").unlink()
        (folder / "f").mkdir()
        (folder / "f/g").write_bytes(b"inside")

    candidate = await stage.candidate(act, "d", "d/**", "f", "f/**", run=run)
    tree = stage.tree(candidate)
    assert tree[b"d"][1] == b"file"
    assert tree[b"f/g"][1] == b"inside"


@pytest.mark.parametrize("names", [("README.md", "README.MD"), ("é.txt", "e\u0301.txt")])
async def test_case_collision(stage: Stage, names: tuple[str, str]) -> None:
    """A name that only case or Unicode form tells from another is refused."""
    run = make_pin(stage.origin, stage.origin.commit({names[0]: b"1\n"}))
    record = await stage.freeze(put({names[1]: b"2\n"}), "*", run=run)
    assert "collides with" in refused(record)[names[1]]


async def test_folders_that_collide(stage: Stage) -> None:
    """A folder whose name only case tells from another is refused with the file in it."""
    run = make_pin(stage.origin, stage.origin.commit(BASE))
    record = await stage.freeze(put({"SRC/new.py": b"2\n"}), "**", run=run)
    assert "collides with src" in refused(record)["SRC/new.py"]


async def test_two_records_of_one_task_are_told_apart(stage: Stage) -> None:
    """Two records under one task's name that touch one path are a conflict like any other."""
    run = make_pin(stage.origin, stage.origin.commit(BASE))
    one = await stage.freeze(put({"new.py": b"1"}), "new.py", run=run, task="a")
    two = await stage.freeze(put({"new.py": b"2"}), "new.py", run=run, task="b")
    records = [one, two.model_copy(update={"task_id": "a"})]
    composed = await stage.workshop.compose(run, records, round=0, parent=run.original_base_sha)
    assert isinstance(composed, Conflict)
    assert composed.paths == ("new.py",)


async def test_collision_between_workers(stage: Stage) -> None:
    """Two workers' new files that only case tells apart are a conflict."""
    run = make_pin(stage.origin, stage.origin.commit(BASE))
    one = await stage.freeze(put({"New.py": b"1"}), "New.py", run=run, task="a")
    two = await stage.freeze(put({"new.py": b"2"}), "new.py", run=run, task="b")
    composed = await stage.workshop.compose(run, [one, two], round=0, parent=run.original_base_sha)
    assert isinstance(composed, Conflict)
    assert set(composed.paths) == {"New.py", "new.py"}


async def test_workflow_file(stage: Stage) -> None:
    """A workflow file is denied even inside the scope."""
    workflow = ".github/workflows/ci.yml"
    run = make_pin(stage.origin, stage.origin.commit({**BASE, workflow: b"on: push\n"}))
    record = await stage.freeze(put({workflow: b"on: [push]\n"}), "**", run=run)
    assert "denied path" in refused(record)[workflow]


async def test_planted_conftest(stage: Stage) -> None:
    """A conftest.py is refused at freeze, unless policy lets it in."""
    base = stage.origin.commit(BASE)
    act = put({"tests/conftest.py": b"import pytest\n"})
    record = await stage.freeze(act, "tests/**", run=make_pin(stage.origin, base))
    assert "decides how tests run" in refused(record)["tests/conftest.py"]
    allowed = make_pin(stage.origin, base, writes=WriteRules(allow=("tests/conftest.py",)))
    again = await stage.freeze(act, "tests/**", run=allowed, task="two")
    assert again.refused == ()


async def test_huge(stage: Stage) -> None:
    """A 200 MB file is refused without being read, and the mirror does not grow by it."""
    run = make_pin(stage.origin, stage.origin.commit(BASE))

    def act(folder: Path) -> None:
        with (folder / "big.bin").open("wb") as file:
            file.truncate(200 * 1024 * 1024)

    record = await stage.freeze(act, "big.bin", run=run)
    assert "over the size limit" in refused(record)["big.bin"]
    assert sum(f.stat().st_size for f in stage.mirror.rglob("*") if f.is_file()) < 1_000_000


async def test_a_large_file_nobody_touched_is_nobodys_fault(stage: Stage) -> None:
    """A repository that holds files over the limit can be worked on; changing one is refused."""
    large = os.urandom(11 * 1024 * 1024)
    run = make_pin(stage.origin, stage.origin.commit({**BASE, "big.bin": large}))
    candidate = await stage.candidate(put({"src/a.py": b"a = 2\n"}), "**", run=run)
    assert [file.path for file in candidate.changed_files] == ["src/a.py"]
    record = await stage.freeze(put({"big.bin": large + b"x"}), "**", run=run, task="two")
    assert "over the size limit" in refused(record)["big.bin"]


async def test_rounds_make_one_commit(stage: Stage) -> None:
    """Round 1's candidate is one commit on the original base, with nothing of round 0 behind it."""
    base = stage.origin.commit(BASE)
    run = make_pin(stage.origin, base)
    first = await stage.candidate(put({"a.txt": b"a\n"}), "a.txt", run=run)
    work_key, globs = key("fix", round=1), scope("a.txt", "b.txt", task="fix")
    await stage.workshop.create_worker(run, globs, key=work_key, parent=first.sha, suites=())
    folder = folder_of(stage.folder / "data", stage.origin, work_key)
    assert (folder / "a.txt").read_bytes() == b"a\n"
    (folder / "a.txt").unlink()
    (folder / "b.txt").write_bytes(b"b\n")
    record = await stage.workshop.inspect_and_freeze(run, globs, key=work_key, parent=first.sha)
    second = await stage.workshop.compose(run, [record], round=1, parent=first.sha)
    assert isinstance(second, Candidate)
    assert (second.base_sha, second.original_base_sha) == (first.sha, base)
    assert [file.path for file in second.changed_files] == ["b.txt"]
    history = git_bytes("log", "--format=%H", "--name-only", second.sha, cwd=stage.mirror).decode()
    assert "a.txt" not in history
    assert history.split()[0] == second.sha
    parents = git_bytes("rev-list", "--parents", "-1", second.sha, cwd=stage.mirror).split()
    assert parents == [second.sha.encode(), base.encode()]


@pytest.mark.parametrize(
    "name", ["docs/CODEOWNERS", "src/.gitattributes", ".GITHUB/workflows/x.yml", "a/Claude.md"]
)
async def test_deep_codeowners(stage: Stage, name: str) -> None:
    """Denied paths are denied at any depth and in any case."""
    run = make_pin(stage.origin, stage.origin.commit(BASE))
    record = await stage.freeze(put({name: b"x\n"}), "**", run=run)
    assert "denied path" in refused(record)[name]


async def test_a_fifo_a_socket_and_a_hard_link_block_nobody(stage: Stage, tmp_path: Path) -> None:
    """Odd files are set aside or refused, without waiting and without reading others' content."""
    run = make_pin(stage.origin, stage.origin.commit(BASE))
    secret = tmp_path / "host-secret"
    secret.write_text("top secret")

    def act(folder: Path) -> None:
        os.mkfifo(folder / "pipe")
        os.mkfifo(folder / "src/.gitignore")
        (folder / "vendor/.git").mkdir(parents=True)
        os.mkfifo(folder / "vendor/.git/HEAD")
        (folder / "run.sh").unlink()
        os.mkfifo(folder / "run.sh")
        os.link(secret, folder / "linked")
        with socket.socket(socket.AF_UNIX) as listener:
            os.chdir(folder)
            listener.bind("sock")

    here = Path.cwd()
    try:
        record = await stage.freeze(act, "**", run=run)
    finally:
        os.chdir(here)
    assert "hard link" in refused(record)["linked"]
    assert refused(record)["vendor"] == "embedded repository"
    assert refused(record)["run.sh"] == "is no regular file any more"
    assert {"pipe", "sock", "src/.gitignore"} <= set(record.ignored)
    assert secret.read_text() == "top secret"


async def test_closed_folders_and_odd_modes_are_read_and_put_right(stage: Stage) -> None:
    """Permissions a worker set neither hide files from Git nor stay for the next worker."""
    run = make_pin(stage.origin, stage.origin.commit(BASE))

    def act(folder: Path) -> None:
        (folder / "src/new.py").write_bytes(b"new\n")
        (folder / "src/new.py").chmod(0)
        (folder / "src/c.py").chmod(0o4666)
        (folder / "src").chmod(0)

    record = await stage.freeze(act, "src/**", run=run)
    assert [file.path for file in record.changed_files] == ["src/new.py"]

    def look(folder: Path) -> None:
        assert (folder / "src/c.py").stat().st_mode & 0o7777 == 0o644
        assert (folder / "src").stat().st_mode & 0o7777 == 0o755
        assert not (folder / "src/new.py").exists()

    await stage.freeze(look, "src/**", run=run, task="two")


async def test_secrets_never_get_into_a_record(stage: Stage) -> None:
    """An added key is refused by kind and line; one that was there before is not the worker's."""
    old = b"# AKIAIOSFODNN7EXAMPLF\n"
    run = make_pin(stage.origin, stage.origin.commit({"keys.py": old}))
    token = b"t = 'ghp_" + b"a1B2" * 9 + b"'\n"
    record = await stage.freeze(put({"keys.py": old + token}), "*", run=run)
    assert refused(record)["keys.py"] == "adds what looks like a secret (GitHub Token, line 2)"
    assert record.artifacts == ()
    found = git_bytes("cat-file", "--batch-all-objects", "--batch", cwd=stage.mirror)
    assert b"ghp_" not in found
    kept = await stage.freeze(put({"keys.py": old + b"x = 1\n"}), "*", run=run, task="two")
    assert kept.refused == ()


async def test_links_are_judged_like_contents(stage: Stage) -> None:
    """A key or a reordering character as a link's target is refused; a name's key is covered."""
    token = "ghp_" + "a1B2" * 9
    links = {"key": token, "bidi": "a\u202eb"}

    def plant(folder: Path) -> None:
        for name, target in links.items():
            (folder / name).symlink_to(target)
        (folder / f"{token}.txt").touch()

    run = make_pin(stage.origin, stage.origin.commit({"a": b"1"}))
    reasons = refused(await stage.freeze(plant, "*", run=run))
    assert set(reasons) == {"key", "bidi", "***.txt"}
    assert "GitHub Token" in reasons["key"]
    assert "U+202E" in reasons["bidi"]
    assert "GitHub Token" in reasons["***.txt"]


async def test_hidden_characters_are_refused_where_they_are_added(stage: Stage) -> None:
    """Added bidirectional and tag characters are refused; flags, joiners and old ones are not."""
    flag = "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"
    old = "x = 1 # \u202e old\n".encode()
    run = make_pin(stage.origin, stage.origin.commit({"old.py": old}))
    files = {
        "old.py": old + b"y = 2\n",
        "bidi.py": "a = '\u2066'\n".encode(),
        "tag.py": "a = 'x\U000e0041'\n".encode(),
        "emoji.md": f"{flag} \U0001f468\u200d\U0001f469 ok\n".encode(),
    }
    record = await stage.freeze(put(dict(files)), "*", run=run)
    assert set(refused(record)) == {"bidi.py", "tag.py"}
    assert "U+2066" in refused(record)["bidi.py"]


async def test_names_windows_cannot_hold_are_a_warning(stage: Stage) -> None:
    """A name that Windows cannot hold is said on the record and not refused."""
    run = make_pin(stage.origin, stage.origin.commit(BASE))
    record = await stage.freeze(put({"aux.py": b"1", "a:b": b"2"}), "*", run=run)
    assert record.refused == ()
    assert sorted(warning.split(":")[0] for warning in record.warnings) == ["a", "aux.py"]


@pytest.mark.parametrize("name", ["x/.GIT/config", "x/git~1/config", "x/.g\u200cit/config"])
async def test_names_that_read_as_git_elsewhere_are_refused(stage: Stage, name: str) -> None:
    """Names that NTFS or HFS+ take for .git never get in."""
    run = make_pin(stage.origin, stage.origin.commit(BASE))
    record = await stage.freeze(put({name: b"x"}), "**", run=run)
    assert record.refused


async def test_refused_paths_are_capped_and_counted(stage: Stage) -> None:
    """Many refused paths are listed up to a cap, and the rest is counted."""
    run = make_pin(stage.origin, stage.origin.commit(BASE))
    record = await stage.freeze(
        put({f"out/{number}.txt": b"x" for number in range(300)}), "src/**", run=run
    )
    assert len(record.refused) == 201
    assert record.refused[-1].reason == "and 100 more refused paths"


async def test_the_same_content_gives_the_same_sha(stage: Stage) -> None:
    """Composing again, in any order of records, gives the same commit."""
    run = make_pin(stage.origin, stage.origin.commit(BASE))
    one = await stage.freeze(put({"src/a.py": b"a = 2\n"}), "src/a.py", run=run, task="a")
    two = await stage.freeze(put({"src/c.py": b"c = 2\n"}), "src/c.py", run=run, task="b")
    first = await stage.compose(run, one, two)
    assert await stage.compose(run, two, one) == first
