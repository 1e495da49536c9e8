"""The worker role: makes the collaborators once, then runs jobs until it is told to stop.

In: settings. Out: runs that move on. Everything long happens here and never in the web role.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import structlog
from agno.db.postgres import AsyncPostgresDb
from workspace.service import Workshop

from bot.advance import advance
from bot.agents.model import Models
from bot.github.client import GitHubClient
from bot.github.marks import Marks
from bot.intake.door import handle_delivery
from bot.observability import configure_logging
from bot.queue import Handlers, Queue
from bot.services import Services
from bot.settings import Settings, load_settings
from bot.store.crashpoints import arm
from bot.store.database import Database, create_engine
from bot.store.effects import Effects
from bot.store.fence import fence_engine
from bot.store.inbox import Deliveries
from bot.store.opened import open_database
from bot.store.pieces import Pieces
from bot.store.runs import RunStore
from bot.tokens import InstallationCredentials
from workspace.artifacts import open_artifacts
from workspace.sandbox.choice import choose_sandbox

log = structlog.get_logger()


async def serve_worker() -> None:
    """Run jobs until SIGTERM or SIGINT."""
    settings = load_settings()
    configure_logging()
    arm(settings.ultracode_crashpoint)
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with open_services(settings) as services:
        log.info("worker started")
        await services.queue.work(stopping)
    log.info("worker stopped")


@asynccontextmanager
async def open_services(settings: Settings) -> AsyncIterator[Services]:
    """Make the collaborators of one worker process, and close them again."""
    async with AsyncExitStack() as kept:
        url = await kept.enter_async_context(open_database(settings))
        database = await kept.enter_async_context(Database(url))
        runs = RunStore(database)
        app = settings.github_app()
        github = GitHubClient(app_id=app.app_id, private_key=app.private_key, api_url=app.api_url)
        kept.push_async_callback(github.aclose)
        credentials = InstallationCredentials(github)
        models = Models(settings.model)
        kept.push_async_callback(models.aclose)
        sandbox = await choose_sandbox(settings.ultracode_sandbox, settings.ultracode_trust)
        kept.push_async_callback(sandbox.close)
        workshop = Workshop(
            data_dir=settings.data_dir,
            credentials=credentials,
            artifacts=open_artifacts(settings.artifacts_url, settings.data_dir),
            sandbox=sandbox,
        )
        queue = Queue(database)
        services = Services(
            settings=settings,
            database=database,
            deliveries=Deliveries(database),
            runs=runs,
            pieces=Pieces(database),
            effects=Effects(database),
            queue=queue,
            github=github,
            marks=Marks(settings.webhook_secrets()[-1]),
            workshop=workshop,
            models=models,
            credentials=credentials,
            agno_db=agno_database(url),
        )
        queue.handle(
            Handlers(
                handle_delivery=lambda delivery_id: handle_delivery(services, delivery_id),
                advance_run=lambda run_id: advance(services, run_id),
            )
        )
        yield services


def agno_database(url: str) -> AsyncPostgresDb:
    """Return Agno's own tables on an engine whose transactions are fenced by the run's epoch."""
    engine = create_engine(url)
    fence_engine(engine)
    return AsyncPostgresDb(db_engine=engine, db_schema="agno")
