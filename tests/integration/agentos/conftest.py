"""A run that waits for its review in Agno's own tables, its trace, and AgentOS before both."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import jwt
import psycopg
import pytest
import uvicorn
from agno.run.workflow import WorkflowRunOutput
from agno.tracing.exporter import DatabaseSpanExporter
from agno.workflow.types import StepOutput
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from fastapi import FastAPI
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from psycopg import sql
from pydantic import SecretStr
from sqlalchemy import create_engine

from bot.agentos import add_agentos
from bot.agents.agentos_traces import WordlessTraces
from bot.app import create_app
from bot.settings import Settings
from bot.store.database import Database, libpq_url, sqlalchemy_url
from bot.workflow import AGNO_SCHEMA, REVIEW_STEP, build_workflow, open_workflow_store
from tests.integration.pages.conftest import public_pem

ADDRESS = "http://bot.test"
RUN = "run00000000000001"
#: Who asked for the run, somebody who did not, and what each may do with an ordinary token.
OWNER, OTHER = "github:7", "github:8"
READING = ["config:read", "workflows:read", "sessions:read", "traces:read"]
ACTING = [
    f"{resource}:{action}"
    for resource in ("workflows", "sessions", "agents", "teams", "schedules", "approvals")
    for action in ("read", "run", "write", "delete")
]
WORDS = "the words of the repository"


@dataclass
class World:
    """The application, whom to be, and how the run's own record looks."""

    app: FastAPI
    key: RSAPrivateKey
    url: str
    trace_id: str
    paused: WorkflowRunOutput
    finalized: list[str] = field(default_factory=list)

    def token(self, **changes: Any) -> str:
        """Return the owner's token for reading, but for the changes."""
        claims = {
            "sub": OWNER,
            "aud": "ultracode",
            "iss": "https://issuer.example",
            "exp": int(time.time()) + 600,
            "scopes": READING,
            **changes,
        }
        return jwt.encode({k: v for k, v in claims.items() if v is not None}, self.key, "RS256")

    def client(self, token: str | None = None) -> httpx.AsyncClient:
        """Return somebody who sends this token with every request."""
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url=ADDRESS, headers=headers)

    def record(self) -> dict[str, list[Any]]:
        """Return all rows of Agno's tables, as they are now."""
        with psycopg.connect(libpq_url(self.url)) as connection:
            tables = connection.execute(
                "select table_name from information_schema.tables where table_schema = %s",
                (AGNO_SCHEMA,),
            ).fetchall()
            return {name: rows_of(connection, name) for (name,) in tables}


def rows_of(connection: psycopg.Connection, table: str) -> list[str]:
    """Return a table's rows as text, in an order of their own."""
    wanted = sql.SQL("select to_jsonb(t) from {} t").format(sql.Identifier(AGNO_SCHEMA, table))
    return sorted(json.dumps(row, sort_keys=True) for (row,) in connection.execute(wanted))


@contextmanager
def unchanged(world: World) -> Iterator[None]:
    """Nothing that happens inside leaves a mark in Agno's tables, or runs a step."""
    before = world.record()
    yield
    assert world.record() == before
    assert world.finalized == []


@asynccontextmanager
async def listening(app: FastAPI) -> AsyncIterator[str]:
    """Let a real server listen for the application, as the web role does; give `host:port`."""
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
    server.config.load()
    server.lifespan = server.config.lifespan_class(server.config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        await server.startup(sockets=[listener])
        try:
            yield "{}:{}".format(*listener.getsockname())
        finally:
            await server.shutdown(sockets=[listener])


async def paused_run(url: str, finalized: list[str]) -> WorkflowRunOutput:
    """Let the workflow run until it waits for a person, in Agno's tables as a worker leaves it."""

    async def plan(*_: object) -> StepOutput:
        return StepOutput(content="1 work item(s)")

    async def execute_round(*_: object) -> StepOutput:
        return StepOutput(content="passed")

    async def review(*_: object) -> StepOutput:
        return StepOutput(content=json.dumps({"passed": True}))

    async def finalize(*_: object) -> StepOutput:
        finalized.append(RUN)
        return StepOutput(content="promoted")

    async with Database(url) as database, open_workflow_store(database) as db:
        workflow = build_workflow(
            db,
            plan=plan,
            execute_round=execute_round,
            review=review,
            finalize=finalize,
            plan_waits=lambda _: False,
        )
        paused = await workflow.arun(
            input=RUN, run_id=RUN, session_id=RUN, user_id=OWNER, session_state={"run": RUN}
        )
    assert paused.paused_step_name == REVIEW_STEP
    return paused


def stored_trace(url: str) -> str:
    """Record a span as a worker does, with words in every place that can hold some."""
    engine = create_engine(sqlalchemy_url(url))
    provider = TracerProvider()
    store = WordlessTraces(db_engine=engine, db_schema=AGNO_SCHEMA)
    provider.add_span_processor(SimpleSpanProcessor(DatabaseSpanExporter(store)))
    identity = {
        "agno.run.id": RUN,
        "agno.workflow.id": "ultracode",
        "session.id": RUN,
        "user.id": OWNER,
    }
    words = {"input.value": WORDS, "output.value": WORDS, "llm.input_messages.0.content": WORDS}
    with provider.get_tracer("test").start_as_current_span("Run", attributes=identity) as span:
        span.set_attributes({**words, "llm.token_count.total": 12})
        span.record_exception(ValueError(WORDS))
        trace_id = f"{span.get_span_context().trace_id:032x}"
    provider.shutdown()
    engine.dispose()
    return trace_id


def settings_for(url: str, key: RSAPrivateKey, folder: Path) -> Settings:
    """Return the settings of a web role that serves AgentOS."""
    return Settings(
        database_url=SecretStr(url),
        github_webhook_secret=SecretStr("secret"),
        jwt_verification_key=SecretStr(public_pem(key)),
        jwt_audience="ultracode",
        jwt_issuer="https://issuer.example",
        ultracode_data_dir=folder,
    )


@pytest.fixture(scope="session")
def signing_key() -> RSAPrivateKey:
    return generate_private_key(65537, 2048)


@pytest.fixture
async def world(
    database_url: str, signing_key: RSAPrivateKey, tmp_path: Path
) -> AsyncIterator[World]:
    finalized: list[str] = []
    paused = await paused_run(database_url, finalized)
    trace_id = await asyncio.to_thread(stored_trace, database_url)
    settings = settings_for(database_url, signing_key, tmp_path)
    async with Database(database_url) as database:
        app = create_app(settings, database)
        add_agentos(app, settings, database_url)
        async with app.router.lifespan_context(app):
            yield World(app, signing_key, database_url, trace_id, paused, finalized)
