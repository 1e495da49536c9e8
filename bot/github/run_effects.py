"""One run's outside effects, each done once. In: what is wanted. Out: GitHub's id for it.

Why: comments and check runs are not unique on GitHub, so each kind is recognised in its own way
when an attempt was interrupted: comments by App and mark, check runs by App and external id.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace

from bot.github.marks import Marks
from bot.github.messages import DOUBLED_CHECK
from bot.github.port import CheckRunWrite, GitHubRepository, NotFound
from bot.store.effects import EffectKind, Effects


@dataclass(frozen=True, kw_only=True)
class RunEffects:
    """The ledger, for one claim on one run."""

    run_id: str
    epoch: int
    repository: GitHubRepository
    effects: Effects
    marks: Marks
    _sequence: Iterator[int] = field(default_factory=itertools.count)
    _said: dict[int, str] = field(default_factory=dict)

    async def perform(
        self,
        key: str,
        kind: EffectKind,
        act: Callable[[], Awaitable[str]],
        find: Callable[[], Awaitable[str | None]] | None = None,
        undo: Callable[[str], Awaitable[None]] | None = None,
    ) -> str:
        """Do one thing once; see `Effects.perform`."""
        return await self.effects.perform(
            self.run_id,
            key,
            epoch=self.epoch,
            kind=kind,
            intent={"kind": str(kind)},
            act=act,
            find=find,
            undo=undo,
        )

    async def confirmed(self, key: str) -> str | None:
        """Return GitHub's id of what was done under a key, or None."""
        effect = await self.effects.get(self.run_id, key)
        return effect.external_id if effect else None

    def next(self) -> str:
        """Name an effect whose last one wins: unique within this claim, new after the next."""
        return f"{self.epoch}:{next(self._sequence)}"

    async def comment(
        self, number: int, key: str, text: str, *, kind: EffectKind = EffectKind.COMMENT
    ) -> int:
        """Post a new comment on an issue or pull request, once; return its id."""
        mark = self.marks.mark(self.run_id, key)

        async def act() -> str:
            body = self.marks.signed(text, self.run_id, key)
            comment = await self.repository.create_comment(number, body)
            self._said[comment.id] = text
            return str(comment.id)

        async def find() -> str | None:
            own = await self.repository.own_comments(number)
            return next((str(c.id) for c in own if mark in c.body), None)

        async def undo(comment_id: str) -> None:
            await self.repository.delete_comment(int(comment_id))

        return int(await self.perform(f"comment:{key}", kind, act, find, undo))

    async def edited_comment(self, number: int, key: str, text: str) -> None:
        """Keep one comment that says `text` now; one that does already is not edited."""
        comment_id = await self.comment(number, key, text, kind=EffectKind.STATUS_COMMENT)
        if self._said.get(comment_id) == text:
            return
        body = self.marks.signed(text, self.run_id, key)

        async def act() -> str:
            try:
                await self.repository.edit_comment(comment_id, body)
            except NotFound:  # somebody deleted it: the ending still speaks in a new one
                return "deleted"
            return "edited"

        await self.perform(f"{key}:{self.next()}", EffectKind.COMMENT_EDIT, act)
        self._said[comment_id] = text

    async def check(self, round: int, check: CheckRunWrite) -> int:
        """Create a check run once; return its id."""

        async def act() -> str:
            return str(await self.repository.create_check_run(check))

        async def find() -> str | None:
            own = await self.repository.own_check_runs(check.head_sha, check.name)
            return next((str(c.id) for c in own if c.external_id == check.external_id), None)

        async def undo(check_run_id: str) -> None:
            doubled = replace(check, name=DOUBLED_CHECK, conclusion="neutral")
            await self.repository.update_check_run(int(check_run_id), doubled)

        key = f"check:{round}:{check.name}"
        return int(await self.perform(key, EffectKind.CHECK_RUN, act, find, undo))
