"""From a comment to a fast-forwarded branch, told over HTTP only."""

from __future__ import annotations

from tests.acceptance.conftest import Shop
from tests.acceptance.plays import (
    CART,
    CART_MENDED,
    CART_WRONG,
    MONEY,
    good_fix,
    judged,
    plan,
    play,
    task,
    three_red_rounds,
    work,
    write,
)


async def test_one_round(shop: Shop) -> None:
    """A comment becomes one tested, reviewed commit on the base branch, and nothing else."""
    shop.play(good_fix())
    before = await shop.writer.branch("main")
    issue = await shop.ask()
    pull = await shop.ready()
    candidate = pull["head"]["sha"]
    assert await shop.writer.branch("main") == before, "nothing lands without a review"

    await shop.reviewer.review(pull["number"])
    run = await shop.ended(issue)

    assert run["state"] == "promoted"
    assert await shop.writer.branch("main") == candidate
    history = [commit["sha"] for commit in await shop.writer.commits("main")]
    assert history[:2] == [candidate, before]
    checks = {c["name"]: c for c in await shop.writer.checks(candidate)}
    assert {name: check["conclusion"] for name, check in checks.items()} == dict.fromkeys(
        (
            "ultracode/suite/unit",
            "ultracode/scope",
            "ultracode/verifier",
            "ultracode/refuter",
            "ultracode/review",
        ),
        "success",
    )
    assert run["test_report_digest"] in checks["ultracode/suite/unit"]["output"]["text"]
    assert (await shop.writer.pull(pull["number"]))["merged"]
    assert (await shop.writer.issue(issue))["state"] == "closed"
    assert await shop.writer.branch(pull["head"]["ref"]) is None, "the work branch is gone"
    await shop.said(issue, "promoted")


async def test_the_command_gets_a_reaction_and_one_status_comment(shop: Shop) -> None:
    """A recognised command is never met with silence, and progress edits one comment."""
    shop.play(good_fix())
    issue = await shop.writer.open_issue("Totals are off by a cent")
    comment = await shop.writer.comment(issue, "/ultracode Fix the rounding.")
    await shop.writer.until(lambda: shop.writer.reactions(comment), what="a reaction")
    await shop.ready()
    await shop.said(issue, "awaiting_review")
    status = [words for words in await shop.words(issue) if "Fix the rounding" in words]
    assert len(status) == 1


async def test_repair_in_round_one(shop: Shop) -> None:
    """A red suite in round 0 is repaired in round 1, and what lands is one commit."""
    shop.play(
        play(
            plan(task("prices", "shop/money.py"), task("discounts", "shop/cart.py")),
            work("prices", MONEY),
            work("discounts", CART_WRONG),
            judged(passed=False),
            plan(task("half-cents", "shop/cart.py"), round=1),
            work("half-cents", CART_MENDED, round=1),
            judged(round=1),
        )
    )
    before = await shop.writer.branch("main")
    issue = await shop.ask()
    pull = await shop.ready()
    await shop.reviewer.review(pull["number"])
    run = await shop.ended(issue)
    assert (run["state"], run["round"]) == ("promoted", 1)
    history = [commit["sha"] for commit in await shop.writer.commits("main")]
    assert history[1] == before


async def test_a_candidate_too_large_to_review_fails_with_those_words(shop: Shop) -> None:
    """No model judges half a diff: the round fails in words, and a repair may make it smaller."""
    shop.play(
        play(
            plan(task("prices", "shop/money.py", "shop/cart.py", "notes.txt")),
            work("prices", MONEY, CART, write("notes.txt", "A long story.\n" * 10_000)),
            plan(task("shorter", "notes.txt"), round=1),
            work("shorter", write("notes.txt", "A short story.\n"), round=1),
            judged(round=1),
        )
    )
    issue = await shop.ask()
    pull = await shop.ready()
    assert "too large to review" in shop.model_heard("planner")
    assert (await shop.run_of(issue))["round"] == 1
    assert len(await shop.writer.pulls()) == 1
    assert not pull["draft"]


async def test_exhausted_after_three_rounds(shop: Shop) -> None:
    """Three red rounds end in words, nothing is merged, draft and branch stay for a person."""
    shop.play(three_red_rounds())
    before = await shop.writer.branch("main")
    issue = await shop.ask()
    run = await shop.ended(issue)
    assert (run["state"], run["round"]) == ("failed", 2)
    assert await shop.writer.branch("main") == before
    (pull,) = await shop.writer.pulls()
    assert (pull["state"], pull["draft"]) == ("open", True)
    await shop.said(issue, "failed", "unit")


async def test_read_only_report(green_shop: Shop) -> None:
    """A request that changes nothing ends reported, without branch, pull request or check run."""
    green_shop.play(play(plan(task("audit")), work("audit"), judged()))
    issue = await green_shop.ask("/ultracode Where is money rounded?")
    run = await green_shop.ended(issue)
    assert run["state"] == "reported", run["sentence"]
    assert await green_shop.writer.pulls() == []
    await green_shop.said(issue, "What was asked for is done.")
