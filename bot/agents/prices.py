"""What tokens cost, from the operator's own file.

Comes in: YAML or JSON with money per million tokens by model id. Goes out: the cost of a usage. It
exists because no provider's protocol says what an answer cost.

    gpt-5.4-mini: {input: 0.25, cached_input: 0.025, output: 2.00}
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Final

import yaml
from pydantic import Field, TypeAdapter, ValidationError

from bot.agents.usage import Usage
from bot.errors import SettingsError
from workspace.contracts import Frozen

_MILLION: Final = Decimal(1_000_000)

Money = Annotated[Decimal, Field(ge=0)]


class Price(Frozen):
    """Money per million tokens. Cached input costs as much as input where it has no own price."""

    input: Money
    output: Money
    cached_input: Money | None = None

    def cost(self, usage: Usage) -> Decimal:
        """What a usage costs."""
        cached = self.input if self.cached_input is None else self.cached_input
        fresh_tokens = usage.input_tokens - usage.cached_tokens
        return (
            fresh_tokens * self.input
            + usage.cached_tokens * cached
            + usage.output_tokens * self.output
        ) / _MILLION


class Prices:
    """All prices the operator gave."""

    def __init__(self, by_model: Mapping[str, Price] | None = None) -> None:
        self._by_model = dict(by_model or {})

    def knows(self, model_id: str) -> bool:
        """Whether a model has a price."""
        return model_id in self._by_model

    def cost(self, model_id: str, usage: Usage) -> Decimal:
        """What a usage costs; nothing for a model without a price."""
        price = self._by_model.get(model_id)
        return price.cost(usage) if price else Decimal(0)


_FILE: Final = TypeAdapter(dict[str, Price])


def load_prices(path: Path | None) -> Prices:
    """The prices of a file; none for None.

    Raises:
        SettingsError: the file cannot be read or does not fit; the sentence says where.
    """
    if path is None:
        return Prices()
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        return Prices(_FILE.validate_python(content))
    except OSError as error:
        raise SettingsError(f"ULTRACODE_PRICES: {path} cannot be read.") from error
    except (yaml.YAMLError, UnicodeDecodeError, ValidationError) as error:
        raise SettingsError(f"ULTRACODE_PRICES: {path} is no list of prices: {error}") from error
