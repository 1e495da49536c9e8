"""A run over AgentOS: its owner watches it, and GitHub decides."""

from __future__ import annotations

import time

import httpx
import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

from evals.stage import ULTRACODE, free_port
from tests.acceptance.conftest import Shop
from tests.acceptance.plays import good_fix
from tests.integration.pages.conftest import public_pem

SCOPES = ["config:read", "workflows:read", "workflows:run", "sessions:read", "traces:read"]


async def test_the_owner_reads_and_the_reviewer_decides(shop: Shop) -> None:
    """A waiting run and its trace are shown to who asked for it; only a review merges it."""
    key, port = generate_private_key(65537, 2048), free_port()
    shop.stage.environment |= {
        "JWT_VERIFICATION_KEY": public_pem(key),
        "JWT_AUDIENCE": "ultracode",
        "JWT_ISSUER": "https://issuer.example",
    }
    await shop.stage.parts["worker"].stop()
    serve = (*ULTRACODE, "serve", "--agentos", "--role")
    await shop.stage.start("worker", *serve, "worker")
    address = f"http://127.0.0.1:{port}"
    web = await shop.stage.start(
        "agentos", *serve, "web", "--port", str(port), ready=f"{address}/healthz"
    )
    try:
        shop.play(good_fix())
        issue = await shop.ask()
        pull = await shop.ready()
        run = (await shop.run_of(issue))["run_id"]
        token = await owners_token(shop, key)
        headers = {"authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(base_url=address, headers=headers, trust_env=False) as owner:
            shown = await owner.get(f"/sessions/{run}/runs/{run}")
            assert (shown.status_code, shown.json()["status"]) == (200, "PAUSED")
            tried = await owner.post(
                f"/workflows/ultracode/runs/{run}/continue", data={"session_id": run}
            )
            assert (tried.status_code, "GitHub" in tried.text) == (403, True)

            async def traced() -> str | None:
                for trace in (await owner.get("/traces", params={"run_id": run})).json()["data"]:
                    tree = (await owner.get(f"/traces/{trace['trace_id']}")).text
                    if all(name in tree for name in ("planner", "Model", "Execute_Round")):
                        return tree
                return None

            tree: str = await shop.writer.until(traced, what="a trace of the whole run")
            assert "Fix the rounding" not in tree
        await shop.reviewer.review(pull["number"])
        assert (await shop.ended(issue))["state"] == "promoted"
    finally:
        await web.stop()
        await shop.stage.parts["worker"].stop()
        await shop.stage.start_worker()


async def owners_token(shop: Shop, key: object) -> str:
    """Return a token for who asked, as the operator's identity provider would sign it."""
    async with httpx.AsyncClient(trust_env=False) as client:
        account = await client.get(
            f"{shop.writer.api}/user", headers={"authorization": f"Bearer {shop.writer.token}"}
        )
    claims = {
        "sub": f"github:{account.json()['id']}",
        "aud": "ultracode",
        "iss": "https://issuer.example",
        "exp": int(time.time()) + 600,
        "scopes": SCOPES,
    }
    return jwt.encode(claims, key, "RS256")  # type: ignore[arg-type]
