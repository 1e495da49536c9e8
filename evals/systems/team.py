"""An Agno Team in task mode: a leader hands out tasks to four members, then merges.

The members work in one workspace, as agents on one checkout do; the merge tool is the leader's.
"""

from __future__ import annotations

from agno.agent import Agent
from agno.models.message import Message
from agno.team import Team, TeamMode

from bot.contracts import MAX_WORKERS
from evals.systems.effort import Effort
from evals.systems.ground import Desk, Ground, Site
from evals.systems.plain import TASK, Output, at_desk, request_of


class TaskTeam:
    """See `evals.systems.System`."""

    name = "team"

    def __init__(self, ground: Ground) -> None:
        self._ground = ground

    async def work(self, site: Site) -> Effort:
        """Let a team plan, write, test and merge."""

        async def start(desk: Desk) -> Output:
            team = Team(
                name="team",
                members=[self._member(desk, site, number) for number in range(MAX_WORKERS)],
                mode=TeamMode.tasks,
                model=self._ground.model(desk.meter),
                additional_input=[Message(role="system", content=f"Role: leader\n\n{TASK}")],
                tools=[desk.merge],
                telemetry=False,
            )
            return await team.arun(request_of(site))

        return await at_desk(self._ground, site, start)

    def _member(self, desk: Desk, site: Site, number: int) -> Agent | Team:
        name = f"coder-{number}"
        head = f"Role: member\nTask: {name}\n\nDo the task you are given in the workspace."
        return Agent(
            id=name,
            name=name,
            role="Reads, writes and tests code in the workspace.",
            model=self._ground.model(desk.meter),
            additional_input=[
                Message(role="user", content=f"The whole request:\n\n{request_of(site)}"),
                Message(role="system", content=head),
            ],
            tools=list(desk.functions()),
            telemetry=False,
        )
