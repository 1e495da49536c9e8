"""`ultracode serve` without a role: web and worker in one process tree, on one database.

In: settings. Out: both roles kept running until SIGTERM. Without DATABASE_URL the tree holds the
embedded PostgreSQL of the data folder for as long as it runs; the roles join it. Each is started
with the part of the environment that it needs (`role_environment`).
"""

from __future__ import annotations

import sys

from bot.observability import configure_logging
from bot.settings import load_settings, role_environment
from bot.store.opened import open_database
from bot.supervisor import Child, supervise


async def serve_all(*, host: str, port: int, agentos: bool = False) -> int:
    """Keep a web and a worker process running; return the exit code."""
    settings = load_settings()
    configure_logging()
    settings.github_app()
    settings.webhook_secrets()
    if agentos:
        settings.agentos_verification()
    options = ("--agentos",) if agentos else ()
    serve = (sys.executable, "-m", "bot.cli", "serve", "--role")
    async with open_database(settings):
        return await supervise(
            (
                Child(
                    "web",
                    (*serve, "web", "--host", host, "--port", str(port), *options),
                    role_environment("web"),
                ),
                Child("worker", (*serve, "worker", *options), role_environment("worker")),
            )
        )
