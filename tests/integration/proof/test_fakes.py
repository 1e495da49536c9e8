"""Ways to make a failing suite look green: each fools the bare command, none fools the judge.

The repository has a bug that one of its tests shows. No candidate here repairs it.
"""

import importlib.util
import py_compile
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.integration.proof.conftest import PYTEST, JudgePytest
from tests.integration.proof.scenario import Proof
from workspace.contracts import Suite

BUG = "def add(a, b):\n    return a - b\n"
FIX = "def add(a, b):\n    return a + b\n"
TESTS = """\
from calc import add

def test_zero():
    assert add(0, 0) == 0

def test_add():
    assert add(2, 2) == 4
"""
TEST_CASE = """\
import unittest

from calc import add

class Sums(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(2, 2), 4)
"""
SKIPPING = """\
import unittest
    if a == 2:
        raise unittest.SkipTest("not today")
    return a - b"""
BASE = {
    "calc.py": BUG,
    "test_calc.py": TESTS,
    "pyproject.toml": '[project]\nname = "calc"\nversion = "1"\n',
}
FORGED_JUNIT = (
    '<testsuite><testcase classname="test_calc" name="test_zero"/>'
    '<testcase classname="test_calc" name="test_add"/></testsuite>'
)
FORGE = f"""\
import os
with open(os.environ["ULTRACODE_JUNIT"], "w") as file:
    file.write('{FORGED_JUNIT}')
os._exit(0)
"""
MAKE_PASS = """\
import pytest

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    report.outcome = "passed"
    report.longrepr = None
"""
PATCH_REPORTER = """\
import _pytest.runner

_real = _pytest.runner.TestReport.from_item_and_call

def _pass(item, call):
    report = _real(item, call)
    report.outcome, report.longrepr = "passed", None
    return report

_pytest.runner.TestReport.from_item_and_call = staticmethod(_pass)
"""


def stale_bytecode() -> bytes:
    """A compiled `calc` without the bug that Python takes for current whatever the source says."""
    with tempfile.TemporaryDirectory() as folder:
        source, compiled = Path(folder, "calc.py"), Path(folder, "calc.pyc")
        source.write_text(FIX)
        py_compile.compile(
            str(source),
            cfile=str(compiled),
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )
        return compiled.read_bytes()


PYC = f"__pycache__/{Path(importlib.util.cache_from_source('calc.py')).name}"


@dataclass(frozen=True)
class Fake:
    """A candidate that fools the command, and what the judge says of it."""

    name: str
    files: dict[str, str | bytes | None]
    reason: str
    restored: tuple[str, ...] = ()
    suite: Suite = PYTEST
    base: dict[str, str] = field(default_factory=dict)


FAILS = "exit code 1, 1 of 2 tests failed"
FAKES = [
    Fake("conftest", {"conftest.py": MAKE_PASS}, FAILS, ("conftest.py",)),
    Fake(
        "sitecustomize",
        {"src/sitecustomize.py": FORGE},
        FAILS,
        ("src/sitecustomize.py",),
        suite=PYTEST.model_copy(update={"run": f"export PYTHONPATH=src:$PYTHONPATH; {PYTEST.run}"}),
    ),
    Fake("shadowing pytest.py", {"pytest.py": FORGE}, FAILS, ("pytest.py",)),
    Fake("shadowing package", {"pytest/__init__.py": FORGE}, FAILS, ("pytest/__init__.py",)),
    Fake("shadowing dependency", {"pygments.py": FORGE}, FAILS, ("pygments.py",)),
    Fake("shadowing standard library", {"tempfile.py": FORGE}, FAILS, ("tempfile.py",)),
    Fake("pytest.ini", {"pytest.ini": "[pytest]\naddopts = -k zero\n"}, FAILS, ("pytest.ini",)),
    Fake(
        "pyproject section",
        {
            "pyproject.toml": BASE["pyproject.toml"]
            + '[tool.pytest.ini_options]\naddopts = "-k zero"\n'
        },
        FAILS,
        ("pyproject.toml",),
    ),
    Fake(
        "setup.cfg section",
        {"setup.cfg": "[tool:pytest]\naddopts = -k zero\n"},
        FAILS,
        ("setup.cfg",),
    ),
    Fake(
        "plug-in that conftest.py names",
        {"support/plugin.py": MAKE_PASS},
        FAILS,
        ("support/plugin.py",),
        base={
            "conftest.py": 'pytest_plugins = ["support.plugin"]\n',
            "support/__init__.py": "",
            "support/plugin.py": "",
        },
    ),
    Fake("tox.ini", {"tox.ini": "[pytest]\naddopts = -k zero\n"}, FAILS, ("tox.ini",)),
    Fake(
        "plug-in by entry point",
        {
            "evil.egg-info/entry_points.txt": "[pytest11]\nevil = evil\n",
            "evil.egg-info/PKG-INFO": "Metadata-Version: 2.1\nName: evil\nVersion: 1\n",
            "evil.py": MAKE_PASS,
        },
        FAILS,
        ("evil.egg-info/PKG-INFO", "evil.egg-info/entry_points.txt"),
    ),
    Fake("stale bytecode", {PYC: stale_bytecode()}, FAILS, (PYC,)),
    Fake(
        "conftest as a link",
        {"conftest.py": b"link:tools.py", "tools.py": MAKE_PASS},
        FAILS,
        ("conftest.py",),
    ),
    Fake("exit on import", {"calc.py": f"import os\nos._exit(0)\n{BUG}"}, "it wrote no JUnit file"),
    Fake(
        "exit at exit",
        {"calc.py": f"import atexit, os\natexit.register(os._exit, 0)\n{BUG}"},
        "exit code 0, but the report says failed: test_calc::test_add",
    ),
    Fake("forged JUnit", {"calc.py": FORGE}, "a planted test that must fail"),
    Fake("patched reporter", {"calc.py": PATCH_REPORTER + BUG}, "a planted test that must fail"),
    Fake(
        "patched assertion support",
        {"tests_support.py": "", "test_extra.py": PATCH_REPORTER},
        "a planted test that must fail",
    ),
    Fake(
        "patched assertions",
        {"calc.py": "import unittest\nunittest.TestCase.assertEqual = print\n" + BUG},
        "a planted test that must fail",
        base={"test_calc.py": TEST_CASE},
    ),
    Fake(
        "red test skipped by the product",
        {"calc.py": BUG.replace("return a - b", SKIPPING)},
        "ran on the base and did not run now: test_calc::test_add",
    ),
    Fake(
        "red tests moved away from their canary",
        {
            "calc.py": PATCH_REPORTER + BUG,
            "test_red.py": None,
            "test_other.py": "def test_add():\n    pass\n",
        },
        "ran on the base and did not run now: test_red::test_add",
        base={
            "test_red.py": "from calc import add\n\ndef test_add():\n    assert add(2, 2) == 4\n"
        },
    ),
    Fake(
        "deleted test",
        {"test_calc.py": TESTS.split("def test_add", maxsplit=1)[0].replace("zero", "nought")},
        "ran on the base and did not run now: test_calc::test_add, test_calc::test_zero",
    ),
    Fake(
        "deleted tests",
        {"test_calc.py": None, "test_new.py": "def test_new():\n    pass\n"},
        "ran on the base and did not run now: test_calc::test_add, test_calc::test_zero",
    ),
    Fake(
        "everything skipped",
        {"test_calc.py": "import pytest\npytestmark = pytest.mark.skip\n" + TESTS},
        "exit code 0, but no test passed",
    ),
    Fake(
        "script of the suite",
        {"scripts/test.sh": "exit 0\n"},
        "exit code 1",
        ("scripts/test.sh",),
        suite=Suite(id="unit", run="sh scripts/test.sh"),
        base={"scripts/test.sh": "python3 -m pytest -q\n"},
    ),
    Fake(
        "Makefile",
        {"Makefile": "test:\n\ttrue\n"},
        "exit code 2",
        ("Makefile",),
        suite=Suite(id="unit", run="make test"),
        base={"Makefile": "test:\n\tpython3 -m pytest -q\n"},
    ),
]


