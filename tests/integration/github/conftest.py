"""A loopback GitHub with one repository, and our own client to it."""

import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from bot.github.client import GitHubClient
from bot.github.port import GitHubRepository
from evals.loopback import LoopbackGitHub, running


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.mkdir()
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")

    def git(*args: str) -> None:
        subprocess.run(["git", *identity, *args], cwd=path, check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    (path / "sums.py").write_text("def add(a, b):\n    return a - b\n")
    (path / "docs").mkdir()
    (path / "docs" / "a b.md").write_text("text\n")
    git("add", "-A")
    git("commit", "-q", "-m", "Begin")
    return path


@pytest.fixture
async def github(source: Path) -> AsyncIterator[LoopbackGitHub]:
    async with running(repos={"acme/sums": source}) as github:
        yield github
        await github.settle()


@pytest.fixture
async def client(github: LoopbackGitHub) -> AsyncIterator[GitHubClient]:
    client = GitHubClient(
        app_id=github.app.id,
        private_key=SecretStr(github.app.private_key),
        api_url=github.api_url,
        timeout_seconds=5,
    )
    yield client
    await client.aclose()


@pytest.fixture
def repository(github: LoopbackGitHub, client: GitHubClient) -> GitHubRepository:
    return client.repository(github.installation.id, github.repository().id)
