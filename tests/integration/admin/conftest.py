"""A loopback GitHub, the web role in front of it, and the command line as an admin types it."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from pydantic import SecretStr

from bot.app import create_app
from bot.settings import Settings
from bot.store.database import Database
from evals.loopback import LoopbackGitHub, running
from evals.stage import free_port, plain_environment
from tests.integration.loopback.conftest import make_repository

POLICY = "version: 1\nsuites: {unit: {run: 'true', required: true}}\n"
FILES = {
    "sums.py": "def add(a, b):\n    return a - b\n",
    ".github/ultracode.yml": POLICY,
    ".github/workflows/ci.yml": "on: push\njobs: {}\n",
}


@dataclass(frozen=True)
class Said:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Ultracode = Callable[..., Awaitable[Said]]


@pytest.fixture
async def github(tmp_path: Path) -> AsyncIterator[LoopbackGitHub]:
    source = make_repository(tmp_path / "source", FILES)
    async with running(repos={"acme/sums": source}) as github:
        yield github
        await github.settle()


@pytest.fixture
def environment(github: LoopbackGitHub, database_url: str, tmp_path: Path) -> dict[str, str]:
    return plain_environment() | {
        "DATABASE_URL": database_url,
        "GITHUB_API_URL": github.api_url,
        "GITHUB_APP_ID": str(github.app.id),
        "GITHUB_PRIVATE_KEY_PATH": str(github.private_key_path),
        "GITHUB_WEBHOOK_SECRET": str(github.app.webhook_secret),
        "AGENT_MODEL_ID": "gpt-5.4-mini",
        "OPENAI_API_KEY": "sk-canary-model-key",
        "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
        "ULTRACODE_DATA_DIR": str(tmp_path / "data"),
        "ULTRACODE_SANDBOX": "local",
        "ULTRACODE_TRUST": "trusted",
    }


@pytest.fixture
async def web(
    github: LoopbackGitHub, database: Database, environment: dict[str, str]
) -> AsyncIterator[str]:
    """The web role's address, which GitHub knows."""
    settings = Settings(github_webhook_secret=SecretStr(environment["GITHUB_WEBHOOK_SECRET"]))
    port = free_port()
    config = uvicorn.Config(create_app(settings, database), port=port, log_config=None, ws="none")
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn tells in no other way
        await asyncio.sleep(0.01)
    address = f"http://127.0.0.1:{port}"
    github.set_webhook_url(f"{address}/webhooks/github")
    environment["PUBLIC_URL"] = address
    yield address
    server.should_exit = True
    await serving


@pytest.fixture
def ultracode(environment: dict[str, str], tmp_path: Path) -> Ultracode:
    """Run `ultracode …` as a process of its own."""

    async def run(*words: str, **changes: str) -> Said:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "bot.cli",
            *words,
            env=environment | changes,
            cwd=tmp_path,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        assert process.returncode is not None
        return Said(process.returncode, out.decode(), err.decode())

    return run


def mode(path: Path) -> int:
    """A file's permission bits."""
    return path.stat().st_mode & 0o777
