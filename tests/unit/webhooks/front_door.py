"""A front door on loopback, an inbox in memory, and a sender that signs as GitHub does."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import orjson
import uvicorn
from fastapi import FastAPI
from pydantic import SecretStr

from webhooks.events import Event
from webhooks.inbox import Accepted, Delivery, Duplicate
from webhooks.server import webhook_router
from webhooks.signature import sign

SECRET, PREVIOUS = SecretStr("current"), SecretStr("previous")


class MemoryInbox:
    """Keeps what it is given, and knows a delivery again by its GUID or its body."""

    def __init__(self) -> None:
        self.rows: list[tuple[Delivery, Event | None]] = []

    async def accept(self, delivery: Delivery, event: Event | None) -> Accepted | Duplicate:
        for known, _ in self.rows:
            if delivery.delivery_id == known.delivery_id or delivery.body == known.body:
                return Duplicate()
        self.rows.append((delivery, event))
        return Accepted()


@asynccontextmanager
async def front_door(**options: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a web application that listens on loopback and has nothing but the route."""
    app = FastAPI()
    app.include_router(webhook_router(**{"secrets": [SECRET, PREVIOUS], **options}))
    config = uvicorn.Config(app, port=0, log_level="critical", lifespan="off", ws="none")
    server, listener = uvicorn.Server(config), config.bind_socket()
    listener.listen()  # who comes before the server is up waits for it
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with httpx.AsyncClient(base_url=url) as client:
        yield client
    server.should_exit = True
    await serving
    listener.close()


async def post(
    client: httpx.AsyncClient,
    payload: object,
    *,
    event: str = "issue_comment",
    secret: SecretStr = SECRET,
    **headers: str | None,
) -> httpx.Response:
    """Deliver as GitHub does; a header given as None is left out."""
    body = payload if isinstance(payload, bytes) else orjson.dumps(payload)
    sent = {
        "Content-Type": "application/json",
        "X-GitHub-Event": event,
        "X-GitHub-Delivery": str(uuid.uuid4()),
        "X-Hub-Signature-256": sign(body, secret),
    } | {name.replace("_", "-"): value for name, value in headers.items()}
    kept = {name: value for name, value in sent.items() if value is not None}
    return await client.post("/webhooks/github", content=body, headers=kept)
