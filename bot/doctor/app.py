"""The doctor's look at the App: its key, permissions, events, webhook, installations, and clocks.

In: a client, the settings and the manifest. Out: findings. The webhook is tried with a signed
`ping`, as GitHub sends it: whoever answers has to know the secret to answer well.
Settings of an App: https://docs.github.com/apps/maintaining-github-apps
"""

from __future__ import annotations

import hashlib
import hmac
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final

import httpx
from pydantic import SecretStr

from bot.app_manifest import WEBHOOK_PATH
from bot.clock import now
from bot.doctor.findings import Finding, fail, ok, warn
from bot.github.port import AppFacts, GitHubApp, HookDelivery, InstallationFacts, WebhookConfig
from bot.settings import Settings

#: GitHub takes no App token whose `iat` lies in the future; ours is dated a minute back.
WORST_SKEW: Final = timedelta(seconds=60)
NOTED_SKEW: Final = timedelta(seconds=10)
LOOK_BACK: Final = timedelta(days=1)
_LEVELS: Final = ("none", "read", "write", "admin")
_SECONDS: Final = 10.0


# --- the clock ----------------------------------------------------------------------------------


async def check_clock(api_url: str) -> Finding:
    """Compare this machine's clock with GitHub's `Date` header."""
    try:
        async with httpx.AsyncClient(timeout=_SECONDS, trust_env=False) as client:
            answer = await client.get(api_url)
        theirs = parsedate_to_datetime(answer.headers["date"])
    except httpx.HTTPError as error:
        remedy = "Check GITHUB_API_URL, and that this machine may connect."
        return fail("clock", f"{api_url} cannot be reached: {type(error).__name__}.", remedy)
    except (KeyError, ValueError):
        return warn("clock", "GitHub says no time.", "Check that this machine runs NTP.")
    return decide_clock(datetime.now(UTC) - theirs)


def decide_clock(ahead: timedelta) -> Finding:
    """Judge how far this machine's clock is ahead of GitHub's (negative: behind)."""
    seconds = round(ahead.total_seconds())
    said = f"This machine's clock is {abs(seconds)} s {'ahead of' if seconds > 0 else 'behind'} "
    if abs(ahead) >= WORST_SKEW:
        return fail("clock", said + "GitHub's: it refuses the App's tokens.", "Run an NTP client.")
    if abs(ahead) >= NOTED_SKEW:
        return warn("clock", said + "GitHub's.", "Run an NTP client.")
    return ok("clock", "It agrees with GitHub's.")


# --- the App ------------------------------------------------------------------------------------


def decide_app(app: AppFacts, manifest: Mapping[str, Any]) -> Iterator[Finding]:
    """Hold the App against its manifest."""
    yield ok("App", f"{app.name} (id {app.id}) of {app.owner.login} answers to this key.")
    lacking = _short_of(manifest["default_permissions"], app.permissions)
    where = f"{app.html_url} → App settings → Permissions & events"
    if lacking:
        yield fail("App permissions", f"It lacks {', '.join(lacking)}.", f"Grant them: {where}.")
    surplus = _short_of(app.permissions, manifest["default_permissions"])
    if surplus:
        remedy = f"The bot never uses them; take them away: {where}."
        yield warn("App permissions", f"It has more than it needs: {', '.join(surplus)}.", remedy)
    deaf = sorted(set(manifest["default_events"]) - set(app.events))
    if deaf:
        remedy = f"Subscribe to them: {where}."
        yield fail("App events", f"It does not hear {', '.join(deaf)}.", remedy)
    if not (lacking or surplus):
        yield ok("App permissions", "They are those of the manifest.")
    if not deaf:
        yield ok("App events", "They are those of the manifest.")


def _short_of(wanted: Mapping[str, str], has: Mapping[str, str]) -> list[str]:
    """Return what is wanted beyond what there is, as `name: level`."""
    return [
        f"{name}: {level}"
        for name, level in sorted(wanted.items())
        if _LEVELS.index(has.get(name, "none")) < _LEVELS.index(level)
    ]


def decide_installations(
    app: AppFacts, installations: Sequence[InstallationFacts], allowed: frozenset[int]
) -> Iterator[Finding]:
    """Say where the App is installed, and where that is not enough."""
    if not installations:
        yield warn("installations", "Nobody installed it.", f"Install it: {app.html_url}.")
    for one in installations:
        subject = f"installation {one.account.login}"
        behind = _short_of(app.permissions, one.permissions)
        if one.suspended:
            yield warn(subject, "It is suspended.", "Its owner can take that back.")
        elif one.account.id not in (allowed or {app.owner.id}):
            remedy = f"Add {one.account.id} to ULTRACODE_ALLOWED_ACCOUNTS, or uninstall it there."
            yield warn(subject, "This account is not served.", remedy)
        elif behind:
            remedy = "Its owner has to accept the App's new permissions."
            yield fail(subject, f"It granted less: {', '.join(behind)} missing.", remedy)
        else:
            yield ok(subject, "It granted what the App asks for.")


