"""Which files of a repository are tests, told by their names.

In: a path. Out: whether it is a test, or supports tests. Why: tests say what a candidate must do,
so those it changes are judged in both versions, and a canary can be planted in them.
"""

import re
from typing import Final

_TEST_NAME: Final = re.compile(
    r"^(test_.*\.py|.*_test\.py|tests?\.py|.*[._-](test|spec)\.[cm]?[jt]sx?|.*_test\.go"
    r"|(test_.*|.*_(test|spec))\.rb|.*(Test|Tests|Spec|IT)\.(java|kt|scala|cs|php)|.*_test\.exs)$"
)
#: Folders of tests, with their fixtures and snapshots.
TEST_FOLDERS: Final = frozenset(
    {"test", "tests", "testing", "spec", "specs", "__tests__", "__snapshots__", "__mocks__"}
    | {"testdata", "fixtures", "__fixtures__", "golden", "goldens", "e2e", "cypress"}
)
_TEST_FOLDER: Final = re.compile(r".+[_-]tests?")


def is_test_file(path: str) -> bool:
    """Whether a path is a test by its name, or lies in a folder of tests (fixtures, snapshots)."""
    folders = path.split("/")[:-1]
    return is_named_as_test(path) or any(
        folder in TEST_FOLDERS or _TEST_FOLDER.fullmatch(folder) for folder in folders
    )


def is_named_as_test(path: str) -> bool:
    """Whether a path is a test by its own name."""
    return _TEST_NAME.match(path.rsplit("/", 1)[-1]) is not None
