"""Turns one scripted turn into the provider's response object, whole or as a stream of events.

Comes in: a ModelRequest and a Turn. Goes out: the JSON of a ``response``, the items to remember
for chaining, and the server-sent events of the same response. Unscripted is raised where a script
asks for what no model could do (call a tool that was not offered, echo a value that was not
given).
"""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from evals.scripted_model.request import ModelRequest
from evals.scripted_model.script import Call, Turn

_PLACEHOLDER: Final = re.compile(r"\$\{([a-z_]+)\}")
_CHARACTERS_PER_TOKEN: Final = 4
WITHOUT_TOOLS: Final = "I would call a tool now, but may not."


class Unscripted(Exception):
    """The script has no answer to this request; the message names role, task, round and turn."""


def build_response(request: ModelRequest, turn: Turn) -> dict[str, Any]:
    """The response object for this turn.

    Raises:
        Unscripted: the turn cannot be what this request gets.
    """
    output = _output_items(request, turn)
    if turn.incomplete:
        _cut_in_half(output)
    return {
        "id": f"resp_{secrets.token_hex(16)}",
        "object": "response",
        "created_at": int(time.time()),
        "status": "incomplete" if turn.incomplete else "completed",
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if turn.incomplete else None,
        "instructions": None,
        "max_output_tokens": None,
        "model": request.model,
        "output": output,
        "parallel_tool_calls": request.parallel,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": request.store,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto" if request.tools_allowed else "none",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": _usage(request, turn, output),
        "user": None,
        "metadata": {},
    }


def failed_response(request: ModelRequest) -> dict[str, Any]:
    """A 200 whose response says that the provider failed while it worked on it."""
    response = build_response(request, Turn(text=""))
    response["status"] = "failed"
    response["output"] = []
    response["error"] = {"code": "server_error", "message": "The model failed to respond."}
    return response


def _output_items(request: ModelRequest, turn: Turn) -> list[dict[str, Any]]:
    mark = secrets.token_hex(12)
    items: list[dict[str, Any]] = []
    if request.reasons:
        items.append(_reasoning_item(request, mark))
    calls = turn.calls if request.tools_allowed or turn.stubborn else ()
    text = _text(request, turn)
    if turn.calls and not calls and text is None:
        text = WITHOUT_TOOLS
    if turn.refusal is not None:
        items.append(_message_item(mark, {"type": "refusal", "refusal": turn.refusal}))
    elif text is not None:
        part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        items.append(_message_item(mark, part))
    if len(calls) > 1 and not request.parallel:
        raise Unscripted("The script calls several tools where parallel calls are off.")
    items += [_call_item(request, call, f"{mark}_{n}") for n, call in enumerate(calls)]
    return items


def _reasoning_item(request: ModelRequest, mark: str) -> dict[str, Any]:
    item: dict[str, Any] = {"type": "reasoning", "id": f"rs_{mark}", "summary": []}
    if request.wants_encrypted_reasoning:
        item["encrypted_content"] = secrets.token_urlsafe(24)
    return item


def _message_item(mark: str, part: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "message",
        "id": f"msg_{mark}",
        "status": "completed",
        "role": "assistant",
        "content": [part],
    }


def _call_item(request: ModelRequest, call: Call, mark: str) -> dict[str, Any]:
    if call.tool not in request.tool_names:
        raise Unscripted(
            f"The script calls the tool {call.tool!r}; offered are {sorted(request.tool_names)}."
        )
    arguments = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
    return {
        "type": "function_call",
        "id": f"fc_{mark}",
        "call_id": f"call_{mark}",
        "name": call.tool,
        "arguments": arguments,
        "status": "completed",
    }


def _text(request: ModelRequest, turn: Turn) -> str | None:
    if "output" in turn.model_fields_set:
        return json.dumps(_resolved(turn.output, request), ensure_ascii=False)
    return None if turn.text is None else str(_resolved(turn.text, request))


def _resolved(value: Any, request: ModelRequest) -> Any:
    """The value with every placeholder replaced by what the request's instructions say."""
    if isinstance(value, str):
        return _PLACEHOLDER.sub(lambda match: _given(request, match[1]), value)
    if isinstance(value, Mapping):
        return {key: _resolved(inner, request) for key, inner in value.items()}
    if isinstance(value, list):
        return [_resolved(inner, request) for inner in value]
    return value


def _given(request: ModelRequest, name: str) -> str:
    found = request.value(name)
    if found is None:
        raise Unscripted(f"The instructions have no line '{name}: …' to echo.")
    return found


def _cut_in_half(output: list[dict[str, Any]]) -> None:
    for item in output:
        item["status"] = "incomplete"
        for part in item.get("content") or ():
            if "text" in part:
                part["text"] = part["text"][: len(part["text"]) // 2]


def _usage(request: ModelRequest, turn: Turn, output: list[dict[str, Any]]) -> dict[str, Any]:
    said = turn.usage
    given = said.input
    if given is None:
        given = len(json.dumps([dict(i) for i in request.items])) // _CHARACTERS_PER_TOKEN
    answered = said.output
    if answered is None:
        answered = len(json.dumps(output)) // _CHARACTERS_PER_TOKEN
    return {
        "input_tokens": given,
        "input_tokens_details": {"cached_tokens": said.cached, "cache_write_tokens": 0},
        "output_tokens": answered,
        "output_tokens_details": {"reasoning_tokens": said.reasoning},
        "total_tokens": given + answered,
    }


# --- the same response as a stream ----------------------------------------------------------------


def stream_events(response: Mapping[str, Any]) -> Iterator[bytes]:
    """The response as server-sent events, in the provider's order."""
    started = {**response, "status": "in_progress", "output": [], "usage": None}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": started},
        {"type": "response.in_progress", "response": started},
    ]
    for index, item in enumerate(response["output"]):
        events += _item_events(index, item)
    events.append({"type": f"response.{response['status']}", "response": response})
    for number, event in enumerate(events):
        payload = json.dumps({**event, "sequence_number": number})
        yield f"event: {event['type']}\ndata: {payload}\n\n".encode()


def _item_events(index: int, item: dict[str, Any]) -> list[dict[str, Any]]:
    place = {"output_index": index}
    empty = {**item, "status": "in_progress"}
    if item["type"] == "message":
        empty["content"] = []
        inner = _part_events({**place, "item_id": item["id"], "content_index": 0}, item)
    elif item["type"] == "function_call":
        empty["arguments"] = ""
        where = {**place, "item_id": item["id"]}
        kind = "response.function_call_arguments"
        inner = [
            {"type": f"{kind}.delta", **where, "delta": item["arguments"]},
            {"type": f"{kind}.done", **where, "name": item["name"], "arguments": item["arguments"]},
        ]
    else:
        inner = []
    return [
        {"type": "response.output_item.added", **place, "item": empty},
        *inner,
        {"type": "response.output_item.done", **place, "item": item},
    ]


def _part_events(where: dict[str, Any], item: dict[str, Any]) -> list[dict[str, Any]]:
    part = item["content"][0]
    name = "refusal" if part["type"] == "refusal" else "text"
    kind = "response.refusal" if name == "refusal" else "response.output_text"
    said = part[name]
    extra: dict[str, Any] = {} if name == "refusal" else {"logprobs": []}
    return [
        {"type": "response.content_part.added", **where, "part": {**part, name: ""}},
        {"type": f"{kind}.delta", **where, "delta": said, **extra},
        {"type": f"{kind}.done", **where, name: said, **extra},
        {"type": "response.content_part.done", **where, "part": part},
    ]
