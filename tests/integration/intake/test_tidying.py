"""What a stopped worker doubled or left behind on GitHub, and the reconciler that tidies it up."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from sqlalchemy import text

from bot.github.marks import Marks
from bot.github.port import CheckOutput, CheckRunWrite, GitHubRepository
from bot.github.run_effects import RunEffects
from bot.live_run import work_branch
from bot.recovery import tidy_up
from bot.store.effects import EffectKind
from bot.store.fence import holding
from bot.store.runs import Run
from bot.store.tables import RunState
from evals.loopback.state import Issue
from tests.integration.intake.conftest import Bot
from tests.unit.bot.github.views import a_round
from workspace.contracts import CONTRACT_VERSION

pytestmark = pytest.mark.postgres

OPEN = CheckRunWrite(
    name="ultracode/suite/unit",
    head_sha="",
    external_id="",
    conclusion=None,
    output=CheckOutput(title="Unit", summary="runs"),
)


@dataclass
class Shown:
    """A run with a status comment and a candidate on its branch, as a worker leaves it."""

    bot: Bot
    issue: Issue
    run: Run
    door: GitHubRepository
    done: RunEffects
    sha: str

    @property
    def marks(self) -> Marks:
        return self.bot.services.marks

    async def comment(self, key: str = "status") -> int:
        """Let a worker that knows nothing of the ledger say it (once more)."""
        body = self.marks.signed("It works.", self.run.run_id, key)
        return (await self.door.create_comment(self.issue.number, body)).id

    async def check(self, **changes: Any) -> int:
        """Let a worker put the suite's check run on the candidate (once more)."""
        external_id = f"{self.run.run_id}:0:{OPEN.name}"
        check = replace(OPEN, head_sha=self.sha, external_id=external_id, **changes)
        return await self.door.create_check_run(check)

    async def end(self, state: RunState, *, minutes: int = 2) -> None:
        """Call the run ended some minutes ago, or let it wait for a review."""
        ended = state is not RunState.AWAITING_REVIEW
        set_ = (
            "update runs set state = :state,"
            " ended_at = case when :ended then now() - make_interval(mins => :minutes) end"
        )
        async with self.bot.services.database.begin() as tx:
            await tx.execute(text(set_), {"state": state, "minutes": minutes, "ended": ended})

    async def tidied(self) -> None:
        """Let the reconciler tidy every run that waits, and those that have ended."""
        services = self.bot.services
        await tidy_up(services, await services.runs.in_states({RunState.AWAITING_REVIEW}))

    def checks(self) -> dict[int, tuple[str, str | None]]:
        """Return name and conclusion of every check run, by id."""
        every = self.bot.github.repository().check_runs()
        return {check.id: (check.name, check.conclusion) for check in every}

    def comments(self) -> set[int]:
        """Return the ids of the comments that bear the mark of the status comment."""
        mark = self.marks.mark(self.run.run_id, "status")
        return {c.id for c in self.issue.comments.values() if mark in c.body}


@pytest.fixture
async def shown(bot: Bot) -> Shown:
    issue, run = await bot.start()
    claim = await bot.services.runs.claim(run.run_id)
    assert claim is not None
    branch = work_branch(run)
    sha = await bot.github.push({"sums.py": "better"}, as_user=bot.github.app, branch=branch)
    base = await bot.github.tip("main")
    made = a_round(number=0, sha=sha, base=base).candidate
    assert made is not None
    door = bot.services.github.repository(run.installation_id, run.repository_id)
    with holding(run.run_id, claim.epoch):
        await bot.services.pieces.save(
            run.run_id,
            "candidate:0",
            made.model_dump(mode="json"),
            epoch=claim.epoch,
            contract_version=CONTRACT_VERSION,
        )
    done = RunEffects(
        run_id=run.run_id,
        epoch=claim.epoch,
        repository=door,
        effects=bot.services.effects,
        marks=bot.services.marks,
    )
    return Shown(bot, issue, claim.run, door, done, sha)


