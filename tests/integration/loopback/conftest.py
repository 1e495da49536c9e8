"""A loopback GitHub over a small repository, and a receiver that keeps what webhooks bring."""

import asyncio
import hashlib
import hmac
import json
import subprocess
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import Response

from evals.loopback import LoopbackGitHub, running

from .openapi.conformance import problems_of_answer, problems_of_webhook

FILES = {"README.md": "# Sums\n", "sums.py": "def add(a, b):\n    return a - b\n"}


@dataclass
class Receiver:
    """What arrived, checked against the secret."""

    url: str = ""
    secret: str = ""
    status: int = 202
    received: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    guids: list[str] = field(default_factory=list)

    def actions(self, event: str) -> list[str | None]:
        return [body.get("action") for name, body in self.received if name == event]

    def last(self, event: str) -> dict[str, Any]:
        return [body for name, body in self.received if name == event][-1]

    async def take(self, request: Request) -> Response:
        raw = await request.body()
        wanted = hmac.new(self.secret.encode(), raw, hashlib.sha256).hexdigest()
        assert request.headers["x-hub-signature-256"] == f"sha256={wanted}"
        self.guids.append(request.headers["x-github-delivery"])
        self.received.append((request.headers["x-github-event"], json.loads(raw)))
        return Response(status_code=self.status)


def make_repository(path: Path, files: dict[str, str] = FILES) -> Path:
    """A small repository with one commit on `main`."""

    def git(*args: str) -> None:
        identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
        subprocess.run(["git", *identity, *args], cwd=path, check=True, capture_output=True)

    path.mkdir(parents=True)
    git("init", "-q", "-b", "main")
    for name, text in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    git("add", "-A")
    git("commit", "-q", "-m", "Begin")
    return path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "source")


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    inbox = Receiver()
    app = FastAPI()
    app.add_api_route("/hooks", inbox.take, methods=["POST"])
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical", lifespan="off"))
    server.capture_signals = _leave_signals  # type: ignore[method-assign]
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn tells in no other way
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    inbox.url = f"http://127.0.0.1:{port}/hooks"
    yield inbox
    server.should_exit = True
    server.force_exit = True
    await serving


class _leave_signals:  # noqa: N801 - stands in for a context manager function
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


@pytest.fixture
async def github(source: Path, receiver: Receiver) -> AsyncIterator[LoopbackGitHub]:
    async with running(repos={"acme/sums": source}, webhook_url=receiver.url) as github:
        receiver.secret = github.app.webhook_secret or ""
        yield github
        await github.settle()
        differences = [p for exchange in github.journal for p in problems_of_answer(exchange)]
        for event, payload in receiver.received:
            differences += problems_of_webhook(event, payload)
        assert not differences, "\n".join(dict.fromkeys(differences))


@pytest.fixture
async def as_person(github: LoopbackGitHub) -> AsyncIterator[Callable[[str], httpx.AsyncClient]]:
    """An HTTP client that speaks with the token of one of the people."""
    clients: list[httpx.AsyncClient] = []

    def client(key: str) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {github.person(key).token}"}
        address = github.api_url
        clients.append(httpx.AsyncClient(base_url=address, headers=headers, trust_env=False))
        return clients[-1]

    yield client
    for one in clients:
        await one.aclose()
