"""Tests that must fail, planted where a suite's own tests are.

In: a tree and the test files in it. Out: the same tree with two failing tests of a random name
appended to each test file, and in which of them a JUnit report shows both as failed. Why: code that
patches the reporter so that failures count as passes makes the first pass, too, which raises by
itself; code that patches assertions so that nothing fails them makes the second. They run apart
from the run that is judged; their names and outcomes enter no digest.

Where a suite takes the canary up is learned on the base commit: a file in which it was seen to
fail there must show it again on the candidate.
"""

import re
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple

from workspace.contracts import RepositoryId, TestOutcome
from workspace.tests_by_name import is_named_as_test
from workspace.tree_entries import Entries, TreeEntry, TreeStore

#: How many files get a canary; the first by name.
MAX_FILES: Final = 200
_MAX_BYTES: Final = 1_000_000
_JAVASCRIPT: Final = re.compile(r"\.[cm]?[jt]sx?$")
_JAVASCRIPT_TEST: Final = re.compile(r"(?<![\w.])(test|it)(?:\.\w+)*\s*\(")
_MAIN_GUARD: Final = re.compile(r"^if\s+__name__\s*==", re.MULTILINE)
_FAILED: Final = ("failed", "error")
_BY_ASSERTION: Final = "_by_assertion"


#: By the assertions a file has at hand: those of jest and vitest, of chai, of Node.
_ASSERTION: Final = (
    'if (typeof expect === "function") {'
    " const one = expect(1); one.toBe ? one.toBe(2) : one.to.equal(2);"
    ' } else if (typeof assert !== "undefined" && assert.equal) { assert.equal(1, 2);'
    ' } else { throw new Error("this test must fail"); }'
)


class Canary(NamedTuple):
    """One planting: a random word, and the files by their number."""

    token: str
    files: tuple[str, ...]

    def seen_failing(self, outcomes: Iterable[TestOutcome]) -> frozenset[str]:
        """Return the files both of whose canaries a report shows as failed."""
        pattern = re.compile(rf"{self.token}_(\d+)({_BY_ASSERTION})?")
        seen = {
            (int(match.group(1)), match.group(2))
            for test in outcomes
            if test.outcome in _FAILED
            for match in pattern.finditer(test.name)
        }
        return frozenset(
            path
            for number, path in enumerate(self.files)
            if {(number, None), (number, _BY_ASSERTION)} <= seen
        )


async def plant_canary(
    trees: TreeStore,
    repository: RepositoryId,
    entries: Mapping[str, TreeEntry],
    only: Collection[str] | None = None,
    is_test: Callable[[str], bool] = lambda _: False,
) -> tuple[Entries, Canary]:
    """Return the tree with canaries, in `only` those files or in every test file it knows.

    `is_test` knows more files as tests than their usual names tell.

    Test files in Python and in JavaScript or TypeScript can take one; a tree without any comes back
    as it was, with a canary of no files.
    """
    token = "canary_" + secrets.token_hex(8)
    planted: Entries = dict(entries)
    files: list[str] = []
    for path in sorted(_test_files(entries, is_test) if only is None else only):
        entry = entries.get(path)
        if entry is None or not entry.is_file or len(files) == MAX_FILES:
            continue
        content = await trees.read_blob(repository, entry.object_id)
        with_canary = _append(path, content, f"{token}_{len(files)}")
        if with_canary is not None:
            planted[path] = TreeEntry(entry.mode, await trees.write_blob(repository, with_canary))
            files.append(path)
    return planted, Canary(token, tuple(files))


def _test_files(entries: Mapping[str, TreeEntry], is_test: Callable[[str], bool]) -> Iterable[str]:
    return (
        path
        for path in entries
        if is_named_as_test(path) or "/__tests__/" in f"/{path}" or is_test(path)
    )


def _append(path: str, content: bytes, name: str) -> bytes | None:
    if len(content) > _MAX_BYTES:
        return None
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    if path.endswith(".py"):
        return _python(text, name).encode()
    if _JAVASCRIPT.search(path):
        return _javascript(text, name)
    return None


def _python(text: str, name: str) -> str:
    """Append a `unittest.TestCase`, which pytest and unittest both collect."""
    test = (
        f"\n\nimport unittest as _unittest_{name}\n\n\n"
        f"class Test_{name}(_unittest_{name}.TestCase):\n"
        f"    def test_{name}(self):\n"
        f"        raise AssertionError('this test must fail')\n\n"
        f"    def test_{name}{_BY_ASSERTION}(self):\n"
        f"        self.assertEqual(1, 2)\n"
    )
    guard = _MAIN_GUARD.search(text)
    if guard is None:
        return text.rstrip("\\\n") + test
    return text[: guard.start()] + test.lstrip("\n") + "\n\n" + text[guard.start() :]


def _javascript(text: str, name: str) -> bytes | None:
    """Append calls of the same function by which the file's own tests are declared."""
    found = _JAVASCRIPT_TEST.search(text)
    if found is None:
        return None
    declare = found.group(1)
    thrown = f'{declare}("{name}", () => {{ throw new Error("this test must fail"); }});'
    asserted = f'{declare}("{name}{_BY_ASSERTION}", () => {{ {_ASSERTION} }});'
    return f"{text}\n;{thrown}\n;{asserted}\n".encode()
