"""What the processes of `ultracode serve` are started with, read from outside."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.postgres

EVERYBODYS = {"GITHUB_APP_ID", "GITHUB_WEBHOOK_SECRET"}
WEBS = {"GITHUB_CLIENT_SECRET"}
WORKERS = {
    "GITHUB_PRIVATE_KEY",
    "OPENAI_API_KEY",
    "ULTRACODE_SIGNING_KEY",
    "ultracode_signing_key",
    "AWS_SECRET_ACCESS_KEY",
    "UNHEARD_OF_PASSWORD",
}


async def test_each_role_is_started_with_its_own_secrets_only(
    database_url: str, tmp_path: Path
) -> None:
    """Web never sees the private key, the model's or the signing key, nor any foreign variable."""
    asked = EVERYBODYS | WEBS | WORKERS
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bot.cli", "serve", "--port", "0"),
        env={
            "PATH": os.defpath,
            "DATABASE_URL": database_url,
            "ULTRACODE_DATA_DIR": str(tmp_path),
            "GITHUB_API_URL": "http://127.0.0.1:9",
            **dict.fromkeys(asked, "1"),
            "GITHUB_PRIVATE_KEY": "-----BEGIN",
        },
        stdout=asyncio.subprocess.DEVNULL,
    )
    try:
        web, worker = await asyncio.gather(
            names_given_to(process, "web"), names_given_to(process, "worker")
        )
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
    assert web & asked == EVERYBODYS | WEBS
    assert worker & asked == EVERYBODYS | WORKERS
    assert {"PATH", "DATABASE_URL", "ULTRACODE_DATA_DIR"} <= web & worker


async def names_given_to(parent: asyncio.subprocess.Process, role: str) -> set[str]:
    """The names in the environment of the parent's child of that role, as the kernel shows it."""
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
    async with asyncio.timeout(120):
        while parent.returncode is None:
            for child in children.read_text().split():
                folder = Path("/proc", child)
                if f"\0--role\0{role}\0".encode() in (folder / "cmdline").read_bytes():
                    lines = (folder / "environ").read_bytes().split(b"\0")
                    return {line.split(b"=")[0].decode() for line in lines if line}
            await asyncio.sleep(0.01)
    raise AssertionError("the server ended")
