"""Which files decide how a suite runs, and how they are taken from the base commit.

In: the trees of base and candidate, and what policy allows. Out: the tree a suite is judged on, and
the paths in which it differs from the candidate. Why: a planted `conftest.py`, `sitecustomize.py`,
`pytest.py`, `pytest.ini` or stale `.pyc` each turns a failing suite into exit 0. What a candidate
changes or adds of these is not used for the judged run; only `writes.allow` in policy lifts that.

Six kinds:

- whole files, at any depth (`is_runner_configuration`): settings of test runners, linters and build
  tools, files that interpreters load by themselves, compiled files, vendored packages;
- files of the product that a run loads too, such as tsconfig.json (`is_loaded_by_runners`);
- sections of manifests that also describe the product (`restore_sections`): `[tool.pytest…]` of
  pyproject.toml, `scripts` and `jest` of package.json, `[tool:pytest]` of setup.cfg. The other
  sections stay the candidate's, so that it may add a dependency or an entry point;
- new modules that would be imported instead of the standard library's or a dependency's
  (`shadowing`);
- scripts that the suite's own command names, such as `scripts/test.sh`, and those behind them
  (`suite_scripts`);
- plug-ins and set-up files that the base's runner settings name (`runner_settings`).
"""

import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

from workspace.contracts import RepositoryId
from workspace.globs import parse_glob
from workspace.manifests import MANIFESTS, UnreadableManifest, restore_sections
from workspace.runner_settings import RunnerSettings
from workspace.shadowing import MODULE_SUFFIXES, RUNNER_MODULES, shadowing_paths
from workspace.suite_scripts import command_folders, scripts_behind
from workspace.tests_by_name import is_test_file
from workspace.tree_entries import Entries, TreeEntry, TreeStore, changed_paths, with_entry

#: Globs over the last component of a path, lower case.
RUNNER_FILES: Final = (
    # Python: pytest, unittest, nose2, tox, nox, coverage, and what the interpreter loads by itself
    *("conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini"),
    *("tox.toml", "noxfile.py", "hatch.toml", ".coveragerc", ".coveragerc.toml", "nose2.cfg"),
    *("unittest.cfg", "*.pth", "*.pyc", "*.pyo"),
    # JavaScript: jest, vitest, mocha, ava, tap, karma, transforms, package managers
    *("jest.config.*", "jest-preset.*", "jest.setup.*", "setuptests.*", "vitest.config.*"),
    *("vitest.workspace.*", "vitest.setup.*", "vite.config.*", ".mocharc*", ".nycrc*", ".c8rc*"),
    *("ava.config.*", ".taprc", "karma.conf.*", "playwright.config.*", "cypress.config.*"),
    *("wdio.conf.*", "turbo.json", ".stylelintrc*", "stylelint.config.*", ".oxlintrc.json"),
    *("babel.config.*", ".babelrc*", ".swcrc", ".npmrc", ".yarnrc", ".yarnrc.yml", "bunfig.toml"),
    *(".pnpmfile.cjs", ".pnp.cjs", ".pnp.loader.mjs", "node_modules"),
    # linters and type checkers: they are suites too
    *("ruff.toml", ".ruff.toml", ".flake8", "mypy.ini", ".mypy.ini", ".pylintrc", "pylintrc"),
    *("pyrightconfig.json", ".eslintrc*", "eslint.config.*", ".eslintignore", ".prettierrc*"),
    *("biome.json", "biome.jsonc", ".golangci.*", "clippy.toml", ".clippy.toml", "rustfmt.toml"),
    # build tools and others
    *("makefile", "gnumakefile", "*.mk", "justfile", ".justfile", "taskfile.y*ml", "rakefile"),
    *(".rspec", "phpunit.xml", "phpunit.xml.dist", "phpunit.dist.xml", "gradlew", "mvnw"),
    *("gradle-wrapper.*", ".bazelrc", ".rubocop.yml", "ty.toml"),
)
#: Files of the product that a suite's run loads as code or settings too. A worker may claim and
#: change them; suites run with the base's, which the evidence says.
LOADED_FILES: Final = (
    *("postcss.config.*", ".postcssrc*", "tailwind.config.*", "svelte.config.*", "nuxt.config.*"),
    *("next.config.*", "astro.config.*", "webpack.config.*", "rollup.config.*", "tsup.config.*"),
    *("metro.config.*", "tsconfig*.json", "jsconfig.json", "deno.json*", ".env", ".env.*"),
    *(".browserslistrc", "pnpm-workspace.yaml"),
    *(".python-version", ".node-version", ".nvmrc", ".tool-versions", "mise.toml", ".mise.toml"),
)
#: Folders whose whole content is runner configuration, wherever they stand.
RUNNER_FOLDERS: Final = (
    *("node_modules", "__pycache__", ".mvn", ".cargo", ".yarn"),
    *("*.egg-info", "*.dist-info"),  # their entry points load plug-ins into pytest
)
#: A base without settings of its own.
NO_SETTINGS: Final = RunnerSettings()


