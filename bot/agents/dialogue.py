"""One agent's conversation, kept turn by turn and taken up where it broke off.

Comes in: the opening, what was kept of an earlier attempt, and the agent's tools. Goes out: the
messages to go on with. After an interruption no answer of the model is asked for again: kept
answers are used, the tools they called are called again only where their effects are gone with an
earlier loan of the workspace, and a note tells the model what could not be repeated as it was.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from agno.models.message import Message
from agno.models.response import ModelResponse
from agno.tools.function import Function

from bot.agents.conversation import Said
from bot.agents.material import DataBlocks
from bot.agents.toolkit import CHANGING_TOOLS, CallRefused, parse_call
from bot.agents.turns import Turn, TurnLog
from bot.agents.usage import Usage

_KEPT_FIELDS: Final = (
    "role", "content", "tool_calls", "tool_call_id", "tool_name", "provider_data",
)  # fmt: skip
_DIFFERENCES_LIMIT: Final = 12_000
_INTERRUPTED: Final = "Your work was interrupted here and goes on now."
_SAME_WORKSPACE: Final = (
    "Your workspace is as you left it, but calls you made last may have been made twice. Look "
    "again at the files they were to change."
)
_NEW_WORKSPACE: Final = (
    "Your workspace was built anew by repeating what you had done; the results of your earlier "
    "calls are those of the first time. Look again before you rely on a file that a command has "
    "changed."
)
_DIFFERS: Final = "Repeated, these calls gave other results than the first time:"


class Dialogue:
    """The messages of one conversation and their usage.

    Attributes:
        messages: everything said so far.
        usage: what all its answers took, those of earlier attempts included.
        corrections: how often an answer went back to the model.
    """

    def __init__(self, log: TurnLog, session: str, opening: Sequence[Said], loan: str) -> None:
        digest = hashlib.sha256(json.dumps([[s.role, s.text] for s in opening]).encode())
        self._log = log
        # Other opening words are another conversation: what was kept of the former does not fit.
        self._session = f"{session}#{digest.hexdigest()[:12]}"
        self._loan = loan
        self.messages = [Message(role=said.role, content=said.text) for said in opening]
        self.usage = Usage()
        self.corrections = 0
        self._records = 0
        self._kept = len(self.messages)

    async def resume(self, tools: Sequence[Function], blocks: DataBlocks) -> None:
        """Take up what was kept, and bring the workspace to where it was."""
        turns = await self._log.load(self._session)
        for turn in turns:
            self._take(turn)
        if not turns:
            return
        by_name = {tool.name: tool for tool in tools}
        differences = await self._rebuild(turns, by_name)
        await self._answer_open_calls(by_name)
        if tools and self.last_words() is None:
            anew = any(turn["loan"] != self._loan for turn in turns)
            self.messages.append(_note(differences, blocks, anew=anew))

    def last_words(self) -> str | None:
        """The text of the model's final answer, or None while it is its turn."""
        last = self.messages[-1]
        if last.role != "assistant" or last.tool_calls:
            return None
        return last.get_content_string()

    def correct(self, text: str) -> None:
        """Send the answer back to the model."""
        self.corrections += 1
        self.messages.append(Message(role="user", content=text))

    async def keep(self, messages: Sequence[Message]) -> None:
        """Keep everything said since the last time."""
        new = messages[self._kept :]
        if new:
            await self._append([_stored(message) for message in new], Usage())

    async def keep_answer(self, answer: ModelResponse, usage: Usage) -> None:
        """Keep an answer of the model as soon as it is there."""
        self.usage += usage
        message = Message(
            role="assistant",
            content=answer.content,
            tool_calls=answer.tool_calls or None,
            provider_data=answer.provider_data,
        )
        await self._append([_stored(message)], usage)

    # --- taking up an earlier attempt ------------------------------------------------------------

    def _take(self, turn: Turn) -> None:
        messages = [Message(**stored) for stored in turn["messages"]]
        self.messages += messages
        self.usage += Usage(**turn["usage"])
        self.corrections += sum(message.role == "user" for message in messages)
        self._records += 1
        self._kept += len(messages)

    async def _rebuild(
        self, turns: Sequence[Turn], tools: Mapping[str, Function]
    ) -> Sequence[tuple[str, str]]:
        """Repeat what changed files in a workspace that is gone; tell what came out otherwise."""
        lost = [
            stored
            for turn in turns
            if turn["loan"] != self._loan
            for stored in turn["messages"]
            if stored["role"] == "tool"
        ]
        calls = {call["id"]: call for message in self.messages for call in message.tool_calls or ()}
        differences = []
        for result in lost:
            call = calls[result["tool_call_id"]]
            if call["function"]["name"] in CHANGING_TOOLS:
                now = await _call(call, tools)
                if now != result["content"]:
                    differences.append((_described(call), now))
        return differences

    async def _answer_open_calls(self, tools: Mapping[str, Function]) -> None:
        """Call the tools of an answer that was kept before their results were."""
        last = self.messages[-1]
        for call in last.tool_calls or ():
            self.messages.append(
                Message(
                    role="tool",
                    tool_call_id=call["id"],
                    tool_name=call["function"]["name"],
                    content=await _call(call, tools),
                )
            )

    async def _append(self, messages: Sequence[Mapping[str, Any]], usage: Usage) -> None:
        turn = {"messages": messages, "usage": usage.model_dump(), "loan": self._loan}
        await self._log.append(self._session, self._records, turn)
        self._records += 1
        self._kept += len(messages)


def _stored(message: Message) -> dict[str, Any]:
    return {name: value for name in _KEPT_FIELDS if (value := getattr(message, name)) is not None}


async def _call(asked: Mapping[str, Any], tools: Mapping[str, Function]) -> str:
    """Make a call as Agno would have, and give back what the model is told."""
    try:
        call = parse_call(asked, tools)
    except CallRefused as refused:
        return str(refused)
    entrypoint: Any = call.function.entrypoint
    return str(await entrypoint(**(call.arguments or {})))


def _described(call: Mapping[str, Any]) -> str:
    return f"{call['function']['name']} {call['function']['arguments']}"


def _note(differences: Sequence[tuple[str, str]], blocks: DataBlocks, *, anew: bool) -> Message:
    parts = [f"{_INTERRUPTED} {_NEW_WORKSPACE if anew else _SAME_WORKSPACE}"]
    if differences:
        listed = "\n\n".join(f"{call}\nnow gave:\n{result}" for call, result in differences)
        parts += [_DIFFERS, blocks.block("differences", listed, limit=_DIFFERENCES_LIMIT)]
    return Message(role="system", content="\n\n".join(parts))
