"""Signatures over statements: DSSE envelopes with Ed25519.

In: a payload and the operator's key. Out: an envelope as other tools read it, and whether one
holds. The protocol is DSSE 1.0 (secure-systems-lab/dsse, protocol.md): what is signed is the
payload with its type and both lengths, never the JSON around it.
"""

import base64
import binascii
import json
from collections.abc import Iterable
from typing import Any, Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    load_pem_private_key,
    load_pem_public_key,
)

from workspace.contracts import Sha256
from workspace.digest import sha256_hex
from workspace.errors import WorkspaceRefusal

KEY_BYTES: Final = 32


class KeyUnreadable(WorkspaceRefusal):
    """A key is neither Ed25519 in PEM nor 32 bytes in base64."""


class SignatureBroken(WorkspaceRefusal):
    """A signature does not hold, or not by a key that is trusted."""


class Signer:
    """The operator's signing key; only workers hold it."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        """Sign with this key."""
        self._key = key
        self.public_key: bytes = key.public_key().public_bytes_raw()

    @classmethod
    def parse(cls, text: str) -> "Signer":
        """Read a private key: PKCS #8 in PEM, or its 32 bytes in base64.

        Raises:
            KeyUnreadable: It is neither. The message does not quote it.
        """
        try:
            if "-----BEGIN" in text:
                key = load_pem_private_key(text.encode(), password=None)
            else:
                key = Ed25519PrivateKey.from_private_bytes(decode_base64(text.strip()))
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise KeyUnreadable from None
        if not isinstance(key, Ed25519PrivateKey):
            raise KeyUnreadable
        return cls(key)

    @property
    def key_id(self) -> Sha256:
        """How the public key is named."""
        return key_id(self.public_key)

    def sign(self, payload: bytes, payload_type: str) -> dict[str, Any]:
        """Return the DSSE envelope of a payload, as a plain value."""
        signature = self._key.sign(_pre_authentication(payload, payload_type))
        return {
            "payload": encode_base64(payload),
            "payloadType": payload_type,
            "signatures": [{"keyid": self.key_id, "sig": encode_base64(signature)}],
        }


def unsigned_envelope(payload: bytes, payload_type: str) -> dict[str, Any]:
    """Return the DSSE envelope of a payload that nobody signs."""
    return {"payload": encode_base64(payload), "payloadType": payload_type, "signatures": []}


def key_id(public_key: bytes) -> Sha256:
    """Return the name of a public key: the SHA-256 of its 32 bytes."""
    return sha256_hex(public_key)


def parse_public_key(text: str) -> bytes:
    """Read a public key, PEM or base64, and return its 32 bytes.

    Raises:
        KeyUnreadable: It is neither.
    """
    try:
        if "-----BEGIN" in text:
            key = load_pem_public_key(text.encode())
        else:
            key = Ed25519PublicKey.from_public_bytes(decode_base64(text.strip()))
    except (ValueError, UnsupportedAlgorithm):
        raise KeyUnreadable from None
    if not isinstance(key, Ed25519PublicKey):
        raise KeyUnreadable
    return key.public_bytes_raw()


def public_key_document(public_keys: Iterable[bytes]) -> dict[str, Any]:
    """Return what is served under `.well-known`: the keys bundles are signed with, by id."""
    return {
        "keys": [
            {"keyid": key_id(key), "algorithm": "ed25519", "publicKey": encode_base64(key)}
            for key in public_keys
        ]
    }


def parse_public_keys(text: str) -> tuple[bytes, ...]:
    """Read the keys a reader pins: one key, PEM or base64, or a whole `public_key_document`.

    Raises:
        KeyUnreadable: It is none of these, or a key is not the one its id names.
    """
    if not text.lstrip().startswith("{"):
        return (parse_public_key(text),)
    try:
        keys = [(entry["keyid"], entry["publicKey"]) for entry in json.loads(text)["keys"]]
        found = tuple(parse_public_key(key) for _, key in keys)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise KeyUnreadable from None
    if [key_id(key) for key in found] != [named for named, _ in keys]:
        raise KeyUnreadable
    return found


def open_unsigned(envelope: dict[str, Any], payload_type: str) -> bytes:
    """Return an envelope's payload when it says that nobody signed it.

    Raises:
        SignatureBroken: There is a signature, or the envelope is not one of ours.
    """
    try:
        payload = decode_base64(envelope["payload"])
        of_ours = (envelope["payloadType"], envelope["signatures"]) == (payload_type, [])
    except (KeyError, TypeError, ValueError):
        raise SignatureBroken from None
    if not of_ours:
        raise SignatureBroken
    return payload


def open_envelope(envelope: dict[str, Any], payload_type: str, public_key: bytes) -> bytes:
    """Return an envelope's payload when exactly one signature, by this key, holds.

    Raises:
        SignatureBroken: It does not hold, or the envelope is not one of ours.
    """
    try:
        payload = decode_base64(envelope["payload"])
        (signature,) = envelope["signatures"]
        named, raw = signature["keyid"], decode_base64(signature["sig"])
        of_type = envelope["payloadType"] == payload_type
    except (KeyError, TypeError, ValueError):
        raise SignatureBroken from None
    if not of_type or named != key_id(public_key):
        raise SignatureBroken
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(
            raw, _pre_authentication(payload, payload_type)
        )
    except (InvalidSignature, ValueError):
        raise SignatureBroken from None
    return payload


def encode_base64(content: bytes) -> str:
    """Return standard base64."""
    return base64.b64encode(content).decode()


def decode_base64(text: str) -> bytes:
    """Return what `encode_base64` was given; refuses every other spelling of the same bytes.

    Raises:
        ValueError: It is not base64, or not the one spelling `encode_base64` writes.
    """
    try:
        content = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None
    if encode_base64(content) != text:
        raise ValueError("not the canonical spelling")
    return content


def _pre_authentication(payload: bytes, payload_type: str) -> bytes:
    kind = payload_type.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
