"""What an operator does by hand: take a delivery again, stop a run, forget old ones.

In: an id, or nothing. Out: a sentence, or what was forgotten. The first two move rows by
compare-and-set and defer the job in the same way as the webhook and the comment do, so nothing is
done twice, and a worker does the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bot.errors import BotError
from bot.github.messages import cancelled_by_operator_sentence, too_late_to_cancel_message
from bot.queue import Queue
from bot.store.database import Database
from bot.store.inbox import Deliveries
from bot.store.runs import RunStore

if TYPE_CHECKING:
    from bot.retention import Forgotten
    from bot.settings import Settings

#: Who did it, in the audit trail.
OPERATOR: Final = "operator"


class NothingDone(BotError):
    """There was nothing to do."""


async def redeliver(database: Database, queue: Queue, delivery_id: str) -> str:
    """Have a failed or unparsed delivery handled once more, from its stored body.

    Raises:
        NothingDone: it is unknown here, waits for its turn, or was handled.
    """
    deliveries, wanted = Deliveries(database), delivery_id.strip().lower()
    async with database.begin() as tx:
        if await deliveries.reopen(wanted, tx=tx):
            await queue.defer_delivery(wanted, tx=tx)
            return f"Delivery {wanted} is taken again."
    known = await deliveries.outcome_of(wanted)
    if known is None:
        raise NothingDone(
            f"There is no delivery {wanted} here. GitHub keeps those of the last three days: App "
            "settings → Advanced → Recent deliveries."
        )
    raise NothingDone(f"Delivery {wanted} {known}; nothing is done twice.")


async def cancel_run(database: Database, queue: Queue, run_id: str) -> str:
    """Stop a run, as `/ultracode cancel` does.

    Raises:
        RunNotFound: there is no such run.
        NothingDone: it has ended, is being cancelled, or its promotion has begun.
    """
    runs = RunStore(database)
    run = await runs.get(run_id)
    async with database.begin() as tx:  # a death in between must not leave it uncleaned
        cancelled = await runs.cancel(
            run_id, actor=OPERATOR, sentence=cancelled_by_operator_sentence(), tx=tx
        )
        if cancelled is not None:
            await queue.defer_clean_up(run_id, tx=tx)
    if cancelled is None:
        raise NothingDone(too_late_to_cancel_message(await runs.get(run_id)))
    await queue.abort_run(run_id)
    return f"Run {run_id} of issue #{run.issue_number} is being cancelled."


async def collect_garbage(settings: Settings, database: Database, *, dry_run: bool) -> Forgotten:
    """Forget what is older than its retention; with `dry_run` only return what would go."""
    from bot.retention import open_retention  # noqa: PLC0415 - Agno takes seconds to import

    async with open_retention(settings, database) as retention:
        return await (retention.forgettable() if dry_run else retention.forget())
