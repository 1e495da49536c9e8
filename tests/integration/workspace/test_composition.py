"""Candidates of random work, against a composition that shares nothing with ours."""

import asyncio
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.integration.workspace.conftest import (
    Origin,
    folder_of,
    git,
    key,
    make_origin,
    make_pin,
    make_workshop,
    read_tree,
    scope,
)
from tests.integration.workspace.git_server import GitServer
from workspace.contracts import Candidate, Conflict, Pushed, RunPin
from workspace.service import Workshop

#: Each worker has a folder of its own; names are chosen to be awkward.
TASKS = ("a", "b", "c", "d")
NAMES = st.sampled_from(
    [b"x", b"y z", b"-rf", b":(top)q", "é".encode(), b"\xfe\xff", b"new\nline", b'"q"', b"sub/x",
     b"sub/deep/y", b".hidden", b"sub/*", b"#", b"~", b"tab\t"]
)  # fmt: skip
CONTENTS = st.one_of(
    st.sampled_from([b"", b"\n", b"a\r\nb\r\n", b"no end", b"\0\1\2", b"x" * 70_000]),
    st.binary(max_size=40),
)
KINDS = st.sampled_from(["file", "executable", "link"])
FILE = st.tuples(KINDS, CONTENTS)
TREE = st.dictionaries(NAMES, FILE, max_size=5)
EDIT = st.dictionaries(NAMES, st.one_of(st.none(), FILE), max_size=4)


Files = dict[bytes, tuple[str, bytes]]
Edits = Mapping[bytes, tuple[str, bytes] | None]


def apply(folder: Path, files: Edits) -> None:
    """Write, replace or (None) remove files below a folder, whatever stood there."""
    for name, wanted in files.items():
        path = folder / os.fsdecode(name)
        _clear(folder, path)
        if wanted is None:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        kind, content = wanted
        if kind == "link":
            path.symlink_to(f"target-{content.hex()[:20]}")
            continue
        path.write_bytes(content)
        path.chmod(0o755 if kind == "executable" else 0o644)


def _clear(folder: Path, path: Path) -> None:
    """Take away what stands at a name, and any file where one of its folders shall be."""
    for part in [path, *path.parents][::-1]:
        if folder not in part.parents:
            continue
        is_folder = part.is_dir() and not part.is_symlink()
        if is_folder and part == path:
            shutil.rmtree(part)
        elif not is_folder:
            part.unlink(missing_ok=True)


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(base=st.fixed_dictionaries(dict.fromkeys(TASKS, TREE)), data=st.data())
def test_the_candidate_is_what_plain_copies_and_git_add_give(
    server: GitServer,
    tmp_path: Path,
    base: dict[str, dict[bytes, tuple[str, bytes]]],
    data: st.DataObject,
) -> None:
    """Random trees and edits of up to four workers compose to the tree of an ordinary clone."""
    edits = {task: data.draw(EDIT, label=task) for task in TASKS[: data.draw(st.integers(1, 4))]}
    folder = tmp_path / f"example-{len(list(tmp_path.iterdir()))}"
    folder.mkdir()
    origin = make_origin(server, folder, 1000 + len(list(server.root.iterdir())))
    for task, files in base.items():
        (origin.work / task).mkdir()
        apply(origin.work / task, files)
    (origin.work / "keep").write_bytes(b"keep")
    origin.git("add", "-A", ".")
    commit = origin.commit_index()
    asyncio.run(compare(server, folder, origin, commit, edits))


async def compare(
    server: GitServer,
    folder: Path,
    origin: Origin,
    base: str,
    edits: Mapping[str, Edits],
) -> None:
    workshop = make_workshop(server, folder / "data", folder / "artifacts")
    run = make_pin(origin, base)
    try:
        records = []
        for task, files in edits.items():
            globs = scope(f"{task}/**", task=task)
            await workshop.create_worker(run, globs, key=key(task), parent=base, suites=())
            apply(folder_of(folder / "data", origin, key(task)) / task, files)
            record = await workshop.inspect_and_freeze(run, globs, key=key(task), parent=base)
            assert record.refused == (), record.refused
            records.append(record)
        candidate = await workshop.compose(run, records, round=0, parent=base)
    finally:
        await workshop.close()
    assert isinstance(candidate, Candidate)
    clone = folder / "clone"
    git("clone", "-q", str(origin.path), str(clone), cwd=folder)
    for task, files in edits.items():
        (clone / task).mkdir(exist_ok=True)
        apply(clone / task, files)
    git("add", "-A", ".", cwd=clone)
    expected = git("write-tree", cwd=clone).strip()
    mirror = folder / "data/mirrors" / f"{origin.repo.id}.git"
    assert read_tree(mirror, candidate.sha) == read_tree(clone, expected)
    assert candidate.tree == expected
    assert candidate.changed == (expected != git("rev-parse", "HEAD^{tree}", cwd=clone).strip())


