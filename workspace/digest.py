"""Digests that anybody can recompute.

In: facts about an execution as plain values. Out: SHA-256 digests of their canonical JSON
(RFC 8785). Facts are hashed, never logs: durations, paths and the order of execution differ from
run to run, outcomes do not. Equal `run_key` and outcomes give an equal report digest, in any
folder, as any user, in any order; `evidence_digest` names one execution.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import rfc8785
from pydantic import Field

from workspace.contracts import CommitSha, Frozen, Sha256, Suite, SuiteId, Termination, TestOutcome

#: Changes whenever the meaning of any digest changes.
DIGEST_VERSION = 1


def sha256_hex(content: bytes) -> Sha256:
    """Return the SHA-256 of bytes in lower-case hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def canonical_json(value: Any) -> bytes:
    """Return the canonical JSON (RFC 8785) of a plain value.

    Raises:
        rfc8785.CanonicalizationError: The value has no canonical form (NaN, integers beyond 2**53).
    """
    return rfc8785.dumps(value)


def canonical_digest(value: Any) -> Sha256:
    """Return the SHA-256 of a plain value's canonical JSON."""
    return sha256_hex(canonical_json(value))


class RunFacts(Frozen):
    """All that determines an execution of one suite: the preimage of its `run_key`."""

    tree: str = Field(description="Git tree of the candidate (of the base for a run on the base)")
    base_commit: CommitSha
    suite: Suite
    writes_allow: tuple[str, ...] = Field(
        default=(), description="globs from policy that lift the rule on runner configuration"
    )
    environment: dict[str, str] = Field(description="variables the suite sees")
    toolchain: dict[str, str] = Field(description="what the command's programs are, measured")
    dependency_seal: Sha256 | None
    architecture: str
    network: str = "none"
    sandbox: str
    guarantees: dict[str, bool]
    limits: dict[str, float | int | str | None] = Field(
        default_factory=dict, description="ceilings of the sandbox: bytes, CPUs, image"
    )
    judging_version: int = Field(description="version of the rules by which a run is judged")

    @property
    def run_key(self) -> Sha256:
        """Names this execution before it happens; base runs are cached by it."""
        return canonical_digest({"version": DIGEST_VERSION, **self.model_dump(mode="json")})


def result_digest(
    run_key: Sha256,
    termination: Termination,
    exit_code: int | None,
    outcomes: Iterable[TestOutcome],
) -> Sha256:
    """Return the digest of what one suite did: how it ended and each test's outcome."""
    return canonical_digest(
        {
            "version": DIGEST_VERSION,
            "run_key": run_key,
            "termination": termination,
            "exit_code": exit_code,
            "outcomes": sorted([test.class_name, test.name, test.outcome] for test in outcomes),
        }
    )


def report_digest(results: Iterable[tuple[SuiteId, bool, Sha256]]) -> Sha256:
    """Return the digest over all suites: (id, required, result digest) each, in any order."""
    return canonical_digest(
        {
            "version": DIGEST_VERSION,
            "suites": sorted(
                [suite_id, required, digest] for suite_id, required, digest in results
            ),
        }
    )


def evidence_digest(facts: Mapping[str, str | Sequence[str] | Mapping[str, str]]) -> Sha256:
    """Return the digest of one execution's evidence over the facts that `evidence` names."""
    return canonical_digest({"version": DIGEST_VERSION, **facts})
