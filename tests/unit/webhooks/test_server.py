import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import httpx
import orjson
import pytest
from pydantic import SecretStr

from tests.unit.webhooks.front_door import PREVIOUS, SECRET, MemoryInbox, front_door, post
from tests.unit.webhooks.payloads import ADA, BOT, WHERE, installation, issue_comment, review
from webhooks.events import Event, IssueCommentCreated
from webhooks.inbox import Accepted, Delivery, Duplicate
from webhooks.server import webhook_router
from webhooks.signature import sign

GUID = "72d3162e-cc78-11e3-81ab-4c9367dc0958"


class BrokenInbox:
    """A database that is not there."""

    async def accept(self, delivery: Delivery, event: Event | None) -> Accepted | Duplicate:
        raise ConnectionError("the text of the statement, with the body in it")


class HangingInbox:
    """A database that never answers."""

    async def accept(self, delivery: Delivery, event: Event | None) -> Accepted | Duplicate:
        await asyncio.Event().wait()
        return Accepted()


Door = Callable[..., Any]


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    """Opens front doors that close with the test."""
    async with AsyncExitStack() as stack:
        yield lambda **options: stack.enter_async_context(front_door(**options))


_SHARED_INBOX = MemoryInbox()


@pytest.fixture
def inbox() -> MemoryInbox:
    """An empty inbox."""
    _SHARED_INBOX.rows.clear()
    return _SHARED_INBOX


@pytest.fixture(scope="module")
async def client() -> AsyncIterator[httpx.AsyncClient]:
    """A client of a door that stays open for all tests of this file."""
    async with front_door(inbox=_SHARED_INBOX) as client:
        yield client