@pytest.mark.parametrize("name", ["clean", "dirty"])
def test_the_comparison_can_fail(tmp_path: Path, name: str) -> None:
    """The independent composition notices a single different byte."""
    for folder, content in (("one", b"1"), ("two", b"1" if name == "clean" else b"2")):
        path = tmp_path / folder
        path.mkdir()
        git("init", "-q", cwd=path)
        apply(path, {b"x": ("file", content)})
        git("add", "-A", cwd=path)
    trees = [git("write-tree", cwd=tmp_path / folder) for folder in ("one", "two")]
    assert (trees[0] == trees[1]) == (name == "clean")


async def refreshed(
    workshop: Workshop, origin: Origin, ours: dict[str, bytes], theirs: dict[str, bytes]
) -> tuple[Candidate, RunPin, Candidate | Conflict]:
    """A candidate with our changes, put onto a base that meanwhile got theirs."""
    base = origin.commit({"a.txt": b"1\n2\n3\n4\n5\n6\n7\n", "b.txt": b"b\n"})
    run, everything = make_pin(origin, base), scope("**")
    tools = await workshop.create_worker(run, everything, key=key(), parent=base, suites=())
    for name, content in ours.items():
        await tools.write_file(name, content.decode())
    record = await workshop.inspect_and_freeze(run, everything, key=key(), parent=base)
    candidate = await workshop.compose(run, [record], round=0, parent=base)
    assert isinstance(candidate, Candidate)
    moved = make_pin(origin, origin.commit(dict(theirs)), run_id="run00000002")
    return candidate, moved, await workshop.recompose_on(moved, candidate)


async def test_a_candidate_is_composed_anew_on_a_base_that_moved(
    workshop: Workshop, origin: Origin
) -> None:
    """Changes that do not touch come together as one commit on the new base."""
    _, moved, anew = await refreshed(
        workshop,
        origin,
        {"a.txt": b"1\n2\n3\n4\n5\n6\nseven\n"},
        {"a.txt": b"one\n2\n3\n4\n5\n6\n7\n"},
    )
    assert isinstance(anew, Candidate)
    assert anew.original_base_sha == anew.base_sha == moved.original_base_sha
    assert await workshop.publish_branch(moved, "anew", anew.sha, expected=None) == Pushed(
        sha=anew.sha
    )
    assert origin.tree(anew.sha)[b"a.txt"][1] == b"one\n2\n3\n4\n5\n6\nseven\n"
    parents = origin.git("rev-list", "--parents", "-1", anew.sha, cwd=origin.path).split()
    assert parents == [anew.sha, moved.original_base_sha]


async def test_a_candidate_that_collides_with_the_new_base_is_a_conflict(
    workshop: Workshop, origin: Origin
) -> None:
    """The same lines changed on both sides are a conflict that names the file."""
    _, _, anew = await refreshed(workshop, origin, {"b.txt": b"ours\n"}, {"b.txt": b"theirs\n"})
    assert isinstance(anew, Conflict)
    assert anew.paths == ("b.txt",)


async def test_a_name_that_collides_only_on_the_new_base_is_a_conflict(
    workshop: Workshop, origin: Origin
) -> None:
    """A new file that only case tells from a new file of the base is a conflict."""
    _, _, anew = await refreshed(workshop, origin, {"New.txt": b"o\n"}, {"new.txt": b"t\n"})
    assert isinstance(anew, Conflict)
    assert anew.paths == ("New.txt",)


async def test_what_the_base_already_has_is_no_change(workshop: Workshop, origin: Origin) -> None:
    """When somebody else made the same change, the candidate is the new base."""
    _, moved, anew = await refreshed(workshop, origin, {"b.txt": b"new\n"}, {"b.txt": b"new\n"})
    assert isinstance(anew, Candidate)
    assert anew.sha == moved.original_base_sha


async def test_a_base_without_common_history_is_a_conflict(
    workshop: Workshop, origin: Origin
) -> None:
    """A base that was replaced outright cannot be merged onto, and this is said."""
    candidate, _, _ = await refreshed(workshop, origin, {"b.txt": b"new\n"}, {"c.txt": b"c\n"})
    origin.git("checkout", "-q", "--orphan", "other")
    unrelated = make_pin(origin, origin.commit({"z.txt": b"z\n"}), run_id="run00000003")
    anew = await workshop.recompose_on(unrelated, candidate)
    assert isinstance(anew, Conflict)
    assert "unrelated history" in anew.reason
