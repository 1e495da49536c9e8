"""Which files are the runner's, and what a candidate is judged on."""

import json
import tomllib
from collections.abc import Mapping
from typing import Any

import pytest

from workspace.manifests import restore_sections
from workspace.runner_configuration import (
    base_tests_entries,
    is_runner_configuration,
    judged_entries,
)
from workspace.runner_settings import load_runner_settings
from workspace.suite_scripts import scripts_named_by
from workspace.tests_by_name import is_test_file
from workspace.tree_entries import Entries, TreeEntry


class Blobs:
    """A store whose object ids are the contents."""

    async def read_blob(self, repository: int, object_id: str) -> bytes:
        return object_id.encode("utf-8", "surrogateescape")

    async def write_blob(self, repository: int, content: bytes) -> str:
        return content.decode()


def entries(**files: str) -> Entries:
    return tree({name.replace("__", "/"): text for name, text in files.items()})


def tree(files: Mapping[str, str]) -> Entries:
    return {path: TreeEntry("100644", text) for path, text in files.items()}


async def judged(
    base: Mapping[str, str], candidate: Mapping[str, str], **options: Any
) -> dict[str, str]:
    composed, _ = await judged_entries(Blobs(), 1, tree(base), tree(candidate), **options)  # type: ignore[arg-type]
    return {path: entry.object_id for path, entry in composed.items()}


@pytest.mark.parametrize(
    "path",
    [
        "conftest.py",
        "a/b/Conftest.py",
        "pytest.ini",
        ".pytest.ini",
        "tox.ini",
        "src/sitecustomize.py",
        "sitecustomize/__init__.py",
        "pytest.py",
        "_pytest/__init__.py",
        "pytest.cpython-311-x86_64-linux-gnu.so",
        "x/evil.pth",
        "pkg/__pycache__/x.cpython-311.pyc",
        "node_modules/jest/index.js",
        "node_modules",
        "jest.config.mjs",
        "vite.config.ts",
        "Makefile",
        "sub/GNUmakefile",
        "evil.dist-info/entry_points.txt",
        ".npmrc",
        "ruff.toml",
        ".mvn/jvm.config",
        ".yarn/releases/yarn-4.cjs",
        "gradle/wrapper/gradle-wrapper.jar",
        "wdio.conf.ts",
    ],
)
def test_runner_configuration_is_known_at_any_depth(path: str) -> None:
    """What decides how suites run is recognised wherever it lies, in any case."""
    assert is_runner_configuration(path)


@pytest.mark.parametrize(
    "path",
    ["src/app.py", "pyproject.toml", "package.json", "src/pytest_helpers.py", "docs/make.md",
     "app/config.py", "tests/test_conftest.py", "tests/data/tox.ini.txt"],
)  # fmt: skip
def test_the_product_is_not_runner_configuration(path: str) -> None:
    """Product files, tests and manifests are the candidate's own."""
    assert not is_runner_configuration(path)


async def test_added_changed_and_deleted_configuration_is_the_bases() -> None:
    """Whatever a candidate does to runner configuration is undone, the product's changes stay."""
    base = {"conftest.py": "old", "tox.ini": "old", "app.py": "old"}
    candidate = {"conftest.py": "new", "pytest.ini": "new", "app.py": "new"}
    assert await judged(base, candidate) == {
        "conftest.py": "old",
        "tox.ini": "old",
        "app.py": "new",
    }


async def test_what_a_run_loads_of_the_product_is_the_bases() -> None:
    """A worker may change a tsconfig.json; suites run with the base's, unless policy lifts that."""
    base = {"web/tsconfig.json": "old", "a.ts": "old"}
    candidate = {"web/tsconfig.json": "new", "web/PostCSS.config.cjs": "new", "a.ts": "new"}
    assert not any(is_runner_configuration(path) for path in candidate)
    assert await judged(base, candidate) == {"web/tsconfig.json": "old", "a.ts": "new"}
    assert await judged(base, candidate, allow=("web/**",)) == candidate


