"""Asks one agent one thing and gives back a validated answer.

Comes in: an assignment (role, opening words, tools, the contract the answer must fit). Goes out: an
Answer with its usage, or an exception whose sentence a person understands. It exists because Agno
never raises: a failed model becomes a run with status ERROR and the error as content, and an answer
that does not fit the schema becomes a plain string in a COMPLETED run (measured on 3.1.10).

The answer is read from the last message of the model and not from `RunOutput.content`: Agno joins
what the model said in all turns of a run into that (measured), which is no JSON any more. For the
same reason the schema is given to the model and not to the agent.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

import structlog
from agno.agent import Agent
from agno.models.message import Message
from agno.models.response import ModelResponse
from agno.run.agent import RunOutput
from agno.run.base import RunStatus
from agno.tools.function import Function
from pydantic import BaseModel, ValidationError

from bot.agents.budget import Budget
from bot.agents.conversation import Said
from bot.agents.dialogue import Dialogue
from bot.agents.material import DataBlocks
from bot.agents.model import Models, Permit
from bot.agents.prompts import load_prompt
from bot.agents.turns import NoTurns, TurnLog
from bot.agents.usage import Usage
from bot.errors import ModelOutputInvalid, ModelUnavailable
from bot.settings import AgentRole
from bot.tracing import span

log = structlog.get_logger()

_CHARACTERS_PER_TOKEN: Final = 4
_PROBLEMS_LIMIT: Final = 6_000
_SHOWN_PROBLEMS: Final = 3

T = TypeVar("T", bound=BaseModel)
Check = Callable[[T], Awaitable[Sequence[str]]]


@dataclass(frozen=True)
class AgentDeps:
    """What all agents of one run share. `user_id` is `github:<numeric id>` of the requester."""

    models: Models
    budget: Budget
    run_id: str
    user_id: str
    turns: TurnLog = field(default_factory=NoTurns)


@dataclass(frozen=True)
class Answer(Generic[T]):
    """A valid answer, and the tokens all calls for it took."""

    value: T
    usage: Usage


@dataclass(frozen=True)
class Assignment(Generic[T]):
    """One thing to ask of one agent.

    `session` names the conversation within the run (`worker:0:fix-parser`); after `max_turns` calls
    the model must answer without tools. `loan` is that of the worker's workspace.
    """

    role: AgentRole
    session: str
    opening: Sequence[Said]
    output_type: type[T]
    max_turns: int
    loan: str = ""


@dataclass
class CallWatch:
    """Watches the model calls of one agent: budget before, answers kept, an end to loops."""

    budget: Budget
    model_id: str
    max_turns: int
    dialogue: Dialogue
    failure: Exception | None = None
    _last_total: int = 0

    @asynccontextmanager
    async def call(self, messages: list[Message]) -> AsyncIterator[Permit]:
        """Stop a failed agent and an exhausted budget; keep what was said and what is answered."""
        if self.failure is not None:
            raise self.failure
        calls = self.dialogue.usage.calls
        if calls > self.max_turns:  # the model was told to answer, and corrected once, in vain
            raise ModelOutputInvalid(f"The agent gave no answer within {self.max_turns} turns.")
        await self.dialogue.keep(messages)
        expected = max(self._last_total, _characters(messages) // _CHARACTERS_PER_TOKEN)
        model = {"gen_ai__operation__name": "chat", "gen_ai__request__model": self.model_id}
        with span("model call", kind="client", **model) as call:
            async with self.budget.call(self.model_id, expected) as spend:

                async def take(answer: ModelResponse, usage: Usage) -> None:
                    call.note(gen_ai__usage__input_tokens=usage.input_tokens)
                    call.note(gen_ai__usage__output_tokens=usage.output_tokens)
                    self._last_total = usage.total_tokens
                    await spend(usage)
                    await self.dialogue.keep_answer(answer, usage)

                yield Permit(calls + 1 < self.max_turns, take)

    def failed(self, failure: Exception) -> None:
        """Keep the first reason to stop."""
        self.failure = self.failure or failure


async def ask(
    deps: AgentDeps,
    assignment: Assignment[T],
    tools: Callable[[CallWatch], Sequence[Function]] | None = None,
    check: Check[T] | None = None,
) -> Answer[T]:
    """Run an agent until it gives an answer that fits.

    An answer that does not fit its contract, or to which `check` objects, goes back to the model
    once with the reasons. A conversation that was interrupted goes on where it broke off.

    Args:
        deps: what the agents of the run share.
        assignment: what to ask of whom.
        tools: makes the agent's tools, given the watch that stops it when one breaks.
        check: says in sentences what is wrong with an answer that fits its contract.

    Raises:
        ModelUnavailable: the model could not be reached or refused.
        ModelOutputInvalid: the second answer does not fit either.
        BudgetExceeded: the next call was not allowed.
        Exception: whatever a tool or the check raised.
    """
    with span(f"agent {assignment.role}", session=assignment.session) as told:
        answer = await _ask(deps, assignment, tools, check)
        used = answer.usage
        told.note(model_calls=used.calls, input_tokens=used.input_tokens)
        told.note(output_tokens=used.output_tokens)
    log.info(
        "agent answered",
        agent=assignment.role,
        model_calls=used.calls,
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
    )
    return answer


async def _ask(
    deps: AgentDeps,
    assignment: Assignment[T],
    tools: Callable[[CallWatch], Sequence[Function]] | None,
    check: Check[T] | None,
) -> Answer[T]:
    blocks = DataBlocks(deps.run_id)
    dialogue = Dialogue(deps.turns, assignment.session, assignment.opening, assignment.loan)
    model_id = deps.models.model_id(assignment.role)
    watch = CallWatch(deps.budget, model_id, assignment.max_turns, dialogue)
    functions = tools(watch) if tools else ()
    agent = _agent(deps, assignment, watch, functions)
    await dialogue.resume(functions, blocks)
    while True:
        if dialogue.last_words() is None:
            output = await agent.arun(dialogue.messages)
            _raise_failure(output, watch)
            dialogue.messages = list(output.messages or ())
        value, problems = _read(dialogue.last_words() or "", assignment.output_type)
        if value is not None and check is not None:
            problems = await check(value)
        if value is not None and not problems:
            return Answer(value, dialogue.usage)
        if dialogue.corrections:
            raise ModelOutputInvalid(_unusable(assignment.role, problems), role=assignment.role)
        dialogue.correct(_correction(blocks, problems))


def _agent(
    deps: AgentDeps, assignment: Assignment[T], watch: CallWatch, tools: Sequence[Function]
) -> Agent:
    return Agent(
        name=assignment.role,
        model=deps.models.for_agent(
            assignment.role,
            run_id=deps.run_id,
            answer_schema=assignment.output_type,
            watch=watch,
        ),
        session_id=f"{deps.run_id}:{assignment.session}",
        user_id=deps.user_id,
        tools=list(tools),
        build_context=False,  # every word the model reads is in the opening
        retries=0,
        telemetry=False,
    )


def _raise_failure(output: RunOutput, watch: CallWatch) -> None:
    if watch.failure is not None:
        raise watch.failure
    if output.status != RunStatus.completed:
        raise ModelUnavailable("The agent stopped without an answer.", status=str(output.status))


def _read(text: str, output_type: type[T]) -> tuple[T | None, Sequence[str]]:
    """The answer in the text, or what is wrong with it."""
    if not text.strip():
        return None, ("There is no answer: it was empty, or it was refused.",)
    try:
        return output_type.model_validate_json(_without_fence(text)), ()
    except ValidationError as error:
        return None, [
            f"{'.'.join(str(part) for part in problem['loc']) or 'answer'}: {problem['msg']}"
            for problem in error.errors(include_input=False, include_url=False)
        ]


def _without_fence(text: str) -> str:
    """Some servers behind the same protocol wrap JSON in a Markdown fence."""
    stripped = text.strip()
    if stripped.startswith("```") and stripped.endswith("```"):
        return stripped.removeprefix("```json").strip("`").strip()
    return stripped


def _correction(blocks: DataBlocks, problems: Sequence[str]) -> str:
    listed = "\n".join(f"- {problem}" for problem in problems)
    reasons = blocks.block("reasons", listed, limit=_PROBLEMS_LIMIT)
    return f"{load_prompt('correction')}\n\n{reasons}"


def _unusable(role: AgentRole, problems: Sequence[str]) -> str:
    shown = "; ".join(problem.rstrip(".") for problem in problems[:_SHOWN_PROBLEMS])
    return f"The {role}'s answer could not be used, and neither could its second try: {shown}."


def _characters(messages: Sequence[Message]) -> int:
    return sum(
        len(str(message.content or "")) + len(json.dumps(message.tool_calls or ""))
        for message in messages
    )
