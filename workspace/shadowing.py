"""New modules of a candidate that Python would import instead of others.

In: the trees of base and candidate, and the folders in which suites work. Out: the candidate's
files that hide the standard library, the runner, or a dependency. Why: `argparse.py` beside the
tests, or a link `pluggy` to a folder of the product's, runs within the runner before any test.
"""

import sys
from collections.abc import Collection, Mapping
from typing import Final

from workspace.tests_by_name import TEST_FOLDERS, is_named_as_test
from workspace.tree_entries import TreeEntry

#: Modules that are never a product's own: loaded by the interpreter, or the runner itself.
RUNNER_MODULES: Final = (
    *("sitecustomize", "usercustomize", "pytest", "_pytest", "pluggy", "iniconfig", "xmlrunner"),
)
MODULE_SUFFIXES: Final = (".py", ".pyc", ".so", ".pyd")
#: What runners import besides, wherever they are installed.
_RUNNER_PACKAGES: Final = (
    *("packaging", "pygments", "exceptiongroup", "tomli", "colorama", "py", "coverage"),
    *("pytest_cov", "xdist", "execnet", "nose2"),
)
#: Names in the standard library that projects do use for themselves, and that nobody imports.
_HARMLESS: Final = frozenset({"test", "this", "antigravity", "idlelib", "turtledemo", "turtle"})
#: Files that make their folder a project of its own, whose commands are started there.
_PROJECT_FILES: Final = frozenset(
    {"pyproject.toml", "setup.py", "setup.cfg", "tox.ini", "pytest.ini", "manage.py"}
)


def shadowing_paths(
    base: Mapping[str, TreeEntry],
    candidate: Mapping[str, TreeEntry],
    *,
    importable: Collection[str] = (),
    folders: Collection[str] = (),
) -> frozenset[str]:
    """Return the candidate's files under top-level module names that are new and already taken.

    Args:
        base: The base commit's entries.
        candidate: The candidate's entries.
        importable: Top-level names of the modules among the sealed dependencies.
        folders: Where the suites' commands work.
    """
    hidden = {*sys.stdlib_module_names, *importable, *RUNNER_MODULES, *_RUNNER_PACKAGES}
    taken = hidden - _HARMLESS
    roots = {*_import_roots(base), *_import_roots(candidate), *folders}
    mine = set(_top_level(base, roots).values())
    return frozenset(
        path
        for path, name in _top_level(candidate, roots).items()
        if name.rsplit("/", 1)[-1] in taken and name not in mine
    )


def _import_roots(entries: Mapping[str, TreeEntry]) -> set[str]:
    """Return the folders that may stand on Python's path.

    The root and folders of sources always; those of tests, those that hold a folder of tests,
    those of projects, and those at the top, unless they are packages.
    """
    found = set()
    for path in entries:
        folder, _, name = path.rpartition("/")
        if (is_named_as_test(path) and path.endswith(".py")) or name == "conftest.py":
            found.add(folder)
        if name in _PROJECT_FILES:
            found |= {folder, f"{folder}/src".removeprefix("/")}
        parts = path.split("/")
        found |= set(parts[:-1][:1])
        found |= {
            "/".join(parts[:depth]) for depth, part in enumerate(parts[:-1]) if part in TEST_FOLDERS
        }
    return {"", "src", "lib", "python"} | (found - _packages(entries))


def _packages(entries: Mapping[str, TreeEntry]) -> set[str]:
    return {
        path.rpartition("/")[0]
        for path in entries
        if path.rsplit("/", 1)[-1].split(".", 1)[0] == "__init__"
    }


def _top_level(entries: Mapping[str, TreeEntry], roots: Collection[str]) -> dict[str, str]:
    """Return path → root and top-level module name, for every file importable from a root.

    A link or submodule counts whatever its ending: it may stand for a package.
    """
    packages = _packages(entries)
    found = {}
    for path, entry in entries.items():
        parts = path.split("/")
        for depth, part in enumerate(parts):
            if "/".join(parts[:depth]) not in roots:
                continue
            is_last = depth == len(parts) - 1
            is_module = is_last and (path.endswith(MODULE_SUFFIXES) or not entry.is_file)
            if is_module or "/".join(parts[: depth + 1]) in packages:
                found[path] = "/".join([*parts[:depth], part.split(".", 1)[0]])
    return found
