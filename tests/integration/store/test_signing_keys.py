"""The keys of this server's workers, as the web role publishes them."""

import httpx
import pytest

from bot.app import create_app
from bot.settings import load_settings
from bot.store.database import Database
from bot.store.signing_keys import KEYS_PATH, SigningKeys
from workspace.signing import parse_public_keys

pytestmark = pytest.mark.postgres


async def test_every_key_ever_used_is_published_and_can_be_pinned(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a rotation both keys are served, the newest first, by a web role that holds neither."""
    keys = SigningKeys(database)
    for key in (b"1" * 32, b"2" * 32, b"1" * 32):
        await keys.record(key)
    monkeypatch.setenv("GITHUB_WEBHOOK_SECRET", "secret")
    monkeypatch.delenv("ULTRACODE_SIGNING_KEY", raising=False)
    app = create_app(load_settings(), database)
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://server") as reader:
        answer = await reader.get(KEYS_PATH)
    assert answer.headers["content-type"] == "application/json"
    assert parse_public_keys(answer.text) == (b"2" * 32, b"1" * 32)