async def test_a_file_in_the_way_of_configuration_gives_way() -> None:
    """A link or file where the base has a folder with configuration does not keep it out."""
    base = {"tests/conftest.py": "old", "app.py": ""}
    candidate = {"tests": "elsewhere", "app.py": ""}
    assert await judged(base, candidate) == base


async def test_new_modules_that_hide_others_are_left_out() -> None:
    """New top-level modules named like the standard library's or a dependency's do not run."""
    base = {"queue.py": "product's own", "app/__init__.py": ""}
    candidate = {
        **base,
        "json.py": "",
        "src/attr/__init__.py": "",
        "app/json.py": "within a package",
        "app/docs/code.py": "nobody imports from here",
        "queue.py": "changed",
    }
    found = await judged(base, candidate, importable=["attr"])
    assert set(found) == {"queue.py", "app/__init__.py", "app/json.py", "app/docs/code.py"}
    assert found["queue.py"] == "changed"


async def test_policy_lifts_what_it_names_and_no_more() -> None:
    """`writes.allow` makes the named configuration the candidate's own."""
    candidate = {"conftest.py": "new", "tests/conftest.py": "new"}
    assert await judged({}, candidate, allow=["tests/*.py"]) == {"tests/conftest.py": "new"}


async def test_names_that_are_not_utf8_are_matched_too() -> None:
    """A folder whose name is no UTF-8 hides no configuration."""
    assert await judged({}, {"\udcff/conftest.py": "new"}) == {}


def test_scripts_a_command_starts_are_the_runners() -> None:
    """Scripts named by the suite count, the product's entry point and its tests do not."""
    files = entries(
        **{"scripts__run.sh": "", "app.py": "", "test_app.py": "", "tests__junit.py": ""}
    )
    command = "./scripts/run.sh && python3 -m tests.junit && python3 app.py test_app.py"
    named = scripts_named_by(command, files)
    assert named & files.keys() == {"scripts/run.sh", "tests/junit.py"}


SUITE_FILES = (
    *("backend/run_tests.sh", "backend/ci/run.py", "scripts/test.sh", "scripts/lib.sh"),
    *("scripts/deep.sh", "run_tests.py", "manage.py", "tasks.py", "app/tasks.py", "app/main.py"),
)


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("cd backend && sh ./run_tests.sh", "backend/run_tests.sh"),
        ("sh -c 'cd backend; ./run_tests.sh'", "backend/run_tests.sh"),
        ("cd backend && python -m ci.run", "backend/ci/run.py"),
        ("make -C backend && (cd backend; . ./run_tests.sh)", "backend/run_tests.sh"),
        ("PYTHONPATH=backend python -m ci.run", "backend/ci/run.py"),
        ("python -mrun_tests", "run_tests.py"),
        ("python -Bm run_tests", "run_tests.py"),
        ("python3 manage.py test", "manage.py"),
        ("sh ./scripts/../scripts/test.sh", "scripts/test.sh"),
        ("bash $PWD/scripts/test.sh", "scripts/test.sh"),
        ('bash "${PWD}/scripts/test.sh"', "scripts/test.sh"),
        ("bash $(pwd)/scripts/test.sh", "scripts/test.sh"),
        ("bash `pwd`/scripts/test.sh", "scripts/test.sh"),
        ("sh scripts/test.sh", "scripts/lib.sh"),
        ("sh scripts/test.sh", "scripts/deep.sh"),
        ("make test", "scripts/test.sh"),
        ("inv test", "tasks.py"),
    ],
)
async def test_scripts_behind_a_command_are_the_bases(command: str, path: str) -> None:
    """However a command reaches a script, the candidate's version of it does not run."""
    base = dict.fromkeys(SUITE_FILES, "old") | {
        "Makefile": "test:\n\tsh scripts/test.sh\n",
        "scripts/test.sh": '. "$(dirname "$0")/lib.sh"; python app/main.py',
        "scripts/lib.sh": "source $HERE/deep.sh",
    }
    changed = base | dict.fromkeys(SUITE_FILES, "new")
    found = await judged(base, changed, commands=[command])
    assert found[path] == base[path]
    assert found["app/main.py"] == found["app/tasks.py"] == "new"


