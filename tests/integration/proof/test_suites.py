"""What a report says of a candidate."""

import asyncio
from collections.abc import Mapping

import pytest

from tests.integration.proof.conftest import JudgePytest
from tests.integration.proof.scenario import BUG, FIX, TINY, TINY_FILES, Proof
from workspace.contracts import SandboxLimits, Suite
from workspace.sandbox.backend import Job, OnOutput, Outcome, Sandbox

pytestmark = pytest.mark.sandbox
TESTS = """\
from calc import add

def test_zero():
    assert add(0, 0) == 0

def test_add():
    assert add(2, 2) == 4
"""


class Watched:
    """A sandbox that notes how many jobs run side by side."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self.running = 0
        self.most = 0
        self.started = asyncio.Event()

    @property
    def name(self) -> str:
        return self._sandbox.name

    @property
    def guarantees(self) -> Mapping[str, bool]:
        return self._sandbox.guarantees

    async def run(self, job: Job, *, on_output: OnOutput | None = None) -> Outcome:
        self.running += 1
        self.most = max(self.most, self.running)
        if "sleep 600" in job.command:
            self.started.set()
        try:
            return await self._sandbox.run(job, on_output=on_output)
        finally:
            self.running -= 1

    async def close(self) -> None:
        await self._sandbox.close()


async def test_a_fix_goes_from_failing_to_passing(judge_pytest: JudgePytest) -> None:
    """A candidate that repairs the base passes, and the report says which test it repaired."""
    report = await judge_pytest({"calc.py": BUG, "test_calc.py": TESTS}, {"calc.py": FIX})
    suite = report.suites[0]
    assert (report.passed, suite.reason) == (True, "")
    assert report.exit_codes == {"unit": 0}
    assert suite.fail_to_pass == ("test_calc::test_add",)
    assert suite.base_passed is False
    assert suite.canary == "failed"


async def test_what_broke_is_named(proof: Proof) -> None:
    """A candidate that breaks what worked fails, and the report says which test it broke."""
    report = await proof.judge({**TINY_FILES, "calc.py": FIX}, {"calc.py": BUG}, TINY)
    suite = report.suites[0]
    assert not report.passed
    assert suite.pass_to_fail == ("tests.test_calc.CalcTest::test_add",)
    assert suite.base_passed is True


@pytest.mark.parametrize(
    ("command", "termination", "words"),
    [
        ("sleep 60", "timeout", "time limit"),
        ("python3 -c 'x = bytearray(1 << 30)'", "oom", "out of memory"),
        ("head -c 80000000 /dev/zero", "output_limit", "printed more"),
        ("exit 7", "exit", "exit code 7"),
        ("no-such-command", "exit", "not found in the sandbox"),
        ("kill -SEGV $$", "exit", "exit code 139"),
    ],
)
async def test_how_a_command_ended_is_told(
    proof: Proof, command: str, termination: str, words: str
) -> None:
    """Time, memory, output, exit codes and signals are told apart, in words."""
    suite = Suite(id="unit", run=command, timeout_seconds=5)
    limits = SandboxLimits(memory_bytes=256 * 1024**2, disk_bytes=256 * 1024**2)
    report = await proof.judge(TINY_FILES, {"calc.py": FIX}, suite, sandbox=limits)
    assert (report.passed, report.suites[0].termination) == (False, termination)
    assert words in report.suites[0].reason


async def test_only_required_suites_decide_and_one_must(proof: Proof) -> None:
    """A suite that is not required may fail; a report without a required suite is no pass."""
    extra = Suite(id="extra", run="false", required=False)
    report = await proof.judge(TINY_FILES, {"calc.py": FIX}, TINY, extra)
    assert (report.passed, report.exit_codes) == (True, {"tiny": 0, "extra": 1})
    optional = TINY.model_copy(update={"required": False})
    assert not (await proof.judge(TINY_FILES, {"calc.py": FIX}, optional)).passed


async def test_suites_cannot_disturb_each_other(proof: Proof) -> None:
    """What one suite writes into the tree, another and the next repetition do not see."""
    suite = Suite(id="a", run="test ! -e left && touch left && echo x > calc.py", repeat=2)
    twin = suite.model_copy(update={"id": "b"})
    report = await proof.judge(TINY_FILES, {"calc.py": FIX}, suite, twin)
    assert report.passed, [result.reason for result in report.suites]


async def test_suites_run_side_by_side_up_to_the_cpus(proof: Proof) -> None:
    """Three suites on two CPUs run two at a time."""
    watched = Watched(proof.sandbox)
    proof.use(watched)
    suites = [Suite(id=name, run="sleep 1") for name in ("a", "b", "c")]
    report = await proof.judge(TINY_FILES, {"calc.py": FIX}, *suites)
    assert report.passed
    assert watched.most == 2


async def test_a_cancelled_run_leaves_nothing(proof: Proof) -> None:
    """When a run is cancelled its commands end and its checkouts go."""
    watched = Watched(proof.sandbox)
    proof.use(watched)
    slow = Suite(id="slow", run="sleep 600")
    task = asyncio.create_task(proof.judge(TINY_FILES, {"calc.py": FIX}, slow))
    await watched.started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert watched.running == 0
    assert list((proof.folder / "checkouts").iterdir()) == []
