"""The server is upgraded while runs wait, told over HTTP only."""

from __future__ import annotations

from sqlalchemy import text

from bot.store.database import Database
from evals.people import Json
from tests.acceptance.conftest import Shop
from tests.acceptance.plays import good_fix
from tests.acceptance.test_pauses import POLICY_WITH_PAUSES, waiting


async def began_under_another_contract(shop: Shop, run_id: str) -> None:
    """Let a run's pieces have been stored by a version whose contract this one does not know."""
    async with (
        Database(shop.stage.environment["DATABASE_URL"], pool_size=1) as database,
        database.begin() as tx,
    ):
        older = text("update pieces set contract_version = 0 where run_id = :run_id")
        await tx.execute(older, {"run_id": run_id})


async def told(shop: Shop, issue: int, *, times: int = 2) -> bool:
    """Whether the bot said so often that it cannot read a run."""
    words = [text for text in await shop.words(issue) if "Another version of the bot" in text]
    return len([text for text in words if "ultracode:status" not in text]) >= times


async def test_a_candidate_of_another_contract_ends_in_words(shop: Shop) -> None:
    """A waiting candidate that the new version cannot read is never merged; `retry` starts anew."""
    shop.play(good_fix())
    before = await shop.writer.branch("main")
    issue = await shop.ask()
    old = await shop.ready()
    run = await shop.run_of(issue)
    await shop.stage.parts["worker"].stop()
    await began_under_another_contract(shop, run["run_id"])
    await shop.stage.start_worker()

    await shop.reviewer.review(old["number"])
    ended = await shop.ended(issue)
    assert ended["state"] == "failed"
    await shop.said(issue, "another version of the bot", "/ultracode retry", shop.writer.login)
    assert await shop.writer.branch("main") == before
    await shop.writer.comment(issue, "/ultracode verify")
    await shop.writer.until(lambda: told(shop, issue), what="the same words about its proof")
    checks = await shop.writer.checks(old["head"]["sha"])
    assert [check["name"] for check in checks if check["status"] != "completed"] == []

    shop.play(good_fix())
    await shop.writer.comment(issue, "/ultracode retry")

    async def look() -> Json | None:
        pulls = await shop.writer.pulls()
        return next((p for p in pulls if p["number"] != old["number"] and not p["draft"]), None)

    fresh: Json = await shop.writer.until(look, seconds=240, what="another pull request")
    await shop.reviewer.review(fresh["number"])
    assert (await shop.ended(issue))["state"] == "promoted"
    assert await shop.writer.branch("main") == fresh["head"]["sha"]


async def test_a_plan_of_another_contract_ends_in_words(shop: Shop) -> None:
    """A go for a plan that the new version cannot read leads to words, and to no work."""
    await shop.writer.commit_file("main", ".github/ultracode.yml", POLICY_WITH_PAUSES)
    shop.play(good_fix())
    issue = await shop.ask()
    run = await waiting(shop, issue, "plan")
    await shop.stage.parts["worker"].stop()
    await began_under_another_contract(shop, run["run_id"])
    await shop.stage.start_worker()

    await shop.writer.comment(issue, "/ultracode go")
    assert (await shop.ended(issue))["state"] == "failed"
    await shop.said(issue, "another version of the bot", "/ultracode retry")
    assert not any(asked.role == "worker" for asked in shop.model.asked[-1:])
