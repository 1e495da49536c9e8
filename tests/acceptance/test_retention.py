"""What is kept of a run ends with its retention, told over HTTP and the command line only."""

from __future__ import annotations

import json
from pathlib import Path

from sqlalchemy import text

from bot.store.database import Database
from evals.people import Json
from tests.acceptance.conftest import Shop
from tests.acceptance.plays import good_fix, three_red_rounds

SHORT = """\
version: 1
bases: [main]
suites:
  unit: {run: "python3 -m tests --junit $ULTRACODE_JUNIT", required: true, timeout: 2m}
limits: {rounds: 1}
retention: 2d
"""


async def ended_days_ago(shop: Shop, run_id: str, days: int) -> None:
    """Let a run have ended so long ago."""
    async with (
        Database(shop.stage.environment["DATABASE_URL"], pool_size=1) as database,
        database.begin() as tx,
    ):
        aged = text(
            "update runs set ended_at = now() - make_interval(days => :d) where run_id = :r"
        )
        await tx.execute(aged, {"d": days, "r": run_id})


async def rows_of(shop: Shop, run_id: str) -> dict[str, int]:
    """Count what the database holds of a run, by table."""
    wanted = {
        "pieces": "select count(*) from pieces where run_id = :r and key <> 'ending'",
        "agno_sessions": "select count(*) from agno.agno_sessions where session_id = :r",
        "agno_runs": "select count(*) from agno.agno_runs where session_id = :r",
        "effects": "select count(*) from effects where scope = :r",
        "events": "select count(*) from events where run_id = :r",
    }
    async with (
        Database(shop.stage.environment["DATABASE_URL"], pool_size=1) as database,
        database.begin() as tx,
    ):
        counted = {
            name: (await tx.execute(text(sql), {"r": run_id})).scalar_one()
            for name, sql in wanted.items()
        }
    files = Path(shop.stage.environment["ULTRACODE_DATA_DIR"], "artifacts").glob(f"*/{run_id}/*/*")
    return counted | {"artifacts": len(list(files))}


async def gc(shop: Shop, *words: str) -> list[str]:
    """Collect garbage; return the runs that were forgotten."""
    code, printed = await shop.ultracode("gc", "--json", *words)
    assert code == 0, printed
    forgotten: list[str] = json.loads(printed.splitlines()[-1])["runs"]
    return forgotten


async def failed(shop: Shop, *, policy: str | None = None) -> tuple[int, Json]:
    """Let a run fail with a candidate; return issue and run."""
    if policy is not None:
        await shop.person("admin").commit_file("main", ".github/ultracode.yml", policy)
    shop.play(three_red_rounds())
    issue = await shop.ask()
    return issue, await shop.ended(issue)


async def test_gc_forgets_what_is_old_and_nothing_else(shop: Shop) -> None:
    """`ultracode gc` deletes what a run left once its retention ended; the record of it stays."""
    issue, run = await failed(shop)
    kept = await rows_of(shop, run["run_id"])
    assert all(kept.values()), kept
    await ended_days_ago(shop, run["run_id"], 29)
    assert run["run_id"] not in await gc(shop)
    assert await rows_of(shop, run["run_id"]) == kept
    (pull,) = await shop.writer.pulls()
    assert await shop.writer.branch(pull["head"]["ref"]) is not None

    await ended_days_ago(shop, run["run_id"], 31)
    assert await gc(shop, "--dry-run") == [run["run_id"]]
    assert await rows_of(shop, run["run_id"]) == kept
    assert await gc(shop) == [run["run_id"]]
    gone = {"pieces": 0, "agno_sessions": 0, "agno_runs": 0, "artifacts": 0}
    assert await rows_of(shop, run["run_id"]) == kept | gone | {"events": kept["events"] + 1}
    assert await shop.writer.branch(pull["head"]["ref"]) is None
    assert (await shop.writer.pull(pull["number"]))["state"] == "closed"
    shown = await shop.shown(run["run_id"])
    assert (shown["state"], shown["sentence"]) == ("failed", run["sentence"])
    code, printed = await shop.ultracode("verify", run["run_id"])
    assert (code, "retention has ended" in printed) == (2, True)
    assert await gc(shop) == []

    await shop.writer.comment(issue, "/ultracode revise Round up.")
    await shop.said(issue, "no longer kept", "/ultracode retry")
    await shop.writer.comment(issue, "/ultracode verify")
    shop.play(good_fix())
    await shop.writer.comment(issue, "/ultracode retry")
    again = await shop.ready()
    await shop.reviewer.review(again["number"])
    assert (await shop.ended(issue))["state"] == "promoted"


async def test_policy_keeps_for_less_and_workers_forget_by_themselves(shop: Shop) -> None:
    """A repository's `retention` shortens the operator's; a worker forgets without being told."""
    issue, run = await failed(shop, policy=SHORT)
    await ended_days_ago(shop, run["run_id"], 3)
    worker = await shop.stage.start_worker("second-worker")
    try:

        async def look() -> bool:
            return (await rows_of(shop, run["run_id"]))["pieces"] == 0

        await shop.writer.until(look, what="a run that is forgotten")
    finally:
        await worker.stop()
    await shop.writer.comment(issue, "/ultracode status")
    await shop.said(issue, "failed")


async def test_a_live_run_keeps_what_came_before_it(shop: Shop) -> None:
    """While an issue has a live run, its earlier runs are kept: it may build on them."""
    issue, run = await failed(shop)
    shop.play(good_fix())
    await shop.writer.comment(issue, "/ultracode retry")
    await shop.ready()
    await ended_days_ago(shop, run["run_id"], 400)
    assert run["run_id"] not in await gc(shop)
    assert all((await rows_of(shop, run["run_id"])).values())
