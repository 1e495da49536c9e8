"""What agents can do, told by what their tools answer."""

import os
from pathlib import Path

import pytest

from tests.integration.workspace.conftest import Origin, folder_of, key, make_pin, scope
from workspace.contracts import ReadTools, Suite, WorkspaceTools
from workspace.service import Workshop

FILES: dict[str | bytes, bytes | None] = {
    "src/a.py": b"import os\n\n\ndef a():\n    return 1\n",
    "src/dos.txt": b"one\r\ntwo\r\nthree\r\n",
    "docs/big.txt": b"".join(b"line %d\n" % number for number in range(1, 1001)),
    "logo.bin": b"\0\1\2" * 100,
    "hidden.txt": "a\u202eb\u200bc\n".encode(),
    b"\xff.txt": b"raw name\n",
    "conftest.py": b"\n",
}


@pytest.fixture
async def folder(workshop: Workshop, origin: Origin, tmp_path: Path) -> Path:
    """The folder behind `tools`, which must be asked for as well."""
    return folder_of(tmp_path / "data", origin, key())


@pytest.fixture
async def tools(workshop: Workshop, origin: Origin) -> WorkspaceTools:
    base = origin.commit(FILES)
    run = make_pin(origin, base)
    suites = (Suite(id="unit", run="test -f src/a.py && echo fine"),)
    return await workshop.create_worker(
        run, scope("src/**", "new/**", "*.md"), key=key(), parent=base, suites=suites
    )


@pytest.fixture(params=["commit", "workspace"])
async def readers(request: pytest.FixtureRequest, workshop: Workshop, origin: Origin) -> ReadTools:
    """The same reading tools over a commit and over a workspace."""
    base = origin.commit(FILES)
    run = make_pin(origin, base)
    if request.param == "commit":
        return await workshop.tools_at(run, base)
    return await workshop.create_worker(run, scope("src/**"), key=key(), parent=base, suites=())


async def test_reading_in_ranges(readers: ReadTools) -> None:
    """Lines come with numbers, and a part says that it is one."""
    text = await readers.read_file("docs/big.txt", start_line=500, line_count=2)
    assert text == "   500\tline 500\n   501\tline 501\n(lines 500 to 501 of 1000)"
    assert "     1\timport os" in await readers.read_file("/ws/src/a.py")
    assert await readers.read_file("docs/big.txt", start_line=2000) == "The file has 1000 lines."


async def test_reading_shows_what_is_there(readers: ReadTools) -> None:
    """Invisible characters are shown, CRLF is said, binary is not dumped."""
    assert "a\\u{202e}b\\u{200b}c" in await readers.read_file("hidden.txt")
    dos = await readers.read_file("src/dos.txt")
    assert "     2\ttwo\n" in dos
    assert "CRLF" in dos
    assert await readers.read_file("logo.bin") == "A binary file of 300 bytes."


async def test_reading_what_is_not_there(readers: ReadTools) -> None:
    """Errors are sentences."""
    assert await readers.read_file("nope.py") == "Error: There is no file nope.py."
    assert (await readers.read_file("../x")).startswith("Error: ")
    assert (await readers.read_file("src")).startswith("Error: ")
    assert (await readers.list_files("a**b")).startswith("Error: ")
    assert (await readers.search("")).startswith("Error: ")


async def test_listing_and_searching(readers: ReadTools) -> None:
    """Globs narrow down, names are shown escaped, hits name file and line."""
    assert await readers.list_files("src/*") == "src/a.py\nsrc/dos.txt"
    assert "\\xff.txt" in await readers.list_files()
    assert await readers.search("return 1", "src/**") == "src/a.py:5:     return 1"
    assert await readers.search("line 77", "docs/*") == "\n".join(
        f"docs/big.txt:{n}: line {n}" for n in [77, *range(770, 780)]
    )
    assert await readers.search("raw name") == "\\xff.txt:1: raw name"
    assert await readers.search("no such text") == "Nothing found."
    assert "… more" in await readers.search("line")
    assert await readers.search("-e", "src/*") == "Nothing found."


async def test_editing(tools: WorkspaceTools, folder: Path) -> None:
    """An edit replaces exactly one place; none or several are an error that says so."""
    assert await tools.edit_file("src/a.py", "return 1", "return 2") == "Edited src/a.py."
    assert (folder / "src/a.py").read_bytes() == b"import os\n\n\ndef a():\n    return 2\n"
    assert "stands 0 times" in await tools.edit_file("src/a.py", "return 1", "x")
    assert "stands 2 times" in await tools.edit_file("src/a.py", "\n\n", "x")
    assert "Error" in await tools.edit_file("src/a.py", "", "x")
    assert await tools.edit_file("src/dos.txt", "one\ntwo", "1\n2") == "Edited src/dos.txt."
    assert (folder / "src/dos.txt").read_bytes() == b"1\r\n2\r\nthree\r\n"


async def test_writing(tools: WorkspaceTools, folder: Path) -> None:
    """New folders are made; a CRLF file stays one."""
    assert (
        await tools.write_file("new/deep/file.txt", "x\n") == "Wrote new/deep/file.txt (2 bytes)."
    )
    assert (folder / "new/deep/file.txt").read_bytes() == b"x\n"
    await tools.write_file("src/dos.txt", "1\n2\n")
    assert (folder / "src/dos.txt").read_bytes() == b"1\r\n2\r\n"


