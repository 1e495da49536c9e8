"""The hands of agents: reading one tree, or working in one workspace.

In: paths, texts and commands that a model chose. Out: text, always: an error is a sentence the
model can act on, never an exception. Why: models see repositories only through these few verbs, so
what they can reach and change is decided here: nothing outside the tree, no write outside the
scope, no link followed. `answers` decides how much is shown, and how.
"""

import hashlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from workspace import answers
from workspace.contracts import Scope, Suite
from workspace.errors import WorkspaceError, WorkspaceGone
from workspace.files import FileRefused, Folder, parse_path, shown
from workspace.git import Git, Place
from workspace.globs import Glob, GlobError, parse_glob
from workspace.paths import decode_path, show_text
from workspace.pool import Workspace
from workspace.sandbox.backend import Outcome, SandboxError
from workspace.scope import Denials, inside, outside_reason
from workspace.trees import Entry, Trees

MOST_FILE_BYTES = 4 * 1024 * 1024
MOST_COMMAND_SECONDS = 900
_NOT_LISTED = frozenset({b".git", b"node_modules", b"__pycache__", b".venv", b".tox"})

Answer = Callable[[], Awaitable[str]]
T = TypeVar("T")


class Runner(Protocol):
    """What a worker may run, always in the sandbox and in its own workspace."""

    async def command(self, command: str, timeout_seconds: int) -> Outcome:
        """Run a shell command."""
        ...

    async def suite(self, suite: Suite) -> str:
        """Run a suite and say how it ended."""
        ...

    async def strays(self) -> Sequence[bytes]:
        """Return what lies outside the scope and would refuse the work at its end."""
        ...

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Do short work on the workspace's files."""
        ...


class TreeTools:
    """`ReadTools` over a commit, read from Git's objects: there is no folder to escape from."""

    def __init__(self, git: Git, trees: Trees, place: Place, commit: str) -> None:
        """Read `commit` in the mirror at `place`."""
        self._git = git
        self._trees = trees
        self._place = place
        self._commit = commit
        self._entries: dict[bytes, Entry] | None = None

    async def read_file(self, path: str, start_line: int = 1, line_count: int = 400) -> str:
        """Read lines of one file.

        Args:
            path: The file, relative to the repository's root.
            start_line: The first line to show, counted from 1.
            line_count: How many lines to show.
        """
        return await _answer(lambda: self._read(path, start_line, line_count))

    async def list_files(self, pattern: str = "**") -> str:
        """List the files whose path matches a glob such as `src/**/*.py`.

        Args:
            pattern: `*` and `?` stay within a folder, `**` stands for any folders.
        """
        return await _answer(lambda: self._list(pattern))

    async def search(self, text: str, pattern: str = "**") -> str:
        """Find a literal text in the files whose path matches a glob, with line numbers.

        Args:
            text: What to look for, exactly as it stands in the files.
            pattern: Which files to look in.
        """
        return await _answer(lambda: self._search(text, pattern))

    async def _read(self, path: str, start_line: int, line_count: int) -> str:
        raw = parse_path(path)
        entry = (await self._tree()).get(raw)
        if entry is None:
            raise FileRefused(f"There is no file {shown(raw)}.")
        if not entry.mode.startswith("100"):
            raise FileRefused(f"{shown(raw)} is a link or a submodule, not a file.")
        content = (await self._trees.blobs(self._place, [entry.object]))[entry.object]
        return answers.numbered(content, start_line, line_count)

    async def _list(self, pattern: str) -> str:
        glob = parse_glob(pattern)
        return answers.listing(
            path for path in await self._tree() if glob.matches(decode_path(path))
        )

    async def _search(self, text: str, pattern: str) -> str:
        _require_text(text)
        glob = parse_glob(pattern)
        found = await self._git.run(
            "grep", "-z", "-n", "-I", "-F", "-m", str(answers.MOST_HITS + 1), "--no-color",
            "--no-textconv", "--full-name", "-e", text, self._commit, "--",
            place=self._place, ok=(0, 1),
        )  # fmt: skip
        return answers.hits(_parse_grep(found.stdout, self._commit), glob)

    async def _tree(self) -> dict[bytes, Entry]:
        if self._entries is None:
            entries = await self._trees.entries(self._place, self._commit)
            self._entries = {entry.path: entry for entry in entries}
        return self._entries


