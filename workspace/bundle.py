"""The bundle: everything a stranger needs to recompute what was approved, in one file.

In: a candidate, its report, its evidence and the stored bytes. Out: a file that holds an in-toto
statement (predicate: test result), signed, and every file that it names. Why: whoever doubts a
merge can check the chain offline, without this bot, its database or GitHub (`verification`).

The file is canonical JSON (RFC 8785):

    mediaType   what this is
    envelope    DSSE; its payload is the statement
    publicKey   of the signer, base64; who that is only a pinned key tells
    files       name → base64: commit, diff, report, manifest, log/<suite>, junit/<suite>, and what
                the evidence binds by name (plan, policy, request)

The statement names repository, run, base, lineage, sandbox and guarantees, and each file by digest.
"""

from collections.abc import Mapping
from typing import Any, Final

from workspace.artifacts import parse_artifact_uri
from workspace.contracts import (
    ArtifactStore,
    Candidate,
    EvidenceManifest,
    RunPin,
    TestReport,
)
from workspace.digest import canonical_json, sha256_hex
from workspace.signing import Signer, encode_base64
from workspace.tree_entries import TreeStore

BUNDLE_MEDIA_TYPE: Final = "application/vnd.ultracode.evidence.v1+json"
STATEMENT_MEDIA_TYPE: Final = "application/vnd.in-toto+json"
STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Final = "https://in-toto.io/attestation/test-result/v0.1"


async def build_bundle(
    run: RunPin,
    candidate: Candidate,
    report: TestReport,
    manifest: EvidenceManifest,
    *,
    artifacts: ArtifactStore,
    trees: TreeStore,
    signer: Signer,
    lineage: Mapping[str, str] | None = None,
) -> bytes:
    """Return the signed bundle of one candidate.

    Args:
        run: What the run pinned.
        candidate: What was tested.
        report: What the suites did.
        manifest: The evidence. The bytes behind each of its `bindings` must be stored as artifacts
            of this run: a binding is the SHA-256 of what it binds.
        artifacts: Where all bytes are.
        trees: Where the commit is.
        signer: The operator's key.
        lineage: What this run came from, for example `{"revises": "<run id>"}`.

    Raises:
        ArtifactMissing: Bytes that the evidence names are not stored under this run.
    """
    files = await _load_files(run, report, manifest, artifacts)
    files["commit"] = await trees.read_commit(run.repo.id, candidate.sha)
    files["manifest"] = encode_manifest(manifest)
    claims = {
        "repositoryId": run.repo.id,
        "runId": run.run_id,
        "baseRef": run.base_ref,
        "baseSha": candidate.base_sha,
        "originalBaseSha": candidate.original_base_sha,
        "lineage": dict(lineage or {}),
        "bindings": manifest.bindings,
        "evidenceDigest": manifest.digest,
        "files": {name: sha256_hex(content) for name, content in files.items()},
    }
    return encode_bundle(signer, build_statement(report, claims), files)


def encode_bundle(
    signer: Signer, statement: Mapping[str, Any], files: Mapping[str, bytes]
) -> bytes:
    """Sign a statement and return the file."""
    return canonical_json(
        {
            "mediaType": BUNDLE_MEDIA_TYPE,
            "envelope": signer.sign(canonical_json(statement), STATEMENT_MEDIA_TYPE),
            "publicKey": encode_base64(signer.public_key),
            "files": {name: encode_base64(content) for name, content in files.items()},
        }
    )


def encode_manifest(manifest: EvidenceManifest) -> bytes:
    """Return a manifest's bytes in a bundle, without the bundle's own address."""
    return canonical_json(manifest.model_dump(mode="json", exclude={"bundle_uri"}))


def build_statement(report: TestReport, claims: Mapping[str, Any]) -> dict[str, Any]:
    """Return the in-toto statement about a report's candidate, as a plain value.

    The predicate is in-toto's test result 0.1 (in-toto/attestation, spec/predicates/test-result.md)
    with what this bot claims beside it under `ultracode`.
    """
    return {
        "_type": STATEMENT_TYPE,
        "subject": [
            {
                "name": f"candidate {report.candidate_id}",
                "digest": {"gitCommit": report.candidate_sha},
            }
        ],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "result": "PASSED" if report.passed else "FAILED",
            "configuration": [
                {"name": suite.suite_id, "digest": {"sha256": suite.run_key}}
                for suite in report.suites
            ],
            "passedTests": _tests(report, {"passed"}),
            "failedTests": _tests(report, {"failed", "error"}),
            "ultracode": {
                **claims,
                "sandbox": report.sandbox,
                "guarantees": report.guarantees,
                "testReportDigest": report.digest,
            },
        },
    }


async def _load_files(
    run: RunPin, report: TestReport, manifest: EvidenceManifest, artifacts: ArtifactStore
) -> dict[str, bytes]:
    wanted = {"diff": manifest.diff_digest, "report": parse_artifact_uri(report.artifact_uri)[2]}
    for suite in report.suites:
        wanted[f"log/{suite.suite_id}"] = suite.log.sha256
        if suite.junit is not None:
            wanted[f"junit/{suite.suite_id}"] = suite.junit.sha256
    wanted |= {f"bound/{name}": digest for name, digest in manifest.bindings.items()}
    return {
        name: await artifacts.get(run.repo.id, run.run_id, digest)
        for name, digest in wanted.items()
    }


def _tests(report: TestReport, outcomes: set[str]) -> list[str]:
    return sorted(
        f"{suite.suite_id}: {test.key}"
        for suite in report.suites
        for test in suite.outcomes
        if test.outcome in outcomes
    )
