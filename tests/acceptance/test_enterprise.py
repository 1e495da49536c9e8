"""The same story on GitHub Enterprise Server: REST under /api/v3, GraphQL at /api/graphql."""

from __future__ import annotations

from pathlib import Path

import pytest

from evals.demo import make_repository
from evals.scripted_model import ScriptedModel
from evals.stage import stage
from tests.acceptance.conftest import Shop
from tests.acceptance.plays import good_fix


@pytest.mark.matrix
async def test_a_change_lands_on_enterprise_server(model: ScriptedModel, tmp_path: Path) -> None:
    """GITHUB_API_URL alone says where GitHub is: comment, draft, review and push all find it."""
    repository = make_repository(tmp_path / "shop")
    provider = {
        "AGENT_MODEL_ID": "gpt-5.4-mini",
        "OPENAI_API_KEY": model.api_key,
        "OPENAI_BASE_URL": model.base_url,
    }
    hosted = {"octo-shop/shop": repository}
    async with stage(hosted, Path("unused"), provider=provider, enterprise=True) as world:
        assert world.environment["GITHUB_API_URL"].endswith("/api/v3")
        shop = Shop(world, model, "octo-shop/shop")
        shop.play(good_fix())
        issue = await shop.ask()
        pull = await shop.ready()
        await shop.reviewer.review(pull["number"])
        run = await shop.ended(issue)
        assert run["state"] == "promoted"
        assert await shop.writer.branch("main") == pull["head"]["sha"]
