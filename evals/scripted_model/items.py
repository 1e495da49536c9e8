"""The items of a conversation: what the provider accepts as input, and what they mean.

Comes in: one input item, or all of a conversation. Goes out: nothing, or RequestRefused in the
provider's words; and for scripts, whose words an item holds and how many answers were given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

MAX_CALL_ID: Final = 64
ROLES: Final = frozenset({"user", "assistant", "system", "developer"})
# kind of item -> (keys that must be there, keys that may be there)
_ITEM_KEYS: Final[Mapping[str, tuple[frozenset[str], frozenset[str]]]] = {
    "message": (frozenset({"role", "content"}), frozenset({"type", "id", "status", "phase"})),
    "function_call": (
        frozenset({"type", "call_id", "name", "arguments"}),
        frozenset({"id", "status"}),
    ),
    "function_call_output": (frozenset({"type", "call_id", "output"}), frozenset({"id", "status"})),
    "reasoning": (
        frozenset({"type", "id", "summary"}),
        frozenset({"encrypted_content", "content", "status"}),
    ),
}
_ID_PREFIX: Final = {"message": "msg", "function_call": "fc", "reasoning": "rs"}
_PART_TYPES: Final = {
    "assistant": frozenset({"output_text", "refusal"}),
    "user": frozenset({"input_text", "input_image", "input_file"}),
}

Item = Mapping[str, Any]


class RequestRefused(Exception):
    """The provider would refuse this request.

    Attributes:
        status: the HTTP status. param, code: as in the provider's error object.
    """

    def __init__(
        self, message: str, *, param: str | None = None, code: str | None = None, status: int = 400
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code
        self.status = status


def kind_of(item: Item) -> str:
    """The kind of an input item; a bare ``role`` and ``content`` is a message."""
    return str(item.get("type") or "message")


def check_item(item: object, where: str, *, stores: bool) -> None:
    """Check one input item; ``stores`` is the request's ``store``, ``where`` its place."""
    if not isinstance(item, Mapping):
        raise RequestRefused(f"Invalid type for '{where}': expected an object.", param=where)
    kind = kind_of(item)
    if kind not in _ITEM_KEYS:
        raise RequestRefused(
            f"Invalid value: '{kind}'. Supported values are: {sorted(_ITEM_KEYS)}.",
            param=f"{where}.type",
            code="invalid_value",
        )
    _check_item_keys(item, kind, where)
    _check_item_ids(item, kind, where)
    if kind == "message":
        _check_message(item, where)
    if kind == "reasoning" and not stores and not item.get("encrypted_content"):
        raise RequestRefused(
            f"Item with id '{item['id']}' not found. "
            "Items are not persisted when `store` is set to false.",
            param=where,
            status=404,
        )


def _check_item_keys(item: Item, kind: str, where: str) -> None:
    required, optional = _ITEM_KEYS[kind]
    for key in required:
        if item.get(key) is None:
            raise RequestRefused(
                f"Missing required parameter: '{where}.{key}'.",
                param=f"{where}.{key}",
                code="missing_required_parameter",
            )
    for key in item:
        if key not in required | optional:
            raise RequestRefused(
                f"Unknown parameter: '{where}.{key}'.",
                param=f"{where}.{key}",
                code="unknown_parameter",
            )


def _check_item_ids(item: Item, kind: str, where: str) -> None:
    prefix = _ID_PREFIX.get(kind)
    identity = item.get("id")
    if prefix and identity is not None and not str(identity).startswith(prefix):
        raise RequestRefused(
            f"Invalid '{where}.id': '{identity}'. Expected an ID that begins with '{prefix}'.",
            param=f"{where}.id",
            code="invalid_value",
        )
    if len(str(item.get("call_id", ""))) > MAX_CALL_ID:
        raise RequestRefused(
            f"Invalid '{where}.call_id': string too long. Expected a string with maximum length "
            f"{MAX_CALL_ID}.",
            param=f"{where}.call_id",
            code="string_above_max_length",
        )
    for key in ("arguments", "name"):
        if key in item and not isinstance(item[key], str):
            raise RequestRefused(
                f"Invalid type for '{where}.{key}': expected a string.", code="invalid_type"
            )


def _check_message(item: Item, where: str) -> None:
    role, content = item["role"], item["content"]
    if role not in ROLES:
        raise RequestRefused(
            f"Invalid value: '{role}'. Supported values are: "
            "'assistant', 'system', 'developer', and 'user'.",
            param=f"{where}.role",
            code="invalid_value",
        )
    if isinstance(content, str):
        return
    allowed = _PART_TYPES.get(role, _PART_TYPES["user"])
    for part in content if isinstance(content, list) else [content]:
        if not isinstance(part, Mapping) or part.get("type") not in allowed:
            raise RequestRefused(
                f"Invalid value in '{where}.content'. Supported types are: {sorted(allowed)}.",
                param=f"{where}.content",
                code="invalid_value",
            )


def check_calls_and_outputs(items: Sequence[Item]) -> None:
    """Every output answers a call made before it, and no call is left without its output."""
    open_calls: dict[str, None] = {}
    known: set[str] = set()
    for item in items:
        kind = kind_of(item)
        if kind == "function_call":
            open_calls[item["call_id"]] = None
            known.add(item["call_id"])
        elif kind == "function_call_output":
            if item["call_id"] not in known:
                raise RequestRefused(
                    f"No tool call found for function call output with call_id {item['call_id']}.",
                    param="input",
                )
            open_calls.pop(item["call_id"], None)
    if open_calls:
        raise RequestRefused(
            f"No tool output found for function call {next(iter(open_calls))}.", param="input"
        )


def check_reasoning_pairs(items: Sequence[Item]) -> None:
    """A call sent back by its id needs its reasoning, and reasoning needs a successor.

    The server gives a call and its reasoning ids that end alike, so the pair is known without
    storage.
    """
    reasoning = {item["id"] for item in items if kind_of(item) == "reasoning"}
    for index, item in enumerate(items):
        if kind_of(item) == "function_call" and item.get("id"):
            wanted = "rs_" + str(item["id"]).removeprefix("fc_").split("_")[0]
            if wanted not in reasoning:
                raise RequestRefused(
                    f"Item '{item['id']}' of type 'function_call' was provided without its "
                    f"required 'reasoning' item: '{wanted}'.",
                    param="input",
                )
        if kind_of(item) == "reasoning" and not _follows(items, index):
            raise RequestRefused(
                f"Item '{item['id']}' of type 'reasoning' was provided without its required "
                "following item.",
                param="input",
            )


def _follows(items: Sequence[Item], index: int) -> bool:
    return index + 1 < len(items) and is_from_model(items[index + 1])


def text_of(item: Item) -> str:
    """The text of a message item."""
    content = item["content"]
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text", "")) for part in content)


def is_from_model(item: Item) -> bool:
    """Whether the model produced this item."""
    kind = kind_of(item)
    return kind in ("function_call", "reasoning") or (
        kind == "message" and item["role"] == "assistant"
    )


def count_turns(items: Sequence[Item]) -> int:
    """How many answers the model has given: runs of its items between those of others."""
    turns, within = 0, False
    for item in items:
        if is_from_model(item):
            turns += not within
            within = True
        else:
            within = False
    return turns
