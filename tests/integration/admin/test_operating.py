"""`ultracode redeliver` and `ultracode runs cancel`, as an operator types them."""

import hashlib
import uuid
from datetime import UTC, datetime

import pytest
from sqlalchemy import text

from bot.store.database import Database
from bot.store.inbox import Deliveries, PostgresInbox
from bot.store.runs import RunStore
from bot.store.tables import DeliveryOutcome, RunState
from tests.integration.store.make import make_run
from webhooks.inbox import Delivery

from .conftest import Ultracode

pytestmark = pytest.mark.postgres


async def store(database: Database, *, unparsed: str | None = None) -> str:
    guid = str(uuid.uuid4())
    body = guid.encode()
    async with PostgresInbox(database) as inbox:
        await inbox.accept(
            Delivery(
                delivery_id=guid,
                event_name="issues",
                action=None,
                installation_id=None,
                repository_id=None,
                body_sha256=hashlib.sha256(body).hexdigest(),
                body=body,
                received_at=datetime.now(UTC),
                unparsed_reason=unparsed,
            ),
            None,
        )
    return guid


async def jobs(database: Database, lock: str) -> list[str]:
    async with database.begin() as tx:
        found = await tx.execute(
            text("select task_name from procrastinate_jobs where lock = :lock"), {"lock": lock}
        )
        return list(found.scalars())


async def test_a_failed_or_unparsed_delivery_is_taken_again_once(
    database: Database, ultracode: Ultracode
) -> None:
    """It gets a job; a second request finds it waiting and adds none."""
    guid = await store(database, unparsed="no issue in it")
    assert await jobs(database, f"delivery:{guid}") == []
    said = await ultracode("redeliver", guid.upper())
    assert (said.code, said.out) == (0, f"Delivery {guid} is taken again.\n")
    again = await ultracode("redeliver", guid)
    assert again.code == 2
    assert "waits for its turn" in again.err
    assert len(await jobs(database, f"delivery:{guid}")) == 1
    failed = await store(database)
    await Deliveries(database).settle(failed, DeliveryOutcome.FAILED, "broken")
    assert (await ultracode("redeliver", failed)).code == 0
    assert len(await jobs(database, f"delivery:{failed}")) == 2


async def test_what_was_handled_or_is_unknown_is_not_taken_again(
    database: Database, ultracode: Ultracode
) -> None:
    """Each is one clear sentence, and no job."""
    guid = await store(database)
    await Deliveries(database).settle(guid, DeliveryOutcome.HANDLED)
    said = await ultracode("redeliver", guid)
    assert (said.code, said.out) == (2, "")
    assert "was handled; nothing is done twice" in said.err
    assert len(await jobs(database, f"delivery:{guid}")) == 1
    unknown = await ultracode("redeliver", str(uuid.uuid4()))
    assert (unknown.code, "There is no delivery" in unknown.err) == (2, True)


async def test_an_operator_stops_a_run(database: Database, ultracode: Ultracode) -> None:
    """The run is cancelling at a new epoch with its clean-up deferred, and the trail says who."""
    runs = RunStore(database)
    run = await make_run(runs)
    said = await ultracode("runs", "cancel", run.run_id)
    assert said.code == 0, said.err
    assert "is being cancelled" in said.out
    stopped = await runs.get(run.run_id)
    assert (stopped.state, stopped.epoch) == (RunState.CANCELLING, run.epoch + 1)
    assert "clean_up_run" in " ".join(await jobs(database, run.run_id))
    assert stopped.state_reason == "The operator of this server cancelled it."
    async with database.begin() as tx:
        actors = await tx.execute(text("select actor from events order by sequence desc limit 1"))
        assert actors.scalar_one() == "operator"
    again = await ultracode("runs", "cancel", run.run_id)
    assert (again.code, "can no longer be cancelled" in again.err) == (2, True)
    none = await ultracode("runs", "cancel", "none")
    assert (none.code, "There is no run none" in none.err) == (2, True)
