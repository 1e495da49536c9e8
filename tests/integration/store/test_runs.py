import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from sqlalchemy import text

from bot.errors import LiveRunExists, RunNotFound, StaleEpoch
from bot.store.database import Database
from bot.store.runs import Queued, RunState, RunStore, Started, Usage
from tests.integration.store.make import make_run, new_run

pytestmark = pytest.mark.postgres


@pytest.fixture
def runs(database: Database) -> RunStore:
    return RunStore(database)


async def test_one_trigger_makes_one_run(runs: RunStore) -> None:
    """The same comment delivered twice gives the same run, however far it is by then."""
    asked = new_run()
    first = await runs.create(asked, actor="github:3")
    await runs.transition(
        first.run.run_id, from_states={RunState.ACCEPTED}, to_state=RunState.REFUSED
    )
    second = await runs.create(asked, actor="github:3")
    assert (first.fresh, second.fresh) == (True, False)
    assert second.run.run_id == first.run.run_id


async def test_one_trigger_makes_one_run_under_concurrency(runs: RunStore) -> None:
    """Ten workers that handle the same comment at once make one run together."""
    asked = new_run()
    made = await asyncio.gather(*(runs.create(asked, actor="github:3") for _ in range(10)))
    assert len({each.run.run_id for each in made}) == 1
    assert sum(each.fresh for each in made) == 1


async def test_an_issue_has_one_live_run(runs: RunStore) -> None:
    """A second request on the issue is told which run is in its way, until that one has ended."""
    live = await make_run(runs)
    with pytest.raises(LiveRunExists) as refused:
        await make_run(runs)
    assert refused.value.run_id == live.run_id
    await runs.transition(live.run_id, from_states={RunState.ACCEPTED}, to_state=RunState.FAILED)
    assert (await make_run(runs)).run_id > live.run_id


async def test_the_callers_transaction_survives_a_refused_run(
    runs: RunStore, database: Database
) -> None:
    """What a handler wrote before it learnt of the live run is still committed."""
    live = await make_run(runs)
    async with database.begin() as tx:
        await runs.audit("asked", actor="github:4", run_id=live.run_id, tx=tx)
        with pytest.raises(LiveRunExists):
            await runs.create(new_run(), actor="github:4", tx=tx)
    assert [line.kind for line in await runs.trail(live.run_id)] == ["state", "asked"]


async def test_two_claims_at_once_give_two_epochs(runs: RunStore) -> None:
    """Of two workers that claim a run only the later one may write for it."""
    run = await make_run(runs)
    claims = await asyncio.gather(runs.claim(run.run_id), runs.claim(run.run_id))
    epochs = sorted(claim.epoch for claim in claims if claim)
    assert epochs == [1, 2]
    with pytest.raises(StaleEpoch):
        await runs.record(run.run_id, epoch=1, round=1)
    await runs.record(run.run_id, epoch=2, round=2)
    assert (await runs.get(run.run_id)).round == 2


async def test_every_write_of_an_old_epoch_is_refused(runs: RunStore) -> None:
    """A worker that lost its run can neither move it, nor start it, nor count usage for it."""
    run = await make_run(runs)
    old, new = await runs.claim(run.run_id), await runs.claim(run.run_id)
    assert old
    assert new
    with pytest.raises(StaleEpoch):
        await runs.transition(
            run.run_id,
            from_states={RunState.ACCEPTED},
            to_state=RunState.PLANNING,
            epoch=old.epoch,
        )
    with pytest.raises(StaleEpoch):
        await runs.start(run.run_id, epoch=old.epoch, per_repository=2, per_installation=2)
    with pytest.raises(StaleEpoch):
        await runs.add_usage(run.run_id, Usage(model_calls=1), epoch=old.epoch)
    assert (await runs.get(run.run_id)).state is RunState.ACCEPTED


async def test_a_claim_waits_for_a_write_that_is_under_way(
    runs: RunStore, database: Database
) -> None:
    """A write that passed the fence is committed before anybody else can claim the run."""
    run = await make_run(runs)
    claim = await runs.claim(run.run_id)
    assert claim
    async with database.begin() as tx:
        await runs.record(run.run_id, epoch=claim.epoch, round=1, tx=tx)
        second = asyncio.create_task(runs.claim(run.run_id))
        done, _ = await asyncio.wait({second}, timeout=0.2)
        assert not done
    taken = await second
    assert taken
    assert taken.run.round == 1