@pytest.mark.sandbox
@pytest.mark.parametrize("fake", FAKES, ids=[fake.name for fake in FAKES])
async def test_a_faked_pass_is_refused(fake: Fake, judge_pytest: JudgePytest, proof: Proof) -> None:
    """What turns the bare command green does not pass, and the reason is told."""
    report = await judge_pytest({**BASE, **fake.base}, fake.files, fake.suite)
    suite = report.suites[0]
    assert not report.passed
    assert fake.reason in suite.reason
    assert report.restored == fake.restored
    assert await proof.exit_code_unjudged(fake.suite) == 0, "this does not fool the command"


async def test_a_weakened_test_is_shown(judge_pytest: JudgePytest) -> None:
    """A test made to agree with a broken product passes, and is shown as weakened."""
    weaker = TESTS.replace("== 4", "in (0, 4)")
    report = await judge_pytest({**BASE, "calc.py": FIX}, {"calc.py": BUG, "test_calc.py": weaker})
    assert report.passed
    assert report.suites[0].weakened == ("test_calc::test_add",)
    assert report.changed_tests == ("test_calc.py",)


async def test_a_weakened_test_by_another_name_is_shown(judge_pytest: JudgePytest) -> None:
    """A file is a test because the base's settings say so, and is judged in both versions."""
    base = {
        "pytest.ini": "[pytest]\npython_files = check_*.py\n",
        "calc.py": FIX,
        "test_calc.py": "",
        "check_calc.py": TESTS,
    }
    weaker = TESTS.replace("== 4", "in (0, 4)")
    report = await judge_pytest({**BASE, **base}, {"calc.py": BUG, "check_calc.py": weaker})
    assert report.suites[0].weakened == ("check_calc::test_add",)
    assert report.suites[0].canary == "failed"


async def test_a_liar_that_knows_the_tests_cannot_be_refused(judge_pytest: JudgePytest) -> None:
    """Code in the runner that forges just the tests it knows passes: only the diff shows it."""
    picky = PATCH_REPORTER.replace(
        "    report.outcome,", "    if item.name == 'test_add': report.outcome,"
    )
    report = await judge_pytest(BASE, {"calc.py": picky + BUG})
    assert report.passed
    assert report.suites[0].canary == "failed"


async def test_without_junit_only_the_exit_code_counts(judge_pytest: JudgePytest) -> None:
    """A suite without JUnit is fooled by an exit code, and is marked as judged by that alone."""
    bare = Suite(id="unit", run="python3 -m pytest -q")
    report = await judge_pytest(BASE, {"calc.py": f"import os\nos._exit(0)\n{BUG}"}, bare)
    assert report.passed
    assert report.suites[0].judged_by == "exit_code"


async def test_policy_lifts_the_rule(judge_pytest: JudgePytest) -> None:
    """Runner configuration under `writes.allow` is the candidate's own."""
    report = await judge_pytest(
        BASE,
        {"pytest.ini": "[pytest]\naddopts = -k zero\n"},
        allow=("pytest.ini",),
    )
    assert report.restored == ()
    assert report.exit_codes == {"unit": 0}
