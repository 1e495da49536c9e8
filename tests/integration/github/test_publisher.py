"""The publisher against a loopback GitHub and a real ledger: each thing once, whatever happens."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import SecretStr

from bot.contracts import CandidateEnvelope, Ending, Outcome
from bot.gate import Approved, Waiting
from bot.github.marks import Marks
from bot.github.port import GitHubRepository, GitHubUnavailable
from bot.github.publisher import BranchTaken, Publisher
from bot.policy import parse_policy
from bot.run_pieces import RunPieces
from bot.store.database import Database
from bot.store.effects import Effects
from bot.store.pieces import Pieces
from bot.store.runs import NewRun, RunStore
from evals.loopback import LoopbackGitHub
from evals.loopback.bare import GitPerson
from evals.loopback.faults import Fault
from tests.unit.bot.github.views import POLICY, a_request, a_round
from workspace.contracts import (
    CommitTemplate,
    Moved,
    Pushed,
    PushRefused,
    RepoRef,
    RunPin,
)

pytestmark = pytest.mark.postgres


class Pusher:
    """The part of the workshop that moves refs, on the loopback's own repository."""

    def __init__(self, github: LoopbackGitHub) -> None:
        self.github = github
        self.refuses = ""

    async def publish_branch(
        self, _run: RunPin, branch: str, sha: str, *, expected: str | None
    ) -> Pushed | Moved | PushRefused:
        actual = await self.github.repository().git.branch(branch)
        if actual not in (expected, sha):
            return Moved(actual=actual)
        if actual != sha:
            await self.github.move_branch(branch, sha, as_user=self.github.app)
        return Pushed(sha=sha)

    async def promote(self, run: RunPin, sha: str, *, expected: str) -> Any:
        if self.refuses:
            return PushRefused(reason=self.refuses)
        branch = run.base_ref.removeprefix("refs/heads/")
        return await self.publish_branch(run, branch, sha, expected=expected)


@dataclass
class Stage:
    github: LoopbackGitHub
    repository: GitHubRepository
    database: Database
    publisher: Publisher
    pusher: Pusher
    issue: int
    base: str

    async def candidate(self, files: dict[str, bytes]) -> str:
        git = self.github.repository().git
        tree = await git.write_tree(self.base, files)
        who = GitPerson("ultracode", "u@example.com", self.github.world.now())
        return await git.write_commit(tree, [self.base], "Fix sums", who)

    async def round(self, number: int, *, passed: bool) -> CandidateEnvelope:
        """Store all pieces of a round, as the steps do."""
        sha = await self.candidate({"sums.py": f"x = {number}\n".encode()})
        shown = a_round(number=number, passed=passed, sha=sha, base=self.base)
        assert shown.result is not None
        stored: dict[str, Any] = {
            f"plan:{number}": shown.plan,
            f"worker:{number}:login": shown.workers[0],
            f"candidate:{number}": shown.candidate,
            f"report:{number}": shown.report,
            f"evidence:{number}": shown.evidence,
            f"synthesis:{number}": shown.synthesis,
            f"verdict:{number}:verifier": shown.verifier,
            f"verdict:{number}:refuter": shown.refuter,
            f"result:{number}": shown.result,
        }
        for key, value in stored.items():
            await self.store(key, value)
        assert shown.result.envelope is not None
        return shown.result.envelope

    async def store(self, key: str, value: Any) -> None:
        async def work() -> Any:
            return value

        await self.publisher.pieces.once(key, type(value), work)

    async def end(self, outcome: Outcome) -> Ending:
        ending = Ending(outcome=outcome, sentence="So it ended.")
        await self.store("ending", ending)
        await self.publisher.conclude(ending)
        return ending

    @property
    def pull(self) -> Any:
        [pull] = self.github.repository().pulls()
        return pull

    def comments(self) -> list[str]:
        return [c.body for c in self.github.issue(self.issue).comments.values()]

    async def checks(self, sha: str) -> dict[str, str | None]:
        checks = await self.repository.own_check_runs(sha)
        assert len({c.name for c in checks}) == len(checks)
        return {c.name: c.conclusion for c in checks}


