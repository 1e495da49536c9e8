"""Digests that a stranger computes with the standard library alone."""

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workspace.contracts import Suite, TestOutcome
from workspace.digest import RunFacts, report_digest, result_digest

OUTCOMES = st.lists(
    st.builds(
        TestOutcome,
        class_name=st.text(max_size=5),
        name=st.text(max_size=5),
        outcome=st.sampled_from(["passed", "failed", "error", "skipped"]),
        message=st.text(max_size=5),
    ),
    max_size=5,
)
KEY = "a" * 64


def by_hand(value: Any) -> str:
    """Canonical JSON of plain ASCII values is sorted JSON without spaces."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_result_digest_can_be_computed_by_hand() -> None:
    """Version, run key, ending, exit code and the sorted outcomes: nothing else."""
    outcomes = [
        TestOutcome(class_name="b", name="t", outcome="failed", message="in no digest", line=3),
        TestOutcome(class_name="a", name="t", outcome="passed"),
    ]
    assert result_digest(KEY, "exit", 1, outcomes) == by_hand(
        {
            "version": 1,
            "run_key": KEY,
            "termination": "exit",
            "exit_code": 1,
            "outcomes": [["a", "t", "passed"], ["b", "t", "failed"]],
        }
    )


def test_a_report_digest_can_be_computed_by_hand() -> None:
    """The suites' ids, whether they are required, and their result digests."""
    assert report_digest([("b", True, KEY), ("a", False, KEY)]) == by_hand(
        {"version": 1, "suites": [["a", False, KEY], ["b", True, KEY]]}
    )


@given(OUTCOMES, st.randoms())
def test_order_and_messages_do_not_matter(outcomes: list[TestOutcome], random: Any) -> None:
    """Tests run in another order, or failing in other words, are the same result."""
    shuffled = [test.model_copy(update={"message": "", "file": "x.py"}) for test in outcomes]
    random.shuffle(shuffled)
    assert result_digest(KEY, "exit", 0, shuffled) == result_digest(KEY, "exit", 0, outcomes)


@given(OUTCOMES.filter(bool), st.data())
def test_every_outcome_matters(outcomes: list[TestOutcome], data: st.DataObject) -> None:
    """One test more, or another outcome of one, is another result."""
    number = data.draw(st.integers(0, len(outcomes) - 1))
    others = {"passed", "failed", "error", "skipped"} - {outcomes[number].outcome}
    changed = list(outcomes)
    changed[number] = outcomes[number].model_copy(
        update={"outcome": data.draw(st.sampled_from(sorted(others)))}
    )
    digest = result_digest(KEY, "exit", 0, outcomes)
    assert result_digest(KEY, "exit", 0, changed) != digest
    assert result_digest(KEY, "exit", 0, outcomes[:number] + outcomes[number + 1 :]) != digest
    assert result_digest(KEY, "exit", 1, outcomes) != digest
    assert result_digest(KEY, "oom", None, outcomes) != digest


FACTS = RunFacts(
    tree="1" * 40,
    base_commit="2" * 40,
    suite=Suite(id="unit", run="make test"),
    environment={"TZ": "UTC"},
    toolchain={"sh": "3" * 64},
    dependency_seal=None,
    architecture="x86_64",
    sandbox="bubblewrap",
    guarantees={"network_denied": True},
    judging_version=1,
)


@pytest.mark.parametrize(
    "change",
    [
        {"tree": "4" * 40},
        {"base_commit": "4" * 40},
        {"suite": Suite(id="unit", run="make  test")},
        {"suite": Suite(id="unit", run="make test", repeat=2)},
        {"writes_allow": ("conftest.py",)},
        {"environment": {"TZ": "CET"}},
        {"toolchain": {"sh": "4" * 64}},
        {"dependency_seal": "4" * 64},
        {"architecture": "aarch64"},
        {"network": "some"},
        {"sandbox": "container"},
        {"guarantees": {"network_denied": False}},
        {"limits": {"memory_bytes": 1}},
        {"judging_version": 2},
    ],
    ids=lambda change: next(iter(change)),
)
def test_whatever_determines_a_run_is_in_its_key(change: dict[str, Any]) -> None:
    """Two runs that could differ never share a key."""
    assert FACTS.model_copy(update=change).run_key != FACTS.run_key
