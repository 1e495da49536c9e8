"""Runs: the one place that decides where a run stands. In: facts. Out: runs, claims and verdicts.

Why: Agno's status is display; `runs.state` decides. Every step from one state to another is a
compare-and-set: whoever loses it has learnt that somebody else was first, and does nothing. A run
that is worked on is claimed, which bumps its epoch and so fences whoever worked on it before
(bot/store/fence.py). Each step leaves one line in the audit trail, in the same transaction.
"""

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any, Final

from sqlalchemy import delete, func, insert, select, text, update
from sqlalchemy.exc import IntegrityError

from bot.errors import LiveRunExists, RunNotFound, StaleEpoch
from bot.store.database import Transaction
from bot.store.fence import guard
from bot.store.run_queries import RunQueries
from bot.store.run_records import (
    AuditEvent,
    Claim,
    Created,
    NewRun,
    Queued,
    Run,
    Started,
    Usage,
    new_run_id,
    run_of,
)
from bot.store.tables import (
    ACTIVE_STATES,
    BUSY_STATES,
    END_STATES,
    FORGOTTEN,
    LIVE_STATES,
    QUEUED,
    RunState,
    events,
    pieces,
    runs,
)

__all__ = [
    "AuditEvent",
    "Claim",
    "Created",
    "NewRun",
    "Queued",
    "Run",
    "RunState",
    "RunStore",
    "Started",
    "Usage",
    "new_run_id",
]

_CANCELLABLE: Final = LIVE_STATES - {RunState.CANCELLING}