async def test_an_ended_run_cannot_be_claimed(runs: RunStore) -> None:
    """A late job of a run that has ended finds nothing to do."""
    run = await make_run(runs)
    await runs.transition(run.run_id, from_states={run.state}, to_state=RunState.CANCELLED)
    assert await runs.claim(run.run_id) is None
    assert await runs.claim("nosuchrun") is None


async def test_the_same_approval_moves_a_run_once(runs: RunStore) -> None:
    """Two workers that see the same approval: exactly one of them approves."""
    run = await make_run(runs, state=RunState.AWAITING_REVIEW)
    moved = await asyncio.gather(
        *(
            runs.transition(
                run.run_id,
                from_states={RunState.AWAITING_REVIEW},
                to_state=RunState.APPROVED,
                actor="github:9",
            )
            for _ in range(5)
        )
    )
    assert sorted(moved) == [False, False, False, False, True]
    assert [line.detail["to"] for line in await runs.trail(run.run_id)] == [
        "awaiting_review",
        "approved",
    ]


async def test_an_approval_of_another_commit_moves_nothing(runs: RunStore) -> None:
    """Only an approval of the candidate that waits counts."""
    run = await make_run(runs, state=RunState.AWAITING_REVIEW)
    claim = await runs.claim(run.run_id)
    assert claim
    await runs.record(run.run_id, epoch=claim.epoch, candidate_sha="a" * 40)

    async def approve(sha: str) -> bool:
        return await runs.transition(
            run.run_id,
            from_states={RunState.AWAITING_REVIEW},
            to_state=RunState.APPROVED,
            where_candidate_sha=sha,
        )

    assert not await approve("b" * 40)
    assert await approve("a" * 40)


async def test_a_run_ends_with_its_time_and_sentence(runs: RunStore) -> None:
    """An ended run says when and in which words, and no longer why it waited."""
    run = await make_run(runs, state=RunState.AWAITING_GO, state_reason="plan")
    await runs.transition(
        run.run_id,
        from_states={RunState.AWAITING_GO},
        to_state=RunState.EXPIRED,
        outcome_sentence="Nobody said go.",
    )
    ended = await runs.get(run.run_id)
    assert ended.ended
    assert ended.ended_at is not None
    assert (ended.state_reason, ended.outcome_sentence) == (None, "Nobody said go.")


async def test_cancelling_fences_the_busy_worker(runs: RunStore) -> None:
    """From the moment of cancelling, the worker that was busy can write nothing more."""
    run = await make_run(runs)
    claim = await runs.claim(run.run_id)
    assert claim
    cancelled = await runs.cancel(run.run_id, actor="github:3")
    assert cancelled is not None
    assert cancelled.state is RunState.CANCELLING
    with pytest.raises(StaleEpoch):
        await runs.record(run.run_id, epoch=claim.epoch, round=1)
    assert await runs.cancel(run.run_id, actor="github:3") is None


async def test_limits_hold_when_many_start_at_once(runs: RunStore) -> None:
    """Of five runs of one repository that start at once, two work and three learn their place."""
    made = [await make_run(runs, issue_number=number) for number in range(5)]
    claims = [await runs.claim(run.run_id) for run in made]

    async def begin(index: int) -> Started | Queued:
        claim = claims[index]
        assert claim
        return await runs.start(
            claim.run.run_id, epoch=claim.epoch, per_repository=2, per_installation=10
        )

    verdicts = await asyncio.gather(*(begin(index) for index in range(5)))
    assert sum(isinstance(verdict, Started) for verdict in verdicts) == 2
    assert len(await runs.in_states({RunState.PLANNING})) == 2
    queued = [run for run in await runs.in_states({RunState.ACCEPTED}) if run.state_reason]
    assert len(queued) == await runs.count_queued() == 3


async def test_whoever_waited_longest_starts_next(runs: RunStore) -> None:
    """When a run ends, the place goes to the oldest queued one, and a newer one keeps waiting."""
    first, second, third = [await make_run(runs, issue_number=number) for number in range(3)]

    async def begin(run_id: str) -> Started | Queued:
        claim = await runs.claim(run_id)
        assert claim
        return await runs.start(run_id, epoch=claim.epoch, per_repository=1, per_installation=5)

    assert isinstance(await begin(first.run_id), Started)
    assert await begin(second.run_id) == Queued(1)
    assert await begin(third.run_id) == Queued(2)
    await runs.transition(first.run_id, from_states={RunState.PLANNING}, to_state=RunState.FAILED)
    assert await begin(third.run_id) == Queued(1)
    assert [run.run_id for run in await runs.next_queued(first)] == [second.run_id]
    assert isinstance(await begin(second.run_id), Started)


