"""Plain agents at a desk: how one is started, disturbed, and what is read from its end.

In: a desk and something that runs. Out: an `Effort`. The disturbances are those the workflow meets:
the process that runs the agent ends and is started again, or somebody stops it. A plain agent keeps
nothing, so a restart begins anew, on a fresh workspace and the base as it then is.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from agno.run.agent import RunOutput
from agno.run.team import TeamRunOutput

from bot.agents.usage import Usage
from evals.behaviour import missing_tools
from evals.systems.effort import Effort
from evals.systems.ground import Desk, Ground, Site

Output = RunOutput | TeamRunOutput
CASE_SECONDS = 240.0
SHOWN = 300

TASK = """\
You are asked to change the repository in your workspace. When the request is done, call `merge`
once: it commits what is in the workspace and fast-forwards the base branch to that commit.
"""


def request_of(site: Site) -> str:
    """Return the request as the issue and the comment say it."""
    case = site.case
    return f"{case.title}\n\n{case.body}\n\n{case.tagged_request}"


async def at_desk(ground: Ground, site: Site, start: Callable[[Desk], Awaitable[Output]]) -> Effort:
    """Let a plain system work; disturb it where the case says so."""
    desk = await ground.desk(site)
    spent, rounds = Usage(), 1
    try:
        if site.case.event in {"restart", "cancel"}:
            await _stopped_midway(desk, start)
            if site.case.event == "cancel":
                return Effort(says="", ended="cancelled", usage=desk.meter.usage)
            spent, rounds = desk.meter.usage, 2
            await desk.leave()
            desk = await ground.desk(site)
        try:
            output = await asyncio.wait_for(start(desk), CASE_SECONDS)
        except TimeoutError:
            return Effort(says="", ended="timeout", usage=spent + desk.meter.usage)
    finally:
        await desk.leave()
    return Effort(
        says=str(output.content or "")[:SHOWN],
        ended="merged" if desk.merged_sha else "not merged",
        usage=spent + desk.meter.usage,
        rounds=rounds,
        tools=tuple(tool_names(output)),
        missing_tools=missing_tools(output, expected_tools(site)),
    )


async def _stopped_midway(desk: Desk, start: Callable[[Desk], Awaitable[Output]]) -> None:
    """Start, wait until the model was asked a few times, and stop."""
    working = asyncio.ensure_future(start(desk))
    begun = asyncio.ensure_future(desk.meter.under_way.wait())
    await asyncio.wait({working, begun}, return_when=asyncio.FIRST_COMPLETED)
    for task in (begun, working):
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def expected_tools(site: Site) -> tuple[str, ...]:
    """Return the tools without which no careful system can have done the request."""
    if site.case.right.base == "untouched":
        return ()
    return ("run_suite", "merge")


def tool_names(output: Output) -> list[str]:
    """Return the names of the tools that were called, members' included."""
    names = [str(tool.tool_name) for tool in output.tools or ()]
    members: list[Any] = getattr(output, "member_responses", None) or []
    for member in members:
        names += tool_names(member)
    return names
