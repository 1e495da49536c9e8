"""A few bytes of HTTP on loopback: answers what a test scripts, remembers what was asked.

Why beside the loopback GitHub: the traps tested with it are about transport (redirects to another
host, broken answers, dead tokens), which a well-behaved GitHub never shows.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from pydantic import SecretStr

from bot.github.client import GitHubClient


@dataclass
class Asked:
    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class Reply:
    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    hang: bool = False

    def encode(self) -> bytes:
        content = self.raw if self.raw is not None else json.dumps(self.body).encode()
        head = {"content-type": "application/json", "content-length": str(len(content))}
        lines = [
            f"HTTP/1.1 {self.status} X",
            *(f"{k}: {v}" for k, v in (head | self.headers).items()),
        ]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


Script = Callable[[Asked], Reply]


@dataclass
class Stub:
    url: str
    script: Script
    asked: list[Asked] = field(default_factory=list)
    clients: list[GitHubClient] = field(default_factory=list)

    def client(self, key: SecretStr, *, prefix: str = "", timeout: float = 5) -> GitHubClient:
        client = GitHubClient(
            app_id=7, private_key=key, api_url=self.url + prefix, timeout_seconds=timeout
        )
        self.clients.append(client)
        return client

    def paths(self, method: str) -> list[str]:
        return [a.path for a in self.asked if a.method == method]


@asynccontextmanager
async def stub_server(script: Script) -> AsyncIterator[Stub]:
    stub = Stub("", script)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (asked := await _read(reader)) is not None:
                stub.asked.append(asked)
                reply = stub.script(asked)
                if reply.hang:
                    await reader.read()
                    return
                writer.write(reply.encode())
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    stub.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield stub
    finally:
        for client in stub.clients:
            await client.aclose()
        server.close()
        await server.wait_closed()


async def _read(reader: asyncio.StreamReader) -> Asked | None:
    first = await reader.readline()
    if not first:
        return None
    method, path, _ = first.decode().split(" ", 2)
    headers: dict[str, str] = {}
    while line := (await reader.readline()).decode().strip():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    length = int(headers.get("content-length", 0))
    body = await reader.readexactly(length) if length else b""
    return Asked(method, path, headers, json.loads(body) if body else None)
