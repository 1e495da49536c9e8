"""`ultracode setup`: registers the GitHub App from its manifest and writes its secrets to a file.

In: the server's public address, the owner, a file that does not exist yet. Out: that file, mode
0600, in the form of an environment file; or a sentence. The App's name and owner are confirmed in
the terminal before anything is written: a browser that is signed in as somebody else would
otherwise hand this server an App that belongs to them.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import httpx
import uvicorn
from pydantic import BaseModel, SecretStr, StringConstraints, ValidationError

from bot.app_manifest import fill_manifest
from bot.errors import BotError
from bot.setup_door import SetupDoor

#: GitHub's code is good for an hour; nobody needs that long.
PATIENCE_SECONDS: Final = 30 * 60
_SECONDS: Final = 30.0
_PUBLIC_API: Final = "api.github.com"

#: What may stand between double quotes in an environment file without meaning anything else.
_Plain = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._~:/@+=,-]{1,2000}$")]


class SetupError(BotError):
    """The App could not be set up."""


class _Owner(BaseModel):
    login: str


class _Registered(BaseModel):
    """GitHub's answer to a code, narrowly."""

    id: int
    name: str
    slug: _Plain
    owner: _Owner
    client_id: _Plain
    client_secret: SecretStr
    webhook_secret: SecretStr
    pem: SecretStr


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What an admin asked for. `organization` None: the App belongs to whoever is signed in."""

    api_url: str
    public_url: str
    name: str
    organization: str | None
    file: Path
    port: int = 0


async def set_up(wish: Wish, *, say: Callable[[str], None], ask: Callable[[str], bool]) -> bool:
    """Register the App; return whether its secrets were written.

    Raises:
        SetupError: The file exists, nobody came back from GitHub, or GitHub refused the code.
    """
    check_file(wish.file)
    check_address(wish.public_url)
    if wish.public_url.startswith("http:"):
        say("Webhooks and sign-ins will cross the network in the clear: prefer https.")
    code = await _code_from_browser(wish, say)
    app = await _exchange(wish.api_url, code)
    say(f"GitHub registered the App {_shown(app.name)!r}, owned by {_shown(app.owner.login)!r}.")
    if wish.organization and app.owner.login.casefold() != wish.organization.casefold():
        say(f"That is not {wish.organization!r}, for which you asked.")
    settings_page = f"{web_url(wish.api_url)}/apps/{app.slug}"
    if not ask(f"Write its secrets to {wish.file}?"):
        say(f"Nothing was written. The App exists; delete it from its settings: {settings_page}")
        return False
    write_new(wish.file, _environment_file(wish, app))
    say(f"Written to {wish.file}. Install the App: {settings_page}/installations/new")
    return True


def web_url(api_url: str) -> str:
    """Return where people reach the GitHub behind an API address."""
    parts = urlsplit(api_url)
    if parts.netloc == _PUBLIC_API:
        return "https://github.com"
    tenant = parts.netloc.removeprefix("api.") if parts.netloc.endswith(".ghe.com") else None
    return f"{parts.scheme}://{tenant or parts.netloc}"


# --- before anything ----------------------------------------------------------------------------


def check_file(path: Path) -> None:
    """Refuse a file that exists, or a folder that does not. Raises SetupError."""
    if os.path.lexists(path):
        raise SetupError(f"{path} exists; it is never overwritten. Give another --env-file.")
    if not os.access(path.absolute().parent, os.W_OK | os.X_OK):
        raise SetupError(f"{path.absolute().parent} is no folder this user may write to.")


def check_address(public_url: str) -> None:
    """Refuse an address that GitHub could not send webhooks to. Raises SetupError."""
    parts = urlsplit(public_url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise SetupError(f"{public_url!r} is no address: give one such as https://bot.example.com.")


# --- the browser --------------------------------------------------------------------------------


async def _code_from_browser(wish: Wish, say: Callable[[str], None]) -> str:
    with socket.create_server(("127.0.0.1", wish.port)) as listener:
        port = listener.getsockname()[1]
        door = SetupDoor(port=port, web_url=web_url(wish.api_url), organization=wish.organization)
        door.manifest = fill_manifest(
            name=wish.name, public_url=wish.public_url, redirect_url=door.redirect_url
        )
        config = uvicorn.Config(door, log_config=None, lifespan="off", ws="none", access_log=False)
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        say(f"Open this address in a browser on this machine:\n\n  {door.url}\n")
        try:
            waited: set[asyncio.Future[Any]] = {door.code, serving}
            await asyncio.wait(waited, timeout=PATIENCE_SECONDS, return_when="FIRST_COMPLETED")
        finally:
            server.should_exit = True
            await serving
    if not door.code.done():
        raise SetupError("Nobody came back from GitHub; nothing was written.")
    return door.code.result()


async def _exchange(api_url: str, code: str) -> _Registered:
    url = f"{api_url.rstrip('/')}/app-manifests/{code}/conversions"
    try:
        async with httpx.AsyncClient(timeout=_SECONDS, trust_env=False) as client:
            answer = await client.post(url, headers={"Accept": "application/vnd.github+json"})
    except httpx.HTTPError as error:
        raise SetupError(f"GitHub could not be reached ({type(error).__name__}).") from None
    if not answer.is_success:
        raise SetupError(f"GitHub refused the code ({answer.status_code}); begin again.")
    try:
        return _Registered.model_validate_json(answer.content)
    except ValidationError as error:
        fields = ", ".join(str(part["loc"][0]) for part in error.errors() if part["loc"])
        raise SetupError(f"GitHub's answer was not understood ({fields}).") from None


def _shown(text: str) -> str:
    """Return a name as a terminal may show it: nothing in it moves the cursor."""
    return "".join(character for character in text if character.isprintable())


# --- the file -----------------------------------------------------------------------------------


def _environment_file(wish: Wish, app: _Registered) -> str:
    pem = app.pem.get_secret_value().strip()
    if not pem.startswith("-----BEGIN") or '"' in pem:
        raise SetupError("GitHub's answer holds no private key.")
    values = {
        "GITHUB_API_URL": wish.api_url.rstrip("/"),
        "GITHUB_APP_ID": str(app.id),
        "GITHUB_CLIENT_ID": app.client_id,
        "GITHUB_CLIENT_SECRET": app.client_secret.get_secret_value(),
        "GITHUB_WEBHOOK_SECRET": app.webhook_secret.get_secret_value(),
        "GITHUB_PRIVATE_KEY": "\\n".join(pem.splitlines()) + "\\n",
        "PUBLIC_URL": wish.public_url.rstrip("/"),
    }
    for name, value in values.items():
        if any(not character.isprintable() or character in '"$`' for character in value):
            raise SetupError(f"{name} holds a character an environment file cannot.")
    return "".join(f'{name}="{value}"\n' for name, value in values.items())


def write_new(path: Path, text: str) -> None:
    """Write a file that only its owner may read and that did not exist. Raises SetupError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        descriptor = os.open(path, flags, 0o600)
    except FileExistsError:
        raise SetupError(f"{path} exists by now; nothing was written.") from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