async def test_one_repositorys_queue_does_not_hold_up_another(runs: RunStore) -> None:
    """With room left in the installation, another repository's run starts at once."""
    busy = [await make_run(runs, issue_number=number) for number in range(4)]
    for run in busy:
        claim = await runs.claim(run.run_id)
        assert claim
        await runs.start(run.run_id, epoch=claim.epoch, per_repository=1, per_installation=2)
    other = await make_run(runs, repository_id=12)
    third = await make_run(runs, repository_id=13)
    verdicts = []
    for run in (other, third):
        claim = await runs.claim(run.run_id)
        assert claim
        verdicts.append(
            await runs.start(run.run_id, epoch=claim.epoch, per_repository=1, per_installation=2)
        )
    assert isinstance(verdicts[0], Started)
    assert verdicts[1] == Queued(4)


async def test_usage_adds_up(runs: RunStore) -> None:
    """What each model call used is added to the run, and counts for its repository's day."""
    run = await make_run(runs)
    claim = await runs.claim(run.run_id)
    assert claim
    call = Usage(model_calls=1, input_tokens=100, output_tokens=7, cost=Decimal("0.0125"))
    await runs.add_usage(run.run_id, call, epoch=claim.epoch)
    total = await runs.add_usage(run.run_id, call, epoch=claim.epoch)
    assert total == Usage(2, 200, 14, Decimal("0.0250"))
    assert (await runs.usage_of_last_day(repository_id=11)).tokens == 214
    assert (await runs.usage_of_last_day(repository_id=12)).tokens == 0
    assert (await runs.usage_of_last_day(installation_id=5)).cost == Decimal("0.0250")


async def test_runs_are_found_by_what_webhooks_name(runs: RunStore) -> None:
    """A run is found by its issue, pull request, branch and candidate, within its repository."""
    run = await make_run(runs, branch="ultracode/7-abc", pull_number=21)
    claim = await runs.claim(run.run_id)
    assert claim
    await runs.record(run.run_id, epoch=claim.epoch, candidate_sha="c" * 40)
    found = [
        await runs.live_of_issue(11, 7),
        *await runs.of_issue(11, 7),
        *await runs.of_pull(11, 21),
        *await runs.of_branch(11, "ultracode/7-abc"),
        *await runs.of_candidate(11, "c" * 40),
    ]
    assert [each.run_id for each in found if each] == [run.run_id] * 5
    assert await runs.of_pull(12, 21) == []
    with pytest.raises(RunNotFound):
        await runs.get("nosuchrun")


async def test_expired_and_forgotten_runs_are_found(runs: RunStore) -> None:
    """The reconciler sees runs past their deadline, and active runs that no job works on."""
    past = datetime.now(UTC) - timedelta(seconds=1)
    waiting = await make_run(runs, state=RunState.AWAITING_REVIEW, deadline_at=past)
    active = await make_run(runs, issue_number=8)
    assert [run.run_id for run in await runs.expired()] == [waiting.run_id]
    assert [run.run_id for run in await runs.without_job()] == [active.run_id]


async def test_a_bad_state_cannot_be_written(runs: RunStore, database: Database) -> None:
    """The database itself refuses a state that the bot does not know."""
    run = await make_run(runs)
    claim = await runs.claim(run.run_id)
    assert claim
    with pytest.raises(Exception, match="runs_state_check"):
        await runs.record(run.run_id, epoch=claim.epoch, state="lost")


async def test_waiting_runs_are_looked_at_a_few_at_a_time(
    runs: RunStore, database: Database
) -> None:
    """Of many runs that wait, the longest untouched are taken, and none twice in a while."""
    waiting = [await make_run(runs, issue_number=number) for number in range(1, 6)]
    async with database.begin() as tx:
        await tx.execute(
            text(
                "update runs set state = 'awaiting_review',"
                " updated_at = now() - interval '1 hour' * issue_number"
            )
        )

    async def take() -> set[str]:
        return {run.run_id for run in await runs.take_for_a_look(unseen_seconds=600, limit=2)}

    oldest = [run.run_id for run in reversed(waiting)]
    assert [await take() for _ in range(4)] == [
        set(oldest[:2]),
        set(oldest[2:4]),
        set(oldest[4:]),
        set(),
    ]
