"""Keeps what agents take in the run's own row, and turns policy and ceilings into allowances.

Comes in: usage and cost of each answer; the limits of policy and operator. Goes out: what was spent
within the run, the repository's and the installation's last 24 hours. It exists so that spending
outlives the process and counts across all workers.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TypeVar

from bot.agents.budget import Allowance, SpendingScope, Spent
from bot.agents.usage import Usage
from bot.policy import LimitsPolicy
from bot.settings import Ceilings
from bot.store.run_records import Run
from bot.store.run_records import Usage as StoredUsage
from bot.store.runs import RunStore

Number = TypeVar("Number", int, Decimal)


class RunLedger:
    """`Ledger` over the table of runs, in the name of one claim."""

    def __init__(self, runs: RunStore, run: Run, epoch: int) -> None:
        self._runs = runs
        self._run = run
        self._epoch = epoch
        self._spent = run.usage

    async def spent(self, scope: SpendingScope) -> Spent:
        """See `Ledger.spent`. The run's own spending is known: its claim is the only writer."""
        if scope == "run":
            used = self._spent
        elif scope == "repository-day":
            used = await self._runs.usage_of_last_day(repository_id=self._run.repository_id)
        else:
            used = await self._runs.usage_of_last_day(installation_id=self._run.installation_id)
        return Spent(tokens=used.tokens, cost=used.cost)

    async def add(self, usage: Usage, cost: Decimal) -> None:
        """See `Ledger.add`.

        Raises:
            StaleEpoch: somebody else has claimed the run since.
        """
        taken = StoredUsage(usage.calls, usage.input_tokens, usage.output_tokens, cost)
        self._spent = await self._runs.add_usage(self._run.run_id, taken, epoch=self._epoch)


def allowances(limits: LimitsPolicy, ceilings: Ceilings) -> tuple[Allowance, ...]:
    """What a run may use: the repository's own limits, clamped by the operator's ceilings."""
    cost = None if limits.cost is None else Decimal(str(limits.cost))
    all_scopes = (
        Allowance(
            scope="run",
            tokens=_lower(limits.tokens, ceilings.tokens_per_run),
            cost=_lower(cost, ceilings.cost_per_run),
        ),
        Allowance(
            scope="repository-day",
            tokens=ceilings.tokens_per_repository_day,
            cost=ceilings.cost_per_repository_day,
        ),
        Allowance(
            scope="installation-day",
            tokens=ceilings.tokens_per_installation_day,
            cost=ceilings.cost_per_installation_day,
        ),
    )
    return tuple(a for a in all_scopes if a.tokens is not None or a.cost is not None)


def _lower(one: Number | None, other: Number | None) -> Number | None:
    known = [value for value in (one, other) if value is not None]
    return min(known) if known else None
