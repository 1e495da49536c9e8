"""The budget of one run: what its agents may use, and what they have used.

In: limits from policy clamped by the operator's ceilings, and each answer's token counts. Out:
nothing, or `BudgetExceeded` before a call that must not be made. The counts live in the run's row,
so that a restart goes on counting where the last worker stopped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from bot.agents.budget import Usage as AgentUsage
from bot.clock import now
from bot.errors import BudgetExceeded
from bot.store.runs import RunStore, Usage

MILLION = Decimal(1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a run may use. None means no limit. `started_at` is when it began to work."""

    tokens: int | None
    cost: Decimal | None
    ends_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Money per million tokens of one model."""

    input: Decimal
    output: Decimal
    cached: Decimal | None = None

    def of(self, usage: AgentUsage) -> Decimal:
        """Return what some tokens cost."""
        cached = self.input if self.cached is None else self.cached
        fresh = usage.input_tokens - usage.cached_tokens
        return (
            fresh * self.input + usage.cached_tokens * cached + usage.output_tokens * self.output
        ) / MILLION


class RunBudget:
    """Checks before each call and counts after each answer, fenced by the run's epoch."""

    def __init__(
        self,
        runs: RunStore,
        run_id: str,
        *,
        epoch: int,
        used: Usage,
        limits: Limits,
        prices: Mapping[str, Price],
    ) -> None:
        self._runs = runs
        self._run_id = run_id
        self._epoch = epoch
        self._used = used
        self._limits = limits
        self._prices = prices

    async def check(self, model_id: str, expected_tokens: int) -> None:
        """Raise BudgetExceeded when the call would pass a limit."""
        del model_id
        limits, used = self._limits, self._used
        if limits.tokens is not None and used.tokens + expected_tokens > limits.tokens:
            raise BudgetExceeded(
                f"The run has used {used.tokens:,} of {limits.tokens:,} tokens and its next step "
                "would pass that limit."
            )
        if limits.cost is not None and used.cost >= limits.cost:
            raise BudgetExceeded(f"The run has used {used.cost:.2f} of {limits.cost:.2f}.")
        if limits.ends_at is not None and now() > limits.ends_at:
            raise BudgetExceeded("The run has used all the minutes it may take.")

    async def spend(self, model_id: str, usage: AgentUsage) -> None:
        """Count an answer. Raises StaleEpoch when the run is somebody else's."""
        price = self._prices.get(model_id)
        self._used = await self._runs.add_usage(
            self._run_id,
            Usage(
                model_calls=usage.calls,
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cost=price.of(usage) if price else Decimal(0),
            ),
            epoch=self._epoch,
        )
