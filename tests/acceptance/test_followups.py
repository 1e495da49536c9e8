"""Runs that follow another, told over HTTP only."""

from __future__ import annotations

import json
from pathlib import Path

import httpx

from tests.acceptance.conftest import Shop
from tests.acceptance.plays import (
    CART_MENDED,
    MONEY,
    edit,
    good_fix,
    judged,
    plan,
    play,
    task,
    three_red_rounds,
    work,
    write,
)

ROUNDED = edit(
    "shop/money.py", "return round(float(price) * 100)", "return int(round(float(price) * 100))"
)


async def test_change_request_leads_to_a_revision(shop: Shop) -> None:
    """A review that requests changes becomes one further run on the same pull request."""
    shop.play(good_fix())
    before = await shop.writer.branch("main")
    issue = await shop.ask()
    pull = await shop.ready()
    first = pull["head"]["sha"]
    shop.play(play(plan(task("prices", "shop/money.py")), work("prices", ROUNDED), judged()))
    await shop.reviewer.review(
        pull["number"], "REQUEST_CHANGES", body="Make the int explicit, please."
    )
    revised = await shop.moved_on(pull["number"], first)
    assert len(await shop.writer.pulls()) == 1
    assert "Make the int explicit" in shop.model_heard("planner")

    await shop.reviewer.review(pull["number"])
    assert (await shop.ended(issue))["state"] == "promoted"
    history = [commit["sha"] for commit in await shop.writer.commits("main")]
    assert history[:2] == [revised, before], "one commit on the original base"


async def test_revise_command(shop: Shop) -> None:
    """`/ultracode revise` does the same, and the first run ends revised."""
    shop.play(good_fix())
    issue = await shop.ask()
    pull = await shop.ready()
    first_run = (await shop.run_of(issue))["run_id"]
    shop.play(play(plan(task("prices", "shop/money.py")), work("prices", ROUNDED), judged()))
    await shop.writer.comment(issue, "/ultracode revise Make the int explicit.")
    await shop.moved_on(pull["number"], pull["head"]["sha"])
    assert (await shop.shown(first_run))["state"] == "revised"


async def test_moved_base_is_built_tested_and_reviewed_anew(shop: Shop) -> None:
    """When the base moved, an approval leads to a fresh candidate that must be approved again."""
    shop.play(good_fix())
    issue = await shop.ask()
    pull = await shop.ready()
    first = pull["head"]["sha"]
    moved = await shop.writer.commit_file("main", "NEWS.md", "Something else.\n")
    await shop.reviewer.review(pull["number"])
    fresh = await shop.moved_on(pull["number"], first)
    await shop.said(issue, "moved", "anew")
    assert await shop.writer.branch("main") == moved, "the old approval counts for nothing"

    await shop.reviewer.review(pull["number"])
    assert (await shop.ended(issue))["state"] == "promoted"
    history = [commit["sha"] for commit in await shop.writer.commits("main")]
    assert history[:2] == [fresh, moved]


async def test_a_failed_candidate_can_be_revised(shop: Shop) -> None:
    """After three red rounds a revision takes the candidate up, on the same pull request."""
    shop.play(three_red_rounds())
    before = await shop.writer.branch("main")
    issue = await shop.ask()
    assert (await shop.ended(issue))["state"] == "failed"
    (draft,) = await shop.writer.pulls()

    tasks = (task("prices", "shop/money.py"), task("discounts", "shop/cart.py"))
    works = (work("prices", MONEY), work("discounts", CART_MENDED))
    shop.play(play(plan(*tasks), *works, judged()))
    await shop.writer.comment(issue, "/ultracode revise Half a cent rounds up, and prices too.")
    pull = await shop.ready()
    assert pull["number"] == draft["number"]
    assert "prices too" in shop.model_heard("planner")
    await shop.reviewer.review(pull["number"])
    assert (await shop.ended(issue))["state"] == "promoted"
    history = [commit["sha"] for commit in await shop.writer.commits("main")]
    assert history[:2] == [pull["head"]["sha"], before], "one commit on the original base"


async def test_refresh_command(shop: Shop) -> None:
    """`/ultracode refresh` puts a waiting candidate on the base as it is now."""
    shop.play(good_fix())
    issue = await shop.ask()
    pull = await shop.ready()
    moved = await shop.writer.commit_file("main", "NEWS.md", "Something else.\n")
    await shop.writer.comment(issue, "/ultracode refresh")
    fresh = await shop.moved_on(pull["number"], pull["head"]["sha"])
    assert (await shop.writer.commits(fresh))[1]["sha"] == moved
    await shop.said(issue, "asked for a fresh candidate", shop.writer.login)
    assert len(await shop.writer.pulls()) == 1


