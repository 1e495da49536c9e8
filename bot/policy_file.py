"""Strict YAML. In: bytes people wrote. Out: values with the line of each, or the problems.

Why not `yaml.safe_load`: it keeps the last of two equal keys, follows aliases (a small file can
become a huge one) and forgets the lines. Here a file is at most 64 KiB and 10 levels deep, without
anchors, aliases, tags or repeated keys; keys are text as typed.
"""

from __future__ import annotations

import difflib
import json
import math
import typing
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from bot.errors import Refusal

MAX_BYTES: Final = 64 * 1024
MAX_DEPTH: Final = 10
MAX_PROBLEMS: Final = 10

_Model = TypeVar("_Model", bound=BaseModel)
_Path = tuple[str | int, ...]
_Loader: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PLAIN_TAGS: Final = {f"tag:yaml.org,2002:{kind}" for kind in ("bool", "float", "int", "null")}


@dataclass(frozen=True, slots=True)
class PolicyProblem:
    """One thing that is wrong, and the line (from 1) where it stands."""

    line: int
    sentence: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.sentence}"


class PolicyError(Refusal):
    """The policy file cannot be used as it is."""

    def __init__(self, *problems: PolicyProblem) -> None:
        self.problems = problems
        listed = "\n".join(f"- {problem}" for problem in problems)
        super().__init__(
            "The policy file `.github/ultracode.yml` on the default branch cannot be used:\n\n"
            f"{listed}\n\nCorrect it there and write the command again."
        )


