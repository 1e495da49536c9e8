"""Finding runs. In: what is known (an issue, a pull request, a commit, …). Out: runs, oldest first.

Why: webhooks name issues, pull requests, branches and commits; handlers need the runs behind them.
The reconciler needs those that were left behind. Nothing here writes.
"""

import re
from collections.abc import Collection, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import ColumnElement, Row, case, false, func, or_, select, text

from bot.errors import RunNotFound
from bot.store.database import Database, Transaction
from bot.store.run_records import AuditEvent, Run, Usage, run_of
from bot.store.tables import (
    ACTIVE_STATES,
    FORGOTTEN,
    LIVE_STATES,
    QUEUED,
    UNSEEN,
    RunState,
    events,
    pieces,
    runs,
)


class RunQueries:
    """Reads runs and their audit trail. Every method joins the transaction `tx` when given one."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, run_id: str, *, tx: Transaction | None = None) -> Run:
        """The run.

        Raises:
            RunNotFound: There is none of this id.
        """
        found = await self._all(runs.c.run_id == run_id, tx=tx)
        if not found:
            raise RunNotFound(f"There is no run {run_id}.")
        return found[0]

    async def live_of_issue(
        self, repository_id: int, issue_number: int, *, tx: Transaction | None = None
    ) -> Run | None:
        """The one run of an issue that has not ended."""
        found = await self._all(
            runs.c.repository_id == repository_id,
            runs.c.issue_number == issue_number,
            runs.c.state.in_(LIVE_STATES),
            tx=tx,
        )
        return found[0] if found else None

    async def of_issue(
        self, repository_id: int, issue_number: int, *, tx: Transaction | None = None
    ) -> list[Run]:
        """All runs of an issue, oldest first."""
        return await self._all(
            runs.c.repository_id == repository_id, runs.c.issue_number == issue_number, tx=tx
        )

    async def of_pull(
        self, repository_id: int, pull_number: int, *, tx: Transaction | None = None
    ) -> list[Run]:
        """All runs of a pull request, oldest first: a revision continues on the same one."""
        return await self._all(
            runs.c.repository_id == repository_id, runs.c.pull_number == pull_number, tx=tx
        )

    async def of_branch(
        self, repository_id: int, branch: str, *, tx: Transaction | None = None
    ) -> list[Run]:
        """All runs of a branch (its name, without refs/heads/), oldest first."""
        return await self._all(
            runs.c.repository_id == repository_id, runs.c.branch == branch, tx=tx
        )

    async def waiting_on_base(
        self, repository_id: int, base_ref: str, *, tx: Transaction | None = None
    ) -> list[Run]:
        """The runs that wait for a review on this base, and whose policy may say `when_behind`."""
        return await self._all(
            runs.c.repository_id == repository_id,
            runs.c.base_ref == base_ref,
            runs.c.state == RunState.AWAITING_REVIEW,
            runs.c.request["policy"].as_string().contains("when_behind"),
            tx=tx,
        )

    async def of_candidate(
        self, repository_id: int, candidate_sha: str, *, tx: Transaction | None = None
    ) -> list[Run]:
        """All runs whose candidate is this commit, oldest first."""
        return await self._all(
            runs.c.repository_id == repository_id, runs.c.candidate_sha == candidate_sha, tx=tx
        )

    async def evidence_of(self, wanted: str) -> tuple[Run, Any] | None:
        """The newest evidence of a run (by its id) or of a commit (7 to 40 hexadecimal digits).

        A run has evidence for each round; so every candidate it ever showed is found. Of several
        runs with one candidate the newest counts.
        """
        evidence = pieces.c.key.like("evidence:%")
        # The key is looked at first: other pieces may hold NUL, which `->>` cannot read.
        sha = case((evidence, pieces.c.value["candidate_sha"].as_string()))
        is_sha = re.fullmatch(r"[0-9a-f]{7,40}", wanted)
        of_commit = sha.startswith(wanted) if is_sha else false()
        found = (
            select(pieces.c.run_id, pieces.c.value)
            .where(evidence, or_(pieces.c.run_id == wanted, of_commit))
            .order_by(pieces.c.created_at.desc())
            .limit(1)
        )
        async with self._database.begin() as tx:
            row = (await tx.execute(found)).first()
            return None if row is None else (await self.get(row.run_id, tx=tx), row.value)

    async def in_states(
        self,
        states: Collection[RunState],
        *,
        repository_id: int | None = None,
        installation_id: int | None = None,
        limit: int = 1_000,
        tx: Transaction | None = None,
    ) -> list[Run]:
        """Runs in these states, oldest first."""
        where: list[ColumnElement[bool]] = [runs.c.state.in_(states)]
        if repository_id is not None:
            where.append(runs.c.repository_id == repository_id)
        if installation_id is not None:
            where.append(runs.c.installation_id == installation_id)
        return await self._all(*where, limit=limit, tx=tx)

    async def unseen(
        self,
        *,
        installation_id: int | None = None,
        repository_ids: Collection[int] | None = None,
        tx: Transaction | None = None,
    ) -> list[Run]:
        """Ended runs whose ending GitHub could not be told, oldest first."""
        where: list[ColumnElement[bool]] = [runs.c.state_reason == UNSEEN]
        if installation_id is not None:
            where.append(runs.c.installation_id == installation_id)
        if repository_ids is not None:
            where.append(runs.c.repository_id.in_(repository_ids))
        return await self._all(*where, limit=1_000, tx=tx)

    async def expired(self, *, tx: Transaction | None = None) -> list[Run]:
        """Live runs whose deadline has passed, by the database's clock."""
        return await self._all(
            runs.c.state.in_(LIVE_STATES), runs.c.deadline_at < func.now(), tx=tx
        )

    async def without_job(self, *, tx: Transaction | None = None) -> list[Run]:
        """Runs that should be worked on and have no job: the reconciler defers one for each.

        Queued runs are among them: trying them again is harmless, and saves one that was forgotten.
        """
        return await self._all(
            runs.c.state.in_(ACTIVE_STATES),
            text(
                "not exists (select from procrastinate_jobs job"
                " where job.lock = runs.run_id and job.status in ('todo', 'doing'))"
            ),
            tx=tx,
        )

    async def not_forgotten(
        self, *, ended_before: datetime, after: str, limit: int, tx: Transaction | None = None
    ) -> list[Run]:
        """Ended runs whose content is still kept, oldest first, beginning behind the id `after`.

        Runs of an issue that has a live one are left out: that one may build on them.
        """
        return await self._all(
            runs.c.ended_at < ended_before,
            runs.c.run_id > after,
            text(
                "not exists (select from events where events.run_id = runs.run_id"
                f" and events.kind = '{FORGOTTEN}')"
            ),
            text(
                "not exists (select from runs live where live.repository_id = runs.repository_id"
                " and live.issue_number = runs.issue_number and live.ended_at is null)"
            ),
            limit=limit,
            tx=tx,
        )

    async def is_forgotten(self, run_id: str, *, tx: Transaction | None = None) -> bool:
        """Whether a run's content was deleted because its retention ended."""
        noted = select(events.c.sequence).where(
            events.c.run_id == run_id, events.c.kind == FORGOTTEN
        )
        async with self._database.begin(tx) as connection:
            return (await connection.execute(noted.limit(1))).first() is not None

    async def untidied(self, *, limit: int = 50, tx: Transaction | None = None) -> list[Run]:
        """Runs that ended a minute to a day ago and were not tidied since, oldest first.

        A minute, since a stopped worker that wakes up may still be doubling something.
        """
        return await self._all(
            text("ended_at between now() - interval '1 day' and now() - interval '1 minute'"),
            text(
                "not exists (select from events"
                " where events.run_id = runs.run_id and events.kind = 'tidied')"
            ),
            limit=limit,
            tx=tx,
        )

    async def next_queued(self, run: Run, *, tx: Transaction | None = None) -> list[Run]:
        """Who may be next when this run stops working: the longest waiting of each repository.

        Whoever ends or pauses a run defers a job for each of them; `RunStore.start` decides.
        """
        first = (
            select(func.min(runs.c.run_id))
            .where(
                runs.c.state.in_(ACTIVE_STATES),
                runs.c.state_reason == QUEUED,
                runs.c.installation_id == run.installation_id,
            )
            .group_by(runs.c.repository_id)
        )
        return await self._all(runs.c.run_id.in_(first), limit=100, tx=tx)

    async def count_queued(self, *, tx: Transaction | None = None) -> int:
        """How many runs wait to start, on the whole server: what the queue's depth limits."""
        counted = select(func.count()).where(
            runs.c.state.in_(ACTIVE_STATES), runs.c.state_reason == QUEUED
        )
        async with self._database.begin(tx) as connection:
            return int((await connection.execute(counted)).scalar_one())

    async def usage_of_last_day(
        self,
        *,
        repository_id: int | None = None,
        installation_id: int | None = None,
        tx: Transaction | None = None,
    ) -> Usage:
        """What the runs of the last 24 hours used, of one repository or installation."""
        used = select(
            func.coalesce(func.sum(runs.c.model_calls), 0),
            func.coalesce(func.sum(runs.c.input_tokens), 0),
            func.coalesce(func.sum(runs.c.output_tokens), 0),
            func.coalesce(func.sum(runs.c.cost), 0),
        ).where(runs.c.created_at > func.now() - text("interval '24 hours'"))
        if repository_id is not None:
            used = used.where(runs.c.repository_id == repository_id)
        if installation_id is not None:
            used = used.where(runs.c.installation_id == installation_id)
        async with self._database.begin(tx) as connection:
            calls, tokens_in, tokens_out, cost = (await connection.execute(used)).one()
        return Usage(int(calls), int(tokens_in), int(tokens_out), Decimal(cost))

    async def trail(self, run_id: str, *, tx: Transaction | None = None) -> list[AuditEvent]:
        """The audit trail of a run, in order."""
        async with self._database.begin(tx) as connection:
            found = await connection.execute(
                select(*events.c).where(events.c.run_id == run_id).order_by(events.c.sequence)
            )
            return [AuditEvent(**row._asdict()) for row in found]

    async def delivery_of(self, run_id: str, *, tx: Transaction | None = None) -> str | None:
        """The first delivery that moved this run; None when it followed another by itself."""
        first = (
            select(events.c.delivery_id)
            .where(events.c.run_id == run_id, events.c.delivery_id.is_not(None))
            .order_by(events.c.sequence)
            .limit(1)
        )
        async with self._database.begin(tx) as connection:
            return (await connection.execute(first)).scalar_one_or_none()

    async def has_cancelled(self, delivery_id: str, *, tx: Transaction | None = None) -> bool:
        """Whether this delivery has cancelled a run."""
        async with self._database.begin(tx) as connection:
            found = await connection.execute(
                select(events.c.sequence)
                .where(events.c.delivery_id == delivery_id, events.c.kind == "state")
                .where(events.c.detail["to"].as_string() == RunState.CANCELLING)
                .limit(1)
            )
            return found.first() is not None

    async def _all(
        self, *where: Any, limit: int | None = None, tx: Transaction | None = None
    ) -> list[Run]:
        async with self._database.begin(tx) as connection:
            found: Sequence[Row[Any]] = (
                await connection.execute(
                    select(*runs.c).where(*where).order_by(runs.c.run_id).limit(limit)
                )
            ).all()
        return [run_of(row) for row in found]
