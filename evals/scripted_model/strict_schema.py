"""The part of JSON Schema that strict structured output and strict tools accept.

A schema comes in; nothing comes out, or SchemaRefused with the words of the provider. It exists
so that a schema the real provider would answer with a 400 is answered with a 400 here too. Where
the documentation and reports of the API disagree, the narrower reading counts (a bound on string
lengths, for one, is reported as "not permitted" and refused here).

Source: the provider's guide "Structured Outputs", section "Supported schemas", and its errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

MAX_DEPTH: Final = 10
MAX_PROPERTIES: Final = 5_000
MAX_NAME_CHARACTERS: Final = 120_000
MAX_ENUM_VALUES: Final = 1_000
LARGE_ENUM: Final = 250
MAX_LARGE_ENUM_CHARACTERS: Final = 15_000

TYPES: Final = frozenset({"string", "number", "boolean", "integer", "object", "array", "null"})
FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)
_ANNOTATIONS: Final = frozenset({"title", "description"})
_KEYWORDS: Final = _ANNOTATIONS | {
    "type", "enum", "const", "anyOf", "$ref", "$defs", "definitions",
    "properties", "required", "additionalProperties",
    "items", "minItems", "maxItems",
    "pattern", "format",
    "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
}  # fmt: skip
_LOOKAROUND: Final = re.compile(r"\(\?<?[=!]")

Path = tuple[str, ...]


class SchemaRefused(Exception):
    """The schema is outside the strict subset; the message is what the provider would say."""


def check_strict_schema(schema: object) -> None:
    """Refuse a schema the provider refuses in strict mode.

    Raises:
        SchemaRefused: with the place and the reason.
    """
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        raise _refused((), "schema must be a JSON Schema of 'type: \"object\"'")
    if "anyOf" in schema:
        raise _refused((), "'anyOf' is not permitted at the root")
    nodes = list(_nodes(schema, ()))
    for path, node in nodes:
        _check_node(path, node, schema)
    _check_sizes([node for _, node in nodes])
    depth = _depth(schema, schema, ())
    if depth > MAX_DEPTH:
        raise SchemaRefused(f"{depth} levels of nesting exceeds limit of {MAX_DEPTH}.")


def _refused(path: Path, reason: str) -> SchemaRefused:
    return SchemaRefused(f"In context={path!r}, {reason}.")


def _nodes(schema: object, path: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Every subschema with its path, the root first."""
    if not isinstance(schema, Mapping):
        raise _refused(path, "schema must be an object")
    yield path, schema
    for keyword in ("properties", "$defs", "definitions"):
        for name, child in (schema.get(keyword) or {}).items():
            yield from _nodes(child, (*path, keyword, name))
    if "items" in schema:
        yield from _nodes(schema["items"], (*path, "items"))
    for index, child in enumerate(schema.get("anyOf") or ()):
        yield from _nodes(child, (*path, "anyOf", str(index)))


def _check_node(path: Path, node: Mapping[str, Any], root: Mapping[str, Any]) -> None:
    for keyword in node:
        if keyword not in _KEYWORDS:
            raise _refused(path, f"'{keyword}' is not permitted")
    if "$ref" in node:
        _check_reference(path, node, root)
        return
    kinds = _kinds(path, node)
    if "object" in kinds:
        _check_object(path, node)
    if "array" in kinds and "items" not in node:
        raise _refused(path, "array schema missing items")
    if "format" in node and node["format"] not in FORMATS:
        raise _refused(path, f"'{node['format']}' is not a valid format")
    if "pattern" in node and _LOOKAROUND.search(node["pattern"]):
        raise _refused(path, "regex lookaround is not supported in 'pattern'")
    _check_any_of(path, node)


def _check_reference(path: Path, node: Mapping[str, Any], root: Mapping[str, Any]) -> None:
    extra = sorted(set(node) - {"$ref"})
    if extra:
        raise _refused(path, f"$ref cannot have keywords {extra}")
    if _resolve(node, root) is None:
        raise _refused(
            path, "reference can only point to definitions defined at the top level of the schema"
        )


