"""The worker role: makes the collaborators once, then runs jobs until it is told to stop.

In: settings. Out: runs that move on. Everything long happens here and never in the web role.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

import structlog

from bot.advance import advance, clean_up, give_up
from bot.agents.model import Models
from bot.agents.prices import Prices, load_prices
from bot.errors import RetryLater
from bot.github.client import GitHubClient
from bot.github.marks import Marks
from bot.github.port import GitHubUnavailable, RateLimited
from bot.intake.door import give_up_delivery, handle_delivery
from bot.measures import Measures, flush_forever
from bot.observability import configure_logging
from bot.proof import artifacts_of
from bot.queue import Queue, Timing
from bot.recovery import reap_forever, reconcile_forever
from bot.retention import forget_forever
from bot.services import Services
from bot.settings import Settings, load_settings
from bot.store.crashpoints import arm
from bot.store.database import Database
from bot.store.effects import Effects
from bot.store.inbox import Deliveries
from bot.store.opened import open_database
from bot.store.pieces import Pieces
from bot.store.runs import RunStore
from bot.store.signing_keys import SigningKeys
from bot.tokens import InstallationCredentials
from bot.tracing import tracing
from bot.watched_sandbox import WatchedSandbox
from bot.workflow import AGNO_SCHEMA, open_workflow_store
from workspace.sandbox.choice import choose_sandbox
from workspace.service import Workshop
from workspace.signing import Signer

log = structlog.get_logger()

#: How long a job waits for a GitHub that cannot be reached, or fails.
GITHUB_AWAY_SECONDS = 20


class JobHandlers:
    """What jobs do, as the queue asks for it."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def handle_delivery(self, delivery_id: str) -> None:
        """Handle a stored delivery."""
        await patiently(handle_delivery(self._services, delivery_id))

    async def advance_run(self, run_id: str) -> None:
        """Bring a run as far as it goes without a person."""
        await patiently(advance(self._services, run_id))

    async def clean_up_run(self, run_id: str) -> None:
        """Bring a cancelled run to its end."""
        await patiently(clean_up(self._services, run_id))

    async def give_up(self, task: str, argument: str, reason: str) -> None:
        """Say where people see it that a job failed too often."""
        if task == "handle_delivery":
            await give_up_delivery(self._services, argument, reason)
        else:
            await give_up(self._services, argument, reason)


async def patiently(work: Awaitable[None]) -> None:
    """Turn GitHub's wish for patience, or its absence, into a job that comes back later.

    However long GitHub is away, nothing that waits for it is given up.
    """
    try:
        await work
    except RateLimited as limited:
        raise RetryLater(limited.retry_after_seconds, str(limited)) from limited
    except GitHubUnavailable as away:
        raise RetryLater(GITHUB_AWAY_SECONDS, str(away)) from away


async def serve_worker(timing: Timing | None = None, *, agentos: bool = False) -> None:
    """Run jobs until SIGTERM or SIGINT.

    Args:
        timing: Notices lost workers faster, for tests.
        agentos: Whether to record traces for AgentOS.
    """
    settings = load_settings()
    configure_logging()
    arm(settings.ultracode_crashpoint)
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with AsyncExitStack() as kept:
        kept.enter_context(tracing(settings, "worker"))
        services = await kept.enter_async_context(open_services(settings, timing))
        if agentos:
            await kept.enter_async_context(open_traces(settings, services.database))
        log.info("worker started")
        jobs = settings.ultracode_worker_jobs
        async with asyncio.TaskGroup() as group:
            group.create_task(reconcile_forever(services, stopping))
            group.create_task(reap_forever(services, stopping))
            group.create_task(forget_forever(services.settings, services.database, stopping))
            group.create_task(flush_forever(services.measures, services.database, stopping))
            group.create_task(services.queue.serve(JobHandlers(services), jobs=jobs, stop=stopping))
    log.info("worker stopped")


@asynccontextmanager
async def open_services(
    settings: Settings, timing: Timing | None = None
) -> AsyncIterator[Services]:
    """Make the collaborators of one worker process, and close them again."""
    async with AsyncExitStack() as kept:
        url = await kept.enter_async_context(open_database(settings))
        database = await kept.enter_async_context(Database(url))
        queue = await kept.enter_async_context(Queue(url, timing=timing))
        app = settings.github_app()
        measures = Measures()
        kept.push_async_callback(measures.flush, database)
        github = GitHubClient(
            app_id=app.app_id,
            private_key=app.private_key,
            api_url=app.api_url,
            on_budget=measures.note_budget,
        )
        kept.push_async_callback(github.aclose)
        credentials = InstallationCredentials(github)
        models = Models(settings.model)
        kept.push_async_callback(models.aclose)
        signer = settings.signer()
        if signer is None:
            log.warning("evidence is unsigned: ULTRACODE_SIGNING_KEY is not set")
        else:
            await SigningKeys(database).record(signer.public_key)
        workshop = await kept.enter_async_context(
            open_workshop(settings, credentials, signer, measures)
        )
        agno_db = await kept.enter_async_context(open_workflow_store(database))
        yield Services(
            settings=settings,
            database=database,
            deliveries=Deliveries(database),
            runs=RunStore(database),
            pieces=Pieces(database),
            effects=Effects(database),
            queue=queue,
            github=github,
            marks=Marks(settings.webhook_secrets()[-1]),
            workshop=workshop,
            models=models,
            prices=prices_of(settings),
            credentials=credentials,
            agno_db=agno_db,
            measures=measures,
        )


def open_traces(settings: Settings, database: Database) -> AbstractAsyncContextManager[None]:
    """Record traces where AgentOS reads them."""
    from bot.agents.agentos_traces import recorded_traces  # noqa: PLC0415 - seconds only this option costs

    url = settings.agentos_database_url
    return recorded_traces(url.get_secret_value() if url else database.conninfo, AGNO_SCHEMA)


@asynccontextmanager
async def open_workshop(
    settings: Settings,
    credentials: InstallationCredentials,
    signer: Signer | None,
    measures: Measures,
) -> AsyncIterator[Workshop]:
    """Open the workshop over the strongest sandbox there is.

    Raises:
        SandboxUnavailable: None may be used; the sentence says what is missing.
    """
    sandbox = await choose_sandbox(settings.ultracode_sandbox, settings.ultracode_trust)
    workshop = Workshop(
        settings.data_dir,
        credentials=credentials,
        artifacts=artifacts_of(settings),
        sandbox=WatchedSandbox(sandbox, measures),
        signer=signer,
        allow_loopback_http=settings.github_api_url.startswith("http://127.0.0.1:"),
    )
    try:
        yield workshop
    finally:
        await workshop.close()
        await sandbox.close()


def prices_of(settings: Settings) -> Prices:
    """Return the operator's prices; none where no file is named."""
    return load_prices(settings.ultracode_prices)
