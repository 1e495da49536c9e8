"""What operators see: the state of the server, by their account or by a token."""

from __future__ import annotations

import time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

from tests.integration.pages.conftest import Site

RIGHT: dict[str, Any] = {
    "aud": "ultracode",
    "iss": "https://issuer.example",
    "sub": "prometheus",
    "scopes": ["ultracode:operator"],
}


async def metrics(site: Site, token: str) -> int:
    """Return how /metrics answers a token."""
    browser = await site.browser()
    answer = await browser.get("/metrics", headers={"authorization": f"Bearer {token}"})
    return answer.status_code


def signed(site: Site, **changes: Any) -> str:
    """Return a token that is right but for the changes."""
    claims = {**RIGHT, "exp": int(time.time()) + 60, **changes}
    return jwt.encode({k: v for k, v in claims.items() if v is not None}, site.jwt_key, "RS256")


async def test_an_operators_token_reads_metrics(site: Site) -> None:
    """Prometheus with a token is given what the database counts."""
    browser = await site.browser()
    answer = await browser.get("/metrics", headers={"authorization": f"Bearer {signed(site)}"})
    assert answer.status_code == 200
    assert 'ultracode_runs{state="awaiting_review"} 1.0' in answer.text


@pytest.mark.parametrize(
    "change",
    [
        {"exp": 1},
        {"exp": None},
        {"aud": "another"},
        {"iss": "https://another.example"},
        {"sub": None},
        {"scopes": []},
        {"scopes": "ultracode:operators"},
    ],
)
async def test_any_other_token_is_refused(site: Site, change: dict[str, Any]) -> None:
    """Old, another's, or without the scope: nothing is shown."""
    assert await metrics(site, signed(site, **change)) == 401


async def test_a_token_of_another_key_or_kind_is_refused(site: Site) -> None:
    """Neither a stranger's key nor one's own choice of algorithm makes a token."""
    claims = {**RIGHT, "exp": int(time.time()) + 60}
    stranger = generate_private_key(65537, 2048)
    unsigned = jwt.encode(claims, "", "none")
    for token in (jwt.encode(claims, stranger, "RS256"), unsigned, "", "x.y.z"):
        assert await metrics(site, token) == 401


async def test_the_operators_page_is_for_operators(site: Site) -> None:
    """An operator sees queue and runs; a reader is told there is nothing; metrics follow suit."""
    operator, reader = await site.signed_in("outsider"), await site.signed_in("reader")
    shown = await operator.get("/")
    assert shown.status_code == 200
    assert site.run.run_id in shown.text
    assert (await reader.get("/")).status_code == 404
    assert (await operator.get("/metrics")).status_code == 200
    assert (await reader.get("/metrics")).status_code == 401
