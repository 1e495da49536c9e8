"""Token counts: what one model call took, or many together."""

from __future__ import annotations

from typing import Self

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
