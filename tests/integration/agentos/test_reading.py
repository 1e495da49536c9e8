"""What people see of their runs over AgentOS."""

from __future__ import annotations

from typing import Any

from tests.integration.agentos.conftest import OTHER, OWNER, RUN, WORDS, World


async def shown(world: World, path: str, **claims: Any) -> Any:
    """Return what somebody is shown."""
    async with world.client(world.token(**claims)) as person:
        answer = await person.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_an_owner_lists_and_reads_a_waiting_run(world: World) -> None:
    """The run's owner finds it, sees that it waits at the review, and whose it is."""
    listed = await shown(world, "/sessions?type=workflow")
    assert [each["session_id"] for each in listed["data"]] == [RUN]
    run = await shown(world, f"/sessions/{RUN}/runs/{RUN}")
    assert (run["run_id"], run["status"], run["user_id"]) == (RUN, "PAUSED", OWNER)


async def test_an_owner_follows_the_trace_of_a_run(world: World) -> None:
    """The trace says what ran and at how many tokens, and quotes nothing."""
    listed = await shown(world, f"/traces?run_id={RUN}")
    assert [each["trace_id"] for each in listed["data"]] == [world.trace_id]
    trace = await shown(world, f"/traces/{world.trace_id}")
    assert trace["run_id"] == RUN
    assert WORDS not in str(world.record()) + str(trace)
    assert '"llm.token_count.total": 12' in str(world.record())


async def test_nobody_else_sees_it(world: World) -> None:
    """Somebody else's lists are empty, also when they ask for the owner's by name."""
    for path in ("/sessions?type=workflow", "/traces", "/trace_session_stats"):
        for asked in (path, f"{path}{'&' if '?' in path else '?'}user_id={OWNER}"):
            assert (await shown(world, asked, sub=OTHER))["data"] == []
    async with world.client(world.token(sub=OTHER)) as other:
        found = await other.post("/traces/search", json={})
        assert (found.status_code, found.json()["data"]) == (200, [])


async def test_an_admin_sees_everybodys(world: World) -> None:
    """The admin scope is for who runs the server: it reads all runs, and opens nothing else."""
    listed = await shown(world, "/sessions?type=workflow", sub=OTHER, scopes=["agent_os:admin"])
    assert [each["session_id"] for each in listed["data"]] == [RUN]


async def test_the_workflow_is_shown_as_it_is(world: World) -> None:
    """The twin has the real one's id, name and steps."""
    workflow = await shown(world, "/workflows/ultracode")
    assert (workflow["id"], workflow["name"]) == ("ultracode", "Ultracode")
    assert [step["name"] for step in workflow["steps"]] == [
        "Plan",
        "Implementation and Review",
        "Review Candidate Envelope",
        "Finalize",
    ]
