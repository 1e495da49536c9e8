"""Runs that wait for somebody's go on the way, told over HTTP only."""

from __future__ import annotations

import asyncio

from evals.people import Json
from tests.acceptance.conftest import Shop
from tests.acceptance.plays import good_fix

POLICY_WITH_PAUSES = """\
version: 1
bases: [main]
suites:
  unit: {run: "python3 -m tests --junit $ULTRACODE_JUNIT", required: true, timeout: 2m}
plan_approval: true
publish: {rounds: on_go}
"""


async def waiting(shop: Shop, issue: int, reason: str) -> Json:
    """Wait until the run of an issue waits for a go with this reason; return the run."""

    async def look() -> Json | None:
        run = await shop.run_of(issue)
        return run if (run["state"], run["reason"]) == ("awaiting_go", reason) else None

    run: Json = await shop.writer.until(look, seconds=240, what=f"a wait for {reason}")
    return run


async def test_plan_and_push_wait_for_a_go_each(shop: Shop) -> None:
    """Plan and push wait for a go each; a worker killed in between has nothing planned twice."""
    await shop.writer.commit_file("main", ".github/ultracode.yml", POLICY_WITH_PAUSES)
    shop.play(good_fix())
    issue = await shop.ask()
    await waiting(shop, issue, "plan")
    plan = await shop.said(issue, "this is the plan", "shop/money.py", "Suites that will judge it")
    assert f"@{shop.writer.login}" in plan
    planned_once = sum(asked.role == "planner" for asked in shop.model.asked)
    await asyncio.sleep(1)
    assert not any(asked.role == "worker" for asked in shop.model.asked)

    await shop.stage.parts["worker"].kill()
    await shop.stage.start_worker()
    await shop.writer.comment(issue, "/ultracode go")
    await waiting(shop, issue, "publish")
    held = await shop.said(issue, "has not been pushed", "shop/money.py", "unit")
    assert f"@{shop.writer.login}" in held
    assert await shop.writer.pulls() == []

    await shop.writer.comment(issue, "/ultracode go")
    pull = await shop.ready()
    await shop.reviewer.review(pull["number"])
    assert (await shop.ended(issue))["state"] == "promoted"
    planned = [asked for asked in shop.model.asked if asked.role == "planner"]
    assert len(planned) == planned_once, "nothing is planned twice"


async def test_cancelled_plan_is_never_worked_on(shop: Shop) -> None:
    """Cancel while the plan waits ends the run before any worker was asked."""
    await shop.writer.commit_file("main", ".github/ultracode.yml", POLICY_WITH_PAUSES)
    shop.play(good_fix())
    issue = await shop.ask()
    await waiting(shop, issue, "plan")
    await shop.writer.comment(issue, "/ultracode cancel")
    assert (await shop.ended(issue))["state"] == "cancelled"
    assert not any(asked.role == "worker" for asked in shop.model.asked)


async def test_a_refused_push_waits_for_retry(shop: Shop) -> None:
    """GitHub's refusal is shown with what to change; retry pushes the same candidate again."""
    shop.play(good_fix())
    issue = await shop.ask()
    pull = await shop.ready()
    asked = len(shop.model.asked)
    await shop.person("admin").lock("main")
    await shop.reviewer.review(pull["number"])
    await shop.said(issue, "GitHub refused the push", "/ultracode retry")
    run = await shop.run_of(issue)
    assert (run["state"], run["reason"]) == ("awaiting_review", "push_refused")

    await shop.person("admin").unlock("main")
    await shop.writer.comment(issue, "/ultracode retry")
    assert (await shop.ended(issue))["state"] == "promoted"
    assert await shop.writer.branch("main") == pull["head"]["sha"]
    assert len(shop.model.asked) == asked, "nothing is thought twice"