@asynccontextmanager
async def raw_post(
    client: httpx.AsyncClient,
    headers: bytes,
    signature: bytes = b"X-Hub-Signature-256: sha256=x\r\n",
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A request whose head is sent and whose body is up to the test."""
    url = client.base_url
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(b"POST /webhooks/github HTTP/1.1\r\nHost: a.example\r\n" + signature)
    writer.write(b"Content-Type: application/json\r\n" + headers + b"\r\n\r\n")
    yield reader, writer
    writer.close()


async def test_comment_is_stored_before_it_is_answered(
    client: httpx.AsyncClient, inbox: MemoryInbox
) -> None:
    """A signed comment with the word is handed over with all the store needs, and answered 202."""
    before = datetime.now(UTC)
    body = orjson.dumps(issue_comment())
    answer = await post(client, body, X_GitHub_Delivery=GUID.upper())
    assert answer.status_code == 202
    [(delivery, event)] = inbox.rows
    assert isinstance(event, IssueCommentCreated)
    assert delivery == Delivery(
        delivery_id=GUID,
        event_name="issue_comment",
        action="created",
        installation_id=event.installation_id,
        repository_id=event.repository.id,
        body_sha256=hashlib.sha256(body).hexdigest(),
        body=body,
        received_at=delivery.received_at,
        unparsed_reason=None,
    )
    assert before <= delivery.received_at <= datetime.now(UTC)


@pytest.mark.parametrize(
    ("event", "payload"),
    [
        ("pull_request_review", review()),
        ("installation", installation("suspend")),
        ("push", WHERE | {"ref": "refs/heads/x", "before": "a" * 40, "after": "b" * 40}),
    ],
)
async def test_other_events_need_no_word(
    client: httpx.AsyncClient, inbox: MemoryInbox, event: str, payload: object
) -> None:
    """Reviews, pushes and installations are taken without anybody typing a command."""
    assert (await post(client, payload, event=event)).status_code == 202
    assert len(inbox.rows) == 1


async def test_previous_secret_is_accepted_during_rotation(
    client: httpx.AsyncClient, inbox: MemoryInbox
) -> None:
    """Changing the secret loses no delivery."""
    assert (await post(client, issue_comment(), secret=PREVIOUS)).status_code == 202
    assert len(inbox.rows) == 1


@pytest.mark.parametrize(
    "headers",
    [
        {"X_Hub_Signature_256": None},
        {"X_Hub_Signature_256": None, "X_Hub_Signature": "sha1=" + "0" * 40},
        {"X_Hub_Signature_256": ""},
        {"X_Hub_Signature_256": sign(b"another body", SECRET)},
        {"secret": SecretStr("guess")},
    ],
)
async def test_unsigned_is_refused(
    client: httpx.AsyncClient, inbox: MemoryInbox, headers: dict[str, Any]
) -> None:
    """Without the right signature the answer is 401 and nothing is stored."""
    assert (await post(client, issue_comment(), **headers)).status_code == 401
    assert not inbox.rows


@pytest.mark.parametrize("secrets", [[], [SecretStr("")], [SECRET, SecretStr("")]])
def test_door_without_a_secret_does_not_open(secrets: list[SecretStr], inbox: MemoryInbox) -> None:
    """A secret that was forgotten is found out at start."""
    with pytest.raises(ValueError, match="secret"):
        webhook_router(secrets=secrets, inbox=inbox)


async def test_secrets_may_change_while_the_door_is_open(door: Door, inbox: MemoryInbox) -> None:
    """Secrets given as a function are asked for each time, and none at all lets nobody in."""
    secrets: list[SecretStr] = []
    client = await door(inbox=inbox, secrets=lambda: secrets)
    assert (await post(client, issue_comment())).status_code == 401
    secrets.append(SECRET)
    assert (await post(client, issue_comment())).status_code == 202


async def test_form_is_refused_with_the_setting_to_change(
    client: httpx.AsyncClient, inbox: MemoryInbox
) -> None:
    """A webhook set to send forms is told what to set instead."""
    form = "application/x-www-form-urlencoded"
    answer = await post(client, b"payload=%7B%7D", Content_Type=form)
    assert answer.status_code == 415
    assert "application/json" in answer.json()["outcome"]
    assert (await post(client, issue_comment(), Content_Type=None)).status_code == 415
    assert not inbox.rows
    charset = "Application/JSON; charset=utf-8"
    assert (await post(client, issue_comment(), Content_Type=charset)).status_code == 202


async def test_too_large_is_refused_before_it_is_read(door: Door, inbox: MemoryInbox) -> None:
    """A body that says it is too large is not even read; one that fits exactly is taken."""
    body = orjson.dumps(issue_comment())
    client = await door(inbox=inbox, max_bytes=len(body))
    assert (await post(client, body)).status_code == 202
    assert (await post(client, body + b" ")).status_code == 413
    assert len(inbox.rows) == 1


async def test_too_large_is_found_while_it_streams(door: Door, inbox: MemoryInbox) -> None:
    """A body that does not say its size is dropped, and its sender too, once it is too large."""
    client = await door(inbox=inbox, max_bytes=1000)
    async with raw_post(client, b"Transfer-Encoding: chunked") as (reader, writer):
        writer.write(b"7d0\r\n" + b" " * 2000 + b"\r\n")
        answer = await reader.read()  # to the end: the door closes though we never finish
    assert answer.startswith(b"HTTP/1.1 413")
    assert not inbox.rows


async def test_slow_sender_is_let_go(door: Door, inbox: MemoryInbox) -> None:
    """Somebody who never finishes a body does not hold the door."""
    client = await door(inbox=inbox, read_seconds=0.05)
    async with raw_post(client, b"Content-Length: 10") as (reader, writer):
        writer.write(b"{")
        assert (await reader.read()).startswith(b"HTTP/1.1 408")


async def test_unsigned_body_is_not_even_read(client: httpx.AsyncClient) -> None:
    """A stranger cannot make the server read: the answer comes before any of the body."""
    headers = b"Content-Length: 10\r\nX-Hub-Signature-256-Not: x"
    async with raw_post(client, headers, signature=b"") as (reader, _):
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 401")
    assert b"connection: close" in answer.lower()


async def test_size_that_is_declared_is_believed(client: httpx.AsyncClient) -> None:
    """A body that says it is too large is refused before any of it came."""
    async with raw_post(client, b"Content-Length: 99999999999") as (reader, _):
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"connection: close" in answer.lower()


@pytest.mark.parametrize(
    ("payload", "headers"),
    [
        (b"not json", {}),
        (b"", {}),
        (b"not json", {"event": "star"}),
        (issue_comment(), {"X_GitHub_Event": None}),
        (issue_comment(), {"X_GitHub_Delivery": None}),
        (issue_comment(), {"X_GitHub_Delivery": "1'; drop table deliveries"}),
        (issue_comment(), {"X_GitHub_Delivery": GUID + "0"}),
    ],
)
async def test_malformed_delivery_is_refused(
    client: httpx.AsyncClient, inbox: MemoryInbox, payload: object, headers: dict[str, Any]
) -> None:
    """No JSON, or not GitHub's headers: 400 and nothing stored."""
    assert (await post(client, payload, **headers)).status_code == 400
    assert not inbox.rows


async def test_ping_is_answered(client: httpx.AsyncClient, inbox: MemoryInbox) -> None:
    """The ping of a new webhook shows a green tick on GitHub's page."""
    answer = await post(client, {"zen": "Keep it simple", "hook_id": 1}, event="ping")
    assert answer.status_code == 200
    assert (await post(client, {}, event="ping", secret=SecretStr("guess"))).status_code == 401
    assert not inbox.rows


@pytest.mark.parametrize(
    ("event", "payload"),
    [
        ("star", {"action": "created"}),
        ("issues", {"action": "pinned"}),
        ("issue_comment", issue_comment("a fine day")),
        ("issue_comment", issue_comment() | {"action": "edited"}),
        ("issue_comment", issue_comment(user=BOT)),
        ("issue_comment", issue_comment(user=ADA, performed_via_github_app={"id": 3})),
    ],
)
async def test_what_does_not_matter_is_not_stored(
    client: httpx.AsyncClient, inbox: MemoryInbox, event: str, payload: object
) -> None:
    """Other events and actions, comments without the word and those of bots: 204, no row."""
    answer = await post(client, payload, event=event)
    assert (answer.status_code, answer.content) == (204, b"")
    assert not inbox.rows


async def test_known_event_that_does_not_fit_is_stored_with_its_reason(
    client: httpx.AsyncClient, inbox: MemoryInbox
) -> None:
    """A payload GitHub changed under our feet is kept until somebody mends the model."""
    answer = await post(client, issue_comment(id="5005"))
    assert answer.status_code == 202
    [(delivery, event)] = inbox.rows
    assert event is None
    assert delivery.unparsed_reason is not None
    assert delivery.unparsed_reason.startswith("comment.id")
    assert (delivery.action, delivery.repository_id, delivery.installation_id) == (
        "created",
        42,
        99,
    )


async def test_delivery_seen_before_is_answered_200(
    client: httpx.AsyncClient, inbox: MemoryInbox
) -> None:
    """A redelivery, and a replay under another GUID, do nothing twice."""
    body = orjson.dumps(issue_comment())
    assert (await post(client, body, X_GitHub_Delivery=GUID)).status_code == 202
    assert (await post(client, body, X_GitHub_Delivery=GUID)).status_code == 200
    assert (await post(client, body)).status_code == 200
    assert len(inbox.rows) == 1


@pytest.mark.parametrize("broken", [BrokenInbox(), HangingInbox()])
async def test_sender_is_told_to_come_again_when_nothing_could_be_stored(
    door: Door, broken: object, capsys: pytest.CaptureFixture[str]
) -> None:
    """A database that fails or hangs never turns into a 202, and its words go nowhere."""
    client = await door(inbox=broken, inbox_seconds=0.05)
    answer = await post(client, issue_comment())
    assert answer.status_code == 503
    assert int(answer.headers["Retry-After"]) > 0
    assert "statement" not in answer.text + capsys.readouterr().out


async def test_route_takes_posts_only(client: httpx.AsyncClient) -> None:
    """A browser that wanders by finds nothing."""
    assert (await client.get("/webhooks/github")).status_code == 405


async def test_64_kb_comment_is_taken(client: httpx.AsyncClient, inbox: MemoryInbox) -> None:
    """GitHub's largest comment, four bytes a character, is no reason to refuse."""
    assert (await post(client, issue_comment("/ultracode " + "🚀" * 65_525))).status_code == 202
    assert len(inbox.rows) == 1
