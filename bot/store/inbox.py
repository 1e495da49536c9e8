"""The durable inbox. In: verified deliveries. Out: a row and a job each, in one commit, or nothing.

Why: what was answered 202 must never be lost, so the answer waits for the commit. Commits are what
costs, so deliveries that arrive while one is under way share the next (group commit): one
statement stores them all, defers their jobs, and says which had been seen before.

A delivery that was seen (by GitHub's GUID, or by its body, since the GUID is outside the signature)
is taken again only if it had failed or could not be parsed: then its row is opened once more.
`Deliveries` is the worker's side of the same table.
"""

import asyncio
import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Self

import psycopg
from sqlalchemy import ColumnElement, delete, func, select, text, update

from bot.errors import StorageError
from bot.store.database import Database, Transaction
from bot.store.job_names import HANDLE_DELIVERY, QUICK
from bot.store.tables import DeliveryOutcome, deliveries
from bot.tracing import traceparent
from webhooks.events import Event
from webhooks.inbox import Accepted, Delivery, Duplicate

Answer = Accepted | Duplicate


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A delivery whose sender waits, and where it hangs in its trace."""

    delivery: Delivery
    answer: "asyncio.Future[Answer]"
    traceparent: str | None


_MOST_AT_ONCE: Final = 64
_MOST_BYTES_AT_ONCE: Final = 32 * 1024 * 1024
_RECONNECT_SECONDS: Final = 0.2
_RECONNECT_ATTEMPTS: Final = 300

# One statement, hence one transaction. Its parts all see the table as it was before, so `reopened`
# never touches what `stored` inserts.
_STORE: Final = f"""
with incoming as (
  select * from unnest(
    %(delivery_ids)s::text[], %(digests)s::text[], %(events)s::text[], %(actions)s::text[],
    %(installations)s::bigint[], %(repositories)s::bigint[], %(bodies)b::bytea[],
    %(times)s::timestamptz[], %(outcomes)s::text[], %(reasons)s::text[]
  ) as t(delivery_id, body_sha256, event, action, installation_id, repository_id, body,
         received_at, outcome, outcome_reason)
), stored as (
  insert into deliveries (delivery_id, body_sha256, event, action, installation_id,
                          repository_id, body, received_at, outcome, outcome_reason)
  select * from incoming
  on conflict do nothing
  returning delivery_id, delivery_id as sent_as, outcome
), reopened as (
  update deliveries d
  set action = i.action, installation_id = i.installation_id, repository_id = i.repository_id,
      outcome = i.outcome, outcome_reason = i.outcome_reason, settled_at = null
  from incoming i
  where (d.delivery_id = i.delivery_id or d.body_sha256 = i.body_sha256)
    and d.outcome in ('{DeliveryOutcome.FAILED}', '{DeliveryOutcome.UNPARSED}')
  returning d.delivery_id, i.delivery_id as sent_as, d.outcome
), taken as (
  select * from stored union all select * from reopened
), jobs as (
  select procrastinate_defer_jobs_v1(array_agg(
    row('{QUICK}', '{HANDLE_DELIVERY}', 0, 'delivery:' || delivery_id, null,
        jsonb_strip_nulls(jsonb_build_object(
          'delivery_id', delivery_id, 'traceparent', %(traceparents)s::jsonb ->> sent_as)),
        null)::procrastinate_job_to_defer_v1
  )) as job_ids from taken where outcome is null
)
select taken.sent_as from taken cross join jobs
"""  # noqa: S608 - only constants of ours are put in


class PostgresInbox:
    """Takes deliveries for the web role; `async with` opens its one connection."""

    def __init__(self, database: Database) -> None:
        self._conninfo = database.conninfo
        self._connection: psycopg.AsyncConnection | None = None
        self._waiting: list[_Waiting] = []
        self._arrived = asyncio.Event()
        self._committing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._committing = asyncio.create_task(self._commit_forever(), name="inbox")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._committing is not None:
            self._committing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._committing
        for waiting in self._waiting:
            waiting.answer.cancel()
        await self._disconnect()

    async def accept(self, delivery: Delivery, event: Event | None) -> Answer:  # noqa: ARG002 - the job parses the stored body
        """Store the delivery and defer its job; return only after the commit.

        A delivery that could not be parsed is stored with its reason and gets no job.

        Raises:
            psycopg.Error: Whether it was stored is unknown; the sender shall come again.
        """
        if self._committing is None or self._committing.done():
            raise StorageError("The inbox is not open.")
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(delivery, answer, traceparent()))
        self._arrived.set()
        return await answer

    async def _commit_forever(self) -> None:
        while True:
            await self._arrived.wait()
            batch = self._next_batch()
            try:
                answers = await self._store(batch)
            except Exception as error:  # noqa: BLE001 - it goes to whoever waits for the answer
                await self._store_one_by_one(batch, error)
            else:
                _answer_all(batch, answers)

    def _next_batch(self) -> list[_Waiting]:
        count = size = 0
        for waiting in self._waiting[:_MOST_AT_ONCE]:
            size += len(waiting.delivery.body)
            if count and size > _MOST_BYTES_AT_ONCE:
                break
            count += 1
        batch, self._waiting = self._waiting[:count], self._waiting[count:]
        if not self._waiting:
            self._arrived.clear()
        return batch

    async def _store_one_by_one(self, batch: list[_Waiting], error: Exception) -> None:
        """One delivery that the database refuses must not take the others with it."""
        for each in batch:
            if len(batch) == 1 or isinstance(error, psycopg.OperationalError):
                _fail(each, error)
                continue
            try:
                _answer_all([each], await self._store([each]))
            except Exception as own_error:  # noqa: BLE001 - it goes to whoever waits for the answer
                _fail(each, own_error)

    async def _store(self, batch: Sequence[_Waiting]) -> list[Answer]:
        """Store a batch in one transaction. Storing twice is harmless: the keys see to it.

        So a batch whose commit was interrupted by a restart of the database is stored again, for as
        long as somebody waits for the answer.
        """
        for _ in range(_RECONNECT_ATTEMPTS):
            try:
                return await self._execute(batch)
            except psycopg.OperationalError:
                await self._disconnect()
                if all(waiting.answer.done() for waiting in batch):
                    raise
                await asyncio.sleep(_RECONNECT_SECONDS)
        return await self._execute(batch)

    async def _execute(self, batch: Sequence[_Waiting]) -> list[Answer]:
        if self._connection is None:
            self._connection = await psycopg.AsyncConnection.connect(
                self._conninfo,
                autocommit=True,
                connect_timeout=5,
                options="-c synchronous_commit=on",
            )
        found = await self._connection.execute(_STORE.encode(), _columns(batch))
        taken = {sent_as for (sent_as,) in await found.fetchall()}
        answers: list[Answer] = []
        for waiting in batch:
            sent_as = waiting.delivery.delivery_id
            fresh = sent_as in taken
            taken.discard(sent_as)  # twice in one batch: the second is a duplicate
            answers.append(Accepted() if fresh else Duplicate())
        return answers

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


@dataclass(frozen=True, slots=True)
class StoredDelivery:
    """A delivery as the worker finds it. `outcome` is None until it is settled."""

    delivery_id: str
    event: str
    action: str | None
    installation_id: int | None
    repository_id: int | None
    body: bytes
    received_at: datetime
    outcome: DeliveryOutcome | None
    outcome_reason: str | None


class Deliveries:
    """The worker's side of the inbox."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load(self, delivery_id: str, *, tx: Transaction | None = None) -> StoredDelivery:
        """The delivery.

        Raises:
            StorageError: There is none of this id.
        """
        wanted = [deliveries.c[name] for name in StoredDelivery.__dataclass_fields__]
        async with self._database.begin(tx) as connection:
            row = (
                await connection.execute(
                    select(*wanted).where(deliveries.c.delivery_id == delivery_id)
                )
            ).first()
        if row is None:
            raise StorageError(f"There is no delivery {delivery_id}.")
        values = row._asdict()
        outcome = values["outcome"]
        return StoredDelivery(**{**values, "outcome": outcome and DeliveryOutcome(outcome)})

    async def settle(
        self,
        delivery_id: str,
        outcome: DeliveryOutcome,
        reason: str | None = None,
        *,
        tx: Transaction | None = None,
    ) -> None:
        """Write down how the delivery ended; a failed one is taken again when redelivered."""
        async with self._database.begin(tx) as connection:
            await connection.execute(
                update(deliveries)
                .where(deliveries.c.delivery_id == delivery_id)
                .values(outcome=outcome, outcome_reason=reason, settled_at=func.now())
            )

    async def reopen(self, delivery_id: str, *, tx: Transaction | None = None) -> bool:
        """Open a failed or unparsed delivery once more; the caller defers its job.

        Returns:
            False when there is none of this id, or it did not fail.
        """
        outcomes = (DeliveryOutcome.FAILED, DeliveryOutcome.UNPARSED)
        async with self._database.begin(tx) as connection:
            opened = await connection.execute(
                update(deliveries)
                .where(deliveries.c.delivery_id == delivery_id, deliveries.c.outcome.in_(outcomes))
                .values(outcome=None, outcome_reason=None, settled_at=None)
            )
            return opened.rowcount == 1

    async def outcome_of(self, delivery_id: str, *, tx: Transaction | None = None) -> str | None:
        """Where a delivery stands, in words that follow its id; None when there is none."""
        async with self._database.begin(tx) as connection:
            row = (
                await connection.execute(
                    select(deliveries.c.outcome).where(deliveries.c.delivery_id == delivery_id)
                )
            ).first()
        if row is None:
            return None
        return f"was {row.outcome}" if row.outcome else "waits for its turn, or is being handled"

    async def without_job(self, *, tx: Transaction | None = None) -> list[str]:
        """Deliveries that are not settled and have no job: the reconciler defers one for each."""
        forgotten = select(deliveries.c.delivery_id).where(
            deliveries.c.outcome.is_(None),
            text(
                "not exists (select from procrastinate_jobs job where job.lock ="
                " 'delivery:' || deliveries.delivery_id and job.status in ('todo', 'doing'))"
            ),
        )
        async with self._database.begin(tx) as connection:
            return list((await connection.execute(forgotten)).scalars())

    async def known(
        self, delivery_ids: Sequence[str], *, tx: Transaction | None = None
    ) -> set[str]:
        """Which of these GUIDs were received and have not failed: what need not be redelivered."""
        found = select(deliveries.c.delivery_id).where(
            deliveries.c.delivery_id.in_(delivery_ids),
            deliveries.c.outcome.is_distinct_from(DeliveryOutcome.FAILED),
        )
        async with self._database.begin(tx) as connection:
            return set((await connection.execute(found)).scalars())

    async def forget_before(self, moment: datetime, *, tx: Transaction | None = None) -> int:
        """Delete settled deliveries received before a moment (retention). Returns how many."""
        async with self._database.begin(tx) as connection:
            return (await connection.execute(delete(deliveries).where(*_old(moment)))).rowcount

    async def count_before(self, moment: datetime, *, tx: Transaction | None = None) -> int:
        """How many settled deliveries were received before a moment."""
        counted = select(func.count()).select_from(deliveries).where(*_old(moment))
        async with self._database.begin(tx) as connection:
            return int((await connection.execute(counted)).scalar_one())


