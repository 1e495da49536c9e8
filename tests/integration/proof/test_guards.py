"""Every guard against faked passes, taken away: the fake it stops must then pass.

Like the table of the sandbox: each row names a guard, how a copy of the code loses it, and the
tests that turn red. Where several guards stop one fake, all of them go, since that is what it
takes. ARCHITECTURE.md refers to this table.
"""

from pathlib import Path

import pytest

from tests.integration.guards import Edit, Guard, copied, still_passing, take_away
from tests.integration.proof.conftest import CACHE

pytestmark = [pytest.mark.sandbox, pytest.mark.guards]

SOURCE = Path("workspace")
TESTS = Path("tests", "integration", "proof")
PASSED = "assert not True"
"""What `assert not report.passed` says of a fake that is taken for a pass."""


def fakes(*names: str) -> tuple[str, ...]:
    """The tests of these fakes."""
    return tuple(f"test_fakes.py::test_a_faked_pass_is_refused[{name}]" for name in names)


NO_CANARY = Edit("judging.py", "        or _decide_canary(facts.canary)\n")
NO_MISSING = Edit("judging.py", "        or _decide_missing(compare(facts.base, candidate))\n")
NO_PASSED_TEST_NEEDED = Edit(
    "judging.py", 'if not any(test.outcome == "passed" for test in observation.outcomes):', "if 0:"
)
NO_RUNNER_FILES = Edit(
    "runner_configuration.py",
    "configures = is_runner_configuration(path) or",
    "configures =",
)
NO_SHADOWS = Edit("runner_configuration.py", " or path in shadows:", ":")

GUARDS = (
    Guard(
        "runner configuration comes from the base; the canary and the red test look again",
        (NO_RUNNER_FILES, NO_CANARY, NO_MISSING),
        fakes(
            *("conftest", "pytest.ini", "tox.ini", "plug-in by entry point"),
            *("stale bytecode", "conftest as a link", "Makefile"),
        ),
        PASSED,
    ),
    Guard(
        "modules that Python loads by itself come from the base, twice; the canary looks again",
        (NO_RUNNER_FILES, NO_SHADOWS, NO_CANARY),
        fakes("sitecustomize"),
        PASSED,
    ),
    Guard(
        "sections of manifests come from the base; the canary and the red test look again",
        (
            Edit(
                "runner_configuration.py", 'elif path.rsplit("/", 1)[-1] in MANIFESTS:', "elif 0:"
            ),
            NO_CANARY,
            NO_MISSING,
        ),
        fakes("pyproject section", "setup.cfg section"),
        PASSED,
    ),
    Guard(
        "plug-ins that the base's settings name come from the base; the canary and the red test",
        (
            Edit("runner_configuration.py", "for path in settings.loaded if", "for path in () if"),
            NO_CANARY,
            NO_MISSING,
        ),
        fakes("plug-in that conftest.py names"),
        PASSED,
    ),
    Guard(
        "tests are tests by the base's settings too",
        (Edit("runner_configuration.py", " or settings.names_test(path)"),),
        ("test_fakes.py::test_a_weakened_test_by_another_name_is_shown",),
    ),
    Guard(
        "no new module hides another; the canary looks again",
        (NO_SHADOWS, NO_CANARY),
        fakes("shadowing dependency", "shadowing standard library"),
        PASSED,
    ),
    Guard(
        "no new module hides the runner: by name and as any module; the canary looks again",
        (NO_RUNNER_FILES, NO_SHADOWS, NO_CANARY),
        fakes("shadowing pytest.py", "shadowing package"),
        PASSED,
    ),
    Guard(
        "scripts that the command names come from the base",
        (Edit("runner_configuration.py", " or path in named or", " or"),),
        fakes("script of the suite"),
        PASSED,
    ),
    Guard(
        "the canary",
        (NO_CANARY,),
        fakes(
            *("forged JUnit", "patched reporter", "patched assertion support"),
            "patched assertions",
        ),
        PASSED,
    ),
    Guard(
        "a JUnit file with the tests the base passes",
        (
            Edit("judging.py", "if observation.junit_problem:", "if 0:"),
            NO_PASSED_TEST_NEEDED,
            NO_MISSING,
            NO_CANARY,
        ),
        fakes("exit on import"),
        PASSED,
    ),
    Guard(
        "no failure in the JUnit file, whatever the exit code",
        (Edit("judging.py", "if failing:\n        return", "if 0:\n        return"),),
        fakes("exit at exit"),
        PASSED,
    ),
    Guard(
        "what ran on the base must run",
        (NO_MISSING,),
        fakes("deleted test", "red test skipped by the product"),
        PASSED,
    ),
    Guard(
        "what ran on the base must run; a file that is gone shows no canary",
        (NO_MISSING, NO_CANARY),
        fakes("deleted tests", "red tests moved away from their canary"),
        PASSED,
    ),
    Guard(
        "some test must pass, and those that did on the base; the canary looks again",
        (NO_PASSED_TEST_NEEDED, NO_MISSING, NO_CANARY),
        fakes("everything skipped"),
        PASSED,
    ),
    Guard(
        "changed tests run in the base's version, too",
        (Edit("suites.py", "if judged.base_tests_tree is None:", "if judged:"),),
        ("test_fakes.py::test_a_weakened_test_is_shown",),
        "assert () ==",
    ),
    Guard(
        "exit 0 is always required",
        (Edit("judging.py", "if observation.exit_code == 0:", "if observation is not None:"),),
        ("test_suites.py::test_how_a_command_ended_is_told[exit 7-exit-exit code 7]",),
        "assert (True, 'exit') ==",
    ),
    Guard(
        "repetitions must agree",
        (Edit("judging.py", "if facts.flaky:", "if 0:"),),
        ("test_digests.py::test_a_suite_that_does_not_repeat_is_flaky",),
    ),
    Guard(
        "without a required suite nothing passes",
        (Edit("report.py", "passed=bool(required) and all(", "passed=all("),),
        ("test_suites.py::test_only_required_suites_decide_and_one_must",),
        "assert not True",
    ),
)


@pytest.mark.usefixtures("wheels")
@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_a_fake_passes_once_its_guard_is_gone(guard: Guard, tmp_path: Path) -> None:
    """Each fake named for a guard is taken for a pass without it."""
    with copied(tmp_path, TESTS) as copy:
        kept = copy / CACHE.relative_to(CACHE.parents[1])
        kept.parent.mkdir()
        kept.symlink_to(CACHE)
        take_away(guard, copy / SOURCE)
        assert not still_passing(guard, copy / TESTS)
