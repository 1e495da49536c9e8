"""Is this body from GitHub? In: the raw bytes, the signature header, the secrets. Out: yes or no.

The webhook's only authentication, so it runs before anything else reads the body.
Source: https://docs.github.com/webhooks/using-webhooks/validating-webhook-deliveries
"""

import hashlib
import hmac
from collections.abc import Sequence

from pydantic import SecretStr

SIGNATURE_HEADER = "X-Hub-Signature-256"
_PREFIX = "sha256="


def sign(body: bytes, secret: SecretStr) -> str:
    """The header's value for these bytes: `sha256=` and 64 lower-case hex digits."""
    digest = hmac.new(secret.get_secret_value().encode(), body, hashlib.sha256)
    return _PREFIX + digest.hexdigest()


def is_signed(body: bytes, signature: str | None, secrets: Sequence[SecretStr]) -> bool:
    """Whether `signature` was made over `body` with one of `secrets`.

    During rotation `secrets` holds the current and the previous one. Every secret is tried, in
    constant time, so that the answer's delay tells nothing. An empty secret signs nothing: anybody
    could compute its signature.
    """
    if signature is None:
        return False
    given = signature.encode()
    usable = [secret for secret in secrets if secret.get_secret_value()]
    matches = [hmac.compare_digest(sign(body, secret).encode(), given) for secret in usable]
    return any(matches)