@dataclass(frozen=True, slots=True)
class Bench:
    """What the tools of one worker work on."""

    workspace: Workspace
    scope: Scope
    denials: Denials
    suites: Sequence[Suite]
    runner: Runner
    require: Callable[[], None]
    """Raises WorkspaceGone when the workspace is no longer this worker's."""


class WorkerTools:
    """`WorkspaceTools` of one worker."""

    def __init__(self, bench: Bench) -> None:
        """Hold the workspace's folder open, so that a folder put in its place is never touched."""
        self._bench = bench
        self._folder = Folder(bench.workspace.files)
        self.workspace_id = bench.workspace.id
        self.loan = hashlib.sha256(bench.workspace.secret.encode()).hexdigest()[:16]

    async def read_file(self, path: str, start_line: int = 1, line_count: int = 400) -> str:
        """Read lines of one file.

        Args:
            path: The file, relative to the workspace.
            start_line: The first line to show, counted from 1.
            line_count: How many lines to show.
        """
        return await self._in_thread(
            lambda: answers.numbered(self._read(parse_path(path)), start_line, line_count)
        )

    async def list_files(self, pattern: str = "**") -> str:
        """List the files whose path matches a glob such as `src/**/*.py`.

        Args:
            pattern: `*` and `?` stay within a folder, `**` stands for any folders.
        """
        return await self._in_thread(lambda: answers.listing(self._matching(parse_glob(pattern))))

    async def search(self, text: str, pattern: str = "**") -> str:
        """Find a literal text in the files whose path matches a glob, with line numbers.

        Args:
            text: What to look for, exactly as it stands in the files.
            pattern: Which files to look in.
        """
        return await self._in_thread(lambda: self._search(text, pattern))

    async def edit_file(self, path: str, old: str, new: str) -> str:
        """Replace one exact, unique occurrence of a text in a file.

        Args:
            path: The file, relative to the workspace.
            old: The text to replace, exactly as it stands in the file, with enough lines around it
                to be unique.
            new: What to put in its place.
        """
        return await self._in_thread(lambda: self._edit(self._writable(path), old, new))

    async def write_file(self, path: str, content: str) -> str:
        """Create or overwrite a file.

        Args:
            path: The file, relative to the workspace; folders are made as needed.
            content: The whole new content.
        """
        return await self._in_thread(lambda: self._write(self._writable(path), content))

    async def move_file(self, source: str, destination: str) -> str:
        """Move a file; both its old and its new path must be in the scope.

        Args:
            source: Where it is.
            destination: Where it shall be; nothing may be there yet.
        """
        return await self._in_thread(
            lambda: self._move(self._writable(source), self._writable(destination))
        )

    async def delete_file(self, path: str) -> str:
        """Delete a file.

        Args:
            path: The file, relative to the workspace.
        """
        return await self._in_thread(lambda: self._delete(self._writable(path)))

    async def run_command(self, command: str, timeout_seconds: int = 120) -> str:
        """Run a shell command in the workspace, in a sandbox without network.

        Args:
            command: What `sh -c` is given.
            timeout_seconds: After so long it is killed.
        """
        return await _answer(lambda: self._run(command, timeout_seconds))

    async def run_suite(self, suite_id: str) -> str:
        """Run one of the repository's suites on the workspace as it stands.

        Args:
            suite_id: Its name.
        """
        return await _answer(lambda: self._run_suite(suite_id))

    async def _in_thread(self, work: Callable[[], str]) -> str:
        async def run() -> str:
            self._bench.require()
            return await self._bench.runner.in_thread(work)

        return await _answer(run)

    def _writable(self, path: str) -> bytes:
        """The raw name of a path that this worker may write."""
        raw = parse_path(path)
        text = decode_path(raw)
        if reason := self._bench.denials.reason(text):
            raise FileRefused(f"{shown(raw)} may not be written: {reason}.")
        if not inside(self._bench.scope, text):
            raise FileRefused(
                f"{shown(raw)} may not be written: {outside_reason(self._bench.scope)}."
            )
        return raw

    def _read(self, path: bytes) -> bytes:
        return self._folder.read(path, most_bytes=MOST_FILE_BYTES)

    def _matching(self, glob: Glob) -> Iterator[bytes]:
        for found in self._folder.walk(enter=_worth_entering):
            if found.kind in {"file", "link"} and glob.matches(decode_path(found.path)):
                yield found.path

    def _search(self, text: str, pattern: str) -> str:
        _require_text(text)
        return answers.hits(self._lines_with(text.encode(), parse_glob(pattern)), None)

    def _lines_with(self, text: bytes, glob: Glob) -> Iterator[tuple[bytes, int, bytes]]:
        for path in self._matching(glob):
            try:
                content = self._read(path)
            except FileRefused:
                continue
            if text not in content or answers.is_binary(content):
                continue
            for number, line in enumerate(content.split(b"\n"), start=1):
                if text in line:
                    yield path, number, line

    def _edit(self, path: bytes, old: str, new: str) -> str:
        if not old:
            raise FileRefused("`old` is empty: use write_file to create a file.")
        content = self._read(path)
        before, after = _fitted(content, old), _fitted(content, new)
        count = _occurrences(content, before)
        if count != 1:
            raise FileRefused(
                f"`old` stands {count} times in {shown(path)}; it must stand there exactly once. "
                "Read the lines again and give more of what is around it."
            )
        self._folder.write(path, content.replace(before, after))
        return f"Edited {shown(path)}."

    def _write(self, path: bytes, content: str) -> str:
        try:
            old = self._read(path)
        except FileRefused:
            old = b""
        raw = _fitted(old, content)
        if len(raw) > MOST_FILE_BYTES:
            raise FileRefused(f"A file may have at most {MOST_FILE_BYTES} bytes.")
        self._folder.write(path, raw)
        return f"Wrote {shown(path)} ({len(raw)} bytes)."

    def _move(self, source: bytes, destination: bytes) -> str:
        self._folder.move(source, destination)
        return f"Moved {shown(source)} to {shown(destination)}."

    def _delete(self, path: bytes) -> str:
        self._folder.delete(path)
        return f"Deleted {shown(path)}."

    async def _run(self, command: str, timeout_seconds: int) -> str:
        self._bench.require()
        if not command.strip():
            raise FileRefused("The command is empty.")
        seconds = min(max(1, timeout_seconds), MOST_COMMAND_SECONDS)
        outcome = await self._bench.runner.command(command, seconds)
        return answers.ended(outcome) + answers.strays(await self._bench.runner.strays())

    async def _run_suite(self, suite_id: str) -> str:
        self._bench.require()
        for suite in self._bench.suites:
            if suite.id == suite_id:
                return answers.cut(await self._bench.runner.suite(suite))
        known = ", ".join(suite.id for suite in self._bench.suites) or "none"
        raise FileRefused(f"There is no suite {show_text(suite_id)!r}; known: {known}.")


