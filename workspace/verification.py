"""Whether a bundle holds, offline: valid, or the first link of the chain that does not.

In: the bytes of a bundle, the public keys the reader trusts, and what the reader expects it to be
about. Out: a `Verdict`. Nothing is taken from the network, from a database or from this host: every
digest is computed from the bytes in the file.

The links, in the order in which they are tried: bundle (it is one), signature, statement, each file
it names (candidate, diff, report, log, junit, plan, policy, request, evidence), what follows from
the files, and what the reader expected (repository, run, base, candidate).
"""

import hashlib
import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

from pydantic import ValidationError

from workspace.artifacts import artifact_uri
from workspace.bundle import (
    BUNDLE_MEDIA_TYPE,
    PREDICATE_TYPE,
    STATEMENT_MEDIA_TYPE,
    STATEMENT_TYPE,
    build_statement,
    encode_manifest,
)
from workspace.contracts import CommitSha, EvidenceManifest, Frozen, TestReport
from workspace.digest import canonical_json, sha256_hex
from workspace.evidence import diff_excerpt, logs_excerpt, manifest_digest
from workspace.execution import read_outcomes
from workspace.readable_diff import readable_diff
from workspace.report import ReportDocument, build_report
from workspace.signing import (
    SignatureBroken,
    decode_base64,
    key_id,
    open_envelope,
    open_unsigned,
)

MAX_BUNDLE_BYTES: Final = 512 * 1024 * 1024


#: What a link's name looks like; a bundle's file names are whatever its maker wanted.
_LINK = re.compile(r"[a-z][a-z_-]{0,30}")


class Expectation(Frozen):
    """What the reader believes a bundle to be about; None: whatever it says."""

    repository_id: int | None = None
    run_id: str | None = None
    base_ref: str | None = None
    original_base_sha: CommitSha | None = None
    candidate_sha: CommitSha | None = None
    evidence_digest: str | None = None


class Verdict(Frozen):
    """What is to be said of a bundle.

    `valid`: every link holds, signed by a pinned key. `consistent`: every link holds, and nobody
    said which key to trust, or nobody signed. `broken`: `link` is the first that does not hold.
    """

    status: Literal["valid", "consistent", "broken"]
    link: str | None = None
    sentence: str
    key_id: str | None = None
    claims: dict[str, Any] | None = None


class _Broken(Exception):
    def __init__(self, link: str, sentence: str) -> None:
        super().__init__(f"{link}: {sentence}")
        self.link = link
        self.sentence = sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """A bundle whose signature holds."""

    statement: dict[str, Any]
    files: Mapping[str, bytes]
    public_key: bytes | None

    @property
    def claims(self) -> dict[str, Any]:
        claims: dict[str, Any] = self.statement["predicate"]["ultracode"]
        return claims

    @property
    def candidate_sha(self) -> str:
        sha: str = self.statement["subject"][0]["digest"]["gitCommit"]
        return sha


def verify_bundle(
    content: bytes,
    *,
    pinned_keys: Collection[bytes] = (),
    expected: Expectation | None = None,
) -> Verdict:
    """Check a bundle from its bytes alone.

    Args:
        content: The file.
        pinned_keys: Public keys the reader trusts, 32 bytes each; none: the signer stays unknown.
        expected: What it must be about.
    """
    try:
        opened = _open(content, pinned_keys)
        for decide in (*_LINKS, partial(_decide_expected, expected or Expectation())):
            _run_check(decide, opened)
    except _Broken as broken:
        return Verdict(status="broken", link=broken.link, sentence=broken.sentence)
    except Exception as error:  # noqa: BLE001 - whatever hostile bytes make a parser raise
        sentence = f"the file is damaged: {type(error).__name__}"
        return Verdict(status="broken", link="bundle", sentence=sentence)
    return _holds(opened, pinned=bool(pinned_keys))


def _holds(opened: _Opened, *, pinned: bool) -> Verdict:
    if opened.public_key is None:
        sentence = "consistent, unsigned: who made it is unknown"
        return Verdict(status="consistent", sentence=sentence, claims=opened.claims)
    return Verdict(
        status="valid" if pinned else "consistent",
        sentence="every link holds" if pinned else "consistent, signer unknown",
        key_id=key_id(opened.public_key),
        claims=opened.claims,
    )


def _run_check(decide: Callable[[_Opened], None], opened: _Opened) -> None:
    """Run one check; whatever a malformed statement makes it stumble over breaks the statement."""
    try:
        decide(opened)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise _Broken("statement", f"it cannot be read: {error!r}"[:300]) from error


