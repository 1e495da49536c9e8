"""Git and githubkit as the bot runs them: nothing of the machine's, nothing shared."""

import asyncio
import base64
import os
import subprocess
from pathlib import Path
from typing import Any

from githubkit import AppAuthStrategy, AppInstallationAuthStrategy, GitHub
from githubkit.cache import MemCacheStrategy

from evals.loopback import LoopbackGitHub


async def git(*args: str, cwd: Path, token: str | None = None, ok: bool = True) -> str:
    """Run git and return all that it said; it must succeed, or fail where `ok` is False."""
    env = {"PATH": os.defpath, "HOME": str(cwd), "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
    env |= {"GIT_AUTHOR_NAME": "bot", "GIT_AUTHOR_EMAIL": "bot@example.com"}
    env |= {"GIT_COMMITTER_NAME": "bot", "GIT_COMMITTER_EMAIL": "bot@example.com"}
    if token:
        basic = base64.b64encode(f"x-access-token:{token}".encode()).decode()
        env |= {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "http.extraHeader",
            "GIT_CONFIG_VALUE_0": f"Authorization: Basic {basic}",
        }
    process = await asyncio.create_subprocess_exec(
        "git", *args, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    out, _ = await process.communicate()
    assert (process.returncode == 0) is ok, out.decode()
    return out.decode()


def own_cache() -> dict[str, Any]:
    """Githubkit shares its token cache in a process; each client here gets its own."""
    return {"http_cache": False, "auto_retry": False, "cache_strategy": MemCacheStrategy()}


def app_client(github: LoopbackGitHub) -> GitHub[AppAuthStrategy]:
    auth = AppAuthStrategy(str(github.app.id), github.private_key_path.read_text())
    return GitHub(auth, base_url=github.api_url, **own_cache())


def installation_client(github: LoopbackGitHub) -> GitHub[AppInstallationAuthStrategy]:
    auth = AppAuthStrategy(str(github.app.id), github.private_key_path.read_text())
    return GitHub(
        auth.as_installation(github.installation.id),
        base_url=github.api_url,
        **own_cache(),
    )
