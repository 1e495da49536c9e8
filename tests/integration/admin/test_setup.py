"""`ultracode setup`: the whole flow over HTTP, and each way to abuse its page."""

import asyncio
import html
import json
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from bot.settings import Settings, load_settings
from bot.setup_app import SetupError, check_address, check_file, web_url, write_new
from bot.setup_door import SetupDoor
from evals.loopback import LoopbackGitHub
from evals.stage import plain_environment

from .conftest import mode

WORDS = ("setup", "--public-url", "https://bot.acme.dev", "--organization", "acme")


@asynccontextmanager
async def typed(
    github: LoopbackGitHub, folder: Path, *more: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bot.cli", *WORDS, *more),
        env=plain_environment() | {"GITHUB_API_URL": github.api_url},
        cwd=folder,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    yield process
    if process.returncode is None:
        process.kill()
        await process.wait()


async def address_of(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    said = b""
    while not (found := re.search(rb"http://127\.0\.0\.1:\d+/\S+", said)):
        line = await process.stdout.readline()
        assert line, said
        said += line
    return found[0].decode()


async def agree(browser: httpx.AsyncClient, github: LoopbackGitHub, page: str) -> str:
    """Do what a browser does, up to GitHub's redirect; return where that leads."""
    action = html.unescape(re.findall(r'action="([^"]+)"', page)[0])
    manifest = html.unescape(re.findall(r'name="manifest" value="([^"]+)"', page)[0])
    offer = await browser.post(action, data={"manifest": manifest})
    assert "Create the App Bot" in offer.text, offer.text
    state = parse_qs(urlsplit(action).query)["state"][0]
    fields = {"manifest": manifest, "state": state, "owner": "acme", "as": "admin"}
    agreed = await browser.post(f"{github.url}/settings/apps/create", data=fields)
    return str(agreed.headers["location"])


@pytest.mark.parametrize("answer", ["y", "n"])
async def test_the_whole_flow(github: LoopbackGitHub, tmp_path: Path, answer: str) -> None:
    """Browser, consent, confirmation in the terminal; then a private file, or nothing."""
    file = tmp_path / "bot.env"
    async with (
        typed(github, tmp_path, "--name", "Bot", "--env-file", "bot.env") as process,
        httpx.AsyncClient(trust_env=False) as browser,
    ):
        url = await address_of(process)
        page = await browser.get(url)
        assert github.url in page.headers["content-security-policy"]
        back = await agree(browser, github, page.text)
        assert "Go back to your terminal" in (await browser.get(back)).text
        out, _ = await process.communicate(f"{answer}\n".encode())
    said = out.decode()
    assert "'Bot', owned by 'acme'" in said
    app = next(app for app in github.world.apps.values() if app.name == "Bot")
    assert app.webhook_url == "https://bot.acme.dev/webhooks/github"
    assert str(app.webhook_secret) not in said
    assert "BEGIN" not in said
    if answer == "n":
        assert (process.returncode, file.exists()) == (1, False)
        assert "Nothing was written" in said
        return
    assert process.returncode == 0
    assert mode(file) == 0o600
    assert f'GITHUB_WEBHOOK_SECRET="{app.webhook_secret}"\n' in file.read_text()


async def test_what_was_written_starts_the_server(
    github: LoopbackGitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file's lines are settings: the key is the App's."""
    async with (
        typed(github, tmp_path, "--name", "Bot", "--env-file", "bot.env") as process,
        httpx.AsyncClient(trust_env=False) as browser,
    ):
        page = await browser.get(await address_of(process))
        await browser.get(await agree(browser, github, page.text))
        await process.communicate(b"y\n")
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    for line in (tmp_path / "bot.env").read_text().splitlines():
        name, _, value = line.partition("=")
        monkeypatch.setenv(name, value.strip('"'))
    app = next(app for app in github.world.apps.values() if app.name == "Bot")
    settings = load_settings()
    assert settings.github_app().app_id == app.id
    key = settings.github_app().private_key.get_secret_value()
    assert key.strip() == app.private_key.strip()


async def test_an_existing_file_is_never_touched(github: LoopbackGitHub, tmp_path: Path) -> None:
    """The command ends before anybody is sent to GitHub, and says why."""
    (tmp_path / "bot.env").write_text("mine")
    async with typed(github, tmp_path, "--env-file", "bot.env") as process:
        out, _ = await process.communicate()
    assert process.returncode == 2
    assert "never overwritten" in out.decode()
    assert (tmp_path / "bot.env").read_text() == "mine"


def test_a_file_or_link_that_appears_meanwhile_is_not_written_through(tmp_path: Path) -> None:
    """Neither a file nor a dangling link planted between check and write is used."""
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SetupError, match="never overwritten"):
        check_file(tmp_path / "link")
    with pytest.raises(SetupError, match="nothing was written"):
        write_new(tmp_path / "link", "secret")
    assert not (tmp_path / "elsewhere").exists()
    with pytest.raises(SetupError, match="no folder"):
        check_file(tmp_path / "none" / "file")


@pytest.mark.parametrize("address", ["bot.acme.dev", "ftp://x", "https://", "https://a/?b"])
def test_an_address_github_cannot_send_to_is_refused(address: str) -> None:
    """Before anything is registered."""
    with pytest.raises(SetupError, match="no address"):
        check_address(address)


@pytest.mark.parametrize(
    ("api", "web"),
    [
        ("https://api.github.com", "https://github.com"),
        ("https://ghes.acme.dev/api/v3", "https://ghes.acme.dev"),
        ("https://api.acme.ghe.com", "https://acme.ghe.com"),
        ("http://127.0.0.1:8123", "http://127.0.0.1:8123"),
    ],
)
def test_people_are_sent_to_the_github_behind_the_api(api: str, web: str) -> None:
    """github.com, Enterprise Server, Enterprise Cloud with data residency, and the stage."""
    assert web_url(api) == web


# --- the page ---


async def knock(door: SetupDoor, path: str, **headers: str) -> httpx.Response:
    transport = httpx.ASGITransport(door)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:81") as client:
        return await client.get(path, headers=headers)


def door_with(**manifest: Any) -> tuple[SetupDoor, str]:
    door = SetupDoor(port=81, web_url="https://github.com", organization="ac me")
    door.manifest = manifest
    return door, urlsplit(door.url).path


async def state_of(door: SetupDoor, path: str) -> str:
    found = re.search(r"state=([\w-]+)", (await knock(door, path)).text)
    assert found
    return found[1]


async def test_another_host_sees_nothing() -> None:
    """A name that was made to lead to 127.0.0.1 (DNS rebinding) is refused on every path."""
    door, path = door_with()
    for host in ("evil.example", "localhost:81", "127.0.0.1", "127.0.0.1:81.evil.example"):
        for where in (path, f"{path}/done?state=x&code=y", "/"):
            assert (await knock(door, where, Host=host)).status_code == 421
    assert not door.code.done()


async def test_another_path_sees_nothing() -> None:
    """Whoever does not know the random path does not see the page, or the state."""
    door, path = door_with()
    for where in ("/", "/done", f"{path}x", f"{path}/", f"{path}/done/x"):
        answer = await knock(door, where)
        assert (answer.status_code, "state=" in answer.text) == (404, False)


async def test_a_wrong_state_changes_nothing_and_a_right_one_counts_once() -> None:
    """A code that did not begin here is not taken; a second one never."""
    door, path = door_with(name="Bot")
    state = await state_of(door, path)
    for query in ("code=evil", "code=evil&state=x", f"code=evil&state={state}x"):
        assert (await knock(door, f"{path}/done?{query}")).status_code == 403
    assert (await knock(door, f"{path}/done?state={state}&code=../x")).status_code == 400
    assert not door.code.done()
    assert (await knock(door, f"{path}/done?state={state}&code=good")).status_code == 200
    assert (await knock(door, f"{path}/done?state={state}&code=evil")).status_code == 410
    assert (await knock(door, path)).status_code == 410
    assert door.code.result() == "good"


async def test_the_page_holds_the_manifest_and_sends_it_to_github_only() -> None:
    """Quotes in it stay text, the form may go nowhere else, and nothing is kept by the browser."""
    door, path = door_with(name='"><script>alert(1)</script>')
    page = await knock(door, path)
    assert "<script>" not in page.text
    assert "https://github.com/organizations/ac%20me/settings/apps/new?state=" in page.text
    assert "form-action https://github.com" in page.headers["content-security-policy"]
    assert page.headers["cache-control"] == "no-store"
    value = html.unescape(re.findall(r'name="manifest" value="([^"]+)"', page.text)[0])
    assert json.loads(value) == door.manifest
