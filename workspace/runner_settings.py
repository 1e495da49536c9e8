"""What the base's own runner settings name: tests by other names, plug-ins, and set-up files.

In: the base's tree. Out: `RunnerSettings`. Why: a file called `checks/check_sums.py` is a test only
because `python_files` says so, and `support/plugin.py` runs inside the runner only because
`pytest_plugins`, `setupFiles` or an import of jest.config.js names it. Settings are read as text
and never executed; what they compute is not seen.
"""

import ast
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from workspace.contracts import RepositoryId
from workspace.manifests import MANIFESTS
from workspace.tree_entries import TreeEntry, TreeStore

_PYTEST_FILES: Final = frozenset(
    {"pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg"}
    | {"pyproject.toml"}
)
_SCRIPT: Final = r"\.[cm]?[jt]s"
_NODE_FILES: Final = re.compile(
    rf"(jest|vitest|vite|karma|playwright|cypress|wdio|ava)\.(config|conf|workspace|preset){_SCRIPT}"
    r"|jest\.config\.json|\.mocharc.*|package\.json"
)
_ENDINGS: Final = ("", *(f".{a}{b}s{c}" for a in ("", "c", "m") for b in "jt" for c in ("", "x")))
_INDEXES: Final = ("/index.js", "/index.ts", "/index.mjs", "/index.cjs")
_NODE_KEY: Final = re.compile(
    r"\b(?:setupFiles|setupFilesAfterEnv|globalSetup|globalTeardown|testEnvironment|environment"
    r"|testRunner|runner|reporters|testResultsProcessor|testSequencer|resolver|snapshotSerializers"
    r"|preset|require|file|supportFile)[\"']?\s*:\s*(\[[^\]]*\]|[\"'][^\"']*[\"'])"
)
_NODE_IMPORT: Final = re.compile(
    r"(?:\brequire\s*\(|\bfrom\s|\bimport\s*\(?)\s*([\"'])(\.[^\"'\n]*)\1"
)
_QUOTED: Final = re.compile(r"[\"']([^\"'\n]+)[\"']")
#: A setting of an INI or TOML file, with the lines that go on with it.
_SETTING: Final = r"^[ \t]*{name}[ \t]*=(.*(?:\n(?![ \t]*[\w.-]+[ \t]*=|[ \t]*\[\w).*)*)"
_PYTHON_FILES: Final = re.compile(_SETTING.format(name="python_files"), re.MULTILINE)
_ADDOPTS: Final = re.compile(_SETTING.format(name="addopts"), re.MULTILINE)
_PATTERN: Final = re.compile(r"[\w*?\[\]!.-]+\.py")
_PLUGIN: Final = re.compile(r"(?:^|[\s\"'])-p[\s=\"',]*(?!no:)([A-Za-z_][\w.]*)")
#: So wide that it names the product too.
_EVERYTHING: Final = frozenset({"*.py", "**.py", "?*.py"})
_LARGEST: Final = 500_000


@dataclass(frozen=True, slots=True)
class RunnerSettings:
    """What settings name."""

    test_patterns: tuple[str, ...] = ()
    """Globs over file names, beside those that tests usually have."""
    loaded: frozenset[str] = frozenset()
    """Paths of the base that run inside the runner, or decide how it runs."""

    def names_test(self, path: str) -> bool:
        """Whether a file is a test because the settings say so."""
        name = posixpath.basename(path)
        return any(fnmatchcase(name, pattern) for pattern in self.test_patterns)


async def load_runner_settings(
    trees: TreeStore, repository: RepositoryId, base: Mapping[str, TreeEntry]
) -> RunnerSettings:
    """Read the settings of a base commit."""
    patterns: dict[str, None] = {}
    loaded: set[str] = set()
    for path, entry in base.items():
        folder, name = posixpath.split(path)
        is_node = _NODE_FILES.fullmatch(name) is not None
        if not entry.is_file or not (is_node or name in _PYTEST_FILES or name == "conftest.py"):
            continue
        content = await trees.read_blob(repository, entry.object_id)
        text = content[:_LARGEST].decode("utf-8", "replace")
        if is_node:
            loaded |= set(_node_files(text, folder, base))
        elif name == "conftest.py":
            loaded |= set(_modules(_named_plugins(text), folder, base))
        else:
            patterns |= dict.fromkeys(_test_patterns(text))
            loaded |= set(_modules(_requested_plugins(text), folder, base))
    named = {path for path in loaded if posixpath.basename(path) not in MANIFESTS}
    return RunnerSettings(tuple(patterns), frozenset(named))


def _test_patterns(text: str) -> Iterator[str]:
    for setting in _PYTHON_FILES.finditer(text):
        for pattern in _PATTERN.findall(setting.group(1)):
            if pattern not in _EVERYTHING:
                yield pattern


def _requested_plugins(text: str) -> Iterator[str]:
    for setting in _ADDOPTS.finditer(text):
        yield from _PLUGIN.findall(setting.group(1))


def _named_plugins(text: str) -> Iterator[str]:
    """Yield the modules of `pytest_plugins`, as far as they stand there in words."""
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for statement in module.body:
        if isinstance(statement, ast.Assign):
            names, value = statement.targets, statement.value
        elif isinstance(statement, ast.AnnAssign | ast.AugAssign) and statement.value:
            names, value = [statement.target], statement.value
        else:
            continue
        if any(isinstance(name, ast.Name) and name.id == "pytest_plugins" for name in names):
            for node in ast.walk(value):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield from node.value.split(",")


def _modules(names: Iterable[str], folder: str, base: Mapping[str, TreeEntry]) -> Iterator[str]:
    """Yield the base's files that a module's name can mean, seen from the usual roots."""
    for name in names:
        stem = name.strip().replace(".", "/")
        for root in ("", "src", folder):
            for ending in (".py", "/__init__.py"):
                path = posixpath.join(root, stem + ending)
                if path in base:
                    yield path


def _node_files(text: str, folder: str, base: Mapping[str, TreeEntry]) -> Iterator[str]:
    named = [word for value in _NODE_KEY.findall(text) for word in _QUOTED.findall(value)]
    for word in (*named, *(match[1] for match in _NODE_IMPORT.findall(text))):
        place = posixpath.normpath(posixpath.join(folder, word.removeprefix("<rootDir>/")))
        for ending in (*_ENDINGS, *_INDEXES):
            if place + ending in base:
                yield place + ending
