import pytest

from workspace.contracts import Suite, TestOutcome
from workspace.judging import Observation, SuiteFacts, compare, decide_reason, find_weakened

JUNIT = Suite(id="unit", run="pytest --junitxml=$ULTRACODE_JUNIT")
BARE = Suite(id="unit", run="make test")


def seen(
    exit_code: int | None = 0, *, ended: str = "exit", problem: str = "", **tests: str
) -> Observation:
    return Observation(
        run_key="0" * 64,
        termination=ended,  # type: ignore[arg-type]
        exit_code=exit_code,
        outcomes=tuple(
            TestOutcome(class_name="c", name=name, outcome=outcome)  # type: ignore[arg-type]
            for name, outcome in tests.items()
        ),
        junit_problem=problem,
    )


def reason(*candidate: Observation, suite: Suite = JUNIT, **facts: object) -> str:
    return decide_reason(SuiteFacts(suite=suite, candidate=candidate, **facts))  # type: ignore[arg-type]


def test_exit_0_with_every_expected_test_passed_passes() -> None:
    """A suite passes when it exits 0 and every test of the base passed again."""
    assert reason(seen(a="passed", b="passed"), base=seen(a="passed")) == ""


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        ("timeout", "time limit"),
        ("oom", "out of memory"),
        ("output_limit", "printed more"),
        ("killed", "killed from outside"),
    ],
)
def test_endings_are_told_apart(ended: str, words: str) -> None:
    """Whoever reads the reason knows what ended the command."""
    assert words in reason(seen(None, ended=ended))


@pytest.mark.parametrize(
    ("candidate", "words"),
    [
        (seen(1, a="failed", b="passed"), "exit code 1, 1 of 2 tests failed"),
        (seen(127), "a command was not found in the sandbox"),
        (seen(0, problem="it wrote no JUnit file"), "it wrote no JUnit file"),
        (seen(0, a="failed"), "the report says failed: c::a"),
        (seen(0), "no test passed"),
        (seen(0, a="skipped"), "no test passed"),
        (seen(0, b="passed"), "did not run now: c::a"),
        (seen(0, a="skipped", b="passed"), "did not run now: c::a"),
    ],
)
def test_exit_0_alone_is_not_a_pass(candidate: Observation, words: str) -> None:
    """Failures, no report, nothing passed, or a test of the base that did not run: no pass."""
    assert words in reason(candidate, base=seen(a="passed"))


@pytest.mark.parametrize("now", [seen(b="passed"), seen(a="skipped", b="passed")])
def test_a_test_that_was_red_may_not_go_away(now: Observation) -> None:
    """A test that failed on the base must run: leaving it out or skipping it mends nothing."""
    assert "did not run now: c::a" in reason(now, base=seen(1, a="failed", b="passed"))


def test_a_file_that_could_not_be_loaded_is_no_test() -> None:
    """What a runner reports instead of a file's tests is gone when they run."""
    for entry in (
        TestOutcome(class_name="", name="tests.test_a", outcome="error"),
        TestOutcome(class_name="src/a.test.ts", name="src/a.test.ts", outcome="failed"),
        TestOutcome(class_name="test", name="/ws/src/a.test.js", outcome="failed"),
        TestOutcome(class_name="c", name="set_up", outcome="error"),
    ):
        base = seen(1, b="passed").model_copy(update={"outcomes": (entry,)})
        assert reason(seen(a="passed"), base=base) == ""


def test_a_red_base_excuses_nothing() -> None:
    """A test that failed on the base still fails the candidate."""
    assert reason(seen(1, a="failed"), base=seen(1, a="failed")) != ""


def test_repetitions_that_differ_are_flaky() -> None:
    """Two runs that did not do the same never pass, even if both exit 0."""
    assert "flaky" in reason(seen(a="passed"), seen(a="passed", b="skipped"))


def test_a_canary_that_did_not_fail_is_no_pass() -> None:
    """A planted failure that is not reported makes every other result worthless."""
    assert "must fail" in reason(seen(a="passed"), canary="not_failed")
    assert reason(seen(a="passed"), canary="not_placed") == ""


def test_without_junit_the_exit_code_decides() -> None:
    """A suite that declares no JUnit passes by exit code 0 alone."""
    assert reason(seen(0), suite=BARE, base=seen(0)) == ""


def test_tests_are_compared_by_name() -> None:
    """Which tests were repaired, broken, lost and added is told apart."""
    base = seen(a="failed", b="passed", c="passed", d="skipped", e="passed")
    compared = compare(base, seen(a="passed", b="error", d="passed", e="skipped", f="passed"))
    assert compared.fail_to_pass == ("c::a",)
    assert compared.pass_to_fail == ("c::b",)
    assert compared.missing == ("c::c", "c::e")
    assert compared.new == ("c::f",)


def test_tests_of_one_name_count_as_their_worst() -> None:
    """Two tests of one name pass only together."""
    twice = seen(a="passed").model_copy(
        update={"outcomes": seen(a="failed").outcomes + seen(a="passed").outcomes}
    )
    assert twice.by_test == {"c::a": "failed"}


def test_weakened_means_the_old_version_fails_and_the_new_does_not() -> None:
    """A test that fails in both versions is broken; one that passes only as changed is weakened."""
    facts = SuiteFacts(
        suite=JUNIT,
        base=seen(a="passed", b="passed", c="failed", d="passed"),
        base_tests=seen(1, a="failed", b="failed", c="failed", d="passed"),
        candidate=(seen(1, a="passed", b="failed", c="passed", d="passed"),),
    )
    assert find_weakened(facts) == ("c::a", "c::c")


def test_without_junit_whole_files_are_weakened() -> None:
    """Where only exit codes count, the changed test files are named."""
    facts = SuiteFacts(
        suite=BARE,
        base=seen(0),
        base_tests=seen(1),
        candidate=(seen(0),),
        changed_tests=("tests/run.sh",),
    )
    assert find_weakened(facts) == ("tests/run.sh",)
