"""Answers to what people ask: a reaction first, then words, each once whatever is redelivered.

In: where somebody spoke. Out: effects on GitHub through the ledger, in a scope of the comment's or
delivery's own, since an answer belongs to no run.
"""

from __future__ import annotations

from dataclasses import dataclass

from bot.clock import now
from bot.github.port import (
    Account,
    GitHubRepository,
    LineComment,
    NotFound,
    Reaction,
    ReactionTarget,
)
from bot.services import Services
from bot.store.effects import EffectKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Answers one voice. `number` is the issue or pull request where words go.

    `target` is what is reacted to; a button cannot be. In a review thread, `thread` is the comment
    whose thread the words go to, on pull request `number`.
    """

    services: Services
    repository: GitHubRepository
    scope: str
    target: ReactionTarget | None
    number: int
    thread: int | None = None

    async def react(self, reaction: Reaction) -> None:
        """React where that is possible; GitHub itself keeps one reaction of a kind."""
        target = self.target
        if target is None:
            return

        async def act() -> str:
            try:
                return str(await self.repository.react(target, reaction))
            except NotFound:  # deleted meanwhile: nobody is left to see it
                return "gone"

        await self.services.effects.perform(
            self.scope,
            f"reaction:{reaction}",
            epoch=None,
            kind=EffectKind.REACTION,
            intent={"reaction": reaction},
            act=act,
        )

    async def say(self, key: str, text: str, *, scope: str | None = None) -> None:
        """Comment once; an interrupted attempt is looked up by its mark before it is repeated."""
        place = scope or self.scope
        mark = self.services.marks.mark(place, key)

        async def act() -> str:
            body = self.services.marks.signed(text, place, key)
            if self.thread is not None:
                return str(await self.repository.reply_in_thread(self.number, self.thread, body))
            return str((await self.repository.create_comment(self.number, body)).id)

        async def find() -> str | None:
            if self.thread is not None:
                said = await self.repository.line_comments(self.number)
                return next((str(c.id) for c in said if is_own(c) and mark in c.body), None)
            own = await self.repository.own_comments(self.number)
            return next((str(comment.id) for comment in own if mark in comment.body), None)

        def is_own(comment: LineComment) -> bool:
            return comment.author is not None and not comment.author.is_person

        async def undo(comment_id: str) -> None:
            if self.thread is not None:
                return  # a doubled reply stays: no other effect is bound to it
            await self.repository.delete_comment(int(comment_id))

        await self.services.effects.perform(
            place,
            key,
            epoch=None,
            kind=EffectKind.COMMENT,
            intent={"number": self.number},
            act=act,
            find=find,
            undo=undo,
        )

    async def refuse_once_a_day(self, who: Account, text: str) -> None:
        """Answer somebody without write: one reaction and one comment per issue and day."""
        scope = self._today("refusal", who)
        said = await self.services.effects.get(scope, "words")
        if said is not None and said.external_id is not None:
            return
        await self.react("confused")
        await self.say("words", text, scope=scope)

    async def hint_once_a_day(self, who: Account, text: str) -> None:
        """Point out what somebody may have meant: anybody can bring this about."""
        await self.say("words", text, scope=self._today("hint", who))

    def _today(self, kind: str, who: Account) -> str:
        """The scope of what one person is told once per issue and day."""
        return f"{kind}:{self.repository.repository_id}/{self.number}/{who.id}/{now():%Y-%m-%d}"

    async def take_label_off(self, label: str) -> None:
        """Take the label off, so that setting it again starts again."""

        async def act() -> str:
            await self.repository.remove_label(self.number, label)
            return label

        await self.services.effects.perform(
            self.scope,
            "label",
            epoch=None,
            kind=EffectKind.LABEL_REMOVAL,
            intent={"label": label},
            act=act,
        )
