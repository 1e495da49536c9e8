from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from bot.agents.budget import Allowance, RunBudget, SpendingScope, Spent
from bot.agents.prices import Price, Prices, load_prices
from bot.agents.usage import Usage
from bot.errors import BudgetExceeded, SettingsError

PRICES = Prices({"m": Price(input=Decimal(1), cached_input=Decimal("0.1"), output=Decimal(10))})
CALL = Usage(calls=1, input_tokens=900_000, cached_tokens=400_000, output_tokens=100_000)


@dataclass
class Book:
    """A ledger in memory; other runs of the day have their own page."""

    run: Spent = field(default_factory=Spent)
    others: Spent = field(default_factory=Spent)

    async def spent(self, scope: SpendingScope) -> Spent:
        if scope == "run":
            return self.run
        return Spent(
            tokens=self.run.tokens + self.others.tokens, cost=self.run.cost + self.others.cost
        )

    async def add(self, usage: Usage, cost: Decimal) -> None:
        self.run = Spent(tokens=self.run.tokens + usage.total_tokens, cost=self.run.cost + cost)


async def _call(budget: RunBudget, expected: int = 0, usage: Usage = CALL) -> None:
    async with budget.call("m", expected) as spend:
        await spend(usage)


def test_a_usage_costs_what_its_tokens_cost() -> None:
    """Cached input is cheaper than fresh input; output has its own price."""
    assert PRICES.cost("m", CALL) == Decimal("1.54")
    assert PRICES.cost("unknown", CALL) == 0
    dear = Prices({"m": Price(input=Decimal(1), output=Decimal(10))})
    assert dear.cost("m", CALL) == Decimal("1.9")


async def test_what_an_answer_took_is_written_down() -> None:
    """The ledger hears of tokens and cost after each answer."""
    book = Book()
    await _call(RunBudget(book, (), PRICES))
    assert book.run == Spent(tokens=1_000_000, cost=Decimal("1.54"))


@pytest.mark.parametrize(
    ("allowance", "words"),
    [
        (Allowance(scope="run", tokens=1_500_000), "This run has used 1,000,000 of 1,500,000"),
        (Allowance(scope="run", cost=Decimal(2)), r"This run has cost 1\.54 of 2\.00"),
        (
            Allowance(scope="repository-day", tokens=1_900_000),
            "In the last 24 hours this repository has used 1,400,000",
        ),
        (
            Allowance(scope="installation-day", cost=Decimal("2.5")),
            r"In the last 24 hours this installation has cost 2\.04",
        ),
    ],
)
async def test_a_call_that_would_pass_a_limit_is_not_made(allowance: Allowance, words: str) -> None:
    """What was spent and what the call will take are held against each limit before the call."""
    book = Book(others=Spent(tokens=400_000, cost=Decimal("0.5")))
    budget = RunBudget(book, [allowance], PRICES)
    await _call(budget)
    with pytest.raises(BudgetExceeded, match=words):
        await _call(budget, expected=600_000)
    assert book.run.tokens == 1_000_000


async def test_calls_side_by_side_cannot_pass_a_limit_together() -> None:
    """A call under way counts with what it is expected to take, and not when it has ended."""
    budget = RunBudget(Book(), [Allowance(scope="run", tokens=1_000)], PRICES)
    nothing = Usage()
    async with budget.call("m", 600):
        with pytest.raises(BudgetExceeded):
            await _call(budget, 600, nothing)
        await _call(budget, 400, nothing)
    await _call(budget, 1_000, nothing)


async def test_a_cancelled_call_gives_its_share_back() -> None:
    """A call that never ended does not count any more."""
    budget = RunBudget(Book(), [Allowance(scope="run", tokens=1_000)], PRICES)

    async def hang() -> None:
        async with budget.call("m", 900):
            await asyncio.Event().wait()

    hanging = asyncio.create_task(hang())
    await asyncio.sleep(0)
    hanging.cancel()
    await asyncio.gather(hanging, return_exceptions=True)
    await _call(budget, 1_000, Usage())


async def test_after_its_time_a_run_calls_no_model() -> None:
    """A run past its end makes no call."""
    past = datetime.now(UTC) - timedelta(seconds=1)
    with pytest.raises(BudgetExceeded, match="used up its time"):
        await _call(RunBudget(Book(), (), PRICES, ends_at=past))


async def test_a_limit_on_cost_needs_a_price() -> None:
    """Where cost is limited a model without a price is not called, and the sentence says why."""
    budget = RunBudget(Book(), [Allowance(scope="run", cost=Decimal(5))], Prices())
    with pytest.raises(BudgetExceeded, match="no price for the model m"):
        await _call(budget)


def test_prices_come_from_a_file(tmp_path: Path) -> None:
    """The operator's file is YAML; without one there are no prices."""
    file = tmp_path / "prices.yaml"
    file.write_text("gpt-x: {input: 0.25, cached_input: 0.025, output: 2}")
    assert load_prices(file).cost("gpt-x", Usage(output_tokens=500_000)) == 1
    assert not load_prices(None).knows("gpt-x")


@pytest.mark.parametrize("text", ["[", "gpt-x: cheap", "gpt-x: {input: -1, output: 1}", "- a"])
def test_a_file_that_is_no_list_of_prices_is_named(tmp_path: Path, text: str) -> None:
    """A wrong file stops the start with one sentence."""
    file = tmp_path / "prices.yaml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=r"ULTRACODE_PRICES: .*prices\.yaml"):
        load_prices(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A path that is not there is a wrong setting."""
    with pytest.raises(SettingsError, match="cannot be read"):
        load_prices(tmp_path / "gone.yaml")
