"""Every route, WebSocket and mount of the running application, tried by everybody."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import websockets
from agno.db.postgres import PostgresDb
from agno.os.service_accounts import generate_token
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from fastapi import FastAPI
from sqlalchemy import create_engine
from starlette.routing import Mount

from bot.agentos_door import DECIDED_ON_GITHUB
from bot.store.database import sqlalchemy_url
from bot.workflow import AGNO_SCHEMA
from tests.integration.agentos.conftest import (
    ACTING,
    OTHER,
    OWNER,
    READING,
    RUN,
    World,
    listening,
    unchanged,
)
from tests.integration.agentos.doors import OWN, READ, READ_BY_RUNNERS, REFUSED, SHADOWED, doors

ALL: Final = [*READING, *ACTING]


def service_account(world: World) -> str:
    """Return the token of a service account with every right there is, as AgentOS would mint it."""
    token, token_hash, token_prefix = generate_token()
    engine = create_engine(sqlalchemy_url(world.url))
    PostgresDb(db_engine=engine, db_schema=AGNO_SCHEMA).create_service_account(
        {
            "id": str(uuid.uuid4()),
            "name": "robot",
            "token_hash": token_hash,
            "token_prefix": token_prefix,
            "scopes": ["agent_os:admin"],
            "user_id": OWNER,
            "created_at": int(time.time()),
            "created_by": OWNER,
        }
    )
    engine.dispose()
    return token


#: Who is not known here, whatever she asks for.
STRANGERS: Final[dict[str, Callable[[World], str | None]]] = {
    "no token": lambda _: None,
    "no token at all": lambda _: "x.y.z",
    "expired": lambda world: world.token(exp=int(time.time()) - 60),
    "without expiry": lambda world: world.token(exp=None),
    "wrong audience": lambda world: world.token(aud="another"),
    "wrong issuer": lambda world: world.token(iss="https://another.example"),
    "another's key": lambda world: replace(world, key=generate_private_key(65537, 2048)).token(),
    "service account": service_account,
}

#: Who is known, and may still not do anything but read.
KNOWN: Final[dict[str, Callable[[World], str]]] = {
    "no scopes": lambda world: world.token(scopes=[]),
    "read-only": lambda world: world.token(),
    "owner": lambda world: world.token(scopes=ALL),
    "admin": lambda world: world.token(scopes=["agent_os:admin", *ALL]),
    "another user": lambda world: world.token(sub=OTHER, scopes=ALL),
    "no person": lambda world: world.token(sub="sa:robot", scopes=ALL),
    "the scheduler": lambda world: world.token(sub="__scheduler__", scopes=ALL),
}


def expected(caller: str, door: str) -> int:
    """Return the status with which a door must answer somebody."""
    if door in OWN:
        return OWN[door]
    if door in SHADOWED:
        return OWN[SHADOWED[door]]
    if caller in STRANGERS:
        return 401
    runner = door in READ_BY_RUNNERS and caller == "read-only"
    if door not in READ or runner or caller in {"no scopes", "no person", "the scheduler"}:
        return 403
    mine, others = READ[door]
    return others if caller == "another user" else mine


def address(world: World, path: str) -> str:
    """Return a path with what is really there in place of its parameters."""
    there = {"workflow_id": "ultracode", "trace_id": world.trace_id}
    filled = re.sub(r"\{(\w+)(:\w+)?\}", lambda found: there.get(found[1], RUN), path)
    return f"{filled}?session_id={RUN}&type=workflow"


def test_the_table_names_every_door(world: World) -> None:
    """A door that a later release opens, or that we add, fails here until somebody decided."""
    found = set(doors(world.app.router.routes))
    assert found == set(OWN) | set(SHADOWED) | set(READ) | REFUSED


def test_doors_are_found_wherever_they_are() -> None:
    """A route in a mounted application, and a mount of something else, are doors as well."""
    inner, outer = FastAPI(openapi_url=None), FastAPI(openapi_url=None)
    inner.add_api_route("/deep", lambda: None, methods=["PUT"])
    outer.mount("/inner", inner)
    outer.router.routes.append(Mount("/other", app=lambda *_: None))  # type: ignore[arg-type]
    assert set(doors(outer.router.routes)) == {"PUT /inner/deep", "MOUNT /other"}


async def test_every_door_for_everybody(world: World) -> None:
    """Each answers each caller as the table says, and nothing that was tried left a mark."""
    tokens = {name: make(world) for name, make in (STRANGERS | KNOWN).items()}
    tried = sorted(door for door in doors(world.app.router.routes) if "WEBSOCKET" not in door)
    wrong, unexplained = [], []
    with unchanged(world):
        for caller, token in tokens.items():
            async with world.client(token) as client:
                for door in tried:
                    method, path = door.replace("ANY ", "GET ").split(" ")
                    body = {} if method in {"POST", "PUT", "PATCH"} else None
                    answer = await client.request(method, address(world, path), json=body)
                    if answer.status_code != expected(caller, door):
                        wrong.append((caller, door, answer.status_code, answer.text[:200]))
                    if door in REFUSED and caller in KNOWN:
                        unexplained += [door] if DECIDED_ON_GITHUB not in answer.text else []
    assert wrong == []
    assert unexplained == []


async def test_no_websocket_opens(world: World) -> None:
    """Before a WebSocket is accepted it is refused, with the sentence, whoever knocks."""
    with unchanged(world):
        async with listening(world.app) as host:
            for token in (None, *(make(world) for make in KNOWN.values())):
                for path in ("/workflows/ws", "/anything"):
                    assert await knock(f"ws://{host}{path}", token) == (403, DECIDED_ON_GITHUB)


async def knock(url: str, token: str | None) -> tuple[int, str]:
    """Try to open a WebSocket; return how that was refused."""
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    try:
        async with websockets.connect(url, additional_headers=headers):
            return 101, "it opened"
    except websockets.InvalidStatus as refused:
        said = (refused.response.body or b"").decode()
        return (
            refused.response.status_code,
            DECIDED_ON_GITHUB if DECIDED_ON_GITHUB in said else said,
        )


async def test_what_nobody_knows_is_denied(world: World) -> None:
    """No address and no method is open because nobody thought of it."""
    unknown = [
        ("GET", "/nothing"),
        ("POST", "/mcp"),
        ("GET", "/mcp/"),
        ("GET", "/docs"),
        ("GET", "/redoc"),
        ("POST", "/a2a/workflows/ultracode/v1/message:send"),
        ("GET", "/sessions/"),
        ("GET", f"/sessions/{RUN}%2Fruns%2Fx%2Fy"),
        ("HEAD", "/sessions"),
        ("OPTIONS", "/sessions"),
        ("PUT", "/sessions"),
        ("GET", "/SESSIONS"),
    ]
    async with world.client(world.token(scopes=["agent_os:admin", *ALL])) as admin:
        for method, path in unknown:
            answer = await admin.request(method, path)
            assert answer.status_code == 403, (method, path, answer.text)
