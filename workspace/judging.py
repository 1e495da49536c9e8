"""The verdict on one suite: pure functions over what was observed.

In: what a suite did on the candidate, on the base, on the candidate with the base's tests, and with
a canary. Out: what changed between base and candidate, and whether the suite passes, in words.
Exit 0 is always required and never enough where the suite declares JUnit.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from workspace.contracts import Canary, Frozen, Sha256, Suite, Termination, TestOutcome
from workspace.digest import canonical_digest, result_digest
from workspace.tests_by_name import is_named_as_test

#: Version of the rules by which trees are judged; changes with them, and enters every run key.
JUDGING_VERSION: Final = 7

_BAD: Final = frozenset({"failed", "error"})
_COMMAND_NOT_FOUND: Final = 127
_NAMES_SHOWN: Final = 5
_ENDINGS: Final[dict[str, str]] = {
    "timeout": "it ran into its time limit",
    "oom": "it ran out of memory",
    "output_limit": "it printed more than it may",
    "killed": "it was killed from outside",
}


class Observation(Frozen):
    """What one execution of a suite did."""

    run_key: Sha256
    termination: Termination
    exit_code: int | None
    outcomes: tuple[TestOutcome, ...] = ()
    junit_problem: str = ""
    """Why there are no outcomes although the suite declares JUnit."""

    @property
    def digest(self) -> Sha256:
        """The `result_digest` of this execution."""
        return result_digest(self.run_key, self.termination, self.exit_code, self.outcomes)

    @property
    def by_test(self) -> dict[str, str]:
        """Return each test's outcome; of several tests of one name, the worst."""
        worst = {"passed": 0, "skipped": 1, "failed": 2, "error": 3}
        found: dict[str, str] = {}
        for test in self.outcomes:
            known = found.get(test.key, "passed")
            found[test.key] = max(known, test.outcome, key=worst.__getitem__)
        return found


class Comparison(Frozen):
    """How the candidate's tests differ from the base's; names of tests, sorted."""

    fail_to_pass: tuple[str, ...] = ()
    pass_to_fail: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    """Passed or failed on the base, and did not run now: the red test is who one would silence."""
    new: tuple[str, ...] = ()


class SuiteFacts(Frozen):
    """All that was observed of one suite."""

    suite: Suite
    candidate: tuple[Observation, ...]
    """One for each repetition."""
    base: Observation | None = None
    base_tests: Observation | None = None
    """The candidate with the base's tests only; None: it changed none and added none."""
    changed_tests: tuple[str, ...] = ()
    canary: Canary = "not_run"

    @property
    def flaky(self) -> bool:
        """Whether repetitions did not do the same."""
        return len({observation.digest for observation in self.candidate}) > 1

    @property
    def digest(self) -> Sha256:
        """The suite's result digest: of the one result, or of the different ones in order."""
        digests = [observation.digest for observation in self.candidate]
        return canonical_digest(digests) if self.flaky else digests[0]


def compare(base: Observation | None, candidate: Observation) -> Comparison:
    """Return what changed from base to candidate, test by test."""
    if base is None:
        return Comparison()
    before, after = base.by_test, candidate.by_test
    passed_before = {name for name, outcome in before.items() if outcome == "passed"}
    failed_before = {name for name, outcome in before.items() if outcome in _BAD}
    ran_before = passed_before | {test.key for test in base.outcomes if _is_a_failed_test(test)}
    return Comparison(
        fail_to_pass=_sorted(name for name in failed_before if after.get(name) == "passed"),
        pass_to_fail=_sorted(name for name in passed_before if after.get(name) in _BAD),
        missing=_sorted(name for name in ran_before if after.get(name) in (None, "skipped")),
        new=_sorted(after.keys() - before.keys()),
    )


def _is_a_failed_test(test: TestOutcome) -> bool:
    """Whether this is a test that ran and failed, not a file that could not be loaded.

    Runners report such a file as an error, or as one failure that bears the file's name (jest and
    Node); it is gone once its tests run.
    """
    is_file = test.class_name == test.name or is_named_as_test(test.name)
    return test.outcome == "failed" and not is_file


def find_weakened(facts: SuiteFacts) -> tuple[str, ...]:
    """Return the tests whose base version the candidate fails, though it passes its own version.

    Those that passed on the base count, and those that failed there: a test emptied to make the
    suite green passes without the bug being mended. Without JUnit: the changed test files, when the
    base's version of them fails as a whole. Tests that the candidate's own version fails as well
    are broken, not weakened.
    """
    base, with_base_tests, candidate = facts.base, facts.base_tests, facts.candidate[0]
    if base is None or with_base_tests is None:
        return ()
    if not facts.suite.junit:
        weakened = base.exit_code == 0 and with_base_tests.exit_code != 0
        return facts.changed_tests if weakened and candidate.exit_code == 0 else ()
    then, own = with_base_tests.by_test, candidate.by_test
    return _sorted(
        name
        for name, outcome in base.by_test.items()
        if _is_weakened(outcome, then.get(name), own.get(name))
    )


def _is_weakened(on_base: str, base_version: str | None, own_version: str | None) -> bool:
    """Whether a test holds on the candidate only as the candidate has it."""
    if on_base == "passed":
        return base_version != "passed" and own_version not in _BAD
    return base_version in _BAD and own_version not in _BAD


def decide_reason(facts: SuiteFacts) -> str:
    """Return why the suite does not pass, in words; empty when it passes."""
    candidate = facts.candidate[0]
    if facts.flaky:
        return f"flaky: {len(facts.candidate)} runs did not end alike"
    return (
        decide_ending(candidate)
        or (_decide_outcomes(candidate) if facts.suite.junit else "")
        or _decide_missing(compare(facts.base, candidate))
        or _decide_canary(facts.canary)
    )


def decide_ending(observation: Observation) -> str:
    """Return what is wrong with how a command ended; empty for exit code 0."""
    if observation.termination != "exit":
        return _ENDINGS[observation.termination]
    if observation.exit_code == 0:
        return ""
    failing = sum(test.outcome in _BAD for test in observation.outcomes)
    tests = f", {failing} of {len(observation.outcomes)} tests failed" if failing else ""
    hint = (
        ": a command was not found in the sandbox"
        if observation.exit_code == _COMMAND_NOT_FOUND
        else ""
    )
    return f"exit code {observation.exit_code}{hint}{tests}"


def decide_base_passed(base: Observation, suite: Suite) -> bool:
    """Return whether the base passes by itself; shown, and never an excuse."""
    return not (decide_ending(base) or (_decide_outcomes(base) if suite.junit else ""))


def _decide_outcomes(observation: Observation) -> str:
    if observation.junit_problem:
        return f"exit code 0, but {observation.junit_problem}"
    failing = [test.key for test in observation.outcomes if test.outcome in _BAD]
    if failing:
        return f"exit code 0, but the report says failed: {_listed(failing)}"
    if not any(test.outcome == "passed" for test in observation.outcomes):
        return "exit code 0, but no test passed"
    return ""


def _decide_missing(comparison: Comparison) -> str:
    if not comparison.missing:
        return ""
    return f"ran on the base and did not run now: {_listed(comparison.missing)}"


def _decide_canary(canary: Canary) -> str:
    if canary != "not_failed":
        return ""
    return "a planted test that must fail was not reported as failed: its results cannot be trusted"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMES_SHOWN])
    more = len(names) - _NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names))
