"""Every case of git-fidelity.yaml is a test somewhere."""

from pathlib import Path

import yaml

HERE = Path(__file__).parents[2]
CASES = HERE / "cases" / "git-fidelity.yaml"

#: Cases about suites, which Git alone cannot decide: what shows each, in the tests of the proof.
ABOUT_SUITES = {
    "planted-conftest": 'Fake("conftest"',
    "os-exit": "os._exit(0)",
    "forged-reporter": 'Fake("forged JUnit"',
}


def test_every_case_has_its_test() -> None:
    """A case that nobody tests does not hide among the others."""
    fidelity = (HERE / "integration/workspace/test_git_fidelity.py").read_text()
    fakes = (HERE / "integration/proof/test_fakes.py").read_text()
    cases = [case["id"] for case in yaml.safe_load(CASES.read_text())]
    assert len(cases) >= 27
    for case in cases:
        named = f"async def test_{case.replace('-', '_')}(" in fidelity
        assert named or case in ABOUT_SUITES, case
    assert all(shown in fakes for shown in ABOUT_SUITES.values())
