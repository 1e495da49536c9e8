"""The model of each role, watched at every call.

Comes in: which model each role speaks to (`ModelSettings`, read elsewhere) and how patient to be.
Goes out: Agno models on one shared client. Each call of such a model first asks the watch whether
it may be made. It exists because Agno reports failures as content and has neither budgets nor an
end to tool loops.

Agno 3.1.10 facts relied on (measured): its loop calls `ainvoke` once per turn with all messages;
what `ainvoke` raises becomes a run with status ERROR; its own `get_function_calls_to_run` turns the
argument strings "None", "null", "true" and "false" into values, which would corrupt what a worker
writes, and logs arguments it cannot read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import openai
from agno.models.message import Message
from agno.models.openai import OpenAIResponses
from agno.models.response import ModelResponse
from agno.tools.function import Function, FunctionCall
from openai import AsyncOpenAI
from openai.types.responses import Response
from pydantic import BaseModel

from bot.agents.provider import load_answer
from bot.agents.schema import strict_schema
from bot.agents.spans import model_span
from bot.agents.toolkit import CallRefused, parse_call
from bot.agents.usage import Usage
from bot.settings import AgentRole, ModelSettings

PROVIDER_URL: Final = "https://api.openai.com/v1"
_PREFIX: Final = "openai:"
_CACHE_KEY_LIMIT: Final = 64


@dataclass(frozen=True)
class Patience:
    """How long to wait for a model: seconds per answer and per connection, and how many retries.

    Retries follow the provider's Retry-After where it gives one (up to a minute), else they back
    off from half a second to eight.
    """

    answer_seconds: float = 300.0
    connect_seconds: float = 10.0
    retries: int = 5


@dataclass(frozen=True)
class Permit:
    """Leave for one model call: whether it may ask for tools, and whom to give the answer to."""

    may_use_tools: bool
    take: Callable[[ModelResponse, Usage], Awaitable[None]]


class Watch(Protocol):
    """Stands beside one agent and sees each of its model calls."""

    def call(self, messages: list[Message]) -> AbstractAsyncContextManager[Permit]:
        """Entered around each model call; raises what must stop the agent."""
        ...

    def failed(self, failure: Exception) -> None:
        """Takes note of why the agent stopped, since Agno would turn it into text."""
        ...


class Models:
    """All models of one process; one client per address and key. Close it with `aclose`."""

    def __init__(
        self,
        settings_of: Callable[[AgentRole], ModelSettings],
        patience: Patience = Patience(),
    ) -> None:
        self._settings_of = settings_of
        self._patience = patience
        self._clients: dict[tuple[str, str], AsyncOpenAI] = {}

    def model_id(self, role: AgentRole) -> str:
        """The provider's id of the model of a role."""
        return self._settings_of(role).id.removeprefix(_PREFIX)

    def for_agent(
        self, role: AgentRole, *, run_id: str, answer_schema: type[BaseModel], watch: Watch
    ) -> WatchedModel:
        """A model for one agent of one run whose answers have to fit a contract."""
        settings = self._settings_of(role)
        client = self._client(settings)
        return WatchedModel(
            id=self.model_id(role),
            api_key=client.api_key,
            async_client=client,
            # What we replay is ours: nothing of a conversation is kept at the provider.
            store=False,
            request_params={
                "prompt_cache_key": run_id[:_CACHE_KEY_LIMIT],
                "text": {"format": _output_format(answer_schema)},
            },
            watch=watch,
        )

    async def aclose(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            await client.close()
        self._clients.clear()

    def _client(self, settings: ModelSettings) -> AsyncOpenAI:
        key = settings.api_key.get_secret_value()
        address = str(settings.base_url or PROVIDER_URL)
        if (address, key) not in self._clients:
            self._clients[address, key] = AsyncOpenAI(
                api_key=key,
                base_url=address,
                max_retries=self._patience.retries,
                timeout=openai.Timeout(
                    self._patience.answer_seconds, connect=self._patience.connect_seconds
                ),
            )
        return self._clients[address, key]


@dataclass
class WatchedModel(OpenAIResponses):
    """Agno's Responses model with a watch at every call."""

    watch: Watch | None = field(default=None, repr=False)

    async def ainvoke(
        self,
        messages: list[Message],
        assistant_message: Message,
        response_format: Any = None,
        tools: list[dict[str, Any]] | None = None,
        tool_choice: str | dict[str, Any] | None = None,
        run_response: Any = None,
        compress_tool_results: bool = False,  # noqa: FBT001, FBT002 - Agno's signature
    ) -> ModelResponse:
        """One call to the provider, if the watch lets it pass."""
        assert self.watch is not None
        try:
            async with self.watch.call(messages) as permit:
                if tools and not permit.may_use_tools:
                    tool_choice = "none"
                request = self.get_request_params(
                    messages, response_format, tools, tool_choice, run_response
                )
                request["model"] = self.id
                request["input"] = self._format_messages(messages, compress_tool_results)
                with model_span(self.id) as took:
                    response = await self._timed_answer(request, assistant_message)
                    usage = _usage(response)
                    took(usage)
                answer = self._parse_provider_response(response)
                await permit.take(answer, usage)
        except Exception as failure:
            self.watch.failed(failure)
            raise
        return answer

    async def _timed_answer(self, request: dict[str, Any], message: Message) -> Response:
        timer: Any = message.metrics
        timer.start_timer()
        try:
            return await load_answer(self.get_async_client(), request)
        finally:
            timer.stop_timer()

    def get_function_calls_to_run(
        self,
        assistant_message: Message,
        messages: list[Message],
        functions: dict[str, Function] | None = None,
    ) -> list[FunctionCall]:
        """The calls that can be made, as the model wrote them; the others are answered at once."""
        calls = []
        for asked in assistant_message.tool_calls or ():
            try:
                calls.append(parse_call(asked, functions or {}))
            except CallRefused as refused:
                messages.append(
                    Message(
                        role=self.tool_message_role,
                        tool_call_id=asked["id"],
                        tool_name=asked["function"]["name"],
                        content=str(refused),
                    )
                )
        return calls


def _output_format(answer_schema: type[BaseModel]) -> dict[str, Any]:
    """The provider's own form: Agno's derivation keeps keywords that strict mode refuses."""
    return {
        "type": "json_schema",
        "name": answer_schema.__name__,
        "schema": strict_schema(answer_schema),
        "strict": True,
    }


def _usage(response: Response) -> Usage:
    usage = response.usage
    if usage is None:
        return Usage(calls=1)
    # Servers behind the same protocol leave the details out, whatever the client's types say.
    given: Any = usage.input_tokens_details
    made: Any = usage.output_tokens_details
    return Usage(
        calls=1,
        input_tokens=usage.input_tokens or 0,
        cached_tokens=(given.cached_tokens or 0) if given else 0,
        output_tokens=usage.output_tokens or 0,
        reasoning_tokens=(made.reasoning_tokens or 0) if made else 0,
    )
