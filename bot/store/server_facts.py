"""How the server is doing, as the database has it. In: nothing. Out: one `ServerFacts`.

Why: web and worker are separate processes, and there may be many of either. What stands in
PostgreSQL is true for all of them, so metrics and the operator's page are read from there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import func, select, text

from bot.store.database import Database, Transaction
from bot.store.measured import Measured, load_measured
from bot.store.run_queries import RunQueries
from bot.store.run_records import Run, Usage
from bot.store.tables import (
    ACTIVE_STATES,
    END_STATES,
    WAITING_STATES,
    RunState,
    deliveries,
    effects,
    runs,
)

_SHOWN_FAILURES: Final = 50
_SHOWN_RUNS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """Counts over everything that is kept, and usage of all runs and of the last 24 hours."""

    deliveries: Mapping[str, int]
    jobs: Mapping[tuple[str, str], int]
    runs: Mapping[str, int]
    queued: int
    effects: Mapping[tuple[str, bool], int]
    total: Usage
    day: Usage
    oldest_job_seconds: float
    last_delivery_seconds: float | None
    measured: Sequence[Measured]

    @property
    def ended(self) -> Mapping[str, int]:
        """Runs by outcome."""
        return {state: count for state, count in self.runs.items() if RunState(state) in END_STATES}

    @property
    def deliveries_unsettled(self) -> int:
        """Deliveries that were taken and are not settled."""
        return self.deliveries.get("open", 0)

    @property
    def jobs_waiting(self) -> int:
        """Jobs nobody has taken."""
        return self._jobs("todo")

    @property
    def jobs_running(self) -> int:
        """Jobs at work."""
        return self._jobs("doing")

    @property
    def jobs_failed(self) -> int:
        """Jobs that were given up."""
        return self._jobs("failed")

    def _jobs(self, status: str) -> int:
        return sum(count for (_, known), count in self.jobs.items() if known == status)


@dataclass(frozen=True, slots=True)
class RunLists:
    """What an operator looks at first: at work, waiting for people, failed lately."""

    active: Sequence[Run]
    waiting: Sequence[Run]
    failed: Sequence[Run]


async def load_server_facts(database: Database) -> ServerFacts:
    """Count everything, in one transaction."""
    queries = RunQueries(database)
    async with database.begin() as tx:
        outcome = func.coalesce(deliveries.c.outcome, "open")
        settled = await _counts(tx, outcome, table=deliveries)
        kinds = await tx.execute(
            select(effects.c.kind, effects.c.external_id.is_not(None), func.count()).group_by(
                effects.c.kind, effects.c.external_id.is_not(None)
            )
        )
        return ServerFacts(
            deliveries=settled,
            jobs=await _jobs(tx),
            runs=await _counts(tx, runs.c.state, table=runs),
            queued=await queries.count_queued(tx=tx),
            effects={(kind, done): count for kind, done, count in kinds},
            total=await _usage(tx),
            day=await queries.usage_of_last_day(tx=tx),
            oldest_job_seconds=await _oldest_job(tx),
            last_delivery_seconds=await _last_delivery(tx),
            measured=await load_measured(tx),
        )


async def load_run_lists(database: Database) -> RunLists:
    """Return the runs an operator looks at first."""
    queries = RunQueries(database)
    failures = (
        select(runs.c.run_id)
        .where(runs.c.state.in_({RunState.FAILED, RunState.CONFLICTED, RunState.REFUSED}))
        .order_by(runs.c.run_id.desc())
        .limit(_SHOWN_FAILURES)
    )
    async with database.begin() as tx:
        failed = [row.run_id for row in await tx.execute(failures)]
        return RunLists(
            active=await queries.in_states(ACTIVE_STATES, limit=_SHOWN_RUNS, tx=tx),
            waiting=await queries.in_states(WAITING_STATES, limit=_SHOWN_RUNS, tx=tx),
            failed=[await queries.get(run_id, tx=tx) for run_id in failed],
        )


async def _counts(tx: Transaction, column: Any, *, table: Any) -> dict[str, int]:
    found = await tx.execute(select(column, func.count()).select_from(table).group_by(column))
    return {str(name): int(count) for name, count in found}


async def _jobs(tx: Transaction) -> dict[tuple[str, str], int]:
    counted = text(
        "select queue_name, status::text, count(*) from procrastinate_jobs group by 1, 2"
    )
    return {(queue, status): int(count) for queue, status, count in await tx.execute(counted)}


async def _oldest_job(tx: Transaction) -> float:
    """How long the oldest job that could be taken has been waiting."""
    waiting = text(
        "select coalesce(extract(epoch from now() - min(event.at)), 0)"
        " from procrastinate_jobs job join procrastinate_events event on event.job_id = job.id"
        " where job.status = 'todo' and coalesce(job.scheduled_at, now()) <= now()"
        " and event.type in ('deferred', 'deferred_for_retry')"
    )
    return float((await tx.execute(waiting)).scalar_one())


async def _last_delivery(tx: Transaction) -> float | None:
    """How long ago GitHub last brought anything; None when it never did, or it is forgotten."""
    age = text("select extract(epoch from now() - max(received_at)) from deliveries")
    seconds = (await tx.execute(age)).scalar_one_or_none()
    return None if seconds is None else float(seconds)


async def _usage(tx: Transaction) -> Usage:
    used = select(
        func.coalesce(func.sum(runs.c.model_calls), 0),
        func.coalesce(func.sum(runs.c.input_tokens), 0),
        func.coalesce(func.sum(runs.c.output_tokens), 0),
        func.coalesce(func.sum(runs.c.cost), 0),
    )
    calls, tokens_in, tokens_out, cost = (await tx.execute(used)).one()
    return Usage(int(calls), int(tokens_in), int(tokens_out), cost)
