"""`ultracode serve` without a role: web and worker in one process tree, on one database.

In: settings. Out: both roles kept running until SIGTERM. Without DATABASE_URL the tree holds the
embedded PostgreSQL of the data folder for as long as it runs; the roles join it.
"""

from __future__ import annotations

import sys

from bot.observability import configure_logging
from bot.settings import load_settings
from bot.store.opened import open_database
from bot.supervisor import Child, supervise


async def serve_all(*, host: str, port: int) -> int:
    """Keep a web and a worker process running; return the exit code."""
    settings = load_settings()
    configure_logging()
    settings.github_app()
    settings.webhook_secrets()
    serve = (sys.executable, "-m", "bot.cli", "serve", "--role")
    async with open_database(settings):
        return await supervise(
            (
                Child("web", (*serve, "web", "--host", host, "--port", str(port))),
                Child("worker", (*serve, "worker")),
            )
        )
