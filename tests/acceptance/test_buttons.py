"""The buttons of the Checks tab, pressed on its pages."""

from __future__ import annotations

from evals.people import Json
from tests.acceptance.conftest import Shop
from tests.acceptance.plays import good_fix


async def the_check(shop: Shop, sha: str, name: str) -> Json:
    """Return the newest check run of a name on a commit."""
    found = [check for check in await shop.writer.checks(sha) if check["name"] == name]
    return max(found, key=lambda check: int(check["id"]))


async def test_suites_run_again_and_the_run_is_cancelled(shop: Shop) -> None:
    """Re-running suites makes a new candidate of the same files to review; Cancel stops that."""
    shop.play(good_fix())
    before = await shop.writer.branch("main")
    issue = await shop.ask()
    pull = await shop.ready()
    first = pull["head"]["sha"]
    old = await shop.run_of(issue)

    gate = await the_check(shop, first, "ultracode/review")
    await shop.stage.press(shop.writer, gate, "rerun_suites")
    second = await shop.moved_on(pull["number"], first)
    await shop.said(issue, "asked to run the suites again")
    assert len(await shop.writer.pulls()) == 1
    commits = [(await shop.writer.commits(sha))[0] for sha in (first, second)]
    assert commits[0]["commit"]["tree"]["sha"] == commits[1]["commit"]["tree"]["sha"]
    assert commits[1]["parents"][0]["sha"] == before, "one commit on the same base"
    new = await shop.run_of(issue)
    ended, fresh = await shop.shown(old["run_id"]), await shop.shown(new["run_id"])
    assert ended["state"] == "revised"
    assert fresh["evidence_digest"] != ended["evidence_digest"], "new evidence, a new envelope"

    suite = await the_check(shop, first, "ultracode/suite/unit")
    await shop.reviewer.rerequest(suite)
    await shop.said(issue, "stands on an earlier candidate")

    gate = await the_check(shop, second, "ultracode/review")
    await shop.stage.press(shop.reviewer, gate, "cancel")
    assert (await shop.ended(issue))["state"] == "cancelled"
    assert await shop.writer.branch("main") == before
