from __future__ import annotations

from decimal import Decimal

import pytest

from bot.agents.budget import Allowance, Spent
from bot.agents.ledger import RunLedger, allowances
from bot.agents.usage import Usage
from bot.errors import StaleEpoch
from bot.policy import LimitsPolicy
from bot.settings import Ceilings
from bot.store.database import Database
from bot.store.runs import RunStore
from tests.integration.store.make import make_run

NO_CEILING = Ceilings(
    tokens_per_run=None,
    tokens_per_repository_day=None,
    tokens_per_installation_day=None,
    cost_per_run=None,
    cost_per_repository_day=None,
    cost_per_installation_day=None,
    runs_per_installation=1,
    queue_depth=1,
    memory_bytes=1,
    cpus=1,
    disk_bytes=1,
)


@pytest.mark.postgres
async def test_spending_is_kept_with_the_run_and_counted_by_the_day(database: Database) -> None:
    """What agents took is in the run's row and counts for its repository and installation."""
    runs = RunStore(database)
    first, second = await make_run(runs), await make_run(runs, issue_number=8)
    ledgers = []
    for run in (first, second):
        claim = await runs.claim(run.run_id)
        assert claim
        ledgers.append(RunLedger(runs, claim.run, claim.epoch))
    usage = Usage(calls=1, input_tokens=70, cached_tokens=20, output_tokens=30)
    await ledgers[0].add(usage, Decimal("0.5"))
    await ledgers[1].add(usage, Decimal("0.25"))
    await ledgers[1].add(usage, Decimal("0.25"))
    assert await ledgers[0].spent("run") == Spent(tokens=100, cost=Decimal("0.5"))
    assert (await ledgers[1].spent("run")).tokens == 200
    assert (await ledgers[0].spent("repository-day")).tokens == 300
    assert (await ledgers[0].spent("installation-day")).cost == Decimal(1)
    assert (await runs.get(second.run_id)).usage.model_calls == 2


@pytest.mark.postgres
async def test_a_stale_worker_cannot_spend(database: Database) -> None:
    """After somebody else has claimed the run, its old worker is stopped at its next answer."""
    runs = RunStore(database)
    run = await make_run(runs)
    claim = await runs.claim(run.run_id)
    assert claim
    ledger = RunLedger(runs, claim.run, claim.epoch)
    await runs.claim(run.run_id)
    with pytest.raises(StaleEpoch):
        await ledger.add(Usage(calls=1), Decimal(0))


def test_the_lower_limit_counts() -> None:
    """The operator's ceilings clamp what a repository allows itself, and limit whole days."""
    limits = LimitsPolicy.model_validate({"tokens": 5_000, "cost": 3.5})
    assert allowances(limits, NO_CEILING) == (
        Allowance(scope="run", tokens=5_000, cost=Decimal("3.5")),
    )
    ceilings = NO_CEILING.model_copy(
        update={"tokens_per_run": 4_000, "cost_per_run": Decimal(9), "cost_per_repository_day": 7}
    )
    assert allowances(limits, ceilings) == (
        Allowance(scope="run", tokens=4_000, cost=Decimal("3.5")),
        Allowance(scope="repository-day", cost=Decimal(7)),
    )
