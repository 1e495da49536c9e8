"""How the web role starts with and without AgentOS."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from bot.app import create_app
from bot.store.database import Database
from tests.integration.agentos.conftest import World, settings_for

ULTRACODE = (sys.executable, "-m", "bot.cli")


@pytest.mark.parametrize("role", ["web", "all"])
@pytest.mark.parametrize("missing", ["JWT_VERIFICATION_KEY", "JWT_AUDIENCE", "JWT_ISSUER"])
def test_without_keys_it_refuses_to_start(tmp_path: Path, role: str, missing: str) -> None:
    """Nobody could be told apart, so the server says what is missing and ends."""
    environment = {
        "PATH": os.defpath,
        "ULTRACODE_DATA_DIR": str(tmp_path),
        "GITHUB_APP_ID": "1",
        "GITHUB_PRIVATE_KEY": "-----BEGIN",
        "GITHUB_WEBHOOK_SECRET": "secret",
        "JWT_VERIFICATION_KEY": "-----BEGIN PUBLIC KEY-----",
        "JWT_AUDIENCE": "ultracode",
        "JWT_ISSUER": "https://issuer.example",
    }
    del environment[missing]
    ended = subprocess.run(
        [*ULTRACODE, "serve", "--role", role, "--agentos", "--port", "0"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ended.returncode == 2
    assert f"{missing} is not set" in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_without_the_option_nothing_of_it_is_imported() -> None:
    """The web role is ready for deliveries as fast as before."""
    heavy = ("agno", "opentelemetry.sdk", "bot.agentos", "bot.agentos_door", "bot.workflow")
    code = (
        f"import sys, bot.cli, bot.serve, bot.app; print([n for n in {heavy} if n in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "path", ["/", "/metrics", "/healthz", "/webhooks/github", "/runs/abcdefgh"]
)
async def test_our_own_doors_answer_as_without_it(
    world: World, path: str, signing_key: RSAPrivateKey, tmp_path: Path
) -> None:
    """Same status, same body, and no header by which AgentOS's front end could read our pages."""
    asking = {"origin": "https://os.agno.com"}
    settings = settings_for(world.url, signing_key, tmp_path)
    async with Database(world.url) as database:
        plain = httpx.ASGITransport(create_app(settings, database))
        async with httpx.AsyncClient(transport=plain, base_url="http://bot.test") as without:
            before = await without.get(path, headers=asking)
    async with world.client() as client:
        now = await client.get(path, headers=asking)
    assert (now.status_code, now.text, now.headers) == (
        before.status_code,
        before.text,
        before.headers,
    )
