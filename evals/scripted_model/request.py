"""Checks a ``POST /v1/responses`` body as the provider does, and reads what a script needs.

Comes in: the JSON body and the responses stored so far. Goes out: a ModelRequest, or
RequestRefused with the status, words, parameter and code the provider would answer with. It
exists so that a green run means the real provider would have accepted every request.

Sources: the API reference of the Responses API, the official client's request types (the list of
known parameters is taken from them), and the provider's error messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, get_args

from openai.types.responses import ResponseIncludable
from openai.types.responses.response_create_params import ResponseCreateParamsBase

from evals.scripted_model.items import (
    Item,
    RequestRefused,
    check_calls_and_outputs,
    check_item,
    check_reasoning_pairs,
    count_turns,
    kind_of,
    text_of,
)
from evals.scripted_model.strict_schema import SchemaRefused, check_strict_schema

REASONING_MODELS: Final = ("o1", "o3", "o4", "gpt-5", "gpt-6")
MAX_TOOLS: Final = 128

_KNOWN_PARAMETERS: Final = frozenset(ResponseCreateParamsBase.__annotations__) | {"stream"}
_INCLUDABLE: Final = frozenset(get_args(ResponseIncludable))
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MARKER: Final = re.compile(
    r"\s*Role: (?P<role>\S+)\n(?:Task: (?P<task>\S+)\n)?(?:Round: (?P<round>\d+)\n)?"
)


@dataclass(frozen=True)
class ModelRequest:
    """An accepted request and what a script asks of it.

    ``items`` is the whole conversation, a chained one included; ``turn`` is how many answers the
    model has already given in it; ``role``, ``task`` and ``round`` come from the head of the last
    instructions that begin with ``Role: …``.
    """

    model: str
    items: tuple[Item, ...]
    role: str | None
    task: str | None
    round: int | None
    instructions: str
    turn: int
    tool_names: frozenset[str]
    tools_allowed: bool
    parallel: bool
    structured: bool
    store: bool
    stream: bool
    wants_encrypted_reasoning: bool

    @property
    def reasons(self) -> bool:
        """Whether the model is one that returns reasoning items."""
        return is_reasoning_model(self.model)

    def value(self, name: str) -> str | None:
        """The value of the last line ``name: value`` in the instructions that carry the marker."""
        found = re.findall(rf"^{re.escape(name)}: (\S+)$", self.instructions, re.MULTILINE)
        return found[-1] if found else None


def is_reasoning_model(model: str) -> bool:
    """Whether the provider's model of this id thinks before it answers."""
    return model.startswith(REASONING_MODELS)


def parse_request(
    body: object, *, models: Sequence[str], stored: Mapping[str, tuple[Item, ...]]
) -> ModelRequest:
    """Check a body and read it.

    Args:
        body: the decoded JSON.
        models: the model ids that exist.
        stored: conversations by the id of the response that ended them.

    Raises:
        RequestRefused: as the real provider would.
    """
    if not isinstance(body, Mapping):
        raise RequestRefused("We could not parse the JSON body of your request.")
    _check_parameters(body, models)
    items = _conversation(body, stored)
    check_calls_and_outputs(items)
    if is_reasoning_model(body["model"]):
        check_reasoning_pairs(items)
    _check_tools(body.get("tools") or [])
    _check_text(body.get("text") or {})
    return _read(body, items)


