"""Evidence and bundle: every link holds, and each broken one is named."""

import base64
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey

from tests.integration.proof.scenario import FIX, REPOSITORY, RUN, TINY, TINY_FILES, Proof
from workspace.bundle import (
    STATEMENT_MEDIA_TYPE,
    encode_bundle,
    load_bundle,
    seal_statement,
    store_statement,
)
from workspace.contracts import EvidenceManifest, TestReport
from workspace.digest import canonical_json, sha256_hex
from workspace.evidence import build_evidence, verify_evidence
from workspace.sandbox.backend import Sandbox
from workspace.signing import (
    KeyUnreadable,
    Signer,
    decode_base64,
    encode_base64,
    parse_public_key,
    parse_public_keys,
    public_key_document,
)
from workspace.verification import Expectation, Verdict, verify_bundle

PLAN, POLICY = b'{"plan": 1}', b"version: 1\n"
SIGNER = Signer(Ed25519PrivateKey.generate())
STRANGER = Signer(Ed25519PrivateKey.generate())
LOGO = random.Random(1).randbytes(20_000)
BARE = TINY.model_copy(update={"id": "bare", "run": "echo no report"})


class Made:
    """One judged candidate with everything that proves it."""

    def __init__(self, proof: Proof, report: TestReport, manifest: EvidenceManifest) -> None:
        self.proof = proof
        self.report = report
        self.manifest = manifest
        self.bundle = self.unsigned = b""

    async def broken(self, **changes: Any) -> tuple[str, ...]:
        report = changes.get("report", self.report)
        return await verify_evidence(
            changes.get("pin", self.proof.pin),
            changes.get("candidate", self.proof.candidate),
            report,
            changes.get("manifest", self.manifest),
            artifacts=self.proof.artifacts,
        )

    def stored(self, sha256: str) -> Path:
        root = self.proof.folder / "artifacts" / str(REPOSITORY) / RUN
        return root / sha256[:2] / sha256


@pytest.fixture(scope="session")
async def made(tmp_path_factory: pytest.TempPathFactory, sandbox: Sandbox) -> Made:
    folder = tmp_path_factory.mktemp("evidence")
    folder.chmod(0o755)
    proof = Proof(folder, sandbox, folder)
    change = {"calc.py": FIX, "logo.png": LOGO}
    report = await proof.judge(TINY_FILES, change, TINY, BARE)
    bound = {
        name: (await proof.artifacts.put(REPOSITORY, RUN, content, "text/plain")).sha256
        for name, content in {"plan": PLAN, "policy": POLICY}.items()
    }
    manifest = await build_evidence(
        proof.pin, proof.candidate, report, bound, artifacts=proof.artifacts
    )
    made = Made(proof, report, manifest)
    made.bundle, made.unsigned = [await bundle_of(made, signer) for signer in (SIGNER, None)]
    return made


async def bundle_of(made: Made, signer: Signer | None) -> bytes:
    statement = await store_statement(
        made.proof.pin,
        made.proof.candidate,
        made.report,
        made.manifest,
        artifacts=made.proof.artifacts,
        trees=made.proof.repository,
        signer=signer,
        lineage={"revision": "run00000"},
    )
    return await load_bundle(statement.uri, made.proof.artifacts)


# --- evidence -------------------------------------------------------------------------------------


async def test_untouched_evidence_holds(made: Made) -> None:
    """Recomputed from the stored bytes every link holds, and the excerpts are there to read."""
    assert await made.broken() == ()
    assert "+    return a + b" in made.manifest.diff_text
    assert "--- bare ---\nno report" in made.manifest.test_log_text


def test_an_image_counts_with_what_is_shown_of_it(made: Made) -> None:
    """Binary content is bound by the diff's digest, and neither quoted nor counted."""
    assert "20000 bytes now" in made.manifest.diff_text
    assert len(made.manifest.diff_text) == made.manifest.diff_bytes < len(LOGO) / 10


async def test_the_same_bindings_give_the_same_evidence(made: Made) -> None:
    """The digest of one execution is a function of that execution."""
    again = await build_evidence(
        made.proof.pin,
        made.proof.candidate,
        made.report,
        made.manifest.bindings,
        artifacts=made.proof.artifacts,
    )
    assert again == made.manifest


