"""jest and vitest, as they come from npm, judged by the JUnit files they write."""

import io
import subprocess
import tarfile
from dataclasses import dataclass, replace

import pytest

from tests.integration.proof.conftest import CACHE
from tests.integration.proof.scenario import Proof
from workspace.contracts import Setup, Suite, TestReport

SETUP = Setup(run="tar xf vendor/node_modules.tar", inputs=("vendor/*.tar",))
BUG = "export const add = (a, b) => a - b;\n"


@dataclass(frozen=True)
class Runner:
    """One test runner: what npm installs, the command, the test file."""

    name: str
    packages: tuple[str, ...]
    command: str
    files: dict[str, str]
    fake: dict[str, str]

    @property
    def suite(self) -> Suite:
        return Suite(id="unit", run=self.command, timeout_seconds=240)

    def vendored(self) -> bytes:
        """Return the runner's packages as one archive; installed once."""
        folder = CACHE / f"node-{self.name}"
        if not (folder / "node_modules").is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            options = ("--silent", "--no-audit", "--no-fund", "--ignore-scripts")
            subprocess.run(["npm", "install", *options, *self.packages], cwd=folder, check=True)
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            tar.add(folder / "node_modules", "node_modules", filter=_plain)
        return archive.getvalue()


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


TESTS = """\
describe("add", () => {
  it("adds nothing", () => { expect(add(0, 0)).toBe(0); });
  it("adds", () => { expect(add(2, 2)).toBe(4); });
});
"""
VITEST = Runner(
    name="vitest",
    packages=("vitest@3.2.4",),
    command='vitest run --reporter=junit --outputFile="$ULTRACODE_JUNIT"',
    files={
        "package.json": '{"name": "calc", "type": "module"}\n',
        "src/calc.js": BUG,
        "test/calc.test.js": 'import { describe, expect, it } from "vitest";\n'
        'import { add } from "../src/calc.js";\n' + TESTS,
    },
    fake={
        "vitest.config.js": "export default { test: { testNamePattern: /nothing/ } };\n",
    },
)
#: Vite compiles a configuration file into `node_modules` before it reads it.
CONFIGURED = replace(
    VITEST, files={**VITEST.files, "vitest.config.js": "export default { test: {} };\n"}
)
JEST = Runner(
    name="jest",
    packages=("jest@30.0.5", "jest-junit@16.0.0"),
    command='JEST_JUNIT_OUTPUT_FILE="$ULTRACODE_JUNIT" jest --ci --reporters=jest-junit',
    files={
        "package.json": '{"name": "calc", "jest": {"testEnvironment": "node"}}\n',
        "src/calc.js": BUG.replace("export const add", "exports.add"),
        "test/calc.test.js": 'const { add } = require("../src/calc.js");\n' + TESTS,
    },
    fake={"package.json": '{"name": "calc", "jest": {"testNamePattern": "nothing"}}\n'},
)


NODE = Runner(
    name="node",
    packages=(),
    command='node --test --test-reporter=junit --test-reporter-destination="$ULTRACODE_JUNIT"',
    files={
        "package.json": '{"name": "calc", "type": "module"}\n',
        "src/calc.js": BUG,
        "test/calc.test.js": 'import { test } from "node:test";\n'
        'import assert from "node:assert";\nimport { add } from "../src/calc.js";\n'
        'test("adds", () => { assert.equal(add(2, 2), 4); });\n',
    },
    fake={},
)


async def judge(proof: Proof, runner: Runner, candidate: dict[str, str]) -> TestReport:
    base = {**runner.files, "vendor/node_modules.tar": runner.vendored()}
    return await proof.judge(base, {**candidate}, runner.suite, setup=SETUP)


@pytest.mark.sandbox
@pytest.mark.parametrize(
    "runner", [VITEST, CONFIGURED, JEST], ids=["vitest", "vitest with a file", "jest"]
)
async def test_a_fix_passes_and_a_fake_does_not(proof: Proof, runner: Runner) -> None:
    """A repaired product passes with its canary seen; a configuration that hides tests does not."""
    fixed = runner.files["src/calc.js"].replace("a - b", "a + b")
    report = await judge(proof, runner, {"src/calc.js": fixed})
    suite = report.suites[0]
    assert report.passed, suite.reason
    assert (suite.judged_by, suite.canary, len(suite.fail_to_pass)) == ("junit", "failed", 1)

    report = await judge(proof, runner, runner.fake)
    assert not report.passed
    assert report.restored == tuple(runner.fake)
    assert await proof.exit_code_unjudged(runner.suite) == 0, "this does not fool the command"


@pytest.mark.sandbox
@pytest.mark.parametrize("runner", [VITEST, JEST, NODE], ids=["vitest", "jest", "node"])
async def test_a_base_whose_tests_do_not_load_is_mended(proof: Proof, runner: Runner) -> None:
    """What a runner reports of a file it cannot load is no test that would have to run later."""
    base = {path: text for path, text in runner.files.items() if path != "src/calc.js"}
    setup = None
    if runner.packages:
        base["vendor/node_modules.tar"] = runner.vendored()
        setup = SETUP
    fixed = runner.files["src/calc.js"].replace("a - b", "a + b")
    report = await proof.judge(base, {"src/calc.js": fixed}, runner.suite, setup=setup)
    assert report.passed, report.suites[0].reason
    assert report.suites[0].base_passed is False