# --- the file and its signature -----------------------------------------------------------------


def _open(content: bytes, pinned_keys: Collection[bytes]) -> _Opened:
    bundle = _parse(content)
    try:
        named_key = bundle["publicKey"]
        public_key = None if named_key is None else decode_base64(named_key)
        files = {name: decode_base64(text) for name, text in bundle["files"].items()}
        envelope = bundle["envelope"]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise _Broken("bundle", "a part of the bundle is missing or damaged") from None
    if pinned_keys and public_key not in pinned_keys:
        by = "nobody" if public_key is None else f"key {key_id(public_key)[:16]}"
        raise _Broken("signature", f"signed by {by}, not by a key that is pinned")
    try:
        if public_key is None:
            payload = open_unsigned(envelope, STATEMENT_MEDIA_TYPE)
        else:
            payload = open_envelope(envelope, STATEMENT_MEDIA_TYPE, public_key)
        statement = json.loads(payload)
    except (SignatureBroken, ValueError):
        raise _Broken("signature", "the signature does not hold") from None
    return _Opened(statement=statement, files=files, public_key=public_key)


def _parse(content: bytes) -> dict[str, Any]:
    """Read a file in its one spelling, so that no byte of it is free to change."""
    if len(content) > MAX_BUNDLE_BYTES:
        raise _Broken("bundle", "the file is too large")
    try:
        bundle = json.loads(content)
        canonical = canonical_json(bundle) == content
    except (ValueError, RecursionError, TypeError):
        raise _Broken("bundle", "the file is damaged") from None
    if not canonical or not isinstance(bundle, dict):
        raise _Broken("bundle", "the file is damaged")
    keys = {"mediaType", "envelope", "publicKey", "files"}
    envelope_keys = {"payload", "payloadType", "signatures"}
    if bundle.keys() != keys or bundle["mediaType"] != BUNDLE_MEDIA_TYPE:
        raise _Broken("bundle", "the file is no evidence bundle of this version")
    if not isinstance(bundle["envelope"], dict) or bundle["envelope"].keys() != envelope_keys:
        raise _Broken("bundle", "the envelope is not one of ours")
    return bundle


# --- what the statement says, and what follows from the files -----------------------------------


def _decide_statement(opened: _Opened) -> None:
    statement = opened.statement
    if (statement["_type"], statement["predicateType"]) != (STATEMENT_TYPE, PREDICATE_TYPE):
        raise _Broken("statement", "it is no test result")
    if len(statement["subject"]) != 1:
        raise _Broken("statement", "it is about more than one thing")


def _decide_files(opened: _Opened) -> None:
    named: dict[str, str] = opened.claims["files"]
    for name in [*named, *opened.files]:
        link = _link_of(name)
        if name not in opened.files:
            raise _Broken(link, f"{name} is missing from the bundle")
        if name not in named:
            raise _Broken(link, f"{name} is not named by the statement")
        if sha256_hex(opened.files[name]) != named[name]:
            raise _Broken(link, f"{name} is not what the statement names")


def _link_of(name: str) -> str:
    if name in ("commit", "manifest"):
        return {"commit": "candidate", "manifest": "evidence"}[name]
    link = name.removeprefix("bound/").split("/", 1)[0]
    return link if _LINK.fullmatch(link) else "bundle"


def _decide_candidate(opened: _Opened) -> None:
    """The commit's bytes are its SHA; its only parent is the base that lineage names."""
    raw = opened.files["commit"]
    named = hashlib.sha1(b"commit %d\0%s" % (len(raw), raw), usedforsecurity=False).hexdigest()
    if named != opened.candidate_sha:
        raise _Broken("candidate", "the commit is not the one the statement is about")
    header = raw.split(b"\n\n", 1)[0].decode("utf-8", "replace").splitlines()
    parents = [line.removeprefix("parent ") for line in header if line.startswith("parent ")]
    unchanged = opened.candidate_sha == opened.claims["originalBaseSha"]
    if not unchanged and parents != [opened.claims["originalBaseSha"]]:
        raise _Broken("candidate", "its only parent is not the original base")
    trees = [line.removeprefix("tree ") for line in header if line.startswith("tree ")]
    document = _document(opened)
    if any([record.run.tree] != trees for record in document.suites):
        raise _Broken("candidate", "the suites ran on another tree")


