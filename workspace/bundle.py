"""The bundle: everything a stranger needs to recompute what was approved, in one file.

In: a candidate, its report, its evidence and the stored bytes. Out: a file that holds an in-toto
statement (predicate: test result), signed where there is a key, and every file that it names. Why:
whoever doubts a merge can check the chain offline, without this bot, its database or GitHub
(`verification`).

The file is canonical JSON (RFC 8785):

    mediaType   what this is
    envelope    DSSE; its payload is the statement
    publicKey   of the signer, base64; who that is only a pinned key tells; null: nobody signed
    files       name → base64: commit, diff, report, manifest, log/<suite>, junit/<suite>, and what
                the evidence binds by name (bound/plan, bound/policy, bound/request, …)

Only the statement is stored beside the artifacts that it names; the file is put together when it is
asked for. The statement names repository, run, base, lineage, sandbox and guarantees, and each file
by digest.
"""

import contextlib
import json
from collections.abc import Mapping
from typing import Any, Final

from workspace.artifacts import ArtifactMissing, parse_artifact_uri
from workspace.contracts import (
    Artifact,
    ArtifactStore,
    Candidate,
    EvidenceManifest,
    RunPin,
    Sha256,
    TestReport,
)
from workspace.digest import canonical_json
from workspace.signing import Signer, decode_base64, encode_base64, unsigned_envelope
from workspace.tree_entries import TreeStore

BUNDLE_MEDIA_TYPE: Final = "application/vnd.ultracode.evidence.v1+json"
STATEMENT_MEDIA_TYPE: Final = "application/vnd.in-toto+json"
STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Final = "https://in-toto.io/attestation/test-result/v0.1"


async def store_statement(
    run: RunPin,
    candidate: Candidate,
    report: TestReport,
    manifest: EvidenceManifest,
    *,
    artifacts: ArtifactStore,
    trees: TreeStore,
    signer: Signer | None,
    lineage: Mapping[str, str] | None = None,
) -> Artifact:
    """Sign what is claimed of a candidate, and store it with all that `load_bundle` needs.

    Args:
        run: What the run pinned.
        candidate: What was tested.
        report: What the suites did.
        manifest: The evidence. The bytes behind each of its `bindings` must be stored as artifacts
            of this run: a binding is the SHA-256 of what it binds.
        artifacts: Where all bytes are.
        trees: Where the commit is.
        signer: The operator's key; without one the statement is unsigned and says so.
        lineage: What this run came from, for example `{"revision": "<run id>"}`.
    """
    files = _named_files(report, manifest)
    for name, content in (
        ("commit", await trees.read_commit(run.repo.id, candidate.sha)),
        ("manifest", encode_manifest(manifest)),
    ):
        stored = await artifacts.put(run.repo.id, run.run_id, content, "text/plain")
        files[name] = stored.sha256
    claims = {
        "repositoryId": run.repo.id,
        "runId": run.run_id,
        "baseRef": run.base_ref,
        "baseSha": candidate.base_sha,
        "originalBaseSha": candidate.original_base_sha,
        "lineage": dict(lineage or {}),
        "bindings": manifest.bindings,
        "evidenceDigest": manifest.digest,
        "files": files,
    }
    head = canonical_json(seal_statement(signer, build_statement(report, claims)))
    return await artifacts.put(run.repo.id, run.run_id, head, BUNDLE_MEDIA_TYPE)


async def load_bundle(statement_uri: str, artifacts: ArtifactStore) -> bytes:
    """Return the bundle of a stored statement: itself, and every file it names.

    A file whose stored bytes are gone or changed is left out: `verify_bundle` then names its link.

    Args:
        statement_uri: The address of what `store_statement` stored.
        artifacts: Where it, and what it names, is stored.

    Raises:
        ArtifactMissing: The statement itself is gone or damaged.
    """
    repository, run_id, sha256 = parse_artifact_uri(statement_uri)
    head = json.loads(await artifacts.get(repository, run_id, sha256))
    statement = json.loads(decode_base64(head["envelope"]["payload"]))
    files = {}
    for name, digest in statement["predicate"]["ultracode"]["files"].items():
        with contextlib.suppress(ArtifactMissing):
            files[name] = await artifacts.get(repository, run_id, digest)
    return encode_bundle(head, files)


def seal_statement(signer: Signer | None, statement: Mapping[str, Any]) -> dict[str, Any]:
    """Return a bundle without its files: the statement, signed if there is a key."""
    payload = canonical_json(statement)
    if signer is None:
        envelope, public_key = unsigned_envelope(payload, STATEMENT_MEDIA_TYPE), None
    else:
        envelope = signer.sign(payload, STATEMENT_MEDIA_TYPE)
        public_key = encode_base64(signer.public_key)
    return {"mediaType": BUNDLE_MEDIA_TYPE, "envelope": envelope, "publicKey": public_key}


def encode_bundle(head: Mapping[str, Any], files: Mapping[str, bytes]) -> bytes:
    """Return the file: a sealed statement together with the files that it names."""
    encoded = {name: encode_base64(content) for name, content in files.items()}
    return canonical_json({**head, "files": encoded})


def encode_manifest(manifest: EvidenceManifest) -> bytes:
    """Return a manifest's bytes in a bundle, without what is said of the bundle's statement."""
    left_out = {"statement_uri", "signed_by"}
    return canonical_json(manifest.model_dump(mode="json", exclude=left_out))


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


def _named_files(report: TestReport, manifest: EvidenceManifest) -> dict[str, Sha256]:
    named = {"diff": manifest.diff_digest, "report": parse_artifact_uri(report.artifact_uri)[2]}
    for suite in report.suites:
        named[f"log/{suite.suite_id}"] = suite.log.sha256
        if suite.junit is not None:
            named[f"junit/{suite.suite_id}"] = suite.junit.sha256
    return named | {f"bound/{name}": digest for name, digest in manifest.bindings.items()}


def _tests(report: TestReport, outcomes: set[str]) -> list[str]:
    return sorted(
        f"{suite.suite_id}: {test.key}"
        for suite in report.suites
        for test in suite.outcomes
        if test.outcome in outcomes
    )