POLICY_THAT_FOLLOWS_ITS_BASE = """\
version: 1
bases: [main]
suites:
  unit: {run: "python3 -m tests --junit $ULTRACODE_JUNIT", required: true, timeout: 2m}
refresh: {when_behind: true}
"""


async def test_moved_base_is_followed_where_policy_asks_for_it(shop: Shop) -> None:
    """With `when_behind` a push to the base leads to a fresh candidate before anybody approved."""
    await shop.writer.commit_file("main", ".github/ultracode.yml", POLICY_THAT_FOLLOWS_ITS_BASE)
    shop.play(good_fix())
    issue = await shop.ask()
    pull = await shop.ready()
    first = pull["head"]["sha"]
    moved = await shop.writer.commit_file("main", "NEWS.md", "Something else.\n")
    fresh = await shop.moved_on(pull["number"], first)
    await shop.said(issue, "moved", "anew")

    await shop.ready()
    await shop.reviewer.review(pull["number"])
    assert (await shop.ended(issue))["state"] == "promoted"
    history = [commit["sha"] for commit in await shop.writer.commits("main")]
    assert history[:2] == [fresh, moved]


async def test_conflict_with_a_moved_base_is_repaired_once_then_told(shop: Shop) -> None:
    """A change that conflicts gets one repair round; when that fails the run ends conflicted."""
    shop.play(good_fix())
    issue = await shop.ask()
    pull = await shop.ready()
    other = '"""Prices."""\n\n\ndef to_cents(price: str) -> int:\n    return 7\n'
    await shop.writer.commit_file("main", "shop/money.py", other)
    shop.play(
        play(
            plan(task("prices", "shop/money.py"), round=1),
            work("prices", write("shop/money.py", other + "\n"), round=1),
            judged(round=1, passed=False),
        )
    )
    await shop.reviewer.review(pull["number"])
    await shop.said(issue, "conflicted")
    ended = await shop.ended(issue)
    assert (ended["state"], ended["round"]) == ("conflicted", 1)


async def test_retry_starts_a_failed_run_anew(shop: Shop) -> None:
    """`/ultracode retry` starts the same request again without reading the issue again."""
    shop.play(play(plan(task("prices", "shop/money.py")), work("prices", status="blocked")))
    issue = await shop.ask()
    failed = await shop.ended(issue)
    assert failed["state"] == "failed"
    shop.play(good_fix())
    await shop.writer.comment(issue, "/ultracode retry")
    await shop.ready()
    assert (await shop.run_of(issue))["run_id"] != failed["run_id"]


async def test_verify_shows_the_chain(shop: Shop, tmp_path: Path) -> None:
    """`/ultracode verify` shows the chain link by link; anybody checks its bundle offline."""
    shop.play(good_fix())
    issue = await shop.ask()
    pull = await shop.ready()
    await shop.writer.comment(issue, "/ultracode verify")
    words = await shop.said(issue, "they agree", "evidence")
    candidate = pull["head"]["sha"]
    assert f"ultracode bundle {candidate} --out" in words

    bundle, keys = tmp_path / "bundle.json", tmp_path / "keys.json"
    assert (await shop.ultracode("bundle", candidate, "--out", str(bundle)))[0] == 0
    async with httpx.AsyncClient() as web:
        url = f"http://127.0.0.1:{shop.stage.web_port}/.well-known/ultracode-keys.json"
        published = (await web.get(url)).json()
    keys.write_text(json.dumps(published))
    key_id = published["keys"][0]["keyid"]
    assert key_id in words

    code, told = await shop.ultracode("verify", str(bundle), "--key", str(keys))
    assert (code, told.splitlines()[0]) == (0, "valid: every link holds")
    assert (await shop.ultracode("verify", candidate[:10], "--key", str(keys)))[0] == 0
    assert (await shop.ultracode("verify", str(bundle)))[0] == 3, "who signed it is not known"
    asked = ("verify", str(bundle), "--key", str(keys))
    assert (await shop.ultracode(*asked, "--candidate", candidate))[0] == 0
    assert (await shop.ultracode(*asked, "--run", "another"))[0] == 1, "it is of another run"
    assert (await shop.ultracode(*asked, "--candidate", "123"))[0] == 2
    code, told = await shop.ultracode("verify", "no/such.json")
    assert (code, "no file no/such.json" in told) == (2, True), "a typing error needs no database"
    files = json.loads(bundle.read_bytes())["files"]
    assert {"bound/plan", "bound/policy", "bound/request", "bound/prompts"} <= files.keys()
    bundle.write_bytes(bundle.read_bytes().replace(files["bound/plan"].encode(), b"e30="))
    code, told = await shop.ultracode("verify", str(bundle), "--key", str(keys))
    assert (code, told.split(":")[:2]) == (1, ["broken", " plan"])
