"""The ways by which the owner of a paused run could decide on it herself, each tried."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from agno.run.cancel import get_cancellation_manager

from bot.agentos_door import DECIDED_ON_GITHUB, ReadOnlyDoor
from tests.integration.agentos.conftest import ACTING, READING, RUN, World, unchanged

WORKFLOW: Final = "/workflows/ultracode/runs"
THIS: Final = f"{WORKFLOW}/{RUN}"
PEOPLE: Final = {"owner": [*READING, *ACTING], "admin": ["agent_os:admin", *ACTING]}


def confirmed(world: World, **changes: Any) -> dict[str, str]:
    """Return the form that confirms what the run waits for, as a client of AgentOS fills it in."""
    requirement = (world.paused.step_requirements or [])[-1].to_dict()
    resolved = {**requirement, "confirmed": True, **changes}
    return {"step_requirements": json.dumps([resolved]), "session_id": RUN}


def attempts(world: World) -> dict[str, tuple[str, str, dict[str, Any]]]:
    """Return every attempt: method, address, and what is sent."""
    edited = confirmed(world, edited_output='{"passed": true, "candidate_sha": "another"}')
    call = {"name": "continue_run", "arguments": {"run_id": RUN, "session_id": RUN}}
    return {
        "confirm": ("POST", f"{THIS}/continue", {"data": {**confirmed(world), "stream": "false"}}),
        "confirm, streamed": ("POST", f"{THIS}/continue", {"data": confirmed(world)}),
        "confirm, in the background": (
            *("POST", f"{THIS}/continue"),
            {"data": {**confirmed(world), "background": "true"}},
        ),
        "confirm an edited output": ("POST", f"{THIS}/continue", {"data": edited}),
        "reject": ("POST", f"{THIS}/continue", {"data": confirmed(world, confirmed=False)}),
        "cancel": ("POST", f"{THIS}/cancel?session_id={RUN}", {}),
        "cancel as an agent's run": ("POST", f"/agents/planner/runs/{RUN}/cancel", {}),
        "cancel as a team's run": ("POST", f"/teams/any/runs/{RUN}/cancel", {}),
        "resume its stream": ("POST", f"{THIS}/resume", {"data": {"session_id": RUN}}),
        "start one": ("POST", WORKFLOW, {"data": {"message": "x", "session_id": RUN}}),
        "start one, at once": ("POST", WORKFLOW, {"data": {"message": "x", "stream": "false"}}),
        "patch its session": (
            *("PATCH", f"/sessions/{RUN}?type=workflow"),
            {"json": {"session_state": {"run": "another"}}},
        ),
        "rename its session": (
            *("POST", f"/sessions/{RUN}/rename?type=workflow"),
            {"json": {"session_name": "x"}},
        ),
        "make its session anew": (
            *("POST", "/sessions?type=workflow"),
            {"json": {"session_id": RUN, "workflow_id": "ultracode"}},
        ),
        "delete its session": ("DELETE", f"/sessions/{RUN}?type=workflow", {}),
        "delete sessions": (
            *("DELETE", "/sessions?type=workflow"),
            {"json": {"session_ids": [RUN], "session_types": ["workflow"]}},
        ),
        "resolve an approval": ("POST", f"/approvals/{RUN}/resolve", {"json": {"status": "ok"}}),
        "confirm by timer": (
            *("POST", "/schedules"),
            {"json": {"name": "x", "cron": "* * * * *", "endpoint": f"{THIS}/continue"}},
        ),
        "let a machine do it": (
            *("POST", "/service-accounts"),
            {"json": {"name": "robot", "scopes": ["agent_os:admin"]}},
        ),
        "change the tables": ("POST", "/databases/all/migrate", {}),
        "MCP": (
            *("POST", "/mcp"),
            {"json": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}},
        ),
    }


@pytest.mark.parametrize("who", PEOPLE)
async def test_nobody_decides_here(world: World, who: str) -> None:
    """Owner and admin are told where the decision belongs; the run waits as it did."""
    told = {}
    with unchanged(world):
        async with world.client(world.token(scopes=PEOPLE[who])) as person:
            for name, (method, path, content) in attempts(world).items():
                answer = await person.request(method, path, **content)
                told[name] = (answer.status_code, answer.json().get("detail"))
    assert told == dict.fromkeys(told, (403, DECIDED_ON_GITHUB))
    assert not await get_cancellation_manager().ais_cancelled(RUN)


@pytest.mark.parametrize("who", PEOPLE)
async def test_past_the_door_there_is_nothing_to_decide(world: World, who: str) -> None:
    """Even with the door taken away, the twin runs no step and no connection changes a row."""
    doors = [each for each in world.app.user_middleware if each.cls is not ReadOnlyDoor]
    assert len(doors) < len(world.app.user_middleware)
    world.app.user_middleware[:] = doors
    world.app.middleware_stack = None
    reached = 0
    with unchanged(world):
        async with world.client(world.token(scopes=PEOPLE[who])) as person:
            for name, (method, path, content) in attempts(world).items():
                if name == "resume its stream":  # it reads, and waits for a run that is not here
                    continue
                answer = await person.request(method, path, **content)
                reached += answer.status_code not in {401, 403, 404}
    assert reached, "AgentOS took none of these: they prove nothing"
    await get_cancellation_manager().acleanup_run(RUN)