@pytest.fixture
async def stage(github: LoopbackGitHub, repository: GitHubRepository, database: Database) -> Stage:
    issue = await github.open_issue(as_user="writer", title="Login fails", body="It does.")
    base = await github.tip()
    request = a_request(
        repository_id=github.repository().id,
        installation_id=github.installation.id,
        issue_number=issue.number,
        base_sha=base,
    )
    runs, pieces, effects = RunStore(database), Pieces(database), Effects(database)
    created = await runs.create(
        NewRun(
            repository_id=request.repository_id,
            installation_id=request.installation_id,
            issue_number=issue.number,
            trigger_kind="comment",
            trigger_id="99",
            requester_id=7,
            requester_login="anna",
            request=request.model_dump(mode="json"),
        ),
        actor="github:7",
    )
    claim = await runs.claim(created.run.run_id)
    assert claim is not None
    pusher = Pusher(github)
    publisher = Publisher(
        run_id=claim.run.run_id,
        epoch=claim.epoch,
        request=request,
        policy=parse_policy(POLICY),
        pin=RunPin(
            run_id=claim.run.run_id,
            repo=RepoRef(id=request.repository_id, url=github.url),
            base_ref="refs/heads/main",
            original_base_sha=base,
            commit=CommitTemplate(
                author_name="u", author_email="u@example.com", committed_at=0, message="m"
            ),
        ),
        branch=f"ultracode/{issue.number}-abcdef",
        app_id=github.app.id,
        repository=repository,
        runs=runs,
        pieces=RunPieces(pieces, claim.run.run_id, claim.epoch),
        effects=effects,
        marks=Marks(SecretStr("secret")),
        workshop=pusher,  # type: ignore[arg-type] - only what moves refs is needed here
        public_url="https://bot.example",
    )
    return Stage(github, repository, database, publisher, pusher, issue.number, base)


async def test_from_a_red_round_to_the_merged_commit(stage: Stage) -> None:
    """One branch, one pull request, one status comment, a check a suite and round, one push."""
    publisher, github = stage.publisher, stage.github
    await publisher.refresh_status()
    await stage.round(0, passed=False)
    await publisher.publish_round(0, passed=False)
    envelope = await stage.round(1, passed=True)
    await publisher.publish_round(1, passed=True)
    assert stage.pull.draft
    await publisher.ask_for_review(envelope)
    assert not stage.pull.draft
    assert await stage.checks(envelope.candidate_sha) == {
        "ultracode/suite/unit": "success",
        "ultracode/scope": "success",
        "ultracode/verifier": "success",
        "ultracode/refuter": "success",
        "ultracode/review": "action_required",
    }
    assert isinstance(await publisher.decide_gate(envelope), Waiting)
    await github.review(stage.pull, as_user="second_writer")
    verdict = await publisher.decide_gate(envelope)
    assert isinstance(verdict, Approved)
    await publisher.open_gate(envelope, verdict)
    assert (await stage.checks(envelope.candidate_sha))["ultracode/review"] == "success"
    assert await publisher.promote(envelope) == Pushed(sha=envelope.candidate_sha)
    assert await github.tip() == envelope.candidate_sha
    await github.settle()
    await stage.end("promoted")
    shown = await stage.repository.pull(stage.pull.number)
    assert shown is not None
    assert shown.merged
    assert await stage.repository.branch_sha(publisher.branch) is None
    status, wanted, ending = stage.comments()
    assert status.startswith("✅ **Merged (promoted)**")
    assert wanted.startswith("@anna the candidate passed")
    assert ending.startswith("@anna **promoted**")
    assert [comment.count("@anna") for comment in stage.comments()] == [0, 1, 1]


STEPS: dict[str, Callable[[Stage, CandidateEnvelope], Awaitable[object]]] = {
    "status": lambda stage, _: stage.publisher.refresh_status(),
    "round": lambda stage, _: stage.publisher.publish_round(0, passed=True),
    "review": lambda stage, envelope: stage.publisher.ask_for_review(envelope),
    "end": lambda stage, _: stage.end("failed"),
}