@dataclass(frozen=True, slots=True)
class StrictYaml:
    """The file's values as plain data, and the line of each key and value by its path."""

    values: dict[str, Any]
    lines: dict[_Path, int]

    def line(self, path: _Path) -> int:
        """Return the line of a value, or of the nearest thing around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def load_strict_yaml(raw: bytes) -> StrictYaml:
    """Read one YAML mapping. Raises PolicyError."""
    if len(raw) > MAX_BYTES:
        raise PolicyError(PolicyProblem(1, f"the file is larger than {MAX_BYTES // 1024} KiB"))
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise PolicyError(PolicyProblem(line, "the file is not UTF-8 text")) from error
    try:
        _check_events(text)
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        raise PolicyError(_syntax_problem(error)) from error
    except yaml.YAMLError as error:
        raise PolicyError(PolicyProblem(1, "the file has characters YAML forbids")) from error
    if not isinstance(node, yaml.MappingNode):
        raise PolicyError(PolicyProblem(1, "the file must be a mapping that starts `version: 1`"))
    lines: dict[_Path, int] = {(): 1}
    values = _plain(node, (), lines)
    return StrictYaml(values, lines)


def validated(model: type[_Model], document: StrictYaml) -> _Model:
    """Hold the values against a model. Raises PolicyError with at most ten problems."""
    try:
        return model.model_validate_json(json.dumps(document.values))
    except ValidationError as error:
        problems = [_problem(model, document, detail) for detail in _innermost(error.errors())]
        unique = sorted(dict.fromkeys(problems), key=lambda problem: problem.line)
        raise PolicyError(*unique[:MAX_PROBLEMS]) from error


def _check_events(text: str) -> None:
    depth = documents = 0
    for event in yaml.parse(text, Loader=_Loader):
        documents += isinstance(event, yaml.DocumentStartEvent)
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if sentence := _forbidden(event, depth, documents):
            line = event.start_mark.line + 1 if event.start_mark else 1
            raise PolicyError(PolicyProblem(line, sentence))


def _forbidden(event: Any, depth: int, documents: int) -> str:
    if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
        return "anchors and aliases (`&`, `*`) are not allowed; a pattern wants quotes"
    if isinstance(event, yaml.NodeEvent) and getattr(event, "tag", None) not in (None, "!"):
        return "tags (`!`) are not allowed; a text that starts so wants quotes"
    if depth > MAX_DEPTH:
        return f"nested deeper than {MAX_DEPTH} levels"
    return "one document only" if documents > 1 else ""


def _syntax_problem(error: yaml.MarkedYAMLError) -> PolicyProblem:
    mark = error.problem_mark or error.context_mark
    sentence = error.problem or error.context or "this is not YAML"
    return PolicyProblem((mark.line if mark else 0) + 1, f"not valid YAML: {sentence}")


def _plain(node: yaml.Node, path: _Path, lines: dict[_Path, int]) -> Any:
    lines.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        return _plain_mapping(node, path, lines)
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, (*path, index), lines) for index, item in enumerate(node.value)]
    return _plain_scalar(node)


def _plain_mapping(node: yaml.MappingNode, path: _Path, lines: dict[_Path, int]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            raise PolicyError(PolicyProblem(line, "a key must be a word"))
        key = key_node.value
        if key in values:
            first = lines[(*path, key)]
            where = f"first on line {first}" if first != line else "on the same line"
            raise PolicyError(PolicyProblem(line, f"`{_shown(key)}` stands twice ({where})"))
        lines[(*path, key)] = line
        values[key] = _plain(value_node, (*path, key), lines)
    return values


def _plain_scalar(node: yaml.Node) -> Any:
    if node.tag not in _PLAIN_TAGS:
        return node.value
    try:
        value = yaml.SafeLoader("").construct_object(node)
    except (ValueError, OverflowError):
        return node.value
    finite = not isinstance(value, float) or math.isfinite(value)
    return value if finite else node.value


# --- problems in words --------------------------------------------------------------------------

_SENTENCES: Final = {
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "too_short": "must not be empty",
    "too_long": "must have at most {max_length} entries",
    "string_too_short": "must not be empty",
    "string_too_long": "must be at most {max_length} characters long",
    "string_pattern_mismatch": "is not a usable name",
    "json_invalid": "has characters that are no text",
    "missing": "is missing",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "string_type": "must be text; quote it",
    "tuple_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "model_attributes_type": "must be a mapping",
}


def _problem(model: type[BaseModel], document: StrictYaml, detail: ErrorDetails) -> PolicyProblem:
    path = tuple(part for part in detail["loc"] if part != "[key]")
    line = document.line(path)
    name = f"`{_shown('.'.join(map(str, path)))}`" if path else "the file"
    if detail["type"] == "extra_forbidden":
        return PolicyProblem(line, f"unknown key {name}{_nearest(model, path)}")
    if detail["type"] == "missing":
        line = document.line(path[:-1])
    return PolicyProblem(line, f"{name} {_sentence(detail)}")


def _sentence(detail: ErrorDetails) -> str:
    context = detail.get("ctx", {})
    if detail["type"] == "value_error":
        return f"is not right: {context['error']}"
    if detail["type"] == "literal_error":
        return f"must be {context['expected']}{_guess(detail)}"
    if sentence := _SENTENCES.get(detail["type"]):
        return sentence.format(**context)
    return "is not right: " + detail["msg"].lower()


def _innermost(details: list[ErrorDetails]) -> list[ErrorDetails]:
    """Drop what only follows: a list counts as too short when its entries are wrong."""
    parents = {detail["loc"][:depth] for detail in details for depth in range(len(detail["loc"]))}
    return [d for d in details if d["type"] != "too_short" or d["loc"] not in parents]


def _guess(detail: ErrorDetails) -> str:
    words = [
        word.strip("'") for word in detail["ctx"]["expected"].replace(" or ", ", ").split(", ")
    ]
    return _did_you_mean(str(detail["input"]), words)


def _nearest(model: type[BaseModel], path: tuple[str | int, ...]) -> str:
    keys = sorted(_keys_at(model, path[:-1]))
    return _did_you_mean(str(path[-1]), keys) or f"; known here: {', '.join(keys)}"


def _did_you_mean(word: str, words: list[str]) -> str:
    nearest = difflib.get_close_matches(word[:50].lower(), words, n=1, cutoff=0.6)
    return f"; did you mean `{nearest[0]}`?" if nearest else ""


def _keys_at(model: type[BaseModel], path: _Path) -> set[str]:
    """Return the keys a model knows at a path of the file."""
    kind: type[BaseModel] = model
    skip = False
    for part in path:
        if skip:  # the name of a suite: its model was found with `suites`
            skip = False
            continue
        field = _fields(kind)[str(part)]
        kind = _model_in(field.annotation)
        skip = typing.get_origin(field.annotation) is dict
    return set(_fields(kind))


def _fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _model_in(kind: Any) -> type[BaseModel]:
    """Return the model inside `Model`, `Model | None` or `dict[str, Model]`."""
    parts = typing.get_args(kind) or (kind,)
    return next(p for p in parts if isinstance(p, type) and issubclass(p, BaseModel))


def _shown(word: str) -> str:
    return "".join(char if char.isprintable() and char != "`" else "?" for char in word[:80])
