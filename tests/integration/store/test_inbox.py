import asyncio
import hashlib
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from sqlalchemy import text

from bot.store.database import Database
from bot.store.inbox import Deliveries, PostgresInbox
from bot.store.tables import DeliveryOutcome
from webhooks.inbox import Accepted, Delivery, Duplicate
from webhooks.payloads import InstallationId, RepositoryId

pytestmark = pytest.mark.postgres


@pytest.fixture
async def inbox(database: Database) -> AsyncIterator[PostgresInbox]:
    async with PostgresInbox(database) as opened:
        yield opened


@pytest.fixture
def deliveries(database: Database) -> Deliveries:
    return Deliveries(database)


def delivery(body: bytes = b"{}", **changes: object) -> Delivery:
    sent = Delivery(
        delivery_id=str(uuid.uuid4()),
        event_name="issue_comment",
        action="created",
        installation_id=InstallationId(5),
        repository_id=RepositoryId(11),
        body_sha256=hashlib.sha256(body).hexdigest(),
        body=body,
        received_at=datetime.now(UTC),
    )
    return replace(sent, **changes)  # type: ignore[arg-type] # named by the tests


async def jobs(database: Database) -> list[str]:
    async with database.begin() as tx:
        found = await tx.execute(
            text("select args->>'delivery_id' from procrastinate_jobs where status = 'todo'")
        )
        return list(found.scalars())


async def test_an_accepted_delivery_has_a_row_and_a_job(
    inbox: PostgresInbox, deliveries: Deliveries, database: Database
) -> None:
    """When the answer is given, both are there, and the body is as it was signed."""
    sent = delivery(b'{"a": "\\u0000"}')
    assert await inbox.accept(sent, None) == Accepted()
    stored = await deliveries.load(sent.delivery_id)
    assert (stored.body, stored.action, stored.outcome) == (sent.body, "created", None)
    assert await jobs(database) == [sent.delivery_id]


async def test_a_delivery_seen_before_does_nothing(
    inbox: PostgresInbox, database: Database
) -> None:
    """The same GUID, or the same body under another GUID, is a duplicate and makes no job."""
    first = delivery(b"one")
    assert await inbox.accept(first, None) == Accepted()
    assert await inbox.accept(first, None) == Duplicate()
    assert await inbox.accept(delivery(b"one"), None) == Duplicate()
    assert await jobs(database) == [first.delivery_id]


async def test_a_burst_is_neither_lost_nor_doubled(
    inbox: PostgresInbox, database: Database
) -> None:
    """Of 300 deliveries at once, each sent three times, every one is accepted exactly once."""
    sent = [delivery(f"body {number}".encode()) for number in range(300)]
    answers = await asyncio.gather(*(inbox.accept(each, None) for each in sent * 3))
    assert answers.count(Accepted()) == 300
    assert answers.count(Duplicate()) == 600
    assert sorted(await jobs(database)) == sorted(each.delivery_id for each in sent)


async def test_a_failed_delivery_is_taken_again(
    inbox: PostgresInbox, deliveries: Deliveries, database: Database
) -> None:
    """Redelivering what had failed opens it once more, with a new job; what went well does not."""
    sent = delivery()
    await inbox.accept(sent, None)
    await deliveries.settle(sent.delivery_id, DeliveryOutcome.FAILED, "the disk was full")
    assert await inbox.accept(sent, None) == Accepted()
    assert len(await jobs(database)) == 2
    await deliveries.settle(sent.delivery_id, DeliveryOutcome.HANDLED)
    assert await inbox.accept(sent, None) == Duplicate()
    assert (await deliveries.load(sent.delivery_id)).outcome is DeliveryOutcome.HANDLED


async def test_what_could_not_be_parsed_is_kept_without_a_job(
    inbox: PostgresInbox, deliveries: Deliveries, database: Database
) -> None:
    """It is stored with its reason; a redelivery that can be parsed by then is handled."""
    sent = delivery(unparsed_reason="issue.number is missing\0\ud800", action="odd\0")
    assert await inbox.accept(sent, None) == Accepted()
    stored = await deliveries.load(sent.delivery_id)
    assert stored.outcome is DeliveryOutcome.UNPARSED
    assert stored.outcome_reason == "issue.number is missing?"
    assert await jobs(database) == []
    assert await inbox.accept(replace(sent, unparsed_reason=None), None) == Accepted()
    assert await jobs(database) == [sent.delivery_id]


async def test_one_impossible_delivery_does_not_take_others_with_it(
    inbox: PostgresInbox, database: Database
) -> None:
    """What the database refuses fails alone; what came at the same moment is stored."""
    good = [delivery(f"good {number}".encode()) for number in range(5)]
    bad = delivery(b"bad", repository_id=2**70)
    answers = await asyncio.gather(
        *(inbox.accept(each, None) for each in [*good[:2], bad, *good[2:]]),
        return_exceptions=True,
    )
    assert [type(answer) for answer in answers if answer != Accepted()] == [
        psycopg.errors.NumericValueOutOfRange
    ]
    assert sorted(await jobs(database)) == sorted(each.delivery_id for each in good)


async def test_whoever_hangs_up_leaves_the_others_answered(inbox: PostgresInbox) -> None:
    """A sender that gives up while its delivery is being stored holds nobody up."""
    gone = asyncio.create_task(inbox.accept(delivery(b"gone"), None))
    await asyncio.sleep(0)
    gone.cancel()
    assert await inbox.accept(delivery(b"here"), None) == Accepted()


async def test_forgotten_deliveries_are_found(
    inbox: PostgresInbox, deliveries: Deliveries, database: Database
) -> None:
    """An unsettled delivery whose job is gone is shown to the reconciler."""
    sent = delivery()
    await inbox.accept(sent, None)
    assert await deliveries.without_job() == []
    async with database.begin() as tx:
        await tx.execute(text("delete from procrastinate_jobs"))
    assert await deliveries.without_job() == [sent.delivery_id]
    assert await deliveries.known([sent.delivery_id, "unknown"]) == {sent.delivery_id}


async def test_only_settled_deliveries_are_forgotten(
    inbox: PostgresInbox, deliveries: Deliveries
) -> None:
    """Retention deletes what is old and settled, nothing else."""
    old, open_one = delivery(b"old"), delivery(b"open")
    await inbox.accept(old, None)
    await inbox.accept(open_one, None)
    await deliveries.settle(old.delivery_id, DeliveryOutcome.HANDLED)
    assert await deliveries.forget_before(datetime.now(UTC) + timedelta(hours=1)) == 1
    assert (await deliveries.load(open_one.delivery_id)).outcome is None
