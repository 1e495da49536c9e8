"""What an earlier version stored of its runs can be read, or is refused by its contract version."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from bot.contracts import (
    CodingRequest,
    Ending,
    ReviewOutput,
    RoundResult,
    SynthesisOutput,
    WorkerResult,
    WorkflowPlan,
)
from bot.policy import parse_policy
from workspace.contracts import (
    CONTRACT_VERSION,
    READABLE_CONTRACTS,
    Candidate,
    EvidenceManifest,
    TestReport,
)

KINDS: dict[str, type[BaseModel]] = {
    "plan": WorkflowPlan,
    "worker": WorkerResult,
    "candidate": Candidate,
    "report": TestReport,
    "evidence": EvidenceManifest,
    "synthesis": SynthesisOutput,
    "verdict": ReviewOutput,
    "result": RoundResult,
    "ending": Ending,
}
STORED = {
    int(path.stem.rpartition("_")[2]): json.loads(path.read_text())
    for path in Path(__file__).parent.glob("stored_run_*.json")
}
READABLE = sorted(STORED.keys() & READABLE_CONTRACTS)


def test_there_is_a_stored_run_of_each_version() -> None:
    """Whoever raises the contract version keeps a run of it here, and of each that is readable."""
    assert CONTRACT_VERSION in READABLE_CONTRACTS
    assert STORED.keys() >= READABLE_CONTRACTS


@pytest.mark.parametrize("version", READABLE)
def test_every_piece_of_a_readable_version_is_read(version: int) -> None:
    """A red test here: give a new field a default, or raise CONTRACT_VERSION."""
    pieces: dict[str, Any] = STORED[version]["pieces"]
    read = set()
    for key, value in pieces.items():
        kind = key.partition(":")[0]
        if kind in KINDS:
            KINDS[kind].model_validate(value)
            read.add(kind)
    assert read == set(KINDS)


@pytest.mark.parametrize("version", sorted(STORED))
def test_request_and_policy_of_every_version_are_read(version: int) -> None:
    """They stand in the run's row, and are read before a word can be said: they only grow."""
    request = STORED[version]["request"]
    assert CodingRequest.model_validate(request["coding_request"]).request
    assert parse_policy(request["policy"].encode()).required_suites("main")