# --- parameters -----------------------------------------------------------------------------------


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPE_OF: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "model": (lambda v: isinstance(v, str), "a string"),
    "input": (lambda v: isinstance(v, str | list), "one of a string or array of input items"),
    "instructions": (lambda v: isinstance(v, str), "a string"),
    "tools": (lambda v: isinstance(v, list), "an array of objects"),
    "text": (lambda v: isinstance(v, Mapping), "an object"),
    "reasoning": (lambda v: isinstance(v, Mapping), "an object"),
    "store": (lambda v: isinstance(v, bool), "a boolean"),
    "stream": (lambda v: isinstance(v, bool), "a boolean"),
    "parallel_tool_calls": (lambda v: isinstance(v, bool), "a boolean"),
    "previous_response_id": (lambda v: isinstance(v, str), "a string"),
    "prompt_cache_key": (lambda v: isinstance(v, str) and len(v) <= 64, "a string of at most 64"),  # noqa: PLR2004 - the provider's limit, used once
    "safety_identifier": (lambda v: isinstance(v, str) and len(v) <= 64, "a string of at most 64"),  # noqa: PLR2004 - the provider's limit, used once
    "max_output_tokens": (lambda v: isinstance(v, int) and v >= 16, "an integer of at least 16"),  # noqa: PLR2004 - the provider's limit, used once
    "temperature": (lambda v: _is_number(v) and 0 <= v <= 2, "a number from 0 to 2"),  # noqa: PLR2004 - the provider's limit, used once
    "top_p": (lambda v: _is_number(v) and 0 <= v <= 1, "a number from 0 to 1"),
    "truncation": (lambda v: v in ("auto", "disabled"), "one of 'auto', 'disabled'"),
    "include": (lambda v: isinstance(v, list) and set(v) <= _INCLUDABLE, "a list of known values"),
    "metadata": (
        lambda v: isinstance(v, Mapping) and all(isinstance(x, str) for x in v.values()),
        "an object of strings",
    ),
}


def _check_parameters(body: Mapping[str, Any], models: Sequence[str]) -> None:
    for name in body:
        if name not in _KNOWN_PARAMETERS:
            raise RequestRefused(
                f"Unknown parameter: '{name}'.", param=name, code="unknown_parameter"
            )
    for name in ("model", "input"):
        if body.get(name) is None:
            raise RequestRefused(
                f"Missing required parameter: '{name}'.",
                param=name,
                code="missing_required_parameter",
            )
    for name, (fits, wanted) in _TYPE_OF.items():
        if body.get(name) is not None and not fits(body[name]):
            raise RequestRefused(
                f"Invalid type or value for '{name}': expected {wanted}.",
                param=name,
                code="invalid_type",
            )
    if body["model"] not in models:
        raise RequestRefused(
            f"The requested model '{body['model']}' does not exist.",
            param="model",
            code="model_not_found",
        )
    _check_model_abilities(body)


def _check_model_abilities(body: Mapping[str, Any]) -> None:
    """Parameters that depend on whether the model reasons."""
    reasons = is_reasoning_model(body["model"])
    reasoning = body.get("reasoning") or {}
    _check_keys(reasoning, {"effort", "summary", "generate_summary"}, "reasoning")
    unsupported = ["temperature", "top_p"] if reasons else []
    refused = next((name for name in unsupported if body.get(name) is not None), None)
    if reasoning and not reasons:
        refused = f"reasoning.{next(iter(reasoning))}"
    if refused:
        raise RequestRefused(
            f"Unsupported parameter: '{refused}' is not supported with this model.",
            param=refused,
            code="unsupported_parameter",
        )
    if "reasoning.encrypted_content" in (body.get("include") or ()) and not reasons:
        raise RequestRefused("Encrypted content is not supported with this model.", param="include")


# --- the conversation -----------------------------------------------------------------------------


def _conversation(
    body: Mapping[str, Any], stored: Mapping[str, tuple[Item, ...]]
) -> tuple[Item, ...]:
    """Every item up to now, in order: the chained conversation, then the input."""
    before: tuple[Item, ...] = ()
    previous = body.get("previous_response_id")
    if previous is not None:
        if previous not in stored:
            raise RequestRefused(
                f"Previous response with id '{previous}' not found.",
                param="previous_response_id",
                code="previous_response_not_found",
            )
        before = stored[previous]
    given = body["input"]
    if isinstance(given, str):
        return (*before, {"type": "message", "role": "user", "content": given})
    if not given and not before:
        raise RequestRefused("Input cannot be empty.", param="input", code="empty_input")
    stores = body.get("store") is not False
    for index, item in enumerate(given):
        check_item(item, f"input[{index}]", stores=stores)
    return (*before, *given)


# --- tools and output format ----------------------------------------------------------------------


