"""The gate's facts, read from a loopback GitHub, and what is decided by them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bot.gate import GateFacts, ReviewRules, ReviewTarget, decide, load_gate_facts
from bot.github.port import GitHubRepository
from evals.loopback import LoopbackGitHub
from evals.loopback.faults import Fault
from evals.loopback.state import Protection, PullRequest
from tests.unit.bot.test_gate import in_words

BRANCH = "ultracode/1-abcdef"
CODEOWNERS = "* @mara\n"


class Gate:
    """A pull request under review, and the verdict on it."""

    def __init__(
        self, github: LoopbackGitHub, repository: GitHubRepository, pull: PullRequest, sha: str
    ) -> None:
        self.github, self.repository, self.pull, self.sha = github, repository, pull, sha
        self.base = ""
        self.rules = ReviewRules()

    async def facts(self) -> GateFacts:
        commit = await self.repository.commit(self.sha)
        assert commit is not None
        past = datetime.now(UTC) - timedelta(minutes=5)
        self.target = ReviewTarget(
            pull_number=self.pull.number,
            candidate_sha=self.sha,
            candidate_tree=commit.tree,
            original_base_sha=self.base,
            branch=BRANCH,
            base="main",
            pushed_at=past,
            published_at=past,
        )
        return await load_gate_facts(
            self.repository, self.target, app_id=self.github.app.id, observed_at=datetime.now(UTC)
        )

    async def verdict(self) -> str:
        facts = await self.facts()
        return in_words(decide(facts, self.target, self.rules))

    async def review(self, who: Any, event: str = "APPROVE", **more: Any) -> None:
        await self.github.review(self.pull, as_user=who, event=event, body="words", **more)


@pytest.fixture
async def gate(github: LoopbackGitHub, repository: GitHubRepository) -> Gate:
    await github.push({"CODEOWNERS": CODEOWNERS}, as_user="admin")
    base = await github.tip()
    sha = await github.push({"sums.py": "x = 1\n"}, as_user=github.app, branch=BRANCH)
    pull = await github.open_pull(as_user=github.app, head=BRANCH)
    gate = Gate(github, repository, pull, sha)
    gate.base = base
    return gate


@pytest.mark.parametrize(
    ("who", "verdict"),
    [
        ("writer", "approved by wim"),
        ("maintainer", "approved by mara"),
        ("admin", "approved by ada"),
        ("triager", "waiting: approvals 0/1 (tina no_permission)"),
        ("reader", "waiting: approvals 0/1 (rene no_permission)"),
        ("outsider", "waiting: approvals 0/1 (otto no_permission)"),
    ],
)
async def test_an_approval_counts_by_permission(gate: Gate, who: str, verdict: str) -> None:
    """Only people with write access open the gate."""
    assert await gate.verdict() == "waiting: approvals 0/1"
    await gate.review(who)
    assert await gate.verdict() == verdict


async def test_reviews_change_their_mind(gate: Gate) -> None:
    """The latest decisive review of a person counts; dismissed and deleted ones do not."""
    await gate.review("writer")
    await gate.review("second_writer", "REQUEST_CHANGES")
    assert await gate.verdict() == "blocked by rosa"
    await gate.review("second_writer", "COMMENT")
    assert await gate.verdict() == "blocked by rosa"
    await gate.review("second_writer")
    assert await gate.verdict() == "approved by wim, rosa"
    for review in list(gate.pull.reviews.values()):
        if review.user is gate.github.person("writer").account:
            await gate.github.dismiss(review, as_user="admin")
    assert await gate.verdict() == "approved by rosa"
    gate.github.delete_user("second_writer")
    assert await gate.verdict() == "waiting: approvals 0/1 (ghost not_a_person)"


async def test_another_app_opens_nothing(gate: Gate) -> None:
    """An approval by another App, however much it may, counts for nothing."""
    await gate.review(gate.github.other_app)
    assert await gate.verdict() == "waiting: approvals 0/1 (other-ci[bot] not_a_person)"


async def test_lost_permission_takes_the_approval_along(gate: Gate) -> None:
    """Permission is what it is when the gate is decided, not when the review was written."""
    await gate.review("writer")
    gate.github.grant("writer", "read")
    assert await gate.verdict() == "waiting: approvals 0/1 (wim no_permission)"


async def test_a_push_by_somebody_voids_the_candidate(gate: Gate) -> None:
    """What is on the branch now was reviewed by nobody."""
    await gate.review("writer")
    await gate.github.push({"sums.py": "x = 2\n"}, as_user="second_writer", branch=BRANCH)
    assert await gate.verdict() == "voided: other head"
    await gate.github.move_branch(BRANCH, None, as_user="writer")
    assert await gate.verdict() in {"voided: gone", "paused by wim", "rejected by wim"}


@pytest.mark.parametrize(
    ("who", "verdict"), [("writer", "rejected by wim"), ("triager", "paused by tina")]
)
async def test_closing(gate: Gate, who: str, verdict: str) -> None:
    """A writer rejects by closing; whoever else closes only pauses; reopening goes on."""
    await gate.github.close_pull(gate.pull, as_user=who)
    assert await gate.verdict() == verdict
    await gate.github.reopen_pull(gate.pull, as_user="writer")
    assert await gate.verdict() == "waiting: approvals 0/1"


@pytest.mark.parametrize(
    ("method", "what"), [("merge", "same tree"), ("squash", "same tree"), ("rebase", "same tree")]
)
async def test_merged_by_a_person(gate: Gate, method: str, what: str) -> None:
    """The person and what landed are named."""
    await gate.github.merge_pull(gate.pull, as_user="writer", method=method)
    assert await gate.verdict() == f"merged by wim: {what}"


async def test_the_base(gate: Gate) -> None:
    """A moved base, a retargeted pull request and a draft keep an approved candidate waiting."""
    await gate.review("writer")
    await gate.github.set_draft(gate.pull, as_user="writer", draft=True)
    assert await gate.verdict() == "waiting: ready"
    await gate.github.set_draft(gate.pull, as_user="writer", draft=False)
    await gate.github.move_branch("dev", gate.base, as_user="writer")
    await gate.github.retarget(gate.pull, "dev", as_user="writer")
    assert await gate.verdict() == "waiting: retarget from dev"
    await gate.github.retarget(gate.pull, "main", as_user="writer")
    await gate.github.push({"new.py": ""}, as_user="writer")
    assert await gate.verdict() == "base moved"


async def test_code_owners_and_threads(gate: Gate) -> None:
    """Where protection demands code owners, GitHub's own decision is awaited."""
    gate.github.protect(
        Protection(
            branch="main",
            reviews={"required_approving_review_count": 1, "require_code_owner_reviews": True},
            restrictions={"users": [], "teams": [], "apps": [gate.github.app.slug]},
        )
    )
    await gate.review("writer")
    assert await gate.verdict() == "waiting: GitHub's decision"
    await gate.review("maintainer")
    assert await gate.verdict() == "approved by wim, mara"
    gate.rules = ReviewRules(contributors=frozenset({gate.github.person("writer").id}))
    assert await gate.verdict() == "approved by mara"


