"""Scripts of the repository that decide how a suite runs, read out of the suite's command.

In: the commands of policy's suites, and the base's tree. Out: the folders in which a command works,
and the files it starts: those it names, those its task runner reads, and, two levels deep, those
the text of such a file mentions. A rough reading of shell, never executed: paths are tried below
every folder the command enters, and a variable at a path's beginning stands for any of them.
"""

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from workspace.contracts import RepositoryId
from workspace.environment import command_words
from workspace.tests_by_name import TEST_FOLDERS, is_named_as_test
from workspace.tree_entries import TreeEntry, TreeStore

#: Programs, and the files each takes its tasks from, in the folder where it is started.
_TASK_FILES: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("invoke", "inv"), ("tasks.py", "tasks/__init__.py")),
    **dict.fromkeys(("npm", "npx", "yarn", "pnpm", "bun", "node"), ("package.json",)),
    **dict.fromkeys(("make", "gmake"), ("GNUmakefile", "makefile", "Makefile")),
    "doit": ("dodo.py",),
    "fab": ("fabfile.py",),
    "just": ("justfile", ".justfile"),
    "tox": ("tox.ini",),
    "nox": ("noxfile.py",),
}
_SCRIPT_SUFFIXES: Final = (".sh", ".bash", ".zsh", ".ps1", ".mk")
_SCRIPT_FOLDERS: Final = frozenset({"scripts", "script", "tools", "ci", ".ci", "bin", "hack"})
_SCRIPT_NAME: Final = re.compile(
    r"(^|[_.-])(run|tests?|checks?|lint|ci|junit|suite|manage)([_.-]|$)"
)
_ENTERS: Final = frozenset({"cd", "pushd", "-C", "--rootdir", "--directory", "--prefix", "--cwd"})
_PATH_VARIABLE: Final = "PYTHONPATH"
_PYTHON_MODULE: Final = re.compile(r"^-[bBdEhiIOPqRsSuvVx]*m(.*)$")
#: `$PWD/`, `${PWD}/`, `$(pwd)/` and the like, and the root of what the sandbox shows.
_ANY_FOLDER: Final = re.compile(r"^(\$\{[^}]*\}|\$\w+|\$?\([^)]*\)|`[^`]*`)?/+(ws/)?")
_MENTION: Final = re.compile(r"(?:\$\{\w+\}|[\w./$~@+-])+")
_LEVELS: Final = 2
_LARGEST_SCRIPT: Final = 200_000


def command_folders(command: str) -> tuple[str, ...]:
    """Return the folders a command works in or puts on Python's path; the root, `""`, first."""
    folders = dict.fromkeys([""])
    here = ""
    for flag, value in _options(command):
        if flag in _ENTERS:
            here, before = _joined(here, value) or "", here
            folders |= dict.fromkeys(filter(None, (_joined("", value), here, before)))
        elif flag == _PATH_VARIABLE:
            for folder in value.split(":"):
                folders |= dict.fromkeys(filter(None, (_joined(here, folder), _joined("", folder))))
    return tuple(folders)


def scripts_named_by(command: str, base: Mapping[str, TreeEntry]) -> frozenset[str]:
    """Return the repository's own scripts that a suite's command starts.

    A file counts when it is a shell script, lies in a folder for scripts, or has a runner's name;
    a product's own entry point (`python app.py --self-test`) is what the suite judges, not how.
    Of a module (`-m ci.run`), every path counts under which Python could find it, there or not.
    """
    folders, words = command_folders(command), _words(command)
    named = {
        path
        for word in words
        for path in _below(folders, word.partition("=")[2] or word)
        if path in base and _is_script(path)
    }
    for module in _modules(words):
        for folder in (*folders, *(_joined(folder, "src") or "" for folder in folders)):
            places = _module_places(folder, module)
            if any(path in base and _is_script(path) for path in places):
                named |= places
    return frozenset(named | _task_files(words, folders, base))