def _check_tools(tools: Sequence[Any]) -> None:
    if len(tools) > MAX_TOOLS:
        raise RequestRefused(
            f"Invalid 'tools': array too long. Expected at most {MAX_TOOLS}.", param="tools"
        )
    names: set[str] = set()
    for index, tool in enumerate(tools):
        where = f"tools[{index}]"
        if not isinstance(tool, Mapping) or tool.get("type") != "function":
            raise RequestRefused(f"Invalid value for '{where}.type'.", param=where)
        _check_keys(tool, {"type", "name", "description", "parameters", "strict"}, where)
        name = tool.get("name")
        _check_name(name, f"{where}.name")
        if name in names:
            raise RequestRefused(f"Duplicate tool name '{name}'.", param=where)
        names.add(str(name))
        _check_tool_schema(tool)


def _check_tool_schema(tool: Mapping[str, Any]) -> None:
    name, schema = tool["name"], tool.get("parameters")
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        raise RequestRefused(
            f"Invalid schema for function '{name}': "
            "schema must be a JSON Schema of 'type: \"object\"'.",
            code="invalid_function_parameters",
        )
    if not tool.get("strict"):
        return
    try:
        check_strict_schema(schema)
    except SchemaRefused as refused:
        raise RequestRefused(
            f"Invalid schema for function '{name}': {refused}", code="invalid_function_parameters"
        ) from refused


def _check_name(name: object, where: str) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise RequestRefused(
            f"Invalid '{where}': string does not match pattern. Expected a string that matches the "
            "pattern '^[a-zA-Z0-9_-]+$' of at most 64 characters.",
            param=where,
            code="invalid_value",
        )


def _check_text(text: Mapping[str, Any]) -> None:
    _check_keys(text, {"format", "verbosity"}, "text")
    wanted = text.get("format") or {"type": "text"}
    if wanted.get("type") not in ("text", "json_object", "json_schema"):
        raise RequestRefused("Invalid value for 'text.format.type'.", param="text.format.type")
    if wanted["type"] == "json_schema":
        _check_output_schema(wanted)


def _check_output_schema(wanted: Mapping[str, Any]) -> None:
    _check_keys(wanted, {"type", "name", "schema", "strict", "description"}, "text.format")
    _check_name(wanted.get("name"), "text.format.name")
    if not wanted.get("strict"):
        return
    try:
        check_strict_schema(wanted.get("schema"))
    except SchemaRefused as refused:
        raise RequestRefused(
            f"Invalid schema for response_format '{wanted['name']}': {refused}",
            param="text.format.schema",
            code="invalid_json_schema",
        ) from refused


def _check_keys(given: Mapping[str, Any], known: set[str], where: str) -> None:
    for key in given:
        if key not in known:
            name = f"{where}.{key}"
            raise RequestRefused(
                f"Unknown parameter: '{name}'.", param=name, code="unknown_parameter"
            )


# --- what a script asks of a request --------------------------------------------------------------


def _read(body: Mapping[str, Any], items: tuple[Item, ...]) -> ModelRequest:
    marked, marker = _marker(_instruction_texts(body, items))
    round_ = marker["round"] if marker else None
    return ModelRequest(
        model=body["model"],
        items=items,
        role=marker["role"] if marker else None,
        task=marker["task"] if marker else None,
        round=int(round_) if round_ is not None else None,
        instructions=marked,
        turn=count_turns(items),
        tool_names=frozenset(tool["name"] for tool in body.get("tools") or ()),
        tools_allowed=body.get("tool_choice") != "none",
        parallel=body.get("parallel_tool_calls") is not False,
        structured=(body.get("text") or {}).get("format", {}).get("type") == "json_schema",
        store=body.get("store") is not False,
        stream=body.get("stream") is True,
        wants_encrypted_reasoning="reasoning.encrypted_content" in (body.get("include") or ()),
    )


def _instruction_texts(body: Mapping[str, Any], items: Sequence[Item]) -> Iterator[str]:
    """Everything said with the application's authority: never user messages or tool outputs."""
    yield str(body.get("instructions") or "")
    for item in items:
        if kind_of(item) == "message" and item["role"] in ("developer", "system"):
            yield text_of(item)


def _marker(texts: Iterator[str]) -> tuple[str, Mapping[str, str | None] | None]:
    marked: tuple[str, Mapping[str, str | None] | None] = ("", None)
    for text in texts:
        if match := _MARKER.match(text + "\n"):
            marked = (text, match.groupdict())
    return marked
