"""What model calls take, and what stops the next one.

Comes in: allowances and the token counts of each answer. Goes out: nothing, or BudgetExceeded
before a call that must not be made any more. It exists because Agno counts tokens but has no
budgets.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final, Literal, Protocol

from bot.agents.prices import Prices
from bot.agents.usage import Usage
from bot.errors import BudgetExceeded
from workspace.contracts import Frozen

Spend = Callable[[Usage], Awaitable[None]]


class Budget(Protocol):
    """The budget of one run, shared by all its agents."""

    def call(self, model_id: str, expected_tokens: int) -> AbstractAsyncContextManager[Spend]:
        """Entered around each model call; what it gives is told what the answer took.

        Args:
            model_id: the provider's id of the model.
            expected_tokens: what the call will take at least, as far as is known.

        Raises:
            BudgetExceeded: on entering, when the call must not be made; its sentence says which
                limit and how much.
        """
        ...


class Spent(Frozen):
    """What was used so far, in tokens of both directions and in the operator's currency."""

    tokens: int = 0
    cost: Decimal = Decimal(0)


SpendingScope = Literal["run", "repository-day", "installation-day"]
_SCOPE_WORDS: Final[Mapping[SpendingScope, str]] = {
    "run": "This run",
    "repository-day": "In the last 24 hours this repository",
    "installation-day": "In the last 24 hours this installation",
}


class Allowance(Frozen):
    """The most that may be used within one scope; None means no limit."""

    scope: SpendingScope
    tokens: int | None = None
    cost: Decimal | None = None


class Ledger(Protocol):
    """Where spending is kept, so that it survives the process and other runs count too."""

    async def spent(self, scope: SpendingScope) -> Spent:
        """What was used within a scope up to now."""
        ...

    async def add(self, usage: Usage, cost: Decimal) -> None:
        """Write down what one answer took."""
        ...


class RunBudget:
    """Keeps a run within its allowances and its time.

    Calls that are under way count with what they are expected to take, so that agents who work side
    by side cannot pass a limit together.
    """

    def __init__(
        self,
        ledger: Ledger,
        allowances: Sequence[Allowance],
        prices: Prices,
        *,
        ends_at: datetime | None = None,
    ) -> None:
        self._ledger = ledger
        self._allowances = tuple(allowances)
        self._prices = prices
        self._ends_at = ends_at
        self._under_way = Spent()

    @asynccontextmanager
    async def call(self, model_id: str, expected_tokens: int) -> AsyncIterator[Spend]:
        """See `Budget.call`."""
        self._check_time()
        expected = Spent(
            tokens=expected_tokens,
            cost=self._prices.cost(model_id, Usage(input_tokens=expected_tokens)),
        )
        reserved = self._under_way = _sum(self._under_way, expected)
        try:
            for allowance in self._allowances:
                self._check_price(model_id, allowance)
                check_allowance(allowance, await self._ledger.spent(allowance.scope), reserved)

            async def spend(usage: Usage) -> None:
                await self._ledger.add(usage, self._prices.cost(model_id, usage))

            yield spend
        finally:
            self._under_way = Spent(
                tokens=self._under_way.tokens - expected.tokens,
                cost=self._under_way.cost - expected.cost,
            )

    def _check_time(self) -> None:
        if self._ends_at is not None and datetime.now(UTC) >= self._ends_at:
            raise BudgetExceeded("This run has used up its time.")

    def _check_price(self, model_id: str, allowance: Allowance) -> None:
        if allowance.cost is not None and not self._prices.knows(model_id):
            raise BudgetExceeded(
                f"There is a limit on cost, but no price for the model {model_id}: "
                "the operator has to add it to the file ULTRACODE_PRICES names."
            )


def check_allowance(allowance: Allowance, spent: Spent, expected: Spent) -> None:
    """Refuse what would pass an allowance.

    Raises:
        BudgetExceeded: `spent` and `expected` together are more than is allowed.
    """
    who = _SCOPE_WORDS[allowance.scope]
    if allowance.tokens is not None and spent.tokens + expected.tokens > allowance.tokens:
        raise BudgetExceeded(
            f"{who} has used {spent.tokens:,} of {allowance.tokens:,} tokens, "
            "and the next model call would pass the limit."
        )
    if allowance.cost is not None and spent.cost + expected.cost > allowance.cost:
        raise BudgetExceeded(
            f"{who} has cost {spent.cost:.2f} of {allowance.cost:.2f}, "
            "and the next model call would pass the limit."
        )


def _sum(one: Spent, other: Spent) -> Spent:
    return Spent(tokens=one.tokens + other.tokens, cost=one.cost + other.cost)