async def scripts_behind(
    trees: TreeStore, repository: RepositoryId, base: Mapping[str, TreeEntry], command: str
) -> frozenset[str]:
    """Return the scripts a command names, and those that their text and its task files mention."""
    folders = command_folders(command)
    found = set(scripts_named_by(command, base))
    unread = found | _read_by_programs(_words(command), folders, base)
    for _ in range(_LEVELS):
        mentioned: set[str] = set()
        for path in sorted(path for path in unread if path in base and base[path].is_blob):
            content = await trees.read_blob(repository, base[path].object_id)
            folder, ending = posixpath.dirname(path), posixpath.splitext(path)[1]
            mentioned |= _mentions(content, ending, (*folders, folder), base)
        unread = mentioned - found
        found |= mentioned
    return frozenset(found)


def _mentions(
    content: bytes, ending: str, folders: Collection[str], base: Mapping[str, TreeEntry]
) -> set[str]:
    """Return the scripts a text mentions; with or without the ending, as imports do."""
    text = content[:_LARGEST_SCRIPT].decode("utf-8", "replace")
    return {
        path
        for word in set(_MENTION.findall(text))
        for path in _below(folders, word, endings=("", ending))
        if path in base and _is_helper(path)
    }


def _task_files(
    words: Iterable[str], folders: Iterable[str], base: Mapping[str, TreeEntry]
) -> set[str]:
    """Return the task files that are whole files of the runner's, as far as the base has them."""
    return {path for path in _read_by_programs(words, folders, base) if path.endswith(".py")}


def _read_by_programs(
    words: Iterable[str], folders: Iterable[str], base: Mapping[str, TreeEntry]
) -> set[str]:
    return {
        path
        for word in words
        for name in _TASK_FILES.get(posixpath.basename(word), ())
        for path in _below(folders, name)
        if path in base
    }


def _words(command: str) -> list[str]:
    """Return a command's words, and those of commands that stand quoted in it."""
    words = []
    for word in command_words(command):
        words.append(word)
        if word != command and any(character.isspace() for character in word):
            words += _words(word)
    return words


def _options(command: str) -> Iterator[tuple[str, str]]:
    """Yield each word with the one that follows it, and the two sides of each `name=value`."""
    words = _words(command)
    for word, following in zip(words, [*words[1:], ""], strict=True):
        name, is_assignment, value = word.partition("=")
        yield (name, value) if is_assignment else (word, following)


def _modules(words: Sequence[str]) -> Iterator[str]:
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if match := _PYTHON_MODULE.match(word):
            yield match.group(1) or following


def _module_places(folder: str, module: str) -> set[str]:
    """Return every path under which Python could find a module or a package that holds it."""
    parts = module.split(".")
    places = set()
    for length in range(1, len(parts) + 1):
        stem = _joined(folder, "/".join(parts[:length]))
        if stem:
            places |= {stem, f"{stem}.py", f"{stem}/__init__.py", f"{stem}/__main__.py"}
    return places


def _below(folders: Iterable[str], word: str, endings: Iterable[str] = ("",)) -> set[str]:
    """Return the paths a word can mean in each of the folders."""
    return {
        path + ending for folder in folders if (path := _joined(folder, word)) for ending in endings
    }


def _joined(folder: str, word: str) -> str | None:
    """Return a normalised path inside the repository, None for its root and what lies outside."""
    path = posixpath.normpath(posixpath.join(folder, _ANY_FOLDER.sub("", word)))
    return None if path in {".", ".."} or path.startswith(("../", "/")) else path


def _is_script(path: str) -> bool:
    return not is_named_as_test(path) and (
        _is_helper(path)
        or not TEST_FOLDERS.isdisjoint(path.split("/")[:-1])
        or _SCRIPT_NAME.search(posixpath.basename(path)) is not None
    )


def _is_helper(path: str) -> bool:
    """Whether a path is a script by its ending or its folder."""
    return not is_named_as_test(path) and (
        path.endswith(_SCRIPT_SUFFIXES) or not _SCRIPT_FOLDERS.isdisjoint(path.split("/")[:-1])
    )