# --- the webhook --------------------------------------------------------------------------------


async def check_webhook(settings: Settings, github: GitHubApp) -> list[Finding]:
    """Look at the webhook as GitHub has it, try it, and read what became of deliveries."""
    config = await github.webhook_config()
    found = list(decide_webhook_config(config, settings.public_url))
    if config.url is None:
        return found
    found.append(await _try_webhook(config.url, settings.webhook_secrets()[0]))
    found.append(decide_deliveries(await github.deliveries(since=now() - LOOK_BACK)))
    return found


def decide_webhook_config(config: WebhookConfig, public_url: str | None) -> Iterator[Finding]:
    """Judge the webhook's settings on GitHub."""
    expected = public_url and public_url.rstrip("/") + WEBHOOK_PATH
    where = "App settings → General → Webhook"
    if config.url is None:
        yield fail("webhook", "GitHub has no address for it.", f"Set {expected} in {where}.")
    elif expected and config.url != expected:
        said = f"GitHub sends to {config.url}, PUBLIC_URL means {expected}."
        yield warn("webhook", said, f"Change one of them ({where}).")
    if config.content_type != "json":
        remedy = f"Choose application/json in {where}."
        yield fail("webhook", f"Its content type is {config.content_type}.", remedy)
    if not config.signed:
        remedy = f"Set GITHUB_WEBHOOK_SECRET's value in {where}."
        yield fail("webhook", "It has no secret: what GitHub sends is refused.", remedy)
    if not config.verifies_tls:
        yield warn("webhook", "GitHub does not verify this server's certificate.", f"See {where}.")


async def _try_webhook(url: str, secret: SecretStr) -> Finding:
    body = json.dumps({"zen": "Is anybody there?"}).encode()
    signature = hmac.new(secret.get_secret_value().encode(), body, hashlib.sha256).hexdigest()
    headers = {
        "Content-Type": "application/json",
        "X-GitHub-Event": "ping",
        "X-GitHub-Delivery": str(uuid.uuid4()),
        "X-Hub-Signature-256": f"sha256={signature}",
    }
    try:
        async with httpx.AsyncClient(timeout=_SECONDS, trust_env=False) as client:
            status = (await client.post(url, content=body, headers=headers)).status_code
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        said = f"{url} cannot be reached from here: {type(error).__name__}."
        return fail("webhook address", said, "Is `ultracode serve` up, and is the address routed?")
    return decide_ping(url, status)


def decide_ping(url: str, status: int) -> Finding:
    """Judge how the webhook's address answered to a signed ping."""
    if status == HTTPStatus.OK:
        return ok("webhook address", f"{url} answers, and knows this secret.")
    if status == HTTPStatus.UNAUTHORIZED:
        remedy = "Give web and doctor the same GITHUB_WEBHOOK_SECRET."
        return fail("webhook address", f"{url} answers with another secret.", remedy)
    return fail(
        "webhook address",
        f"{url} answered {status}, which is not this bot's answer.",
        f"It must lead to {WEBHOOK_PATH} of `ultracode serve`.",
    )


def decide_deliveries(deliveries: Sequence[HookDelivery]) -> Finding:
    """Judge what became of GitHub's latest deliveries; the newest attempt of each counts."""
    latest: dict[str, HookDelivery] = {}
    for delivery in sorted(deliveries, key=lambda one: one.delivered_at):
        latest[delivery.guid] = delivery
    missed = [delivery for delivery in latest.values() if not delivery.delivered]
    if not latest:
        remedy = "Comment on an issue, and look again."
        return warn("deliveries", "GitHub sent nothing in the last day.", remedy)
    newest = max(latest.values(), key=lambda one: one.delivered_at)
    if newest.status_code == HTTPStatus.UNAUTHORIZED:
        remedy = "Set the same secret in the App's settings and in GITHUB_WEBHOOK_SECRET."
        return fail("deliveries", "The newest was refused: GitHub signs differently.", remedy)
    if not newest.delivered:
        said = f"The newest did not arrive ({newest.status_code} {newest.status})."
        return fail("deliveries", said, "A running worker asks GitHub for what was missed.")
    if missed:
        said = f"{len(missed)} of {len(latest)} of the last day did not arrive."
        return warn("deliveries", said, "A running worker asks GitHub for them.")
    return ok("deliveries", f"All {len(latest)} of the last day arrived.")
