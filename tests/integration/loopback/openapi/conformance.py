"""Holds answers and webhooks against GitHub's own OpenAPI description (see `cut.py`).

In: exchanges of the loopback GitHub's journal, and webhook payloads. Out: what differs, in words.
"""

import gzip
import json
import re
from functools import cache
from typing import Any

import jsonschema_rs

from evals.loopback.journal import Exchange

from .cut import KEPT

Json = dict[str, Any]
#: Faces that GitHub has and describes nowhere in its REST description.
UNDESCRIBED = re.compile(r"^(/graphql|/|/zen|/repositories/.*|/rate_limit)$")


@cache
def description() -> Json:
    """What `cut.py` kept."""
    kept: Json = json.loads(gzip.decompress(KEPT.read_bytes()))
    return kept


def problems_of_answer(exchange: Exchange) -> list[str]:
    """Where an answer differs from what GitHub says it answers."""
    if exchange.status == 0 or UNDESCRIBED.match(exchange.path):
        return []
    where = f"{exchange.method} {exchange.path} -> {exchange.status}"
    operation = _operation(exchange.method, exchange.path)
    if operation is None:
        known = exchange.status in (404, 405)
        return [] if known else [f"{where}: GitHub describes no such call"]
    if exchange.status >= 400:
        return _problems_of_refusal(exchange, where)
    answers = description()["operations"][operation]
    if str(exchange.status) not in answers:
        return [f"{where}: GitHub answers {sorted(answers)}"]
    schema = answers[str(exchange.status)]
    if schema is None or not exchange.json:
        return []
    checker = _checker("api", json.dumps(schema, sort_keys=True))
    return _errors(checker, json.loads(exchange.answered), where)


def _problems_of_refusal(exchange: Exchange, where: str) -> list[str]:
    body = json.loads(exchange.answered or b"{}")
    wanted = {"message", "documentation_url"}
    return [] if wanted <= body.keys() else [f"{where}: {body} is no refusal of GitHub's"]


def problems_of_webhook(event: str, payload: Json) -> list[str]:
    """Where a webhook's payload differs from what GitHub says it sends."""
    action = payload.get("action") if event not in ("push", "status") else None
    name = f"{event}-{action}" if action else event
    key = name.replace("_", "-")
    schema = description()["events"].get(key)
    if schema is None:
        return [f"{name}: GitHub describes no such event"]
    return _errors(_checker("webhooks", json.dumps(schema, sort_keys=True)), payload, name)


def _errors(checker: Any, value: Any, where: str) -> list[str]:
    return [
        f"{where}: {'/'.join(map(str, error.instance_path))}: {error.message[:300]}"
        for error in checker.iter_errors(value)
    ]


@cache
def _checker(part: str, schema: str) -> Any:
    whole = {**json.loads(schema), "$defs": description()[part]}
    return jsonschema_rs.Draft4Validator(whole)


@cache
def _routes() -> list[tuple[str, re.Pattern[str], str]]:
    routes = []
    for operation in description()["operations"]:
        method, path = operation.split(" ", 1)
        pattern = re.escape(path)
        # only these parameters may hold slashes
        pattern = re.sub(r"\\{(path|ref|branch|basehead)\\}", r"(.+)", pattern)
        pattern = re.sub(r"\\{\w+\\}", r"([^/]+)", pattern)
        routes.append((method, re.compile(f"^{pattern}$"), operation))
    # what has fewer parameters is meant more exactly
    return sorted(routes, key=lambda route: (route[2].count("{"), -len(route[2])))


def _operation(method: str, path: str) -> str | None:
    for verb, pattern, operation in _routes():
        if verb == method and pattern.match(path):
            return operation
    return None
