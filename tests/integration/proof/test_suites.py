"""What a report says of a candidate."""

from tests.integration.proof.conftest import JudgePytest

BUG = "def add(a, b):\n    return a - b\n"
FIX = "def add(a, b):\n    return a + b\n"
TESTS = """\
from calc import add

def test_zero():
    assert add(0, 0) == 0

def test_add():
    assert add(2, 2) == 4
"""


async def test_a_fix_goes_from_failing_to_passing(judge_pytest: JudgePytest) -> None:
    """A candidate that repairs the base passes, and the report says which test it repaired."""
    report = await judge_pytest({"calc.py": BUG, "test_calc.py": TESTS}, {"calc.py": FIX})
    suite = report.suites[0]
    assert (report.passed, suite.reason) == (True, "")
    assert report.exit_codes == {"unit": 0}
    assert suite.fail_to_pass == ("test_calc::test_add",)
    assert suite.base_passed is False
    assert suite.canary == "failed"