@pytest.mark.parametrize(
    "path", ["*/issues/*/comments", "*/pulls", "*/check-runs", "*/graphql", "*/issues/comments/*"]
)
async def test_answers_that_get_lost_double_nothing(stage: Stage, path: str) -> None:
    """GitHub acts, the answer is lost, everything is done again: each thing is there once."""
    envelope = await stage.round(0, passed=True)
    for skip in range(3):
        stage.github.go_wrong(Fault(kind="error_after", method="P*", path=path, skip=skip * 2))
    for step in STEPS.values():
        for _ in range(4):
            try:
                await step(stage, envelope)
                break
            except GitHubUnavailable:
                continue
    comments = stage.comments()
    assert [c.split("*", 1)[0].split(" ")[0] for c in comments] == ["❌", "@anna", "@anna"]
    assert len(stage.github.repository().pulls()) == 1
    assert (await stage.checks(envelope.candidate_sha))["ultracode/review"] == "failure"
    assert not stage.pull.draft


async def test_doing_everything_again_changes_nothing(stage: Stage) -> None:
    """A replay from the beginning makes no second comment, pull request or check run."""
    envelope = await stage.round(0, passed=True)
    for _ in range(2):
        for name in ("status", "round", "review"):
            await STEPS[name](stage, envelope)
    assert len(stage.comments()) == 2
    assert len(await stage.checks(envelope.candidate_sha)) == 5


async def test_a_branch_somebody_else_moved_is_not_overwritten(stage: Stage) -> None:
    """What a person pushed to the work branch stays there; the run says so."""
    await stage.round(0, passed=False)
    await stage.publisher.publish_round(0, passed=False)
    await stage.round(1, passed=True)
    pushed = await stage.github.push(
        {"sums.py": "mine\n"}, as_user="writer", branch=stage.publisher.branch
    )
    with pytest.raises(BranchTaken, match="did not put there"):
        await stage.publisher.publish_round(1, passed=True)
    assert await stage.repository.branch_sha(stage.publisher.branch) == pushed


async def test_a_refused_push_can_be_tried_again(stage: Stage) -> None:
    """A refusal is told in GitHub's words and confirmed nowhere; later the push succeeds."""
    envelope = await stage.round(0, passed=True)
    await stage.publisher.publish_round(0, passed=True)
    stage.pusher.refuses = "GH006: Protected branch update failed"
    refused = await stage.publisher.promote(envelope)
    assert refused == PushRefused(reason="GH006: Protected branch update failed")
    assert await stage.github.tip() == stage.base
    stage.pusher.refuses = ""
    assert isinstance(await stage.publisher.promote(envelope), Pushed)
    assert await stage.github.tip() == envelope.candidate_sha


@pytest.mark.parametrize(
    ("outcome", "conclusion", "kept"),
    [
        ("failed", "failure", True),
        ("expired", "cancelled", True),
        ("cancelled", "cancelled", False),
        ("rejected", "cancelled", False),
    ],
)
async def test_every_end_is_shown_and_tidied(
    stage: Stage, outcome: Outcome, conclusion: str, kept: bool
) -> None:
    """Status comment, gate check and a last comment agree; the branch stays for who takes over."""
    envelope = await stage.round(0, passed=True)
    for name in ("status", "round", "review"):
        await STEPS[name](stage, envelope)
    await stage.end(outcome)
    assert (await stage.checks(envelope.candidate_sha))["ultracode/review"] == conclusion
    assert f"**{outcome}**" in stage.comments()[-1]
    assert outcome in stage.comments()[0].splitlines()[0].lower()
    assert (await stage.repository.branch_sha(stage.publisher.branch) is not None) is kept


async def test_a_round_that_failed_ends_with_its_check(stage: Stage) -> None:
    """A run that fails before any review still concludes its gate on the pushed candidate."""
    envelope = await stage.round(0, passed=False)
    await stage.publisher.refresh_status()
    await stage.publisher.publish_round(0, passed=False)
    await stage.end("failed")
    assert (await stage.checks(envelope.candidate_sha))["ultracode/review"] == "failure"