async def test_a_new_package_does_not_stand_in_for_the_suites_module() -> None:
    """Python prefers a package to a module of the same name; a new one is left out."""
    base = {"run_tests.py": "old"}
    candidate = {**base, "run_tests/__init__.py": "", "run_tests/__main__.py": ""}
    assert await judged(base, candidate, commands=["python -m run_tests"]) == base


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("cd app && python -m pytest", "app/argparse.py"),
        ("PYTHONPATH=app pytest", "app/xml/__init__.py"),
        ("pytest --rootdir=app", "app/packaging/__init__.py"),
        ("python app/ci/run.py", "app/ci/argparse.py"),
        ("pytest", "backend/argparse.py"),
        ("pytest", "services/api/packaging.py"),
        ("pytest", "services/web/xml/__init__.py"),
    ],
)
async def test_new_modules_hide_nothing_where_suites_work(command: str, path: str) -> None:
    """Folders that a command enters, that hold tests, or that are projects are looked at, too."""
    base = {
        **dict.fromkeys(("app/__init__.py", "app/ci/__init__.py", "app/ci/run.py"), ""),
        **dict.fromkeys(("backend/calc.py", "services/api/tests/test_a.py"), ""),
        "services/web/pyproject.toml": "",
    }
    assert await judged(base, {**base, path: ""}, commands=[command]) == base


@pytest.mark.parametrize(
    "path", ["pytest", "pluggy", "sitecustomize", "usercustomize", "xml", "tests/argparse"]
)
async def test_a_link_that_hides_a_module_is_left_out(path: str) -> None:
    """A link to a folder is imported like the package whose name it bears."""
    base = tree({"app/evil/__init__.py": "", "tests/test_a.py": ""})
    linked = {**base, path: TreeEntry("120000", "app/evil")}
    assert await judged_entries(Blobs(), 1, base, linked) == (base, (path,))  # type: ignore[arg-type]


def test_tests_and_what_supports_them_are_tests() -> None:
    """Tests are known by their names, fixtures and snapshots by their folder."""
    tests = ["test_a.py", "a_test.go", "src/a.spec.ts", "tests/data/x.json", "a/__tests__/b.js"]
    tests += ["testdata/want.json", "a/fixtures/x.json", "unit_tests/checks.py", "e2e/page.ts"]
    assert all(is_test_file(path) for path in tests)
    assert not any(is_test_file(path) for path in ["app.py", "contests/a.py", "latest.js"])


def test_the_bases_tests_run_without_whatever_a_candidate_does_to_tests() -> None:
    """Changed and new tests, and what supports tests, are left out of the second run."""
    base = tree({"tests/test_a.py": "old", "app.py": ""})
    assert base_tests_entries(base, {**base, **tree({"app.py": "new"})})[1] == ()
    added = base | tree({"tests/test_b.py": "new", "tests/__init__.py": "patches"})
    assert base_tests_entries(base, added) == (base, ("tests/__init__.py", "tests/test_b.py"))


# --- manifests ------------------------------------------------------------------------------------


def test_pyproject_keeps_the_candidates_product_and_the_bases_runner() -> None:
    """A new dependency counts, a new pytest option does not."""
    base = '[project]\nname = "p"\n[tool.pytest.ini_options]\naddopts = "-x"\n'
    candidate = (
        '[project]\nname = "p"\ndependencies = ["attrs"]\n'
        '[tool.pytest.ini_options]\naddopts = "-k nothing"\n'
        '[tool.coverage.run]\nplugins = ["evil"]\n'
    )
    merged = tomllib.loads(
        restore_sections("pyproject.toml", base.encode(), candidate.encode()).decode()
    )
    assert merged == {
        "project": {"name": "p", "dependencies": ["attrs"]},
        "tool": {"pytest": {"ini_options": {"addopts": "-x"}}},
    }


