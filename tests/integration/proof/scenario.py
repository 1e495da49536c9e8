"""One repository, one store, one runner: what a test of judging needs, without pytest."""

from collections.abc import Mapping
from pathlib import Path

from tests.integration.proof.repository import GitRepository
from workspace.artifacts import FolderArtifacts
from workspace.base_runs import BaseRuns
from workspace.contracts import (
    CommitTemplate,
    RepoRef,
    RunPin,
    SandboxLimits,
    Suite,
    TestReport,
)
from workspace.sandbox.backend import Sandbox
from workspace.setup import Dependencies
from workspace.suites import SuiteRunner

REPOSITORY = 4711
RUN = "run00001"


def make_pin(base: str, **changes: object) -> RunPin:
    values: dict[str, object] = {
        "run_id": RUN,
        "repo": RepoRef(id=REPOSITORY, url="https://example.org/o/r.git"),
        "base_ref": "refs/heads/main",
        "original_base_sha": base,
        "commit": CommitTemplate(
            author_name="a", author_email="a@example.org", committed_at=0, message="m"
        ),
        "sandbox": SandboxLimits(memory_bytes=1024**3, disk_bytes=1024**3),
        **changes,
    }
    return RunPin(**values)  # type: ignore[arg-type]


#: A suite that needs nothing but Python, and a product with a bug that it shows.
TINY = Suite(id="tiny", run='python3 -m tests.junit "$ULTRACODE_JUNIT"', timeout_seconds=60)
BUG = "def add(a, b):\n    return a - b\n"
FIX = "def add(a, b):\n    return a + b\n"
TINY_FILES = {
    "calc.py": BUG,
    "tests/__init__.py": "",
    "tests/test_calc.py": """\
import unittest

from calc import add


class CalcTest(unittest.TestCase):
    def test_zero(self):
        self.assertEqual(add(0, 0), 0)

    def test_add(self):
        self.assertEqual(add(2, 2), 4)
""",
    "tests/junit.py": """\
import sys
import unittest
from xml.sax.saxutils import quoteattr


class Result(unittest.TextTestResult):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.cases = []

    def _add(self, test, element=""):
        module, name = test.id().rsplit(".", 1)
        case = f"<testcase classname={quoteattr(module)} name={quoteattr(name)}>"
        self.cases.append(f"{case}{element}</testcase>")

    def addSuccess(self, test):
        super().addSuccess(test)
        self._add(test)

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self._add(test, f"<failure message={quoteattr(str(error[1]))}/>")

    addError = addFailure


suite = unittest.defaultTestLoader.discover("tests", top_level_dir=".")
result = unittest.TextTestRunner(resultclass=Result).run(suite)
with open(sys.argv[1], "w") as file:
    file.write(f"<testsuite>{''.join(result.cases)}</testsuite>")
sys.exit(not result.wasSuccessful())
""",
}


class Proof:
    """One repository, one store, one runner."""

    def __init__(self, folder: Path, sandbox: Sandbox, shared: Path) -> None:
        self.folder = folder
        self.repository = GitRepository(folder / "repository.git")
        self.artifacts = FolderArtifacts(folder / "artifacts")
        self._shared = shared
        self.use(sandbox)

    def use(self, sandbox: Sandbox) -> None:
        """Judge in this sandbox from now on."""
        self.sandbox = sandbox
        self.dependencies = Dependencies(
            self._shared / "deps",
            sandbox=sandbox,
            trees=self.repository,
            temporary=self.folder / "temporary",
        )
        self.runner = SuiteRunner(
            sandbox=sandbox,
            trees=self.repository,
            artifacts=self.artifacts,
            dependencies=self.dependencies,
            base_runs=BaseRuns(self._shared / "base-runs"),
            checkouts=self.folder / "checkouts",
        )

    async def judge(
        self,
        base: Mapping[str, str | bytes],
        candidate: Mapping[str, str | bytes | None],
        *suites: Suite,
        **pin: object,
    ) -> TestReport:
        """Judge a candidate given as changes of the base's files (None deletes)."""
        self.compose(base, candidate, **pin)
        diff = self.repository.diff(self.candidate.original_base_sha, self.candidate.sha)
        await self.artifacts.put(REPOSITORY, self.pin.run_id, diff, "text/x-diff")
        return await self.runner.test(self.pin, self.candidate, suites)

    def compose(
        self,
        base: Mapping[str, str | bytes],
        candidate: Mapping[str, str | bytes | None],
        **pin: object,
    ) -> None:
        """Commit base and candidate, and pin a run on them."""
        before = self.repository.commit(base)
        files = {**base, **candidate}
        after = self.repository.commit({k: v for k, v in files.items() if v is not None}, before)
        self.pin = make_pin(before, **pin)
        self.candidate = self.repository.candidate(before, after)

    async def exit_code_unjudged(self, suite: Suite) -> int | None:
        """Run a suite on the candidate just as it is."""
        checkout = self.folder / "unjudged"
        checkout.mkdir()
        await self.repository.checkout(REPOSITORY, self.candidate.sha, checkout)
        return (await self.runner.try_suite(self.pin, suite, checkout)).observation.exit_code
