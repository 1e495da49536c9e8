"""Who is an operator. In: a bearer token, or a person who signed in. Out: yes or no.

Two doors, both closed unless the operator's environment opens them: GitHub accounts named by id in
ULTRACODE_OPERATORS (people, in a browser), and an RS256 token of JWT_VERIFICATION_KEY with the
right audience and issuer and the scope below (machines: Prometheus, scripts).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import jwt

from bot.settings import Settings, TokenVerification

OPERATOR_SCOPE: Final = "ultracode:operator"


class Operators:
    """Recognises operators."""

    def __init__(self, settings: Settings) -> None:
        self._ids: Collection[int] = settings.ultracode_operators
        self._verification = settings.token_verification()

    def includes(self, github_id: int) -> bool:
        """Whether an account is an operator's."""
        return github_id in self._ids

    def admits(self, authorization: str) -> bool:
        """Whether an Authorization header holds an operator's token."""
        if self._verification is None:
            return False
        claims = verified_bearer(authorization, self._verification)
        return claims is not None and OPERATOR_SCOPE in scopes_of(claims)


def verified_bearer(
    authorization: str, verification: TokenVerification
) -> Mapping[str, Any] | None:
    """Return the claims of the token in an Authorization header; None if there is none of ours."""
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer" or not token:
        return None
    return verified_claims(token.strip(), verification)


def verified_claims(token: str, verification: TokenVerification) -> Mapping[str, Any] | None:
    """Return a token's claims if it is ours, for us, and in time; None for any other reason."""
    try:
        claims: Mapping[str, Any] = jwt.decode(
            token,
            verification.key.get_secret_value(),
            algorithms=["RS256"],
            audience=verification.audience,
            issuer=verification.issuer,
            options={"require": ["exp", "aud", "iss", "sub"]},
        )
    except (jwt.PyJWTError, ValueError):
        return None
    return claims


def scopes_of(claims: Mapping[str, Any]) -> frozenset[str]:
    """Return the scopes of a token: a list under `scopes`, or words under `scope`."""
    listed = claims.get("scopes")
    words = listed if isinstance(listed, list) else str(claims.get("scope", "")).split()
    return frozenset(word for word in words if isinstance(word, str))
