"""The stage: everything a story needs, as real processes on loopback.

In: a repository on disk and a script for the model. Out: a running loopback GitHub, scripted model,
embedded PostgreSQL, web and worker, and people who act over HTTP. Demo, drive and acceptance tests
use it; whoever kills one of its processes sees what a person on GitHub would see.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from evals.people import Json, Person

START_SECONDS = 60


class StageError(Exception):
    """A part of the stage did not start; the message holds what it printed last."""


@dataclass
class Part:
    """One process of the stage, with what it prints kept in a log file."""

    name: str
    process: asyncio.subprocess.Process
    log: Path

    def last_words(self, size: int = 3000) -> str:
        """Return the end of the log."""
        return self.log.read_text(errors="replace")[-size:]

    async def kill(self) -> None:
        """SIGKILL, as a crash would."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGKILL)
        await self.process.wait()

    async def stop(self, seconds: float = 15) -> None:
        """SIGTERM, then SIGKILL when it does not end."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self.process.wait(), seconds)
        except TimeoutError:
            await self.kill()


@dataclass
class Stage:
    """A whole world on loopback. Made by `stage()`."""

    folder: Path
    environment: dict[str, str]
    web_port: int
    github: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, Part] = field(default_factory=dict)

    # --- processes -------------------------------------------------------------------------------

    async def start(self, name: str, *command: str, ready: str | None = None) -> Part:
        """Start a process under `name`; wait until `ready` answers, where it is given."""
        log = self.folder / f"{name}.log"
        with log.open("ab") as sink:
            process = await asyncio.create_subprocess_exec(
                *command, stdout=sink, stderr=sink, env=self.environment, cwd=self.folder
            )
        part = self.parts[name] = Part(name, process, log)
        if ready is not None:
            await self._until_ready(part, ready)
        return part

    async def announce(self, name: str, *command: str) -> dict[str, Any]:
        """Start a process that prints one line of JSON when it is ready; return that."""
        log = self.folder / f"{name}.log"
        with log.open("ab") as sink:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdout=asyncio.subprocess.PIPE,
                stderr=sink,
                env=self.environment,
                cwd=self.folder,
            )
        part = self.parts[name] = Part(name, process, log)
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), START_SECONDS)
        if not line.strip():
            raise StageError(f"{name} did not start:\n{part.last_words()}")
        announced: dict[str, Any] = json.loads(line)
        return announced

    async def start_web(self) -> Part:
        """Start the web role on its fixed port."""
        return await self.start(
            "web",
            *ULTRACODE,
            "serve",
            "--role",
            "web",
            "--port",
            str(self.web_port),
            ready=f"http://127.0.0.1:{self.web_port}/healthz",
        )

    async def start_worker(self, name: str = "worker") -> Part:
        """Start one worker."""
        return await self.start(name, *ULTRACODE, "serve", "--role", "worker")

    async def close(self) -> None:
        """Stop everything, newest first."""
        for part in reversed(self.parts.values()):
            await part.stop()

    async def _until_ready(self, part: Part, url: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        async with httpx.AsyncClient() as client:
            while time.monotonic() < deadline:
                if part.process.returncode is not None:
                    break
                with contextlib.suppress(httpx.HTTPError):
                    if (await client.get(url)).is_success:
                        return
                await asyncio.sleep(0.05)
        raise StageError(f"{part.name} did not start:\n{part.last_words()}")

    # --- GitHub's misbehaviour -------------------------------------------------------------------

    async def let_webhooks_go_wrong(self, fault: str, event: str, times: int = 1) -> None:
        """Let the next deliveries of an event be dropped, doubled, reordered or delayed."""
        wanted = {"fault": fault, "event": event, "times": times}
        await self._switch("POST", "webhook-faults", wanted)

    async def let_github_go_wrong(self, kind: str, method: str, path: str, **how: float) -> None:
        """Let the next calls of a method and path pattern go wrong; `how` as in `Fault`."""
        await self._switch("POST", "faults", {"kind": kind, "method": method, "path": path, **how})

    async def let_github_go_right(self) -> None:
        """Let everything go right again, webhooks too."""
        await self._switch("DELETE", "faults", None)

    async def _switch(self, method: str, lever: str, values: Json | None) -> None:
        async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
            url = f"{self.github['url']}/_loopback/{lever}"
            (await client.request(method, url, json=values)).raise_for_status()

    async def press(self, person: Person, check: Json, identifier: str) -> None:
        """Press a check run's own button on its page: GitHub's REST API has no call for it."""
        url = f"{self.github['url']}/{person.repository}/runs/{check['id']}/press"
        pressed = {"as": person.login, "identifier": identifier}
        async with httpx.AsyncClient(trust_env=False, follow_redirects=True) as client:
            (await client.post(url, data=pressed)).raise_for_status()

    # --- people ----------------------------------------------------------------------------------

    def person(self, role: str, repository: str | None = None) -> Person:
        """Return somebody by role: admin, writer, second_writer, reader, outsider and others.

        Writer and second_writer both have write access.
        """
        user = self.github["users"][role]
        return Person(
            api=self.github["api_url"],
            repository=repository or self.github["repositories"][0],
            login=user["login"],
            token=user["token"],
        )


@contextlib.asynccontextmanager
async def stage(
    repositories: dict[str, Path],
    script: Path,
    *,
    folder: Path | None = None,
    provider: dict[str, str] | None = None,
    extra: dict[str, str] | None = None,
    worker: bool = True,
    enterprise: bool = False,
) -> AsyncIterator[Stage]:
    """Open the stage and close it again.

    Args:
        repositories: `owner/name` on GitHub to a Git repository on disk.
        script: what the model says; ignored when `provider` is given.
        folder: where logs and data are kept; a temporary one by default.
        provider: AGENT_MODEL_ID and OPENAI_API_KEY (and OPENAI_BASE_URL) of a real model.
        extra: further variables for the bot.
        worker: whether to start a worker at once.
        enterprise: whether GitHub has the paths of Enterprise Server.
    """
    with contextlib.ExitStack() as kept:
        place = folder or Path(kept.enter_context(tempfile.TemporaryDirectory(prefix="ultracode-")))
        world = Stage(folder=place, environment=plain_environment(), web_port=free_port())
        try:
            await raise_curtain(world, repositories, script, provider, enterprise=enterprise)
            world.environment.update(extra or {})
            await world.start_web()
            if worker:
                await world.start_worker()
            yield world
        finally:
            await world.close()


async def raise_curtain(
    world: Stage,
    repositories: dict[str, Path],
    script: Path,
    provider: dict[str, str] | None,
    *,
    enterprise: bool = False,
) -> None:
    """Start GitHub, the model and the database; tell the bot about them by its environment."""
    hosted = [part for name, path in repositories.items() for part in ("--repo", f"{name}={path}")]
    world.github = await world.announce(
        "github",
        *PYTHON,
        "evals.loopback",
        *hosted,
        "--port",
        "0",
        "--webhook-url",
        f"http://127.0.0.1:{world.web_port}/webhooks/github",
        "--json",
        *(("--enterprise",) if enterprise else ()),
    )
    if provider is None:
        model = await world.announce(
            "model",
            *PYTHON,
            "evals.scripted_model",
            "--script",
            str(script),
            "--port",
            "0",
            "--json",
        )
        provider = {
            "AGENT_MODEL_ID": "gpt-5.4-mini",
            "OPENAI_API_KEY": model["api_key"],
            "OPENAI_BASE_URL": model["base_url"],
        }
    database = await world.announce("database", *PYTHON, "evals.database", str(world.folder / "pg"))
    world.environment |= provider | {
        "DATABASE_URL": database["url"],
        "GITHUB_API_URL": world.github["api_url"],
        "GITHUB_APP_ID": str(world.github["app_id"]),
        "GITHUB_PRIVATE_KEY_PATH": world.github["private_key_path"],
        "GITHUB_WEBHOOK_SECRET": world.github["webhook_secret"],
        "GITHUB_CLIENT_ID": world.github["client_id"],
        "GITHUB_CLIENT_SECRET": world.github["client_secret"],
        "PUBLIC_URL": f"http://127.0.0.1:{world.web_port}",
        "ULTRACODE_DATA_DIR": str(world.folder / "data"),
    }


def plain_environment() -> dict[str, str]:
    """Return an environment without anything of the caller's but what finding Python takes."""
    checkout = Path(__file__).resolve().parent.parent
    return {
        "PATH": os.environ.get("PATH", os.defpath),  # noqa: TID251 - the stage is no production code
        "PYTHONPATH": str(checkout),
        "PYTHONUNBUFFERED": "1",
        "LANG": "C.UTF-8",
    }


PYTHON = (sys.executable, "-m")
ULTRACODE = (sys.executable, "-m", "bot.cli")


def free_port() -> int:
    """Return a port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
