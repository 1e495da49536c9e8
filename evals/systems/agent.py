"""One Agno agent with a worker's tools and a merge tool: the plainest way to the same end."""

from __future__ import annotations

from agno.agent import Agent
from agno.models.message import Message

from evals.systems.effort import Effort
from evals.systems.ground import Desk, Ground, Site
from evals.systems.plain import TASK, Output, at_desk, request_of


class OneAgent:
    """See `evals.systems.System`."""

    name = "agent"

    def __init__(self, ground: Ground) -> None:
        self._ground = ground

    async def work(self, site: Site) -> Effort:
        """Let one agent read, write, test and merge."""

        async def start(desk: Desk) -> Output:
            agent = Agent(
                name="agent",
                model=self._ground.model(desk.meter),
                additional_input=[Message(role="system", content=f"Role: agent\n\n{TASK}")],
                tools=[*desk.functions(), desk.merge],
                telemetry=False,
            )
            return await agent.arun(request_of(site))

        return await at_desk(self._ground, site, start)
