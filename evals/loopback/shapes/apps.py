"""Apps, installations, tokens and webhook deliveries as JSON."""

from __future__ import annotations

from evals.loopback.shapes.repositories import repository
from evals.loopback.shapes.users import moment, user, user_or_none
from evals.loopback.state import (
    App,
    Installation,
    Json,
    Token,
    node_id,
)
from evals.loopback.world import World


def app(world: World, record: App) -> Json:
    """An `integration`."""
    installed = [i for i in world.installations.values() if i.app is record and not i.deleted]
    return {
        "id": record.id,
        "slug": record.slug,
        "client_id": record.client_id,
        "node_id": node_id("A", record.id),
        "owner": user(world, record.owner),
        "name": record.name,
        "description": "",
        "external_url": record.external_url,
        "html_url": f"{world.url}/apps/{record.slug}",
        "created_at": moment(record.created_at),
        "updated_at": moment(record.created_at),
        "permissions": record.permissions,
        "events": record.events,
        "installations_count": len(installed),
    }


def app_or_none(world: World, record: App | None) -> Json | None:
    """What `performed_via_github_app` shows."""
    if record is None:
        return None
    return {k: v for k, v in app(world, record).items() if k != "installations_count"}


def installation(world: World, record: Installation) -> Json:
    """An `installation`."""
    api = f"{world.api_url}/app/installations/{record.id}"
    return {
        "id": record.id,
        "account": user(world, record.account),
        "repository_selection": "all" if record.repositories is None else "selected",
        "access_tokens_url": f"{api}/access_tokens",
        "repositories_url": f"{world.api_url}/installation/repositories",
        "html_url": f"{world.url}/settings/installations/{record.id}",
        "app_id": record.app.id,
        "client_id": record.app.client_id,
        "app_slug": record.app.slug,
        "target_id": record.account.id,
        "target_type": record.account.type,
        "permissions": record.permissions,
        "events": record.events,
        "created_at": moment(record.created_at),
        "updated_at": moment(record.updated_at),
        "single_file_name": None,
        "has_multiple_single_files": False,
        "single_file_paths": [],
        "suspended_by": user_or_none(world, record.suspended_by),
        "suspended_at": moment(record.suspended_at),
    }


def installation_token(world: World, token: Token) -> Json:
    """An `installation-token`."""
    shape: Json = {
        "token": token.value,
        "expires_at": moment(token.expires_at),
        "permissions": token.permissions,
        "repository_selection": "all",
    }
    if token.repository_ids is not None:
        chosen = [world.repositories[number] for number in sorted(token.repository_ids)]
        shape["repository_selection"] = "selected"
        shape["repositories"] = [repository(world, r) for r in chosen]
    return shape
