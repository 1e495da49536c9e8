from __future__ import annotations

from typing import Any

import pytest

from evals.scripted_model.strict_schema import SchemaRefused, check_strict_schema


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


STRING = {"type": "string"}


def _nested(levels: int) -> dict[str, Any]:
    schema = _object(x=STRING)
    for _ in range(levels - 1):
        schema = _object(x=schema)
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        _object(),
        _object(a=STRING, b={"type": ["integer", "null"]}),
        _object(a={"type": "array", "items": STRING, "minItems": 1, "maxItems": 3}),
        _object(a={"anyOf": [STRING, {"type": "null"}]}),
        _object(a={"type": "string", "enum": ["x", "y"]}, b={"const": "z"}),
        _object(
            a={"type": "string", "pattern": "^[a-z]+$"}, b={"type": "string", "format": "date"}
        ),
        {**_object(a={"$ref": "#/$defs/A"}), "$defs": {"A": _object(b=STRING)}},
        {**_object(a={"$ref": "#"})},
        _nested(10),
    ],
)
def test_accepts_the_documented_subset(schema: dict[str, Any]) -> None:
    """A schema inside the documented subset is accepted."""
    check_strict_schema(schema)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ([], 'type: "object"'),
        (STRING, 'type: "object"'),
        ({**_object(), "anyOf": [_object()]}, "anyOf"),
        ({"type": "object", "properties": {}, "required": []}, "additionalProperties"),
        ({**_object(), "additionalProperties": {"type": "string"}}, "additionalProperties"),
        ({**_object(a=STRING), "required": []}, "Missing ['a']"),
        ({**_object(), "required": ["ghost"]}, "ghost"),
        (_object(a={"type": "string", "maxLength": 3}), "'maxLength' is not permitted"),
        (_object(a={"type": "string", "minLength": 3}), "'minLength' is not permitted"),
        (_object(a={"type": "string", "default": "x"}), "'default' is not permitted"),
        (_object(a={"oneOf": [STRING]}), "'oneOf' is not permitted"),
        (_object(a={"allOf": [STRING]}), "'allOf' is not permitted"),
        (_object(a={"type": "array", "items": STRING, "uniqueItems": True}), "uniqueItems"),
        (_object(a={"type": "array"}), "items"),
        (_object(a={"type": "string", "format": "uri"}), "'uri' is not a valid format"),
        (_object(a={"type": "string", "pattern": "^(?!x)"}), "lookaround"),
        (_object(a={}), "'type' key"),
        (_object(a={"type": "text"}), "not a valid type"),
        (_object(a={"$ref": "#/$defs/A"}), "definitions"),
        (
            {**_object(a={"$ref": "#/$defs/A", "description": "x"}), "$defs": {"A": STRING}},
            "$ref cannot have keywords",
        ),
        (_object(a={"anyOf": [_object(k=STRING), _object(k=STRING)]}), "identical first keys"),
        (_nested(11), "11 levels of nesting"),
        (_object(**{f"p{n}": STRING for n in range(5_001)}), "5001 object properties"),
        (_object(a={"enum": [str(n) for n in range(1_001)]}), "1001 enum values"),
        (_object(a={"enum": [f"{n:0100}" for n in range(251)]}), "15000"),
        (_object(**{f"{n:0700}": STRING for n in range(200)}), "120000"),
    ],
)
def test_refuses_what_the_provider_refuses(schema: object, words: str) -> None:
    """A schema outside the subset is refused with the place and the reason."""
    with pytest.raises(SchemaRefused) as refused:
        check_strict_schema(schema)
    assert words in str(refused.value)
