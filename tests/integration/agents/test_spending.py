from __future__ import annotations

from decimal import Decimal

import pytest

from bot.agents.budget import Spent
from bot.agents.usage import Usage
from bot.errors import StaleEpoch
from bot.spending import RunLedger
from bot.store.database import Database
from bot.store.runs import RunStore
from tests.integration.store.make import make_run


@pytest.mark.postgres
async def test_spending_is_kept_with_the_run_and_counted_by_the_day(database: Database) -> None:
    """What agents took is in the run's row and counts for its repository and installation."""
    runs = RunStore(database)
    first, second = await make_run(runs), await make_run(runs, issue_number=8)
    ledgers = []
    for run in (first, second):
        claim = await runs.claim(run.run_id)
        assert claim
        ledgers.append(RunLedger(runs, claim))
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
    ledger = RunLedger(runs, claim)
    await runs.claim(run.run_id)
    with pytest.raises(StaleEpoch):
        await ledger.add(Usage(calls=1), Decimal(0))