@pytest.mark.parametrize("link", ["diff", "report", "junit", "log", "plan", "policy"])
async def test_changed_bytes_break_their_link(made: Made, link: str) -> None:
    """Bytes changed or lost in the store are named by what they were."""
    suite = made.report.suites[0]
    assert suite.junit
    digest = {
        "diff": made.manifest.diff_digest,
        "report": made.report.artifact_uri.rsplit("/", 1)[1],
        "junit": suite.junit.sha256,
        "log": suite.log.sha256,
        **made.manifest.bindings,
    }[link]
    path = made.stored(digest)
    kept = path.read_bytes()
    try:
        path.write_bytes(kept + b" ")
        assert [sentence.split(":")[0] for sentence in await made.broken()] == [link]
        path.unlink()
        assert [sentence.split(":")[0] for sentence in await made.broken()] == [link]
    finally:
        path.write_bytes(kept)


async def test_a_report_that_says_more_than_its_document_is_refused(made: Made) -> None:
    """A report cannot be made to pass, or to name other outcomes, beside what was observed."""
    suite = made.report.suites[0]
    for change in (
        {"passed": not made.report.passed},
        {"suites": (suite.model_copy(update={"outcomes": ()}),)},
        {"suites": (suite.model_copy(update={"weakened": ("x",)}), made.report.suites[1])},
        {"guarantees": {}},
        {"sandbox": "container"},
    ):
        assert await made.broken(report=made.report.model_copy(update=change)), change