def _kinds(path: Path, node: Mapping[str, Any]) -> frozenset[str]:
    """The types a node allows; a node must say its type, or be a choice or a constant."""
    declared = node.get("type")
    if declared is None:
        if not {"anyOf", "enum", "const"} & set(node):
            raise _refused(path, "schema must have a 'type' key")
        return frozenset()
    kinds = frozenset(declared if isinstance(declared, list) else [declared])
    if not kinds <= TYPES:
        raise _refused(path, f"{sorted(kinds - TYPES)} is not a valid type")
    return kinds


def _check_object(path: Path, node: Mapping[str, Any]) -> None:
    if node.get("additionalProperties") is not False:
        raise _refused(path, "'additionalProperties' is required to be supplied and to be false")
    names = list(node.get("properties") or {})
    required = node.get("required")
    missing = [name for name in names if name not in (required or ())]
    if required is None or missing:
        raise _refused(
            path,
            "'required' is required to be supplied and to be an array including every key in "
            f"properties. Missing {missing!r}",
        )
    extra = [name for name in required if name not in names]
    if extra:
        raise _refused(path, f"Extra required key {extra[0]!r} supplied")


def _check_any_of(path: Path, node: Mapping[str, Any]) -> None:
    """The provider tells object alternatives apart by their first key."""
    first_keys = [
        next(iter(choice["properties"]))
        for choice in node.get("anyOf") or ()
        if choice.get("properties")
    ]
    if len(first_keys) != len(set(first_keys)):
        raise _refused(path, "Objects provided via 'anyOf' must not share identical first keys")


def _check_sizes(nodes: list[Mapping[str, Any]]) -> None:
    names = [name for node in nodes for name in node.get("properties") or {}]
    if len(names) > MAX_PROPERTIES:
        raise SchemaRefused(f"{len(names)} object properties exceeds limit of {MAX_PROPERTIES}.")
    enums = [node["enum"] for node in nodes if "enum" in node]
    for values in enums:
        if len(values) > LARGE_ENUM and _characters(values) > MAX_LARGE_ENUM_CHARACTERS:
            raise SchemaRefused(
                f"An enum of more than {LARGE_ENUM} values exceeds "
                f"{MAX_LARGE_ENUM_CHARACTERS} characters."
            )
    count = sum(len(values) for values in enums)
    if count > MAX_ENUM_VALUES:
        raise SchemaRefused(f"{count} enum values exceeds limit of {MAX_ENUM_VALUES}.")
    definitions = [name for node in nodes for name in node.get("$defs") or {}]
    constants = [node["const"] for node in nodes if "const" in node]
    total = _characters([*names, *definitions, *constants, *(v for e in enums for v in e)])
    if total > MAX_NAME_CHARACTERS:
        raise SchemaRefused(
            f"{total} characters of names and values exceeds {MAX_NAME_CHARACTERS}."
        )


def _characters(values: list[Any]) -> int:
    return sum(len(str(value)) for value in values)


def _resolve(node: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any] | None:
    reference = str(node["$ref"])
    if reference == "#":
        return root
    for prefix, keyword in (("#/$defs/", "$defs"), ("#/definitions/", "definitions")):
        if reference.startswith(prefix):
            found = (root.get(keyword) or {}).get(reference.removeprefix(prefix))
            return found if isinstance(found, Mapping) else None
    return None


def _depth(node: Mapping[str, Any], root: Mapping[str, Any], seen: tuple[str, ...]) -> int:
    """How many objects and arrays lie inside each other; a recursive reference counts once."""
    if "$ref" in node:
        reference = str(node["$ref"])
        target = _resolve(node, root)
        if reference in seen or target is None:
            return 0
        return _depth(target, root, (*seen, reference))
    children = [*(node.get("properties") or {}).values(), *(node.get("anyOf") or ())]
    if "items" in node:
        children.append(node["items"])
    inner = max((_depth(child, root, seen) for child in children), default=0)
    return inner + (1 if node.get("type") == "object" else 0)
