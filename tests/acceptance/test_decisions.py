"""What people decide on the pull request, told over HTTP only."""

from __future__ import annotations

from tests.acceptance.conftest import Shop
from tests.acceptance.plays import good_fix


async def test_closing_rejects(shop: Shop) -> None:
    """A writer who closes the pull request rejects it: nothing is merged, the branch goes."""
    shop.play(good_fix())
    before = await shop.writer.branch("main")
    issue = await shop.ask()
    pull = await shop.ready()
    await shop.reviewer.close(pull["number"])
    run = await shop.ended(issue)
    assert run["state"] == "rejected"
    assert await shop.writer.branch("main") == before
    gate = [c for c in await shop.writer.checks(pull["head"]["sha"]) if "review" in c["name"]]
    assert [check["conclusion"] for check in gate] == ["cancelled"]
    await shop.said(issue, "rejected", shop.reviewer.login)


POLICY_WITHOUT_REVISIONS = """\
version: 1
bases: [main]
suites:
  unit: {run: "python3 -m tests --junit $ULTRACODE_JUNIT", required: true, timeout: 2m}
limits: {revisions: 0}
"""


async def test_change_request_blocks_where_no_revision_is_left(shop: Shop) -> None:
    """A change request that cannot be worked in blocks, in words, until that person approves."""
    await shop.writer.commit_file("main", ".github/ultracode.yml", POLICY_WITHOUT_REVISIONS)
    shop.play(good_fix())
    issue = await shop.ask()
    pull = await shop.ready()
    await shop.reviewer.review(pull["number"], "REQUEST_CHANGES", body="Not like this.")
    await shop.said(issue, "revision", "limits")
    assert (await shop.run_of(issue))["state"] == "awaiting_review"
    await shop.reviewer.review(pull["number"])
    assert (await shop.ended(issue))["state"] == "promoted"


async def test_merged_by_a_person_first(shop: Shop) -> None:
    """Somebody who merges by hand ends the run, and it says who, as what, and that it is ours."""
    shop.play(good_fix())
    issue = await shop.ask()
    pull = await shop.ready()
    merged = await shop.reviewer.merge(pull["number"])
    run = await shop.ended(issue)
    assert run["state"] == "merged_elsewhere"
    assert shop.reviewer.login in run["sentence"]
    assert merged[:12] in run["sentence"]
    assert "exactly the candidate's files" in run["sentence"]


async def test_approval_of_another_commit_counts_for_nothing(shop: Shop) -> None:
    """An approval that names an older commit does not merge, and the status comment says so."""
    shop.play(good_fix())
    before = await shop.writer.branch("main")
    issue = await shop.ask()
    pull = await shop.ready()
    assert before is not None
    await shop.reviewer.review(pull["number"], commit=before)
    await shop.said(issue, "does not count", "another commit")
    assert await shop.writer.branch("main") == before


async def test_approval_by_somebody_without_write_counts_for_nothing(shop: Shop) -> None:
    """A reader's approval does not merge, and the status comment says why."""
    shop.play(good_fix())
    before = await shop.writer.branch("main")
    issue = await shop.ask()
    pull = await shop.ready()
    await shop.person("reader").review(pull["number"])
    await shop.said(issue, "does not count", "permission")
    assert await shop.writer.branch("main") == before
