"""Makes a workspace's methods into tools of an agent.

Comes in: an object with the plain async methods of `ReadTools` or `WorkspaceTools`, each with a
docstring. Goes out: Agno functions with strict schemas whose results are visible, bounded, marked
as data, and in the order the model asked for. A failure of the workshop itself stops the agent
instead of becoming one more text for the model.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from agno.tools.function import Function, FunctionCall
from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from bot.agents.material import DataBlocks
from bot.agents.schema import strict_schema
from bot.tracing import span
from workspace.contracts import ReadTools, WorkspaceTools

RESULT_LIMIT: Final = 16_000
READ_TOOLS: Final = ("read_file", "list_files", "search")
WRITE_TOOLS: Final = ("edit_file", "write_file", "move_file", "delete_file")
RUN_TOOLS: Final = ("run_command", "run_suite")
CHANGING_TOOLS: Final = frozenset({*WRITE_TOOLS, "run_command"})

Method = Callable[..., Awaitable[str]]


class Failures(Protocol):
    """Takes note of why an agent must stop."""

    def failed(self, failure: Exception) -> None:
        """Stop the agent before its next model call."""
        ...


class CallRefused(Exception):
    """A call that cannot be made; the message is for the model."""


def parse_call(asked: Mapping[str, Any], tools: Mapping[str, Function]) -> FunctionCall:
    """The call a model asked for, with the arguments exactly as it wrote them.

    Raises:
        CallRefused: there is no such tool, or its arguments are no JSON object.
    """
    name = asked["function"]["name"]
    if name not in tools:
        raise CallRefused(f"There is no tool {name}.")
    try:
        arguments = json.loads(asked["function"]["arguments"] or "{}")
    except ValueError as error:
        raise CallRefused(f"The arguments of {name} are no valid JSON: {error}.") from error
    if not isinstance(arguments, dict):
        raise CallRefused(f"The arguments of {name} are no JSON object.")
    return FunctionCall(function=tools[name], arguments=arguments, call_id=asked["id"])


def read_tools(tools: ReadTools, *, run_id: str, failures: Failures) -> tuple[Function, ...]:
    """The read-only tools over one commit."""
    return _functions(tools, READ_TOOLS, run_id=run_id, failures=failures)


def workspace_tools(
    tools: WorkspaceTools, *, read_only: bool, run_id: str, failures: Failures
) -> tuple[Function, ...]:
    """A worker's tools. A read-only worker may still run commands and suites, but not write."""
    wanted = (*READ_TOOLS, *(RUN_TOOLS if read_only else WRITE_TOOLS + RUN_TOOLS))
    return _functions(tools, wanted, run_id=run_id, failures=failures)


def _functions(
    tools: object, names: Sequence[str], *, run_id: str, failures: Failures
) -> tuple[Function, ...]:
    in_order = asyncio.Lock()
    blocks = DataBlocks(run_id)
    return tuple(
        _Tool(name, getattr(tools, name), blocks, failures, in_order).as_function()
        for name in names
    )


@dataclass(frozen=True)
class _Tool:
    name: str
    method: Method
    blocks: DataBlocks
    failures: Failures
    in_order: asyncio.Lock

    def as_function(self) -> Function:
        arguments = _arguments_model(self.name, self.method)

        async def entrypoint(**given: Any) -> str:
            return await self._call(arguments, given)

        return Function(
            name=self.name,
            description=inspect.getdoc(self.method) or "",
            parameters=strict_schema(arguments),
            strict=True,
            entrypoint=entrypoint,
            skip_entrypoint_processing=True,
        )

    async def _call(self, arguments: type[BaseModel], given: dict[str, Any]) -> str:
        """One call. Calls of one turn start together; the lock is first come, first served."""
        try:
            valid = arguments.model_validate(given)
        except ValidationError as error:
            return _complaint(self.name, error)
        async with self.in_order:
            try:
                with span(f"tool {self.name}"):
                    result = await self.method(**dict(valid))
            except Exception as failure:  # noqa: BLE001 - the agent ends with it, see run.ask
                self.failures.failed(failure)
                return "The tool has failed."
        return self.blocks.block(f"result of {self.name}", result, limit=RESULT_LIMIT)


def _arguments_model(name: str, method: Method) -> type[BaseModel]:
    """A strict model of a method's parameters."""
    parameters = inspect.signature(method, eval_str=True).parameters
    fields: dict[str, Any] = {
        parameter.name: (
            parameter.annotation,
            ... if parameter.default is inspect.Parameter.empty else parameter.default,
        )
        for parameter in parameters.values()
    }
    return create_model(name, __config__=ConfigDict(extra="forbid"), **fields)


def _complaint(name: str, error: ValidationError) -> str:
    """What is wrong with a call's arguments, without the values: those may be long or hostile."""
    problems = "; ".join(
        f"{'.'.join(str(part) for part in problem['loc']) or name}: {problem['msg']}"
        for problem in error.errors(include_input=False, include_url=False)
    )
    return f"The arguments of {name} cannot be used: {problems}."
