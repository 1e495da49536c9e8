"""The wire becomes a typed event. In: an event's name and its raw body. Out: one `Event`.

All that the bot does not react to is `Ignored`; what should have fitted but did not is `Unparsed`
with the reason. Parsing is pure and total: it is done at the front door, and again by the job that
reads the stored body.
"""

from dataclasses import dataclass
from typing import Any, Self, get_args

import orjson
from pydantic import ValidationError

from webhooks.events import Event, IssueCommentCreated, ReviewCommentCreated
from webhooks.payloads import InstallationId, RepositoryId, is_id
from webhooks.word import may_hold_command


@dataclass(frozen=True, slots=True)
class Ignored:
    """Nothing for the bot: another event or action, or a comment that holds no command."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unparsed:
    """A known event that does not fit its model: GitHub changed, or we are wrong. Kept for mending.

    `reason` names the fields and what was wrong with them, never their values.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class NotJson(Unparsed):
    """The body is no JSON at all."""


def _models_by_name_and_action() -> dict[tuple[str, str | None], type[Event]]:
    models: dict[tuple[str, str | None], type[Event]] = {}
    for model in get_args(Event):
        (action,) = get_args(model.model_fields["action"].annotation) or (None,)
        models[model.event_name, action] = model
    return models


_MODELS = _models_by_name_and_action()
_COMMENT_MODELS = (IssueCommentCreated, ReviewCommentCreated)
_KNOWN_NAMES = frozenset(name for name, _ in _MODELS)
_MAX_REASON = 500


def parse_event(event_name: str, raw_body: bytes) -> Event | Ignored | Unparsed:
    """Read one delivery's body; never raises, whatever the bytes are."""
    try:
        payload = orjson.loads(raw_body)
    except orjson.JSONDecodeError as error:
        return NotJson(f"not JSON: {error.msg}")
    if event_name not in _KNOWN_NAMES:
        return Ignored("event")
    if not isinstance(payload, dict):
        return Unparsed("the payload is not an object")
    action = payload.get("action")
    if not isinstance(action, str):
        action = None
    model = _MODELS.get((event_name, action))
    if model is None:
        return Unparsed("action: missing") if action is None else Ignored("action")
    if model in _COMMENT_MODELS and _is_without_word(payload):
        return Ignored("no command")
    return _validate(model, payload)


def _is_without_word(payload: dict[str, Any]) -> bool:
    """The cheap filter: most comments are not for the bot. What has no body is not judged here."""
    comment = payload.get("comment")
    body = comment.get("body") if isinstance(comment, dict) else None
    return isinstance(body, str) and not may_hold_command(body.encode(errors="replace"))


def _validate(model: type[Event], payload: dict[str, Any]) -> Event | Ignored | Unparsed:
    try:
        event = model.model_validate(payload)
    except ValidationError as error:
        return Unparsed(_reason(error))
    if isinstance(event, _COMMENT_MODELS) and not event.comment.is_by_person:
        return Ignored("a bot's comment, or one made through an App, perhaps our own")
    return event


def _reason(error: ValidationError) -> str:
    """Where and what, without the values: they are strangers' text."""
    parts = (
        f"{'.'.join(str(step) for step in detail['loc'])}: {detail['msg']}"
        for detail in error.errors(include_url=False, include_context=False, include_input=False)
    )
    return "; ".join(parts)[:_MAX_REASON]


@dataclass(frozen=True, slots=True)
class Routing:
    """Where a delivery belongs, for the columns of the store."""

    action: str | None = None
    installation_id: InstallationId | None = None
    repository_id: RepositoryId | None = None

    @classmethod
    def of(cls, event: Event) -> Self:
        """Where a typed event belongs."""
        return cls(event.action, event.installation_id, event.repository_id)


def read_routing(raw_body: bytes) -> Routing:
    """What can be had of it from a body that fits no model; never raises."""
    try:
        payload = orjson.loads(raw_body)
    except orjson.JSONDecodeError:
        return Routing()
    action = _at(payload, "action")
    installation, repository = _at(payload, "installation", "id"), _at(payload, "repository", "id")
    return Routing(
        action if isinstance(action, str) else None,
        InstallationId(installation) if is_id(installation) else None,
        RepositoryId(repository) if is_id(repository) else None,
    )


def _at(value: object, *path: str) -> object:
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value