async def test_required_checks(gate: Gate) -> None:
    """Required checks and statuses are awaited, by the App they are bound to."""
    github = gate.github
    checks = [{"context": "ci", "app_id": github.other_app.id}, {"context": "lint"}]
    github.protect(Protection(branch="main", status_checks={"strict": True, "checks": checks}))
    await gate.review("writer")
    assert await gate.verdict() == "approved, waiting: ci open; lint open"
    await github.status(gate.sha, "ci", "success", as_user="writer")
    await github.check(gate.sha, "lint", "failure", as_app=github.other_app)
    assert await gate.verdict() == "approved, waiting: ci open; lint red"
    await github.check(gate.sha, "ci", "success", as_app=github.other_app)
    await github.check(gate.sha, "lint", "success", as_app=github.other_app)
    assert await gate.verdict() == "approved by wim"


async def test_a_change_request_on_the_second_page(gate: Gate) -> None:
    """All pages are read."""
    await gate.review("writer")
    for _ in range(100):
        await gate.review("reader", "COMMENT")
    await gate.review("second_writer", "REQUEST_CHANGES")
    assert await gate.verdict() == "blocked by rosa"


async def test_little_is_asked_before_somebody_approved(gate: Gate) -> None:
    """Until the candidate is approved, protection and checks are not even read."""
    fault = gate.github.go_wrong(Fault(kind="error", path="*/protection", times=100))
    await gate.review("second_writer", "REQUEST_CHANGES")
    assert await gate.verdict() == "blocked by rosa"
    assert fault.hits == 0
