"""Where spending is kept: the run's own row, so that a restart goes on counting.

In: each answer's token counts and cost. Out: what a run, a repository or an installation has used.
Implements `bot.agents.budget.Ledger`.
"""

from __future__ import annotations

from decimal import Decimal

from bot.agents.budget import SpendingScope, Spent
from bot.agents.usage import Usage as AgentUsage
from bot.store.runs import Claim, RunStore, Usage


class RunLedger:
    """Counts for one claim. Raises StaleEpoch when the run is somebody else's."""

    def __init__(self, runs: RunStore, claim: Claim) -> None:
        self._runs = runs
        self._run = claim.run
        self._epoch = claim.epoch

    async def spent(self, scope: SpendingScope) -> Spent:
        """Return what was used within a scope up to now."""
        match scope:
            case "run":
                used = (await self._runs.get(self._run.run_id)).usage
            case "repository-day":
                used = await self._runs.usage_of_last_day(repository_id=self._run.repository_id)
            case "installation-day":
                used = await self._runs.usage_of_last_day(installation_id=self._run.installation_id)
        return Spent(tokens=used.tokens, cost=used.cost)

    async def add(self, usage: AgentUsage, cost: Decimal) -> None:
        """Write down what one answer took."""
        await self._runs.add_usage(
            self._run.run_id,
            Usage(
                model_calls=usage.calls,
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cost=cost,
            ),
            epoch=self._epoch,
        )