def _old(moment: datetime) -> tuple[ColumnElement[bool], ...]:
    return (deliveries.c.received_at < moment, deliveries.c.outcome.is_not(None))


def _columns(waiting: Sequence[_Waiting]) -> dict[str, Any]:
    """The batch turned on its side. NUL, which PostgreSQL's text cannot hold, is dropped."""
    batch = [each.delivery for each in waiting]
    traced = {each.delivery.delivery_id: each.traceparent for each in waiting if each.traceparent}
    unparsed = [delivery.unparsed_reason is not None for delivery in batch]
    return {
        "delivery_ids": [delivery.delivery_id for delivery in batch],
        "digests": [delivery.body_sha256 for delivery in batch],
        "events": [delivery.event_name for delivery in batch],
        "actions": [_text(delivery.action) for delivery in batch],
        "installations": [delivery.installation_id for delivery in batch],
        "repositories": [delivery.repository_id for delivery in batch],
        "bodies": [delivery.body for delivery in batch],
        "times": [delivery.received_at for delivery in batch],
        "outcomes": [str(DeliveryOutcome.UNPARSED) if bad else None for bad in unparsed],
        "reasons": [_text(delivery.unparsed_reason) for delivery in batch],
        "traceparents": json.dumps(traced),
    }


def _text(value: str | None) -> str | None:
    """Make text storable: no NUL, no lone surrogates."""
    return value and value.replace("\0", "").encode("utf-8", "replace").decode()


def _answer_all(batch: Sequence[_Waiting], answers: Sequence[Answer]) -> None:
    for waiting, answer in zip(batch, answers, strict=True):
        if not waiting.answer.done():  # whoever asked may have gone
            waiting.answer.set_result(answer)


def _fail(each: _Waiting, error: Exception) -> None:
    if not each.answer.done():
        each.answer.set_exception(error)
