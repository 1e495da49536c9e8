from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from agno.tools.function import Function

from bot.agents.toolkit import RESULT_LIMIT, read_tools, workspace_tools
from evals.scripted_model.strict_schema import check_strict_schema
from tests.unit.bot.agents.desk import Desk


@dataclass
class Failures:
    """Takes note of failures, as an agent's watch does."""

    noted: list[Exception] = field(default_factory=list)

    def failed(self, failure: Exception) -> None:
        self.noted.append(failure)


def _tools(desk: Desk, *, read_only: bool = False) -> dict[str, Function]:
    tools = workspace_tools(desk, read_only=read_only, run_id="run12345", failures=Failures())
    return {tool.name: tool for tool in tools}


async def _call(tool: Function, **arguments: Any) -> str:
    assert tool.entrypoint is not None
    return str(await tool.entrypoint(**arguments))


def test_every_tool_has_a_strict_schema_and_words() -> None:
    """The provider accepts each tool in strict mode, and its docstring describes it."""
    for tool in _tools(Desk()).values():
        check_strict_schema(tool.parameters)
        assert tool.strict
        assert tool.description


def test_defaults_are_said_in_words() -> None:
    """In strict mode the model gives every argument; the schema tells it the usual value."""
    schema = _tools(Desk())["read_file"].parameters
    assert schema["required"] == ["path", "start_line", "line_count"]
    assert schema["properties"]["line_count"]["description"] == "default: 400"


def test_a_read_only_worker_has_no_tool_that_writes() -> None:
    """A read-only worker may look and run, and change nothing through its tools."""
    assert set(_tools(Desk(), read_only=True)) == {
        "read_file", "list_files", "search", "run_command", "run_suite",
    }  # fmt: skip


def test_planner_and_reviewers_can_only_read() -> None:
    """Even over an object that could write, read tools offer reading alone."""
    tools = read_tools(Desk(), run_id="run12345", failures=Failures())
    assert [tool.name for tool in tools] == ["read_file", "list_files", "search"]


async def test_results_are_marked_visible_and_bounded() -> None:
    """A result is a data block: hidden characters shown, the middle of a long one left out."""
    desk = Desk(files={"a": "\u202e" + "x" * (2 * RESULT_LIMIT) + "END"})
    result = await _call(_tools(desk)["read_file"], path="a")
    assert 'source="result of read_file"' in result
    assert r"\u202e" in result
    assert "END" in result
    assert len(result) < RESULT_LIMIT + 300


@pytest.mark.parametrize(
    "arguments", [{}, {"path": 3}, {"path": "a", "extra": 1}, {"path": "a", "line_count": "many"}]
)
async def test_arguments_that_do_not_fit_are_answered(arguments: dict[str, Any]) -> None:
    """Wrong arguments come back as a sentence that does not repeat their values."""
    desk = Desk()
    result = await _call(_tools(desk)["read_file"], **arguments)
    assert result.startswith("The arguments of read_file cannot be used: ")
    assert "many" not in result
    assert not desk.log


async def test_calls_of_one_turn_happen_in_order() -> None:
    """Tools that are called together act one after the other, in the order asked."""
    running: list[str] = []

    class Slow(Desk):
        async def write_file(self, path: str, content: str) -> str:
            """Create or overwrite a file."""
            running.append(f"start {path}")
            await asyncio.sleep(0)
            running.append(f"end {path}")
            return "Done."

    write = _tools(Slow())["write_file"]
    await asyncio.gather(*(_call(write, path=name, content="") for name in "abc"))
    assert running == ["start a", "end a", "start b", "end b", "start c", "end c"]


async def test_a_broken_workshop_is_noted_and_not_described() -> None:
    """A failure inside a tool is kept for the caller; the model hears no details."""
    failures = Failures()
    broken = OSError("disk full at /data")
    (read, *_) = read_tools(Desk(breaks=broken), run_id="run12345", failures=failures)
    assert await _call(read, path="a") == "The tool has failed."
    assert failures.noted == [broken]