async def _answer(work: Answer) -> str:
    """Turn what is expected to go wrong into a sentence; a lost workspace ends the worker."""
    try:
        return await work()
    except WorkspaceGone:
        raise
    except (FileRefused, GlobError, WorkspaceError, SandboxError) as error:
        return f"Error: {error}"
    except OSError as error:
        return f"Error: {error.strerror}."


def _parse_grep(out: bytes, commit: str) -> Iterator[tuple[bytes, int, bytes]]:
    """Read `git grep -z -n` over a commit: `<commit>:<path> NUL <line> NUL <text> LF`."""
    at = 0
    while at < len(out):
        path_end = out.index(b"\0", at)
        number_end = out.index(b"\0", path_end + 1)
        line_end = out.index(b"\n", number_end + 1)
        path = out[at:path_end].removeprefix(commit.encode() + b":")
        yield path, int(out[path_end + 1 : number_end]), out[number_end + 1 : line_end]
        at = line_end + 1


def _occurrences(content: bytes, text: bytes) -> int:
    """How often a text stands in a content, overlapping itself or not."""
    count, at = 0, content.find(text)
    while at >= 0:
        count, at = count + 1, content.find(text, at + 1)
    return count


def _require_text(text: str) -> None:
    if not text or "\n" in text or "\0" in text:
        raise FileRefused("The text to search for is one line, not empty.")


def _fitted(content: bytes, text: str) -> bytes:
    """A text in the line ends of the file it is for."""
    raw = text.encode("utf-8", "surrogateescape")
    crlf = content.count(b"\r\n")
    if crlf and crlf == content.count(b"\n") and b"\r" not in raw:
        return raw.replace(b"\n", b"\r\n")
    return raw


def _worth_entering(path: bytes) -> bool:
    return path.rsplit(b"/", 1)[-1] not in _NOT_LISTED