@pytest.mark.parametrize(
    ("change", "link"),
    [
        ({"candidate_sha": "1" * 40}, "candidate"),
        ({"original_base_sha": "1" * 40}, "candidate"),
        ({"diff_text": "another"}, "diff"),
        ({"diff_bytes": 1}, "diff"),
        ({"diff_uri": f"artifact:1/{RUN}/{'0' * 64}"}, "diff"),
        ({"test_report_digest": "0" * 64}, "report"),
        ({"log_digests": {}}, "log"),
        ({"test_log_text": "another"}, "log"),
        ({"bindings": {"plan": "0" * 64}}, "evidence"),
        ({"digest": "0" * 64}, "evidence"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else value,
)
async def test_changed_evidence_is_refused(made: Made, change: dict[str, Any], link: str) -> None:
    """Whatever is changed in a manifest is found and named."""
    broken = await made.broken(manifest=made.manifest.model_copy(update=change))
    assert link in {sentence.split(":")[0] for sentence in broken}


async def test_evidence_of_another_run_or_repository_is_refused(made: Made) -> None:
    """Evidence moved to another run or repository names bytes that are not there."""
    pin = made.proof.pin
    assert await made.broken(pin=pin.model_copy(update={"run_id": "run00002"}))
    other = pin.repo.model_copy(update={"id": REPOSITORY + 1})
    assert await made.broken(pin=pin.model_copy(update={"repo": other}))


# --- the bundle -----------------------------------------------------------------------------------


def check(content: bytes, **options: Any) -> Verdict:
    return verify_bundle(content, pinned_keys={SIGNER.public_key}, **options)


def test_a_bundle_is_valid_by_its_bytes_alone(made: Made) -> None:
    """With the operator's key pinned a bundle is valid, and says what it is about."""
    expected = Expectation(
        repository_id=REPOSITORY,
        run_id=RUN,
        base_ref="refs/heads/main",
        original_base_sha=made.proof.candidate.original_base_sha,
        candidate_sha=made.proof.candidate.sha,
        evidence_digest=made.manifest.digest,
    )
    verdict = check(made.bundle, expected=expected)
    assert (verdict.status, verdict.key_id) == ("valid", SIGNER.key_id)
    assert verdict.claims
    assert verdict.claims["lineage"] == {"revision": "run00000"}
    assert verdict.claims["testReportDigest"] == made.report.digest


def test_without_a_pinned_key_the_signer_is_unknown(made: Made) -> None:
    """Nobody said which key to trust: consistent is all that can be said."""
    verdict = verify_bundle(made.bundle)
    assert (verdict.status, verdict.sentence) == ("consistent", "consistent, signer unknown")


def test_a_bundle_nobody_signed_says_so(made: Made) -> None:
    """Without a key every digest can still be checked; to a reader who pins one it is refused."""
    verdict = verify_bundle(made.unsigned)
    assert (verdict.status, verdict.key_id) == ("consistent", None)
    assert verdict.sentence == "consistent, unsigned: who made it is unknown"
    assert (check(made.unsigned).status, check(made.unsigned).link) == ("broken", "signature")
    stripped = json.loads(made.bundle) | {"publicKey": None}
    assert verify_bundle(canonical_json(stripped)).link == "signature"


def test_a_statement_nested_without_end_is_a_broken_bundle(made: Made) -> None:
    """A payload that no parser can walk breaks the bundle, in words."""
    bundle = json.loads(made.unsigned)
    bundle["envelope"]["payload"] = base64.b64encode(b"[" * 200_000 + b"]" * 200_000).decode()
    verdict = verify_bundle(canonical_json(bundle))
    assert (verdict.status, verdict.link) == ("broken", "bundle")


async def test_a_bundle_without_its_plan_names_it(made: Made) -> None:
    """Bytes that are gone from the store are missing from the bundle, and named by their link."""
    path = made.stored(made.manifest.bindings["plan"])
    kept = path.read_bytes()
    path.write_bytes(b"another plan")
    try:
        bundle = await bundle_of(made, SIGNER)
    finally:
        path.write_bytes(kept)
    assert check(bundle).link == "plan"


def test_other_tools_read_the_envelope(made: Made) -> None:
    """The envelope is DSSE as securesystemslib reads it, the payload an in-toto statement."""
    raw = json.loads(made.bundle)["envelope"]
    envelope = Envelope.from_dict(raw)
    key = SSlibKey(
        keyid=SIGNER.key_id,
        keytype="ed25519",
        scheme="ed25519",
        keyval={"public": SIGNER.public_key.hex()},
    )
    assert set(envelope.verify([key], threshold=1)) == {SIGNER.key_id}
    assert envelope.payload_type == STATEMENT_MEDIA_TYPE
    statement = json.loads(envelope.payload)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://in-toto.io/attestation/test-result/v0.1"
    assert statement["predicate"]["result"] == "PASSED"
    assert statement["predicate"]["passedTests"] == [
        "tiny: tests.test_calc.CalcTest::test_add",
        "tiny: tests.test_calc.CalcTest::test_zero",
    ]
    assert statement["subject"][0]["digest"] == {"gitCommit": made.proof.candidate.sha}


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_any_flipped_byte_is_refused(made: Made, data: st.DataObject) -> None:
    """No single byte of a bundle can be another, pinned key or not."""
    position = data.draw(st.integers(0, len(made.bundle) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda value: value != made.bundle[position]))
    flipped = bytearray(made.bundle)
    flipped[position] = byte
    assert verify_bundle(bytes(flipped)).status == "broken"


def test_cut_or_padded_bundles_are_refused(made: Made) -> None:
    """A byte more or less is no bundle."""
    for content in (b"", made.bundle[:-1], made.bundle + b"\n", b" " + made.bundle, b"[]", b"{}"):
        verdict = check(content)
        assert (verdict.status, verdict.link) == ("broken", "bundle")


Change = Callable[[dict[str, Any]], None]


def rewritten(made: Made, signer: Signer | None, change: Change) -> bytes:
    """Return the bundle with its decoded parts changed, signed anew with `signer` if given."""
    bundle = json.loads(made.bundle)
    parts = {
        "statement": json.loads(decode_base64(bundle["envelope"]["payload"])),
        "files": {name: decode_base64(text) for name, text in bundle["files"].items()},
    }
    change(parts)
    if signer:
        return encode_bundle(seal_statement(signer, parts["statement"]), parts["files"])
    bundle["files"] = {name: encode_base64(content) for name, content in parts["files"].items()}
    bundle["envelope"]["payload"] = encode_base64(canonical_json(parts["statement"]))
    return canonical_json(bundle)


@pytest.mark.parametrize(
    ("name", "link"),
    [
        ("diff", "diff"),
        ("report", "report"),
        ("log/tiny", "log"),
        ("junit/tiny", "junit"),
        ("bound/plan", "plan"),
        ("bound/policy", "policy"),
        ("commit", "candidate"),
        ("manifest", "evidence"),
    ],
)
def test_the_first_broken_link_is_named(made: Made, name: str, link: str) -> None:
    """A file that was changed, left out or added is named by the link it is."""

    def replace(parts: dict[str, Any]) -> None:
        parts["files"][name] += b" "

    def remove(parts: dict[str, Any]) -> None:
        del parts["files"][name]

    def add(parts: dict[str, Any]) -> None:
        parts["files"]["log/other"] = b""

    assert check(rewritten(made, None, replace)).link == link
    assert check(rewritten(made, None, remove)).link == link
    assert check(rewritten(made, None, add)).link == "log"


def claims(parts: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = parts["statement"]["predicate"]["ultracode"]
    return found


MOVES: dict[str, Change] = {
    "repository": lambda parts: claims(parts).update(repositoryId=1),
    "run": lambda parts: claims(parts).update(runId="run00002"),
    "base": lambda parts: claims(parts).update(baseRef="refs/heads/other"),
}


@pytest.mark.parametrize("what", MOVES)
def test_a_bundle_moved_elsewhere_is_refused(made: Made, what: str) -> None:
    """Unsigned, signed by a stranger, or presented as another's: a moved bundle is refused."""
    change = MOVES[what]
    assert check(rewritten(made, None, change)).link == "signature"
    assert check(rewritten(made, STRANGER, change)).link == "signature"
    expected = {
        "repository": Expectation(repository_id=1),
        "run": Expectation(run_id="run00002"),
        "base": Expectation(base_ref="refs/heads/other"),
    }[what]
    assert check(made.bundle, expected=expected).link == what


def test_a_bundle_signed_by_another_key_is_refused(made: Made) -> None:
    """The same words under a stranger's signature are consistent, and not valid."""
    resigned = rewritten(made, STRANGER, lambda parts: None)
    assert check(resigned).link == "signature"
    assert verify_bundle(resigned).status == "consistent"


LIES: dict[str, tuple[str, Change]] = {
    "result": ("report", lambda p: p["statement"]["predicate"].update(result="FAILED")),
    "passed tests": ("report", lambda p: p["statement"]["predicate"]["passedTests"].append("x: y")),
    "sandbox": ("report", lambda p: claims(p).update(sandbox="container")),
    "guarantees": ("report", lambda p: claims(p).update(guarantees={"magic": True})),
    "report digest": ("report", lambda p: claims(p).update(testReportDigest="0" * 64)),
    "evidence digest": ("evidence", lambda p: claims(p).update(evidenceDigest="0" * 64)),
    "run": ("diff", lambda p: claims(p).update(runId="run00002")),
    "repository": ("diff", lambda p: claims(p).update(repositoryId=1)),
    "base": ("candidate", lambda p: claims(p).update(originalBaseSha="1" * 40)),
    "plan": ("evidence", lambda p: claims(p)["bindings"].update(plan="0" * 64)),
    "subject": (
        "candidate",
        lambda p: p["statement"]["subject"][0]["digest"].update(gitCommit="1" * 40),
    ),
    "shape": ("statement", lambda p: p["statement"].pop("subject")),
    "type": ("statement", lambda p: p["statement"].update(_type="x")),
}


@pytest.mark.parametrize("lie", LIES)
def test_even_the_operator_cannot_sign_what_does_not_follow(made: Made, lie: str) -> None:
    """A statement that the files do not bear out is refused under any signature."""
    link, change = LIES[lie]
    assert check(rewritten(made, SIGNER, change)).link == link


def test_a_file_exchanged_together_with_its_digest_is_found(made: Made) -> None:
    """A diff exchanged with its digest in the statement does not match the evidence."""

    def exchange(parts: dict[str, Any]) -> None:
        parts["files"]["diff"] = b"another"
        claims(parts)["files"]["diff"] = sha256_hex(b"another")

    assert check(rewritten(made, SIGNER, exchange)).link == "diff"


# --- keys -----------------------------------------------------------------------------------------


def test_keys_are_read_as_pem_and_base64() -> None:
    """Both common spellings of an Ed25519 key name the same key."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    raw = encode_base64(key.private_bytes_raw())
    assert Signer.parse(private).key_id == Signer.parse(f"{raw}\n").key_id
    assert parse_public_key(public) == parse_public_key(encode_base64(Signer.parse(raw).public_key))


def test_published_keys_can_be_pinned() -> None:
    """What the server publishes of its keys is what a reader pins."""
    document = public_key_document([SIGNER.public_key, STRANGER.public_key])
    pinned = parse_public_keys(json.dumps(document))
    assert pinned == (SIGNER.public_key, STRANGER.public_key)
    assert parse_public_keys(encode_base64(SIGNER.public_key)) == (SIGNER.public_key,)
    document["keys"][0]["publicKey"] = document["keys"][1]["publicKey"]
    with pytest.raises(KeyUnreadable):
        parse_public_keys(json.dumps(document))


@pytest.mark.parametrize("text", ["", "x", "AAAA", "-----BEGIN PRIVATE KEY-----\nxx", "é"])
def test_what_is_no_key_is_refused_without_quoting_it(text: str) -> None:
    """A wrong key is an error that does not repeat the key."""
    with pytest.raises(KeyUnreadable):
        parse_public_key(text)
    with pytest.raises(KeyUnreadable) as refused:
        Signer.parse(text)
    assert not text or text not in str(refused.value)