def test_a_manifest_whose_runner_sections_agree_is_left_byte_for_byte() -> None:
    """Comments and order of the candidate stay where nothing has to change."""
    candidate = b'# mine\n[tool.pytest]\nx = 1\n[project]\nname="p"\n'
    assert restore_sections("pyproject.toml", b"[tool.pytest]\nx = 1\n", candidate) == candidate


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("pyproject.toml", "[tool.pytest"),
        ("pyproject.toml", f"x = {'1' * 5000}"),
        ("pyproject.toml", f"x = {'[' * 50_000}{']' * 50_000}"),
        ("pyproject.toml", "\ufeff[tool.ruff]"),
        ("package.json", "{"),
        ("package.json", '{"name": "caf\udce9", "scripts": {"test": "true"}}'),
        ("package.json", f'{{"x": {"1" * 5000}, "scripts": {{"test": "true"}}}}'),
        ("package.json", f'{{"x": {"[" * 100_000}{"]" * 100_000}, "scripts": {{"test": "true"}}}}'),
        ("package.json", '{"scripts": {"test": "true"}, "scripts": {}}'),
        ("package.json", '{"x": NaN}'),
        ("composer.json", "[]"),
        ("setup.cfg", "[metadata]\nname = caf\udce9\n"),
    ],
)
async def test_what_cannot_be_read_strictly_is_the_bases(name: str, content: str) -> None:
    """A manifest that another reader may understand is the base's as a whole, or not there."""
    text = "{}" if name.endswith(".json") else ""
    assert await judged({name: text}, {name: content}) == {name: text}
    assert await judged({}, {name: content, "app.py": ""}) == {"app.py": ""}


@pytest.mark.parametrize("name", ["setup.cfg", "pyproject.toml", "package.json", "conftest.py"])
async def test_a_link_in_a_manifests_place_is_not_followed(name: str) -> None:
    """A manifest that a candidate makes a link is the base's, or not there."""
    link = {name: TreeEntry("120000", "app/x"), "app/x": TreeEntry("100644", "")}
    base = tree({name: "{}", "app/x": ""})
    assert (await judged_entries(Blobs(), 1, base, link))[0] == base  # type: ignore[arg-type]
    new = await judged_entries(Blobs(), 1, tree({"app/x": ""}), link)  # type: ignore[arg-type]
    assert new == (tree({"app/x": ""}), (name,))


def test_package_json_scripts_and_jest_are_the_bases() -> None:
    """Scripts and runner settings of package.json are the base's, dependencies the candidate's."""
    base = {"scripts": {"test": "jest"}, "dependencies": {}}
    candidate = {"scripts": {"test": "true"}, "jest": {"bail": 1}, "dependencies": {"a": "1"}}
    merged = restore_sections(
        "package.json", json.dumps(base).encode(), json.dumps(candidate).encode()
    )
    assert json.loads(merged) == {"scripts": {"test": "jest"}, "dependencies": {"a": "1"}}


def test_setup_cfg_sections_are_spliced() -> None:
    """Only the runner's sections of setup.cfg are exchanged."""
    base = b"[metadata]\nname = p\n\n[tool:pytest]\naddopts = -x\n"
    candidate = b"[tool:pytest]\naddopts = -k nothing\n[metadata]\nname = q\n[flake8]\nignore = E\n"
    merged = restore_sections("setup.cfg", base, candidate)
    assert merged == b"[metadata]\nname = q\n[tool:pytest]\naddopts = -x\n"


@pytest.mark.parametrize("end", ["\r", "\x0c", "\x85", "\u2028"])
def test_odd_line_ends_hide_no_section(end: str) -> None:
    """A header after any character that some reader takes for a line end is seen."""
    candidate = f"[metadata]\nname = q{end}[tool:pytest]{end}addopts = -k nothing\n"
    merged = restore_sections("setup.cfg", b"", candidate.encode()).decode()
    assert "pytest" not in merged
    assert "name = q" in merged


