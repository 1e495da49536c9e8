from __future__ import annotations

from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field, StringConstraints

from bot.agents.schema import strict_schema
from bot.contracts import ReviewOutput, SynthesisOutput, WorkerOutput, WorkflowPlan
from evals.scripted_model.strict_schema import check_strict_schema


class Inner(BaseModel):
    """Inner words."""

    kind: Literal["a"]


class Odd(BaseModel):
    name: Annotated[str, StringConstraints(min_length=1, max_length=5, pattern="^[a-z]+$")]
    number: int = Field(default=3, ge=1, le=9, description="how many")
    maybe: str | None = None
    inner: Inner = Field(description="a reference with words beside it")
    many: tuple[Inner, ...] = Field(max_length=4)


@pytest.mark.parametrize("contract", [WorkflowPlan, WorkerOutput, SynthesisOutput, ReviewOutput])
def test_what_models_say_has_a_strict_schema(contract: type[BaseModel]) -> None:
    """The provider accepts the schema of every contract a model fills."""
    check_strict_schema(strict_schema(contract))


def test_an_odd_contract_becomes_strict() -> None:
    """Keywords the provider refuses are dropped; bounds are said in words instead."""
    schema = strict_schema(Odd)
    check_strict_schema(schema)
    properties = schema["properties"]
    assert schema["required"] == ["name", "number", "maybe", "inner", "many"]
    assert properties["name"]["pattern"] == "^[a-z]+$"
    assert properties["name"]["description"] == "at least 1 characters; at most 5 characters"
    assert properties["number"]["description"] == "how many; default: 3"
    assert properties["inner"] == {"$ref": "#/$defs/Inner"}
    assert properties["many"]["maxItems"] == 4
