"""Forgets what runs left behind, once their retention has ended.

In: ended runs and settled deliveries that are older than policy (`retention:`) and the operator
(`ULTRACODE_RETENTION`, the longest anything is kept) allow. Out: their branch on GitHub, artifacts,
pieces, Agno sessions and traces deleted; webhook bodies too. Why not everything: the row of a run,
its audit trail, its ending and its effects stay, small and with no content of a repository, so that
who asked for what, how it ended and what was done on GitHub can still be told, and so that nothing
is ever done twice. An issue with a live run keeps all of its runs: they may build on each other.
Workers do this every hour, `ultracode gc` at once; safe on every replica and to repeat.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import structlog

from bot.agents.forgetting import forget_session, forget_traces
from bot.clock import now
from bot.errors import BotError
from bot.github.client import GitHubClient
from bot.github.port import GitHubApp, GitHubError, GitHubRefused
from bot.policy import parse_policy
from bot.proof import artifacts_of
from bot.recovery import again_and_again
from bot.settings import Settings
from bot.store.database import Database
from bot.store.effects import Effects
from bot.store.inbox import Deliveries
from bot.store.pieces import Pieces
from bot.store.runs import Run, RunStore
from bot.tidying import BRANCH_GOES, commits_of, remove_branch
from bot.workflow import AGNO_SCHEMA
from workspace.artifacts import FolderArtifacts, ObjectArtifacts

log = structlog.get_logger()

#: No policy keeps a run for less: what ended later is not even looked at.
SHORTEST: Final = timedelta(days=1)
#: GitHub delivers again for three days; what was handled must be known that long, and some more.
DELIVERIES_AT_LEAST: Final = timedelta(days=7)
EVERY_SECONDS: Final = 3600.0
_AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What one look came to."""

    runs: tuple[str, ...]
    deliveries: int

    def __str__(self) -> str:
        """In words."""
        return f"{len(self.runs)} runs and {self.deliveries} deliveries"


@dataclass(frozen=True, kw_only=True)
class Retention:
    """Everything that forgetting touches. `traces` is the database AgentOS reads."""

    settings: Settings
    database: Database
    traces: Database
    github: GitHubApp
    artifacts: FolderArtifacts | ObjectArtifacts

    @property
    def runs(self) -> RunStore:
        """The runs."""
        return RunStore(self.database)

    async def forget(self) -> Forgotten:
        """Forget whatever is old enough; a run that cannot be forgotten now holds up no other."""
        gone = [run.run_id async for run in self.due() if await self._forget_patiently(run)]
        return Forgotten(tuple(gone), await Deliveries(self.database).forget_before(self._oldest))

    async def forgettable(self) -> Forgotten:
        """Return what `forget` would delete; nothing is touched."""
        due = tuple([run.run_id async for run in self.due()])
        return Forgotten(due, await Deliveries(self.database).count_before(self._oldest))

    async def due(self) -> AsyncIterator[Run]:
        """Ended runs whose retention has ended, oldest first."""
        after = ""
        while found := await self.runs.not_forgotten(
            ended_before=now() - SHORTEST, after=after, limit=_AT_ONCE
        ):
            after = found[-1].run_id
            for run in found:
                kept = retention_of(run, longest=self.settings.ultracode_retention)
                if run.ended_at is not None and run.ended_at < now() - kept:
                    yield run

    @property
    def _oldest(self) -> datetime:
        return now() - max(self.settings.ultracode_retention, DELIVERIES_AT_LEAST)

    async def _forget_patiently(self, run: Run) -> bool:
        try:
            await self.forget_run(run)
        except GitHubError as error:
            log.warning("a run is forgotten later", run_id=run.run_id, reason=str(error))
            return False
        log.info("a run is forgotten", run_id=run.run_id)
        return True

    async def forget_run(self, run: Run) -> None:
        """Delete what is kept of an ended run; its pieces last, with the note that it is forgotten.

        Whatever stops this in between, the next look finds the run again and does the rest.

        Raises:
            GitHubError: GitHub is away, and the run's branch may still be there.
        """
        await self._forget_branch(run)
        await self.artifacts.forget_run(run.repository_id, run.run_id)
        await forget_session(self.database, AGNO_SCHEMA, run.run_id)
        await forget_traces(self.traces, AGNO_SCHEMA, run.run_id)
        await self.runs.forget(run.run_id)

    async def _forget_branch(self, run: Run) -> None:
        """Delete the branch that a failed or expired run kept for whoever wanted to take over."""
        if run.state in BRANCH_GOES or run.branch is None:
            return
        commits = await commits_of(Pieces(self.database), run)
        repository = self.github.repository(run.installation_id, run.repository_id)
        try:
            await remove_branch(self.runs, Effects(self.database), repository, run, commits)
        except GitHubRefused as refused:  # the repository or the App's access is gone
            log.info("a kept branch stays", run_id=run.run_id, reason=str(refused))


async def forget_forever(settings: Settings, database: Database, stop: asyncio.Event) -> None:
    """Forget at start and every hour until told to stop."""

    async def forget() -> None:
        async with open_retention(settings, database) as retention:
            await retention.forget()

    await again_and_again(forget, EVERY_SECONDS, stop)


def retention_of(run: Run, *, longest: timedelta) -> timedelta:
    """How long a run is kept after its end: as policy says, at most what the operator allows."""
    policy = run.request.get("policy")
    return min(longest, _of_policy(policy)) if isinstance(policy, str) else longest


@functools.lru_cache(maxsize=64)
def _of_policy(policy: str) -> timedelta:
    try:
        return timedelta(seconds=parse_policy(policy.encode()).retention_seconds)
    except BotError:  # one of a version whose policies were different
        return timedelta.max


@asynccontextmanager
async def open_retention(settings: Settings, database: Database) -> AsyncIterator[Retention]:
    """Make what forgetting needs, without the rest of a worker.

    Raises:
        SettingsError: The GitHub App's settings are missing.
    """
    app = settings.github_app()
    github = GitHubClient(app_id=app.app_id, private_key=app.private_key, api_url=app.api_url)
    try:
        async with opened_traces(settings, database) as traces:
            yield Retention(
                settings=settings,
                database=database,
                traces=traces,
                github=github,
                artifacts=artifacts_of(settings),
            )
    finally:
        await github.aclose()


@asynccontextmanager
async def opened_traces(settings: Settings, database: Database) -> AsyncIterator[Database]:
    """Give the database of AgentOS's traces: often the same."""
    url = settings.agentos_database_url
    if url is None:
        yield database
        return
    async with Database(url.get_secret_value(), pool_size=1) as traces:
        yield traces
