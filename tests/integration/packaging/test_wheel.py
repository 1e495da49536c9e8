"""What an operator installs: the built wheel, outside the checkout, in a fresh environment."""

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import httpx
import pytest

from evals.stage import free_port

CHECKOUT = Path(__file__).parents[3]
PACKAGES = {"bot", "webhooks", "workspace", "ultracode_bot-0.1.0.dist-info"}
POLICY = "version: 1\nsuites: {unit: {run: 'true', required: true}}\n"


def uv() -> str:
    """The uv that `make setup` put beside the project, or the machine's."""
    beside = CHECKOUT / ".tools" / "bin" / "uv"
    found = str(beside) if beside.exists() else shutil.which("uv")
    assert found, "uv is not there: run `make setup`"
    return found


def run(*command: str, folder: Path, **changes: str) -> str:
    environment = {"PATH": os.defpath, "HOME": str(folder), "LANG": "C.UTF-8", **_uv_settings()}
    done = subprocess.run(
        command, cwd=folder, env=environment | changes, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _uv_settings() -> dict[str, str]:
    """Where this machine's package index and cache are; nothing else of the caller's."""
    kept = ("UV_", "PIP_", "SSL_", "HTTP", "http", "NO_PROXY", "no_proxy", "XDG_CACHE_HOME")
    cache = subprocess.run([uv(), "cache", "dir"], capture_output=True, text=True, check=True)
    told = {name: value for name, value in os.environ.items() if name.startswith(kept)}  # noqa: TID251 - the index's address
    return told | {"UV_CACHE_DIR": cache.stdout.strip()}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(uv(), "build", "--wheel", "--quiet", "--out-dir", str(folder), folder=CHECKOUT)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel and the lock's versions; its folder of programs."""
    folder = tmp_path_factory.mktemp("fresh")
    options = ("--frozen", "--no-dev", "--no-emit-project", "--no-hashes", "--quiet")
    locked = run(uv(), "export", *options, "--directory", str(CHECKOUT), folder=folder)
    (folder / "locked.txt").write_text(locked)
    venv = folder / "venv"
    run(uv(), "venv", "--quiet", "--python", sys.executable, str(venv), folder=folder)
    python = str(venv / "bin" / "python")
    with_lock = ("--constraint", "locked.txt", str(wheel))
    run(uv(), "pip", "install", "--quiet", "--python", python, *with_lock, folder=folder)
    return venv / "bin"


def test_the_wheel_holds_the_product_and_its_manifest_and_nothing_of_the_stage(
    wheel: Path,
) -> None:
    """No evals, no tests; app.yml, prompts, migrations and the policy's schema are in it."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {name.split("/")[0] for name in names} == PACKAGES
    assert {"bot/app.yml", "bot/policy.schema.json"} <= names
    assert any(name.startswith("bot/agents/prompts/") for name in names)
    assert any(name.startswith("bot/store/migrations/versions/") for name in names)


def test_it_runs_outside_the_checkout(installed: Path, tmp_path: Path) -> None:
    """Help, a policy check and the manifest work from an empty folder."""
    ultracode = str(installed / "ultracode")
    assert "doctor" in run(ultracode, "--help", folder=tmp_path)
    (tmp_path / "policy.yml").write_text(POLICY)
    assert "valid" in run(ultracode, "policy", "check", "policy.yml", folder=tmp_path)
    look = "from bot.app_manifest import load_manifest; import bot; print(bot.__file__)\n"
    look += "assert load_manifest()['public'] is False"
    where = run(str(installed / "python"), "-I", "-c", look, folder=tmp_path)
    assert where.startswith(str(installed.parent))


@pytest.mark.postgres
async def test_its_web_role_becomes_ready_on_an_embedded_database(
    installed: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """`ultracode serve --role web` starts PostgreSQL, migrates, and answers /readyz."""
    folder, port = tmp_path_factory.mktemp("data"), free_port()
    process = await asyncio.create_subprocess_exec(
        str(installed / "ultracode"),
        *("serve", "--role", "web", "--port", str(port)),
        cwd=folder,
        env={
            "PATH": os.defpath,
            "HOME": str(folder),
            "ULTRACODE_DATA_DIR": str(folder / "data"),
            "GITHUB_WEBHOOK_SECRET": "s",
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        ready = await becomes_ready(process, f"http://127.0.0.1:{port}/readyz")
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        said, _ = await process.communicate()
    assert ready, said.decode()


async def becomes_ready(process: asyncio.subprocess.Process, url: str) -> bool:
    async with httpx.AsyncClient(trust_env=False) as client, asyncio.timeout(120):
        while process.returncode is None:
            with contextlib.suppress(httpx.HTTPError):
                if (await client.get(url)).is_success:
                    return True
            await asyncio.sleep(0.1)
    return False