class RunStore(RunQueries):
    """Runs and their audit trail in PostgreSQL.

    Every method joins the caller's transaction when `tx` is given. Methods with `epoch` raise
    StaleEpoch when the run has been claimed by somebody else since.
    """

    # --- one run ---------------------------------------------------------------------------------

    async def create(
        self,
        new: NewRun,
        *,
        actor: str,
        delivery_id: str | None = None,
        tx: Transaction | None = None,
    ) -> Created:
        """Insert the run of a trigger, or find the one it made before.

        Args:
            new: What is known of it.
            actor: Who started it: `github:<numeric id>`.
            delivery_id: The delivery that said so.
            tx: The caller's transaction; it survives LiveRunExists.

        Raises:
            LiveRunExists: The issue has another run that has not ended.
        """
        async with self._database.begin(tx) as connection:
            if (existing := await self._of_trigger(new, connection)) is not None:
                return Created(existing, fresh=False)
            try:
                async with connection.begin_nested():
                    run = await self._insert(new, connection)
            except IntegrityError:
                live = await self._explain_conflict(new, connection)
                if live is None:  # what stood in the way has just gone
                    return await self.create(
                        new, actor=actor, delivery_id=delivery_id, tx=connection
                    )
                return Created(live, fresh=False)
            await self._trace(run, "", actor=actor, delivery_id=delivery_id, tx=connection)
            return Created(run, fresh=True)

    async def claim(self, run_id: str, *, tx: Transaction | None = None) -> Claim | None:
        """Take over a run that has not ended: from now on only this claim may write for it.

        Returns:
            The claim, or None when the run has ended or does not exist.
        """
        async with self._database.begin(tx) as connection:
            row = (
                await connection.execute(
                    update(runs)
                    .where(runs.c.run_id == run_id, runs.c.state.in_(LIVE_STATES))
                    .values(epoch=runs.c.epoch + 1, updated_at=func.now())
                    .returning(*runs.c)
                )
            ).first()
        return None if row is None else Claim(run := run_of(row), run.epoch)

    async def take_for_a_look(
        self, *, unseen_seconds: float, limit: int, tx: Transaction | None = None
    ) -> list[Run]:
        """Take runs that wait for a review and were not touched for so long, the oldest first.

        Taking touches them, so that replicas take different ones and none comes round too soon.
        """
        unseen = (
            select(runs.c.run_id)
            .where(
                runs.c.state == RunState.AWAITING_REVIEW,
                runs.c.updated_at < func.now() - timedelta(seconds=unseen_seconds),
            )
            .order_by(runs.c.updated_at)
            .limit(limit)
            .with_for_update(skip_locked=True)
        )
        async with self._database.begin(tx) as connection:
            taken = await connection.execute(
                update(runs)
                .where(runs.c.run_id.in_(unseen))
                .values(updated_at=func.now())
                .returning(*runs.c)
            )
            return [run_of(row) for row in taken]

    async def transition(
        self,
        run_id: str,
        *,
        from_states: Collection[RunState],
        to_state: RunState,
        actor: str = "bot",
        epoch: int | None = None,
        where_candidate_sha: str | None = None,
        delivery_id: str | None = None,
        tx: Transaction | None = None,
        **columns: Any,
    ) -> bool:
        """Compare-and-set: move the run, if it is in one of these states.

        Args:
            run_id: The run.
            from_states: Where it has to be.
            to_state: Where it goes. An end sets `ended_at`, and every step clears `state_reason`.
            actor: Who moves it: `bot`, or `github:<numeric id>`.
            epoch: The writer's claim; None for moves that people make from outside of it.
            where_candidate_sha: The candidate it must have, for approvals.
            delivery_id: The delivery that says so.
            tx: The caller's transaction.
            **columns: Further columns of `runs` to set in the same step.

        Returns:
            Whether it moved. False: somebody else was first; read the run to see what it is now.

        Raises:
            StaleEpoch: The run has been claimed by somebody else since.
        """
        async with self._database.begin(tx) as connection:
            run = await self._locked(run_id, connection)
            if epoch is not None and run.epoch != epoch:
                raise StaleEpoch(run_id, epoch)
            if run.state not in from_states:
                return False
            if where_candidate_sha is not None and run.candidate_sha != where_candidate_sha:
                return False
            await self._move(
                run, to_state, columns, actor=actor, delivery_id=delivery_id, tx=connection
            )
            return True

    async def record(
        self, run_id: str, *, epoch: int, tx: Transaction | None = None, **columns: Any
    ) -> None:
        """Set columns of a run without moving it (round, candidate, pull request, …).

        Raises:
            StaleEpoch: The run has been claimed by somebody else since.
        """
        async with self._database.begin(tx) as connection:
            await guard(connection, run_id, epoch)
            await connection.execute(
                update(runs).where(runs.c.run_id == run_id).values(**columns, updated_at=func.now())
            )

    async def cancel(
        self,
        run_id: str,
        *,
        actor: str,
        sentence: str | None = None,
        delivery_id: str | None = None,
        tx: Transaction | None = None,
    ) -> Run | None:
        """Move the run to `cancelling` at a new epoch, which also fences the busy worker.

        A run whose promotion was begun cannot be cancelled: the push may have happened. `sentence`
        is what the ending says for people: who did it, or what befell the run.

        Returns:
            The run, or None when it has ended, is being cancelled, or is too far.
        """
        async with self._database.begin(tx) as connection:
            run = await self._locked(run_id, connection)
            if run.state not in _CANCELLABLE or await self._promotion_begun(run, connection):
                return None
            return await self._move(
                run,
                RunState.CANCELLING,
                {"epoch": run.epoch + 1, "state_reason": sentence},
                actor=actor,
                delivery_id=delivery_id,
                tx=connection,
            )

    async def add_usage(
        self, run_id: str, usage: Usage, *, epoch: int, tx: Transaction | None = None
    ) -> Usage:
        """Add what one model call used.

        Returns:
            What the run has used altogether.

        Raises:
            StaleEpoch: The run has been claimed by somebody else since.
        """
        async with self._database.begin(tx) as connection:
            row = (
                await connection.execute(
                    update(runs)
                    .where(runs.c.run_id == run_id, runs.c.epoch == epoch)
                    .values(
                        model_calls=runs.c.model_calls + usage.model_calls,
                        input_tokens=runs.c.input_tokens + usage.input_tokens,
                        output_tokens=runs.c.output_tokens + usage.output_tokens,
                        cost=runs.c.cost + usage.cost,
                    )
                    .returning(*runs.c)
                )
            ).first()
            if row is None:
                raise StaleEpoch(run_id, epoch)
            return run_of(row).usage

    # --- limits ----------------------------------------------------------------------------------

    async def start(
        self,
        run_id: str,
        *,
        epoch: int,
        per_repository: int,
        per_installation: int,
        to_state: RunState = RunState.PLANNING,
        tx: Transaction | None = None,
    ) -> Started | Queued:
        """Let the run work if the limits allow it and nobody of its repository waits longer.

        Approvals, promotions and cancellations are never counted and never wait.

        Args:
            run_id: An accepted or stale run.
            epoch: The writer's claim.
            per_repository: How many runs of its repository may work at once.
            per_installation: How many of its installation.
            to_state: Where it goes: `planning`, or `working`.
            tx: The caller's transaction.

        Returns:
            Started, or Queued: then `state_reason` says so, this job should end, and whoever
            finishes a run defers `next_queued`.

        Raises:
            StaleEpoch: The run has been claimed by somebody else since.
        """
        async with self._database.begin(tx) as connection:
            await _lock_limits(await self.get(run_id, tx=connection), connection)
            run = await self._locked(run_id, connection)
            if run.epoch != epoch:
                raise StaleEpoch(run_id, epoch)
            if run.state in BUSY_STATES:  # begun before a crash
                return Started(run)
            position = await self._position(run, per_repository, per_installation, connection)
            if position > 0:
                await self.record(run_id, epoch=epoch, state_reason=QUEUED, tx=connection)
                return Queued(position)
            return Started(await self._move(run, to_state, {}, actor="bot", tx=connection))

    # --- the audit trail -------------------------------------------------------------------------

    async def audit(
        self,
        kind: str,
        *,
        actor: str,
        run_id: str | None = None,
        delivery_id: str | None = None,
        detail: Mapping[str, Any] | None = None,
        tx: Transaction | None = None,
    ) -> None:
        """Append one line: who did what, for which run, because of which delivery."""
        async with self._database.begin(tx) as connection:
            await connection.execute(
                insert(events).values(
                    kind=kind,
                    actor=actor,
                    run_id=run_id,
                    delivery_id=delivery_id,
                    detail=dict(detail or {}),
                )
            )

    async def forget(self, run_id: str) -> None:
        """Delete an ended run's pieces, all but its ending, and note that it is forgotten.

        Raises:
            RunNotFound: There is none of this id.
        """
        async with self._database.begin() as tx:
            run = await self._locked(run_id, tx)
            if not run.ended or await self.is_forgotten(run_id, tx=tx):
                return
            content = delete(pieces).where(pieces.c.run_id == run_id, pieces.c.key != "ending")
            await tx.execute(content)
            await self.audit(FORGOTTEN, actor="bot", run_id=run_id, tx=tx)

    # --- inside ----------------------------------------------------------------------------------

    async def _insert(self, new: NewRun, tx: Transaction) -> Run:
        values = {name: getattr(new, name) for name in NewRun.__dataclass_fields__}
        row = await tx.execute(
            insert(runs).values(run_id=new_run_id(), **values).returning(*runs.c)
        )
        return run_of(row.one())

    async def _of_trigger(self, new: NewRun, tx: Transaction) -> Run | None:
        found = await self._all(
            runs.c.repository_id == new.repository_id,
            runs.c.trigger_kind == new.trigger_kind,
            runs.c.trigger_id == new.trigger_id,
            tx=tx,
        )
        return found[0] if found else None

    async def _explain_conflict(self, new: NewRun, tx: Transaction) -> Run | None:
        """The insert was refused: by the trigger's key, or because the issue has a live run."""
        if (existing := await self._of_trigger(new, tx)) is not None:
            return existing
        live = await self.live_of_issue(new.repository_id, new.issue_number, tx=tx)
        if live is not None:
            raise LiveRunExists(live.run_id)
        return None

    async def _locked(self, run_id: str, tx: Transaction) -> Run:
        row = (
            await tx.execute(select(*runs.c).where(runs.c.run_id == run_id).with_for_update())
        ).first()
        if row is None:
            raise RunNotFound(f"There is no run {run_id}.")
        return run_of(row)

    async def _move(
        self,
        run: Run,
        to_state: RunState,
        columns: Mapping[str, Any],
        *,
        actor: str,
        tx: Transaction,
        delivery_id: str | None = None,
    ) -> Run:
        values: dict[str, Any] = {"state_reason": None, **columns, "state": to_state}
        if to_state in END_STATES:
            values["ended_at"] = func.now()
        row = await tx.execute(
            update(runs)
            .where(runs.c.run_id == run.run_id)
            .values(**values, updated_at=func.now())
            .returning(*runs.c)
        )
        moved = run_of(row.one())
        await self._trace(moved, run.state, actor=actor, delivery_id=delivery_id, tx=tx)
        return moved

    async def _trace(
        self, run: Run, left: str, *, actor: str, delivery_id: str | None, tx: Transaction
    ) -> None:
        detail = {"from": left, "to": run.state, "reason": run.state_reason, "epoch": run.epoch}
        await self.audit(
            "state",
            actor=actor,
            run_id=run.run_id,
            delivery_id=delivery_id,
            detail={**detail, "candidate_sha": run.candidate_sha},
            tx=tx,
        )

    async def _promotion_begun(self, run: Run, tx: Transaction) -> bool:
        begun = text("select 1 from effects where scope = :run_id and kind = 'promotion' limit 1")
        return (await tx.execute(begun, {"run_id": run.run_id})).first() is not None

    async def _position(
        self, run: Run, per_repository: int, per_installation: int, tx: Transaction
    ) -> int:
        """The run's place in the queue; 0: it may start.

        Within a repository whoever came first starts first. Among repositories of an installation
        a free place goes to whoever asks: one repository's queue must not hold up the others.
        """
        queued = (
            runs.c.state.in_(ACTIVE_STATES),
            runs.c.state_reason == QUEUED,
            runs.c.run_id < run.run_id,
        )
        busy = runs.c.state.in_(BUSY_STATES)
        here = runs.c.repository_id == run.repository_id
        there = runs.c.installation_id == run.installation_id
        counts = select(
            func.count().filter(here, busy),
            func.count().filter(here, *queued),
            func.count().filter(busy),
            func.count().filter(*queued),
        ).where(there, runs.c.state.in_(ACTIVE_STATES))
        busy_here, ahead_here, busy_there, ahead_there = (await tx.execute(counts)).one()
        missing_here = int(busy_here) + int(ahead_here) - per_repository + 1
        missing_there = int(ahead_there) + 1 if busy_there >= per_installation else 0
        return max(0, missing_here, missing_there)


async def _lock_limits(run: Run, tx: Transaction) -> None:
    """One run of an installation is counted at a time; the lock ends with the transaction."""
    await tx.execute(
        text("select pg_advisory_xact_lock(hashtextextended('limits', :installation_id))"),
        {"installation_id": run.installation_id},
    )
