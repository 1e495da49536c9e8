"""The doctor's look at this machine: settings, data folder, database, model, sandbox.

In: settings. Out: findings. Nothing is changed: an embedded database is started when it is not up,
and stopped again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any, Final, get_args

import openai
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from bot.agents.prices import load_prices
from bot.doctor.findings import Finding, fail, ok, warn
from bot.errors import BotError
from bot.settings import AgentRole, ModelSettings, Settings
from bot.store.database import Database
from bot.store.opened import reach_database
from bot.store.schema import newest_revision
from workspace.sandbox.backend import SandboxUnavailable
from workspace.sandbox.choice import choose_sandbox

LITTLE_DISK_BYTES: Final = 5 * 1024**3
_MODEL_SECONDS: Final = 20.0
_OPENAI_PREFIX: Final = "openai:"


def check_settings(settings: Settings) -> Iterator[Finding]:
    """Say which settings are missing or wrong, each by name."""
    asked: dict[str, Callable[[], Any]] = {
        "GitHub App": settings.github_app,
        "webhook secret": settings.webhook_secrets,
        "model": lambda: [settings.model(role) for role in get_args(AgentRole)],
        "prices": lambda: load_prices(settings.ultracode_prices),
    }
    problems = [found for name, ask in asked.items() if (found := _asked(name, ask))]
    yield from problems
    if settings.public_url is None:
        yield warn(
            "settings",
            "PUBLIC_URL is not set: check runs link to no page.",
            "Set it to the address under which people reach this server.",
        )
    if settings.ultracode_trust == "trusted":
        yield warn(
            "settings",
            "ULTRACODE_TRUST=trusted admits running a repository's code without a sandbox.",
            "Leave it out unless you trust every repository and everybody who writes to it.",
        )
    if not problems:
        yield ok("settings", "Nothing is missing.")


def _asked(name: str, ask: Callable[[], Any]) -> Finding | None:
    try:
        ask()
    except (BotError, OSError, ValueError) as error:
        return fail("settings", f"{name}: {error}", "See README.md, “For operators”.")
    return None


def check_data_folder(settings: Settings) -> Iterator[Finding]:
    """Look whether the data folder can be written and has room."""
    folder = settings.data_dir
    existing = next(place for place in (folder, *folder.parents) if place.exists())
    if not os.access(existing, os.W_OK | os.X_OK):
        yield fail(
            "data folder",
            f"{existing} cannot be written by user {os.geteuid()}.",
            "Set ULTRACODE_DATA_DIR to a folder this process owns.",
        )
        return
    free = shutil.disk_usage(existing).free
    room = f"{folder} has {free / 1024**3:.1f} GiB free."
    if free < LITTLE_DISK_BYTES:
        yield warn("data folder", room, "Mirrors and workspaces need room: give it 5 GiB or more.")
    else:
        yield ok("data folder", room)


async def check_database(settings: Settings) -> list[Finding]:
    """Connect, and compare the schema with what this version needs."""
    where = "DATABASE_URL" if settings.database_url else "the embedded server"
    try:
        async with reach_database(settings) as url, Database(url, pool_size=1) as database:
            return [await _schema(database, where)]
    except (SQLAlchemyError, BotError, OSError) as error:
        cause = getattr(error, "orig", None) or error
        said = " ".join(str(cause).split())[:300]
        remedy = "Check that it runs and that the address, user and password are right."
        return [fail("database", f"{where} does not answer: {said}", remedy)]


async def _schema(database: Database, where: str) -> Finding:
    async with database.begin() as tx:
        version = (await tx.execute(text("show server_version"))).scalar_one()
        made = (await tx.execute(text("select to_regclass('alembic_version')"))).scalar_one()
        revision = (
            (await tx.execute(text("select version_num from alembic_version"))).scalar()
            if made
            else None
        )
    newest = newest_revision()
    if revision == newest:
        return ok("database", f"PostgreSQL {version} by {where}; its tables are up to date.")
    return warn(
        "database",
        f"PostgreSQL {version} by {where}; its tables are at {revision or 'nothing'}, "
        f"this version needs {newest}.",
        "`ultracode serve` brings them up to date at start; so does `ultracode db upgrade`.",
    )


async def check_models(settings: Settings) -> list[Finding]:
    """Ask the provider for every model that a role would use; that costs no tokens."""
    roles: dict[tuple[str, str | None], list[str]] = {}
    asked: dict[tuple[str, str | None], ModelSettings] = {}
    for role in get_args(AgentRole):
        try:
            model = settings.model(role)
        except BotError:
            return []  # said by `check_settings`
        key = (model.id.removeprefix(_OPENAI_PREFIX), model.base_url)
        roles.setdefault(key, []).append(role)
        asked[key] = model
    return [await _model(asked[key], key[0], ", ".join(roles[key])) for key in roles]


async def _model(model: ModelSettings, model_id: str, roles: str) -> Finding:
    client = openai.AsyncOpenAI(
        api_key=model.api_key.get_secret_value(),
        base_url=model.base_url,
        timeout=_MODEL_SECONDS,
        max_retries=1,
    )
    try:
        await client.models.retrieve(model_id)
    except (openai.AuthenticationError, openai.PermissionDeniedError):
        return fail("model", f"The provider refuses the key for {model_id}.", "Set OPENAI_API_KEY.")
    except openai.NotFoundError as error:
        return _no_such_model(error, model_id, roles)
    except openai.APIError as error:
        said = f"{model_id} ({roles}) could not be asked for: {type(error).__name__}."
        return fail("model", said, "Check OPENAI_BASE_URL, and that this machine may connect.")
    finally:
        await client.close()
    return ok("model", f"{model_id} ({roles}) is there.")


def _no_such_model(error: openai.NotFoundError, model_id: str, roles: str) -> Finding:
    if error.code == "model_not_found":
        remedy = "Set AGENT_MODEL_ID to a model this key may use."
        return fail("model", f"The provider has no {model_id} ({roles}).", remedy)
    return warn(
        "model",
        f"This server lists no models, so {model_id} ({roles}) was not looked for.",
        "Make sure that it speaks the Responses API.",
    )


async def check_sandbox(settings: Settings) -> list[Finding]:
    """Run the self-test of the sandbox that a worker here would use."""
    try:
        sandbox = await choose_sandbox(settings.ultracode_sandbox, settings.ultracode_trust)
    except SandboxUnavailable as error:
        said = " ".join(str(error).split())
        remedy = "A worker here refuses to start. `python -m workspace.sandbox selftest` says more."
        return [fail("sandbox", said, remedy)]
    try:
        if not sandbox.guarantees or not all(sandbox.guarantees.values()):
            remedy = "Install bubblewrap 0.12 or newer, or run suites in containers."
            return [warn("sandbox", f"{sandbox.name} isolates nothing.", remedy)]
        return [ok("sandbox", f"{sandbox.name} passed all {len(sandbox.guarantees)} tests.")]
    finally:
        await sandbox.close()
