"""The loopback GitHub as a process of its own, and in the shape of Enterprise Server."""

import asyncio
import json
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from evals.loopback import running

from .commands import app_client, git, installation_client


@asynccontextmanager
async def alone(source: Path, *options: str) -> AsyncIterator[dict[str, Any]]:
    command = [sys.executable, "-m", "evals.loopback", "--repo", f"acme/sums={source}", "--json"]
    process = await asyncio.create_subprocess_exec(
        *command, *options, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield json.loads(await process.stdout.readline())
    finally:
        process.terminate()
        assert await process.wait() == 0


async def test_one_line_says_all(source: Path) -> None:
    """One line of JSON is enough to act as everybody, and nothing is left behind."""
    async with alone(source) as card:
        key = Path(card["private_key_path"])
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        assert card["repositories"] == ["acme/sums"]
        roles = {role: user["permission"] for role, user in card["users"].items()}
        assert roles == {
            "admin": "admin",
            "writer": "write",
            "second_writer": "write",
            "reader": "read",
            "outsider": "none",
            "triager": "triage",
            "maintainer": "maintain",
        }
        writer = card["users"]["writer"]
        headers = {"Authorization": f"Bearer {writer['token']}"}
        async with httpx.AsyncClient(base_url=card["url"], headers=headers) as client:
            assert (await client.get("/user")).json()["id"] == writer["id"]
    assert not key.parent.exists()


async def test_another_branch_as_default(source: Path, tmp_path: Path) -> None:
    """HEAD of the repository on disk, bare or not, names the default branch."""
    await git("checkout", "-qb", "trunk", cwd=source)
    await git("clone", "-q", "--bare", str(source), "bare.git", cwd=tmp_path)
    for path in (source, tmp_path / "bare.git"):
        async with running(repos={"acme/sums": path}) as github:
            assert github.repository().default_branch == "trunk"
            assert set(await github.repository().git.refs("refs/heads/")) == {
                "refs/heads/main",
                "refs/heads/trunk",
            }


async def test_enterprise_paths(source: Path) -> None:
    """On Enterprise Server REST is under /api/v3, GraphQL at /api/graphql, Git and pages at /."""
    async with running(repos={"acme/sums": source}, enterprise=True) as github:
        assert github.api_url.endswith("/api/v3")
        apps = app_client(github)
        assert (await apps.rest.apps.async_get_authenticated()).json()["id"] == github.app.id
        client = installation_client(github)
        found = await client.rest.repos.async_get("acme", "sums")
        assert found.json()["url"] == f"{github.api_url}/repos/acme/sums"
        query = '{ repository(owner: "acme", name: "sums") { nameWithOwner } }'
        graphql = f"{github.url}/api/graphql"
        headers = {"Authorization": f"Bearer {github.person('reader').token}"}
        async with httpx.AsyncClient(headers=headers) as plain:
            answer = (await plain.post(graphql, json={"query": query})).json()
            assert answer["data"]["repository"]["nameWithOwner"] == "acme/sums"
            assert (await plain.get(f"{github.url}/repos/acme/sums")).status_code == 404
            await github.open_issue(as_user="writer", title="1")
            await github.open_issue(as_user="writer", title="2")
            listed = await plain.get(f"{github.api_url}/repos/acme/sums/issues?per_page=1")
            assert listed.links["next"]["url"].startswith(f"{github.api_url}/repos/")
            assert (await plain.get(listed.links["next"]["url"])).json()[0]["title"] == "1"
            meta = (await plain.get(f"{github.api_url}/meta")).json()
            assert meta["installed_version"]
            assert (await plain.get(f"{github.url}/acme/sums")).status_code == 200


async def test_two_at_once(source: Path) -> None:
    """Two GitHubs in one process share nothing."""
    first = running(repos={"acme/sums": source})
    second = running(repos={"acme/sums": source})
    async with first as one, second as other:
        await one.open_issue(as_user="writer", title="Here")
        assert other.repository().issues == {}
        headers = {"Authorization": f"Bearer {one.person('writer').token}"}
        async with httpx.AsyncClient(headers=headers) as client:
            assert (await client.get(f"{one.url}/user")).status_code == 200
            assert (await client.get(f"{other.url}/user")).status_code == 401