def _decide_report(opened: _Opened) -> None:
    """The report follows from its document, and the statement from the report."""
    report = _report(opened)
    if report.candidate_sha != opened.candidate_sha:
        raise _Broken("report", "it is about another candidate")
    for record in _document(opened).suites:
        if record.run.suite != record.facts.suite or any(
            run.run_key != record.run.run_key for run in record.facts.candidate
        ):
            raise _Broken("report", "a run does not follow from what is said to determine it")
    if build_statement(report, opened.claims) != opened.statement:
        raise _Broken("report", "the statement does not follow from it")


def _decide_logs(opened: _Opened) -> None:
    for suite in _report(opened).suites:
        if sha256_hex(opened.files[f"log/{suite.suite_id}"]) != suite.log.sha256:
            raise _Broken("log", f"the log of suite {suite.suite_id} is not the report's")


def _decide_junit(opened: _Opened) -> None:
    for record in _document(opened).suites:
        if record.junit is None:
            continue
        content = opened.files[f"junit/{record.facts.suite.id}"]
        if sha256_hex(content) != record.junit.sha256:
            raise _Broken("junit", f"the file of suite {record.facts.suite.id} is another")
        if read_outcomes(content)[0] != record.facts.candidate[0].outcomes:
            raise _Broken("junit", f"the outcomes of suite {record.facts.suite.id} are others")


def _decide_evidence(opened: _Opened) -> None:
    """The manifest's digest is that of its content, and its content is what the bundle holds."""
    manifest = _manifest(opened)
    claims, report = opened.claims, _report(opened)
    if manifest.digest != manifest_digest(manifest) or manifest.digest != claims["evidenceDigest"]:
        raise _Broken("evidence", "its digest is not that of its content")
    facts = (
        ("candidate", manifest.candidate_sha, opened.candidate_sha),
        ("candidate", manifest.original_base_sha, claims["originalBaseSha"]),
        ("candidate", manifest.base_sha, claims["baseSha"]),
        ("diff", manifest.diff_digest, claims["files"]["diff"]),
        ("diff", manifest.diff_uri, _uri(opened, "diff")),
        ("diff", manifest.diff_bytes, len(readable_diff(opened.files["diff"]))),
        ("diff", manifest.diff_text, diff_excerpt(opened.files["diff"])),
        ("report", manifest.test_report_digest, report.digest),
        ("report", manifest.test_artifact_uri, report.artifact_uri),
        ("log", manifest.log_digests, {s.suite_id: s.log.sha256 for s in report.suites}),
        ("log", manifest.test_log_text, logs_excerpt(_logs(opened, report))),
        ("evidence", manifest.bindings, claims["bindings"]),
    )
    for link, one, other in facts:
        if one != other:
            raise _Broken(link, "the evidence names another")
    for name, digest in manifest.bindings.items():
        if claims["files"].get(f"bound/{name}") != digest:
            raise _Broken(name, "its bytes are not those that the evidence binds")


def _decide_expected(expected: Expectation, opened: _Opened) -> None:
    claims = opened.claims
    facts = (
        ("repository", expected.repository_id, claims["repositoryId"]),
        ("run", expected.run_id, claims["runId"]),
        ("base", expected.base_ref, claims["baseRef"]),
        ("base", expected.original_base_sha, claims["originalBaseSha"]),
        ("candidate", expected.candidate_sha, opened.candidate_sha),
        ("evidence", expected.evidence_digest, claims["evidenceDigest"]),
    )
    for link, wanted, said in facts:
        if wanted is not None and wanted != said:
            raise _Broken(link, f"the bundle is about {said}, not {wanted}")


_LINKS: Final = (
    _decide_statement,
    _decide_files,
    _decide_candidate,
    _decide_report,
    _decide_logs,
    _decide_junit,
    _decide_evidence,
)


def _document(opened: _Opened) -> ReportDocument:
    try:
        return ReportDocument.parse(opened.files["report"])
    except ValidationError:
        raise _Broken("report", "the document cannot be read") from None


def _report(opened: _Opened) -> TestReport:
    return build_report(_document(opened), _uri(opened, "report"))


def _uri(opened: _Opened, name: str) -> str:
    claims = opened.claims
    return artifact_uri(claims["repositoryId"], claims["runId"], claims["files"][name])


def _logs(opened: _Opened, report: TestReport) -> dict[str, bytes]:
    return {suite.suite_id: opened.files[f"log/{suite.suite_id}"] for suite in report.suites}


def _manifest(opened: _Opened) -> EvidenceManifest:
    try:
        manifest = EvidenceManifest.model_validate_json(opened.files["manifest"])
    except ValidationError:
        raise _Broken("evidence", "the manifest cannot be read") from None
    if encode_manifest(manifest) != opened.files["manifest"]:
        raise _Broken("evidence", "the manifest is not spelled as it was")
    return manifest
