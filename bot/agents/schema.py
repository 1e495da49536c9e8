"""Turns a contract into the JSON Schema a provider accepts in strict mode.

Comes in: a pydantic model. Goes out: a schema inside the strict subset (every property required,
no additional ones, no keyword the provider refuses). Bounds it cannot express are said in words, so
that the model knows them; the contract itself enforces them when the answer is read.

Source for the subset: the provider's guide "Structured Outputs", section "Supported schemas".
"""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel

_KEPT: Final = frozenset(
    {
        "type", "enum", "const", "anyOf", "$ref", "$defs", "description",
        "properties", "required", "additionalProperties",
        "items", "minItems", "maxItems", "pattern",
        "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
    }
)  # fmt: skip
_IN_WORDS: Final = {
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "default": "default: {!r}",
}


def strict_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The schema of a contract, inside the strict subset."""
    schema = _strict(model.model_json_schema())
    assert isinstance(schema, dict)
    return schema


def _strict(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}  # a reference may carry nothing else
    strict = {key: _strict_value(key, value) for key, value in schema.items() if key in _KEPT}
    words = [said.format(schema[key]) for key, said in _IN_WORDS.items() if key in schema]
    if words:
        before = [schema["description"]] if "description" in schema else []
        strict["description"] = "; ".join(before + words)
    if schema.get("type") == "object":
        strict["additionalProperties"] = False
        strict["required"] = list(schema.get("properties", {}))
    return strict


def _strict_value(key: str, value: Any) -> Any:
    if key in ("properties", "$defs"):
        return {name: _strict(inner) for name, inner in value.items()}
    if key == "anyOf":
        return [_strict(inner) for inner in value]
    return _strict(value) if key == "items" else value
