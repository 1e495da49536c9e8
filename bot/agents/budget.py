"""What model calls cost, and who may stop the next one.

Comes in: the token counts of each answer. Goes out: nothing, or BudgetExceeded before a call that
must not be made any more. It exists because Agno counts tokens but has no budgets.
"""

from __future__ import annotations

from typing import Protocol, Self

from pydantic import Field

from workspace.contracts import Frozen


class Usage(Frozen):
    """Tokens of one or more model calls, as the provider reports them.

    `cached_tokens` are part of `input_tokens`, `reasoning_tokens` of `output_tokens`.
    """

    calls: int = Field(default=0, ge=0)
    input_tokens: int = Field(default=0, ge=0)
    cached_tokens: int = Field(default=0, ge=0)
    output_tokens: int = Field(default=0, ge=0)
    reasoning_tokens: int = Field(default=0, ge=0)

    @property
    def total_tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Self:
        """Both together."""
        mine, theirs = self.model_dump(), other.model_dump()
        return type(self)(**{name: mine[name] + theirs[name] for name in mine})


class Budget(Protocol):
    """The budget of one run, shared by all its agents."""

    async def check(self, model_id: str, expected_tokens: int) -> None:
        """Called before each model call, with what it will take at least, as far as is known.

        Raises:
            BudgetExceeded: the call must not be made; its sentence says which limit and how much.
        """
        ...

    async def spend(self, model_id: str, usage: Usage) -> None:
        """Called after each answer with what it took."""
        ...