def test_a_deleted_manifest_leaves_its_runner_sections() -> None:
    """Deleting a manifest does not delete what it says about the runner."""
    merged = restore_sections("setup.cfg", b"[metadata]\nname = p\n[tool:pytest]\na = b\n", b"")
    assert merged == b"[tool:pytest]\na = b\n"
    assert restore_sections("pyproject.toml", b'[project]\nname = "p"\n', b"") == b""


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ({"conftest.py": 'pytest_plugins = ["support.plugin"]\n'}, "support/plugin.py"),
        ({"conftest.py": 'pytest_plugins: list[str] = "support"\n'}, "support/__init__.py"),
        ({"a/conftest.py": 'pytest_plugins = ("near",)\n'}, "a/near.py"),
        ({"pytest.ini": "[pytest]\naddopts = -q\n  -p support.plugin\n"}, "support/plugin.py"),
        (
            {"pyproject.toml": '[tool.pytest.ini_options]\naddopts = ["-p", "plugin"]\n'},
            "src/plugin.py",
        ),
        ({"jest.config.js": "module.exports = {setupFiles: ['<rootDir>/set/up']}"}, "set/up.ts"),
        ({"web/package.json": '{"jest": {"globalSetup": "./up.cjs"}}'}, "web/up.cjs"),
        ({"vitest.config.ts": "import {x} from './shared'\nexport default x"}, "shared.mjs"),
        ({"vite.config.ts": "{test: {reporters: ['default', './report']}}"}, "report/index.ts"),
        ({".mocharc.json": '{"require": ["./hooks.js"]}'}, "hooks.js"),
    ],
)
async def test_what_the_bases_settings_load_is_the_bases(
    setting: dict[str, str], named: str
) -> None:
    """A plug-in or set-up file that the base's settings name runs as the base has it."""
    base = {**setting, named: "old", "app.py": "old"}
    candidate = {**base, named: "new", "app.py": "new"}
    settings = await load_runner_settings(Blobs(), 1, tree(base))  # type: ignore[arg-type]
    assert settings.loaded == {named}
    assert await judged(base, candidate, settings=settings) == {**base, "app.py": "new"}


async def test_a_build_names_its_own_sources_freely() -> None:
    """The product's entry, aliases and manifests in a build's settings stay the candidate's."""
    config = (
        "import pkg from './package.json'\nexport default {build: {lib: {entry: 'src/main.ts'}},"
        " resolve: {alias: {'@': './src'}}}"
    )
    base = {"vite.config.ts": config, "src/main.ts": "", "package.json": "{}"}
    settings = await load_runner_settings(Blobs(), 1, tree(base))  # type: ignore[arg-type]
    assert settings.loaded == frozenset()


async def test_tests_by_other_names_are_known_from_the_bases_settings() -> None:
    """`python_files` makes a file a test, so that it runs in both versions; `*.py` says nothing."""
    ini = "[pytest]\npython_files = check_*.py\n    *_checks.py\ntestpaths = .\n"
    base = {"pytest.ini": ini, "check_sums.py": "old", "app.py": "old"}
    settings = await load_runner_settings(Blobs(), 1, tree(base))  # type: ignore[arg-type]
    assert settings.test_patterns == ("check_*.py", "*_checks.py")
    candidate = tree({**base, "check_sums.py": "weak", "app.py": "new"})
    entries, changed = base_tests_entries(tree(base), candidate, settings)
    assert changed == ("check_sums.py",)
    assert entries["check_sums.py"].object_id == "old"
    wide = tree({"setup.cfg": "[tool:pytest]\npython_files = *.py\n"})
    assert (await load_runner_settings(Blobs(), 1, wide)).test_patterns == ()  # type: ignore[arg-type]