async def test_of_doubled_comments_the_confirmed_one_stays(shown: Shown) -> None:
    """A status comment that stands there three times stands there once, the one that is edited."""
    await shown.comment()
    with holding(shown.run.run_id, shown.done.epoch):
        kept = await shown.done.comment(
            shown.issue.number, "status", "It works.", kind=EffectKind.STATUS_COMMENT
        )
    await shown.comment()
    await shown.bot.github.comment(  # somebody copied the mark: not ours to delete
        shown.issue, as_user="writer", body=shown.marks.mark(shown.run.run_id, "status")
    )
    await shown.end(RunState.AWAITING_REVIEW)
    await shown.tidied()
    await shown.tidied()
    ours = {c.id for c in shown.issue.comments.values() if c.user is shown.bot.github.app.bot}
    assert shown.comments() & ours == {kept}
    assert len(shown.comments()) == 2


async def test_of_doubled_comments_nobody_confirmed_the_first_stays(shown: Shown) -> None:
    """Where no worker lived to say which one counts, the lowest id does; but once it has ended."""

    async def say_it_and_die() -> str:
        await shown.comment()
        raise ConnectionAbortedError

    with holding(shown.run.run_id, shown.done.epoch), pytest.raises(ConnectionAbortedError):
        await shown.done.perform("comment:status", EffectKind.STATUS_COMMENT, say_it_and_die)
    await shown.comment()
    await shown.end(RunState.AWAITING_REVIEW)
    await shown.tidied()
    assert len(shown.comments()) == 2, "a live run's worker may be at it"
    await shown.end(RunState.FAILED)
    await shown.tidied()
    assert shown.comments() == {min(c.id for c in shown.issue.comments.values() if "It " in c.body)}


async def test_doubled_and_open_check_runs(shown: Shown) -> None:
    """Of two check runs the doubled one loses its name; none that an ended run left stays open."""
    first, second = await shown.check(), await shown.check()
    foreign = await shown.door.create_check_run(
        replace(OPEN, head_sha=shown.sha, external_id="another run:0:x")
    )
    await shown.end(RunState.FAILED)
    await shown.tidied()
    assert shown.checks() == {
        first: (OPEN.name, "cancelled"),
        second: ("ultracode/doubled", "neutral"),
        foreign: (OPEN.name, None),
    }


@pytest.mark.parametrize(
    ("state", "minutes", "stays"),
    [
        (RunState.CANCELLED, 2, False),
        (RunState.PROMOTED, 2, False),
        (RunState.CANCELLED, 0, True),  # a worker that wakes up may still be at it
        (RunState.FAILED, 2, True),  # kept aside
        (RunState.AWAITING_REVIEW, 2, True),
    ],
)
async def test_a_branch_nobody_owns(
    shown: Shown, state: RunState, minutes: int, *, stays: bool
) -> None:
    """A branch that came back after its run's end goes; one that is kept aside stays."""
    await shown.end(state, minutes=minutes)
    await shown.tidied()
    assert (await shown.door.branch_sha(work_branch(shown.run)) is not None) == stays


async def test_a_branch_somebody_pushed_to(shown: Shown) -> None:
    """A branch of an ended run that holds a person's commit is not ours to delete."""
    await shown.bot.github.push({"x": "1"}, as_user="writer", branch=work_branch(shown.run))
    await shown.end(RunState.CANCELLED)
    await shown.tidied()
    assert await shown.door.branch_sha(work_branch(shown.run)) is not None


async def test_an_ended_run_is_looked_at_once(shown: Shown) -> None:
    """The reconciler asks GitHub about an ended run once, not every two minutes."""
    await shown.end(RunState.CANCELLED)
    await shown.tidied()
    before = len(shown.bot.github.journal)
    await shown.tidied()
    asked = [e.path for e in list(shown.bot.github.journal)[before:]]
    assert not any("comments" in path or "git/ref" in path for path in asked)