def is_runner_configuration(path: str) -> bool:
    """Whether the whole file decides how suites run; what a worker may not claim or change.

    Manifests such as pyproject.toml are not: only some of their sections are (`manifests`).
    """
    parts = _folded(path).split("/")
    name = parts[-1]
    return (
        any(fnmatchcase(part, folder) for part in parts for folder in RUNNER_FOLDERS)
        or any(fnmatchcase(name, pattern) for pattern in RUNNER_FILES)
        or _module_name(parts) in RUNNER_MODULES
    )


def is_loaded_by_runners(path: str) -> bool:
    """Whether suites run with the base's version of this file, though a worker may change it."""
    name = _folded(path).rpartition("/")[2]
    return any(fnmatchcase(name, pattern) for pattern in LOADED_FILES)


def is_allowed(path: str, allow: Sequence[str]) -> bool:
    """Whether a glob of policy's `writes.allow` lifts the rule for this path."""
    return any(parse_glob(text).matches(path) for text in allow)


async def judged_entries(
    trees: TreeStore,
    repository: RepositoryId,
    base: Mapping[str, TreeEntry],
    candidate: Mapping[str, TreeEntry],
    *,
    allow: Sequence[str] = (),
    commands: Iterable[str] = (),
    importable: Collection[str] = (),
    settings: RunnerSettings = NO_SETTINGS,
) -> tuple[Entries, tuple[str, ...]]:
    """Return the entries to judge, and the paths in which they are the base's instead.

    Args:
        trees: The repository's objects.
        repository: Whose objects they are.
        base: The base commit's entries.
        candidate: The candidate's entries.
        allow: Globs from policy under which the candidate's version is used.
        commands: The suites' commands; scripts they name come from the base.
        importable: Top-level names of the modules among the sealed dependencies.
        settings: What the base's runner settings name.
    """
    judged = dict(candidate)
    named = {path for path in settings.loaded if not is_test_file(path)}
    folders: set[str] = set()
    for command in commands:
        named |= await scripts_behind(trees, repository, base, command)
        folders |= set(command_folders(command))
    folders |= {path.rpartition("/")[0] for path in named}
    shadows = shadowing_paths(base, candidate, importable=importable, folders=folders)
    restored = []
    for path in changed_paths(base, candidate):
        if is_allowed(path, allow):
            continue
        configures = is_runner_configuration(path) or is_loaded_by_runners(path)
        if configures or path in named or path in shadows:
            with_entry(judged, path, base.get(path))
            restored.append(path)
        elif path.rsplit("/", 1)[-1] in MANIFESTS:
            entry = await _manifest_entry(trees, repository, path, base, candidate)
            if entry != candidate.get(path):
                with_entry(judged, path, entry)
                restored.append(path)
    return judged, tuple(restored)


def base_tests_entries(
    base: Mapping[str, TreeEntry],
    judged: Mapping[str, TreeEntry],
    settings: RunnerSettings = NO_SETTINGS,
) -> tuple[Entries, tuple[str, ...]]:
    """Return the judged entries with the base's tests, and what of the candidate that replaces.

    New tests count like changed ones: they run in the process of the others, and can make those
    pass. The second value is empty, and nothing has to run twice, when the tests are the base's.
    """
    changed = tuple(
        path
        for path in changed_paths(base, judged)
        if is_test_file(path) or settings.names_test(path)
    )
    with_base_tests = dict(judged)
    for path in changed:
        with_entry(with_base_tests, path, base.get(path))
    return with_base_tests, changed


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", path).casefold()


def _module_name(parts: Sequence[str]) -> str | None:
    """Return the name under which Python could import a file, seen from its own folder."""
    name = parts[-1]
    if not name.endswith(MODULE_SUFFIXES):
        return None
    stem = name.split(".", 1)[0]
    if stem == "__init__":
        return parts[-2] if len(parts) > 1 else None
    return stem


async def _manifest_entry(
    trees: TreeStore,
    repository: RepositoryId,
    path: str,
    base: Mapping[str, TreeEntry],
    candidate: Mapping[str, TreeEntry],
) -> TreeEntry | None:
    """Return a manifest's entry with the runner's sections of the base.

    The base's entry as a whole, or none, where one is a link or submodule or cannot be read.
    """
    old, new = base.get(path), candidate.get(path)
    if not all(entry.is_file for entry in (old, new) if entry):
        return old
    before = await trees.read_blob(repository, old.object_id) if old else b""
    after = await trees.read_blob(repository, new.object_id) if new else b""
    try:
        content = restore_sections(path.rsplit("/", 1)[-1], before, after)
    except UnreadableManifest:
        return old
    if content == after:
        return new
    return TreeEntry("100644", await trees.write_blob(repository, content))
