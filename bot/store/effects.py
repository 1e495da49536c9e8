"""Outside effects, each exactly once. In: an intent, how to find it, how to do it. Out: its id.

Why: a worker may die between doing something on GitHub and writing down that it was done. So every
outside write goes through `Effects.perform`, which writes down the intent first and, when it finds
an intent that was never confirmed, looks on GitHub before it acts. Nothing else may write to
GitHub: this is where the crash points stand, and from `crash_points` the tests learn them all.

    insert intent → (there already: confirmed? done; else find it) → check the epoch → act → confirm
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import Row, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert

from bot.errors import StaleEpoch, StorageError
from bot.store.crashpoints import crashpoint
from bot.store.database import Database, Transaction
from bot.store.fence import guard
from bot.store.tables import effects

#: GitHub's id for what was done, as text: a number, a node id, a SHA, or a word where it has none.
ExternalId = str
Act = Callable[[], Awaitable[ExternalId]]
Find = Callable[[], Awaitable[ExternalId | None]]
Undo = Callable[[ExternalId], Awaitable[None]]

_STEPS: Final = ("before_intent", "before_act", "after_act", "after_confirm")


class EffectKind(StrEnum):
    """Everything the bot does outside of itself."""

    REACTION = "reaction"
    STATUS_COMMENT = "status_comment"
    COMMENT = "comment"
    COMMENT_EDIT = "comment_edit"
    COMMENT_DELETION = "comment_deletion"
    LABEL_REMOVAL = "label_removal"
    BRANCH = "branch"
    BRANCH_DELETION = "branch_deletion"
    PULL_REQUEST = "pull_request"
    PULL_REQUEST_EDIT = "pull_request_edit"
    READY_FOR_REVIEW = "ready_for_review"
    CHECK_RUN = "check_run"
    CHECK_RUN_EDIT = "check_run_edit"
    PROMOTION = "promotion"


def crash_points() -> list[str]:
    """Every point at which a test can stop a worker around an effect."""
    return [f"effects.{step}:{kind}" for kind in EffectKind for step in _STEPS]


@dataclass(frozen=True, slots=True)
class Effect:
    """One row of the ledger. Without `external_id`, nobody knows yet whether it happened."""

    scope: str
    key: str
    kind: EffectKind
    intent: Mapping[str, Any]
    epoch: int | None
    external_id: ExternalId | None
    created_at: datetime
    confirmed_at: datetime | None


class Effects:
    """The ledger.

    A scope is a run's id; what belongs to no run (the answer to a command, say) has a scope with a
    colon, such as `comment:1234` or `delivery:<guid>`, and no epoch: there the job's lock keeps two
    workers from doing the same at once.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def perform(
        self,
        scope: str,
        key: str,
        *,
        epoch: int | None,
        kind: EffectKind,
        intent: Mapping[str, Any],
        act: Act,
        find: Find | None = None,
        undo: Undo | None = None,
    ) -> ExternalId:
        """Do something outside once, however often this is called and wherever it was interrupted.

        Args:
            scope: The run's id, or `kind:id` for what belongs to no run.
            key: Which effect of that scope this is, such as `status_comment` or `check:0:unit`.
            epoch: The writer's claim on the run; None for a scope that is no run.
            kind: What it is; names its crash points.
            intent: What is wanted, for people who read the ledger (no secrets).
            act: Does it, once, and returns GitHub's id for it. Its HTTP timeout must be shorter
                than the time after which a stalled job is rescued.
            find: Looks for it on GitHub, when an earlier attempt was interrupted. None for effects
                that are safe to repeat because GitHub itself makes them unique or last-one-wins.
            undo: Takes a doubled one back: called when somebody else's was confirmed meanwhile.

        Returns:
            GitHub's id for it: of this act, or of the earlier one.

        Raises:
            StaleEpoch: The run has been claimed by somebody else since; nothing was done, or what
                was done is found by whoever has the run now.
        """
        if (epoch is None) != (":" in scope):
            raise ValueError(f"scope {scope!r} does not go with epoch {epoch}")
        crashpoint(f"effects.before_intent:{kind}")
        fresh, external_id = await self._intend(scope, key, epoch, kind, intent)
        if external_id is not None:
            return external_id
        if not fresh and find is not None and (found := await find()) is not None:
            return await self._confirm(scope, key, epoch, found)
        await self._check(scope, epoch)
        crashpoint(f"effects.before_act:{kind}")
        done = await act()
        crashpoint(f"effects.after_act:{kind}")
        confirmed = await self._confirm_or_undo(scope, key, epoch, done, undo)
        crashpoint(f"effects.after_confirm:{kind}")
        return confirmed

    async def withdraw(self, scope: str, key: str, *, epoch: int) -> None:
        """Forget an intent that surely was not done: the other side refused it.

        Raises:
            StaleEpoch: The run has been claimed by somebody else since.
        """
        async with self._database.begin() as tx:
            await guard(tx, scope, epoch)
            await tx.execute(
                delete(effects).where(
                    effects.c.scope == scope,
                    effects.c.key == key,
                    effects.c.external_id.is_(None),
                )
            )

    async def get(self, scope: str, key: str, *, tx: Transaction | None = None) -> Effect | None:
        """One row of the ledger, or None."""
        found = await self._all(effects.c.scope == scope, effects.c.key == key, tx=tx)
        return found[0] if found else None

    async def of_scope(self, scope: str, *, tx: Transaction | None = None) -> list[Effect]:
        """Everything that was done, or begun, for a run or another scope, oldest first."""
        return await self._all(effects.c.scope == scope, tx=tx)

    async def of_external_id(
        self, kind: EffectKind, external_id: ExternalId, *, tx: Transaction | None = None
    ) -> list[Effect]:
        """The rows for what GitHub calls so: how comments and check runs are known to be ours."""
        return await self._all(effects.c.kind == kind, effects.c.external_id == external_id, tx=tx)

    # --- the steps -------------------------------------------------------------------------------

    async def _intend(
        self, scope: str, key: str, epoch: int | None, kind: EffectKind, intent: Mapping[str, Any]
    ) -> tuple[bool, ExternalId | None]:
        """Write the intent down. Returns whether it is new, and the id if it was confirmed."""
        async with self._database.begin() as tx:
            if epoch is not None:
                await guard(tx, scope, epoch)
            inserted = await tx.execute(
                insert(effects)
                .values(scope=scope, key=key, kind=kind, intent=dict(intent), epoch=epoch)
                .on_conflict_do_nothing()
                .returning(effects.c.key)
            )
            if inserted.first() is not None:
                return True, None
            earlier = await self.get(scope, key, tx=tx)
            return False, earlier.external_id if earlier else None

    async def _check(self, scope: str, epoch: int | None) -> None:
        if epoch is None:
            return
        async with self._database.begin() as tx:
            await guard(tx, scope, epoch)

    async def _confirm(
        self, scope: str, key: str, epoch: int | None, external_id: ExternalId
    ) -> ExternalId:
        """Write the id down, unless one is there. Returns the one that is there now."""
        async with self._database.begin() as tx:
            if epoch is not None:
                await guard(tx, scope, epoch)
            await tx.execute(
                update(effects)
                .where(
                    effects.c.scope == scope,
                    effects.c.key == key,
                    effects.c.external_id.is_(None),
                )
                .values(external_id=external_id, epoch=epoch, confirmed_at=func.now())
            )
            confirmed = await self.get(scope, key, tx=tx)
        if confirmed is None or confirmed.external_id is None:
            raise StorageError(f"The intent {key} of {scope} has vanished.")
        return confirmed.external_id

    async def _confirm_or_undo(
        self, scope: str, key: str, epoch: int | None, done: ExternalId, undo: Undo | None
    ) -> ExternalId:
        """Confirm what we did; where somebody else's was confirmed instead, take ours back.

        While nothing is confirmed, ours may just be being found by the run's new owner: it stays,
        and the reconciler takes care of a double.
        """
        try:
            confirmed = await self._confirm(scope, key, epoch, done)
        except StaleEpoch:
            theirs = await self.get(scope, key)
            if undo and theirs and theirs.external_id not in {None, done}:
                await undo(done)
            raise
        if undo and confirmed != done:
            await undo(done)
        return confirmed

    async def _all(self, *where: Any, tx: Transaction | None) -> list[Effect]:
        async with self._database.begin(tx) as connection:
            rows = await connection.execute(
                select(*effects.c).where(*where).order_by(effects.c.created_at, effects.c.key)
            )
            return [_effect(row) for row in rows]


def _effect(row: Row[Any]) -> Effect:
    values = row._asdict()
    return Effect(**{**values, "kind": EffectKind(values["kind"])})