async def test_moving_and_deleting(tools: WorkspaceTools, folder: Path) -> None:
    """Both ends of a move must be in the scope."""
    assert await tools.move_file("src/a.py", "new/b.py") == "Moved src/a.py to new/b.py."
    assert "outside the scope" in await tools.move_file("new/b.py", "docs/b.py")
    assert "outside the scope" in await tools.move_file("logo.bin", "new/logo.bin")
    assert await tools.delete_file("new/b.py") == "Deleted new/b.py."
    assert not (folder / "new").exists()


@pytest.mark.parametrize(
    "path", ["docs/big.txt", "src/../docs/x", ".github/x.yml", "src/conftest.py", ".git/config"]
)
async def test_writes_outside_the_scope_are_refused_at_the_tool(
    tools: WorkspaceTools, folder: Path, path: str
) -> None:
    """No tool writes outside the globs or where nobody may write."""
    before = sorted(folder.rglob("*"))
    for answer in (
        await tools.write_file(path, "x"),
        await tools.edit_file(path, "line", "x"),
        await tools.delete_file(path),
        await tools.move_file("src/a.py", path),
    ):
        assert answer.startswith("Error: ")
    assert sorted(folder.rglob("*")) == before


async def test_planted_links_lead_nowhere(
    tools: WorkspaceTools, folder: Path, tmp_path: Path
) -> None:
    """A link made by a command is neither read, listed as a folder, searched nor written."""
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("hunter2")
    (folder / "src/out").symlink_to(secret)
    (folder / "src/key").symlink_to(secret / "key")
    os.mkfifo(folder / "src/pipe")
    assert "hunter2" not in await tools.read_file("src/key")
    assert "hunter2" not in await tools.read_file("src/out/key")
    assert "hunter2" not in await tools.search("hunter2")
    assert "src/out/key" not in await tools.list_files("src/**")
    assert (await tools.write_file("src/key", "x")).startswith("Error: ")
    assert (await tools.write_file("src/out/new", "x")).startswith("Error: ")
    assert (await tools.read_file("src/pipe")).startswith("Error: ")
    assert (secret / "key").read_text() == "hunter2"
    assert list(secret.iterdir()) == [secret / "key"]


async def test_running_commands(tools: WorkspaceTools, folder: Path) -> None:
    """A command's output, exit code and end are told; long output keeps head and tail."""
    assert await tools.run_command("echo hi; exit 3") == "exit code 3\nhi\n"
    assert (await tools.run_command("sleep 30", timeout_seconds=1)).startswith("killed: ")
    assert (await tools.run_command("  ")).startswith("Error: ")
    long = await tools.run_command("seq 1 100000")
    assert len(long) < 40_000
    assert "characters left out" in long
    assert long.endswith("100000\n")
    await tools.run_command("echo made > src/made.txt")
    assert (folder / "src/made.txt").read_text() == "made\n"
    assert "\\u{1b}[31m" in await tools.run_command("printf '\\033[31mred'")


async def test_what_a_command_leaves_outside_the_scope_is_told(
    tools: WorkspaceTools, folder: Path
) -> None:
    """A worker hears of leftovers that would refuse its work, while it can still remove them."""
    answer = await tools.run_command("touch .coverage; echo x >> docs/big.txt; touch src/fine")
    assert "(Changed outside the scope: docs/big.txt, .coverage. Undo this" in answer
    answer = await tools.run_command("rm .coverage; sed -i '$d' docs/big.txt; mkfifo src/pipe")
    assert answer == "exit code 0\n"
    assert await tools.run_command("rm src/pipe") == "exit code 0\n"


async def test_a_reader_leaves_nothing(workshop: Workshop, origin: Origin) -> None:
    """What a read-only worker's commands write is gone when they end."""
    base = origin.commit(FILES)
    run = make_pin(origin, base)
    reader = await workshop.create_worker(run, scope(), key=key(), parent=base, suites=())
    assert await reader.run_command("touch x; ls x") == "exit code 0\nx\n"
    assert "read-only" in await reader.write_file("src/a.py", "x")
    record = await workshop.inspect_and_freeze(run, scope(), key=key(), parent=base)
    assert (record.changed_files, record.refused) == ((), ())


async def test_running_a_suite(tools: WorkspaceTools) -> None:
    """A suite runs on the workspace as it stands; an unknown one is named with those that exist."""
    assert await tools.run_suite("unit") == "Suite unit: exit code 0\nfine\n"
    await tools.delete_file("src/a.py")
    assert (await tools.run_suite("unit")).startswith("Suite unit: exit code 1")
    assert await tools.run_suite("nope") == "Error: There is no suite 'nope'; known: unit."


async def test_the_map_fits_into_its_limit(workshop: Workshop, origin: Origin) -> None:
    """A large tree is shown by its folders with counts, within the limit."""
    files: dict[str | bytes, bytes | None] = {
        f"src/part{number % 7}/sub/{number}.py": b"" for number in range(200)
    }
    base = origin.commit({**files, "README.md": b"x\n"})
    run = make_pin(origin, base)
    shown = (await workshop.repository_map(run, limit=50)).splitlines()
    assert "README.md" in shown
    assert "src/part0/sub/ (29 files)" in shown
    assert len(shown) == 8
    assert len((await workshop.repository_map(run, limit=400)).splitlines()) == 201
    assert await workshop.read_base_file(run, "README.md", limit=1) == b"x"
    assert await workshop.read_base_file(run, "nope", limit=1) is None
