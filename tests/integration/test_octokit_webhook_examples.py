"""Every webhook example that octokit publishes, for GitHub and Enterprise Server, at our door."""

import json
import subprocess
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest

from tests.unit.webhooks.front_door import MemoryInbox, front_door, post
from webhooks.events import Event, IssueCommentCreated, ReviewCommentCreated
from webhooks.parser import Ignored, parse_event

PACKAGE = "@octokit/webhooks-examples"
VERSION = "7.6.1"
CACHE = Path(__file__).parents[2] / ".ultracode" / "npm" / f"webhooks-examples-{VERSION}"

_EVENTS: tuple[type[Event], ...] = get_args(Event)
KNOWN = {model.event_name for model in _EVENTS}
WANTED = {
    (model.event_name, *(get_args(model.model_fields["action"].annotation) or (None,)))
    for model in _EVENTS
}


class Example(NamedTuple):
    """One published payload."""

    server: str
    name: str
    payload: dict[str, Any]

    @property
    def is_wanted(self) -> bool:
        """Whether the bot knows this event and action."""
        return (self.name, self.payload.get("action")) in WANTED


def _fetch() -> None:
    """Bring the package into the cache, whole or not at all."""
    CACHE.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE.parent) as scratch:
        command = ["npm", "pack", f"{PACKAGE}@{VERSION}", "--silent", "--pack-destination", scratch]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
        [archive] = Path(scratch).glob("*.tgz")
        with tarfile.open(archive) as packed:
            packed.extractall(scratch, filter="data")
        (Path(scratch) / "package").rename(CACHE)


def _read() -> Iterator[Example]:
    for index in sorted(CACHE.glob("*/index.json")):
        for event in json.loads(index.read_text("utf-8")):
            for payload in event["examples"]:
                yield Example(index.parent.name, event["name"], payload)


@pytest.fixture(scope="module")
def examples() -> list[Example]:
    """All examples, fetched once per checkout."""
    if not CACHE.exists():
        _fetch()
    return list(_read())


def test_every_example_is_an_event_or_ignored(examples: list[Example]) -> None:
    """No payload GitHub is known to send is unparsed; those of wanted events become events."""
    seen: Counter[str] = Counter()
    for example in examples:
        event = parse_event(example.name, json.dumps(example.payload).encode())
        assert isinstance(event, (Ignored, *_EVENTS)), (example.server, example.name, event)
        silent = example.name in ("issue_comment", "pull_request_review_comment")
        assert isinstance(event, Ignored) == (silent or not example.is_wanted), example
        seen[example.server] += example.is_wanted
    assert seen["api.github.com"] > 70
    assert min(seen.values()) > 5


def test_every_comment_that_holds_the_word_is_an_event(examples: list[Example]) -> None:
    """A command in the place of a published comment's words arrives with its place and author."""
    found = 0
    for example in examples:
        if example.name not in ("issue_comment", "pull_request_review_comment"):
            continue
        payload = example.payload | {"comment": example.payload["comment"] | {"body": "/ultracode"}}
        event = parse_event(example.name, json.dumps(payload).encode())
        if payload["action"] != "created":
            assert isinstance(event, Ignored)
            continue
        by_person = payload["comment"]["user"]["type"] == "User"
        through_app = payload["comment"].get("performed_via_github_app")
        if by_person and not through_app:
            assert isinstance(event, IssueCommentCreated | ReviewCommentCreated)
            assert event.comment.id == payload["comment"]["id"]
            found += 1
        else:
            assert isinstance(event, Ignored)
    assert found > 10


async def test_every_example_is_answered_at_the_door(examples: list[Example]) -> None:
    """Delivered and signed, each wanted example is stored, each other one is answered 204."""
    inbox = MemoryInbox()
    async with front_door(inbox=inbox) as client:
        for example in examples:
            if example.server != "api.github.com" or example.name not in KNOWN | {"ping"}:
                continue
            answer = await post(client, example.payload, event=example.name)
            assert answer.status_code in {200, 202, 204}, (example.name, answer.text)
    assert len(inbox.rows) > 60
    assert all(delivery.unparsed_reason is None for delivery, _ in inbox.rows)
