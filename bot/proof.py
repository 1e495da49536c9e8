"""The proof of a candidate as this server keeps it, for operators and for whoever doubts a merge.

In: a bundle's file, or a run or commit to look up in the database and the artifact store. Out: the
bundle, and what is to be said of it. The file alone needs neither database nor network.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from obstore.store import from_url

from bot.errors import BotError
from bot.store.run_queries import RunQueries
from workspace.artifacts import ArtifactMissing, FolderArtifacts, ObjectArtifacts
from workspace.bundle import load_bundle
from workspace.contracts import ArtifactStore, EvidenceManifest
from workspace.signing import KeyUnreadable, parse_public_keys
from workspace.verification import Expectation, Verdict, verify_bundle

if TYPE_CHECKING:
    from bot.settings import Settings
    from bot.store.database import Database
    from bot.store.run_records import Run


class ProofMissing(BotError):
    """There is no evidence of this run or commit here."""


class KeysUnreadable(BotError):
    """The key to trust is neither an Ed25519 public key nor a list of keys a server publishes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredProof:
    """A bundle out of the store, and what the database says it must be about."""

    bundle: bytes
    expected: Expectation


def artifacts_of(settings: Settings) -> FolderArtifacts | ObjectArtifacts:
    """Return where artifacts are kept: an object store where one is named, else a folder."""
    if settings.artifacts_url is None:
        return FolderArtifacts(settings.data_dir / "artifacts")
    return ObjectArtifacts(from_url(settings.artifacts_url))


async def load_proof(database: Database, artifacts: ArtifactStore, wanted: str) -> StoredProof:
    """Return the bundle of a run's newest evidence, or of a candidate's commit.

    Args:
        database: Knows runs and their evidence.
        artifacts: Keeps the bytes.
        wanted: A run id, or a commit SHA of 7 to 40 digits.

    Raises:
        ProofMissing: Neither, its evidence was not made yet, or its retention has ended.
    """
    runs = RunQueries(database)
    found = await runs.evidence_of(wanted)
    if found is None:
        why = ": its retention has ended" if await runs.is_forgotten(wanted) else ""
        raise ProofMissing(f"There is no evidence of {wanted} here{why}.")
    run, value = found
    evidence = EvidenceManifest.model_validate(value)
    try:
        bundle = await load_bundle(evidence.statement_uri or "", artifacts)
    except ArtifactMissing:
        raise ProofMissing(
            f"The statement about {evidence.candidate_sha} is no longer stored, or damaged."
        ) from None
    return StoredProof(bundle=bundle, expected=expectation_of(run, evidence))


def expectation_of(run: Run, evidence: EvidenceManifest) -> Expectation:
    """Return what the database says a bundle of this evidence must be about."""
    return Expectation(
        repository_id=run.repository_id,
        run_id=run.run_id,
        base_ref=run.base_ref,
        original_base_sha=evidence.original_base_sha,
        candidate_sha=evidence.candidate_sha,
        evidence_digest=evidence.digest,
    )


def verify_file(path: Path, keys: Path | None, expected: Expectation | None = None) -> Verdict:
    """Check a bundle's file from its bytes alone. Raises KeysUnreadable."""
    about = expected or Expectation()
    return verify_bundle(path.read_bytes(), pinned_keys=load_keys(keys), expected=about)


def verify_proof(proof: StoredProof, keys: Path | None) -> Verdict:
    """Check a stored bundle, and that it is about what the database says. Raises KeysUnreadable."""
    return verify_bundle(proof.bundle, pinned_keys=load_keys(keys), expected=proof.expected)


def load_keys(path: Path | None) -> tuple[bytes, ...]:
    """Read the keys a reader trusts; none without a file.

    Raises:
        KeysUnreadable: The file holds no keys.
    """
    if path is None:
        return ()
    try:
        keys = parse_public_keys(path.read_text(encoding="utf-8"))
    except (KeyUnreadable, UnicodeDecodeError):
        raise KeysUnreadable from None
    if not keys:
        raise KeysUnreadable
    return keys
