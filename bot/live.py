"""A claimed run and all it needs to move on: what every step of the workflow is given.

In: the run's row and epoch, what was pinned at intake, and the collaborators. Steps read it; what
they find out goes into `pieces`, fenced by the epoch, so that a restart replays from there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from bot.agents.run import AgentDeps
from bot.clock import now
from bot.contracts import CodingRequest
from bot.errors import BotError
from bot.github.port import GitHubRepository
from bot.github.publisher import Publisher
from bot.go import Go, go_key
from bot.policy import Policy
from bot.run_pieces import RunPieces
from bot.store.runs import Run, RunStore
from bot.store.tables import BUSY_STATES, RunState
from workspace.contracts import CommitSha, RunPin, Suite, WorkspaceService

REFRESH_ROUNDS = 2


class RunFailed(BotError):
    """The run cannot go on; the sentence tells people why, and the run ends `failed` with it."""


T = TypeVar("T")


async def side_by_side(*work: Awaitable[T]) -> list[T]:
    """Await all at once; when one fails the others are cancelled and that failure is raised."""
    tasks: list[asyncio.Task[T]] = []
    try:
        async with asyncio.TaskGroup() as group:
            tasks.extend(group.create_task(_awaited(one)) for one in work)
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


async def _awaited(one: Awaitable[T]) -> T:
    return await one


@dataclass(frozen=True)
class LiveRun:
    """One run in the hands of one worker, valid for one epoch."""

    run: Run
    epoch: int
    request: CodingRequest
    policy: Policy
    pin: RunPin
    required: tuple[Suite, ...]
    optional: tuple[Suite, ...]
    runs: RunStore
    pieces: RunPieces
    workshop: WorkspaceService
    github: GitHubRepository
    publisher: Publisher
    agents: AgentDeps
    parent: RunPieces | None = None

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.run.run_id

    @property
    def user_id(self) -> str:
        """Who the run belongs to, as Agno and AgentOS know people."""
        return f"github:{self.request.requester.id}"

    @property
    def base_branch(self) -> str:
        """The branch that is to receive the candidate, without refs/heads/."""
        return self.pin.base_ref.removeprefix("refs/heads/")

    @property
    def recomposes(self) -> bool:
        """Whether round 0 takes an earlier candidate, on a new base or the same, and only tests it.

        On the same base Git's three-way merge gives the same files: a new commit of this run, so
        that no review of the earlier one, nor its evidence, can be taken for this one's.
        """
        return self.run.request.get("kind") in {"refresh", "retest"}

    @property
    def max_rounds(self) -> int:
        """How many rounds policy allows, one to three.

        On a moved base one repair is enough, and who asks for suites again asked for no repair.
        """
        rounds = self.policy.limits.rounds
        if self.run.request.get("kind") == "retest":
            return 1
        return min(rounds, REFRESH_ROUNDS) if self.recomposes else rounds

    @property
    def start_sha(self) -> CommitSha:
        """What round 0 starts from: the base, or for a revision the candidate it revises."""
        return self.request.parent_candidate_sha or self.request.base_sha

    @property
    def holds_pushes(self) -> bool:
        """Whether nothing may be pushed before somebody said go."""
        return self.policy.publish.rounds == "on_go" or self.request.outsiders_words

    async def may_go_on(self, reason: str) -> bool:
        """Whether somebody said go to this wait."""
        return await self.pieces.load(go_key(reason), Go) is not None

    def review_deadline(self) -> datetime:
        """Return until when a review is awaited."""
        return now() + timedelta(seconds=self.policy.review.expires_seconds)

    async def enter(self, state: RunState, **columns: Any) -> None:
        """Move to a busy state and show it. Raises StaleEpoch when the run is somebody else's."""
        moved = await self.runs.transition(
            self.run_id, from_states=BUSY_STATES, to_state=state, epoch=self.epoch, **columns
        )
        if moved:
            await self.publisher.refresh_status()
