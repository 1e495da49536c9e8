"""AgentOS on the web role's application: `ultracode serve --agentos`.

In: the application, settings, the database's URL. Out: the same application, with the runs and
traces of the workers to be read over AgentOS's API, behind `ReadOnlyDoor`.

Why an inert twin: AgentOS wants a workflow to show. The one registered here has the names and steps
of the real one, and executors that refuse; the web role has no model's key, no sandbox and no
workspace, and its connections open read-only transactions only. So even a request that came past
the door could neither run a step nor change a row.
"""

from __future__ import annotations

from typing import Final, NoReturn

from agno.db.postgres import AsyncPostgresDb
from agno.os import AgentOS
from agno.os.authz import Authorization
from agno.workflow import Workflow
from fastapi import FastAPI

from bot.agentos_door import ADMIN_SCOPE, ReadOnlyDoor
from bot.errors import BotError
from bot.settings import Settings
from bot.store.database import create_engine
from bot.workflow import AGNO_SCHEMA, build_workflow

OS_ID: Final = "ultracode"
#: How AgentOS names its databases to clients (`db_id`), where there are two.
RUNS_DB: Final = "runs"
TRACES_DB: Final = "traces"
_POOL_SIZE: Final = 3


class TwinAsked(BotError):
    """The workflow that the web role shows was asked to run."""


def add_agentos(app: FastAPI, settings: Settings, database_url: str) -> None:
    """Add AgentOS to an application that has all of its own routes, and put the door before it.

    Raises:
        SettingsError: No token could be verified.
    """
    verification = settings.agentos_verification()
    own, own_app = tuple(app.router.routes), app.build_middleware_stack()
    runs = open_read_only(database_url, RUNS_DB)
    elsewhere = settings.agentos_database_url
    traces = open_read_only(elsewhere.get_secret_value(), TRACES_DB) if elsewhere else runs
    AgentOS(
        id=OS_ID,
        name="Ultracode",
        description="Runs of the Ultracode bot, to be read. They are decided on GitHub.",
        db=traces,
        workflows=[inert_twin(runs)],
        base_app=app,
        on_route_conflict="preserve_base_app",
        authorization=Authorization(
            verification_keys=[verification.key.get_secret_value()],
            algorithm="RS256",
            audience=verification.audience,
            verify_audience=True,
            issuer=verification.issuer,
            admin_scope=ADMIN_SCOPE,
        ),
        user_isolation=True,
        auto_provision_dbs=False,  # workers make the tables
        tracing=False,  # nothing runs here: workers record (bot.agents.agentos_traces)
        scheduler=False,
        mcp=False,
        telemetry=False,
    ).get_app()
    app.add_middleware(ReadOnlyDoor, own=own, own_app=own_app, verification=verification)


def inert_twin(db: AsyncPostgresDb) -> Workflow:
    """Return the workflow with the real one's names, none of whose steps can run."""
    return build_workflow(db, plan=refuse, execute_round=refuse, review=refuse, finalize=refuse)


async def refuse(*_: object, **__: object) -> NoReturn:
    """Stand where a step of the real workflow would work."""
    raise TwinAsked("Runs are shown here, and work in the worker role only.")


def open_read_only(url: str, name: str) -> AsyncPostgresDb:
    """Return Agno's tables on connections whose transactions can only read."""
    engine = create_engine(url, pool_size=_POOL_SIZE, read_only=True)
    return AsyncPostgresDb(id=name, db_engine=engine, db_schema=AGNO_SCHEMA)
