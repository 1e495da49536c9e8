"""The examination: every look, in order. In: the environment. Out: findings.

Why in this order: what is wrong first explains what fails after it. A look that cannot be had
because GitHub does not answer is one failed finding, never a traceback.
"""

from __future__ import annotations

from collections.abc import Awaitable

from bot.app_manifest import load_manifest
from bot.doctor.app import check_clock, check_webhook, decide_app, decide_installations
from bot.doctor.findings import Finding, fail, without_secrets
from bot.doctor.machine import (
    check_data_folder,
    check_database,
    check_models,
    check_sandbox,
    check_settings,
)
from bot.doctor.target import check_repository
from bot.errors import SettingsError
from bot.github.client import GitHubClient
from bot.github.door import BadCredentials
from bot.github.port import AppFacts, GitHubError
from bot.settings import Settings, load_settings


async def examine(full_name: str | None = None) -> tuple[Finding, ...]:
    """Look at this server, and at a repository where one is named (`owner/name`)."""
    try:
        settings = load_settings()
    except SettingsError as error:
        return (fail("settings", str(error), "Correct it and look again."),)
    found = [
        *check_settings(settings),
        *check_data_folder(settings),
        *await check_database(settings),
        *await check_models(settings),
        *await check_sandbox(settings),
        *await _check_github(settings, full_name),
    ]
    return without_secrets(found, settings)


async def _check_github(settings: Settings, full_name: str | None) -> list[Finding]:
    clock = await check_clock(settings.github_api_url)
    try:
        app = settings.github_app()
    except SettingsError:
        return [clock]  # said by `check_settings`
    github = GitHubClient(app_id=app.app_id, private_key=app.private_key, api_url=app.api_url)
    try:
        return [clock, *await _check_app(settings, github, full_name)]
    finally:
        await github.aclose()


async def _check_app(
    settings: Settings, github: GitHubClient, full_name: str | None
) -> list[Finding]:
    try:
        app = await github.app()
    except BadCredentials as refused:
        remedy = "GITHUB_APP_ID and the private key must belong to one App; look at the clock too."
        return [fail("App", f"GitHub refuses the key: {refused.message}", remedy)]
    except GitHubError as error:
        return [fail("App", str(error), "Check GITHUB_API_URL and the connection.")]
    except ValueError:  # a PEM that is no RSA key
        return [fail("App", "The private key cannot be read.", "Download it from GitHub again.")]
    found = [*decide_app(app, load_manifest())]
    if settings.github_webhook_secret is not None:
        found += await _looked("webhook", check_webhook(settings, github))
    found += await _looked("installations", _installations(settings, github, app))
    if full_name is not None:
        found += await _looked(full_name, check_repository(github, app, full_name))
    return found


async def _installations(settings: Settings, github: GitHubClient, app: AppFacts) -> list[Finding]:
    installations = await github.installations()
    return [*decide_installations(app, installations, settings.ultracode_allowed_accounts)]


async def _looked(subject: str, look: Awaitable[list[Finding]]) -> list[Finding]:
    try:
        return await look
    except GitHubError as error:
        return [fail(subject, str(error), "GitHub did not show it; look again.")]
