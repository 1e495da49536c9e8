"""Registering Apps, installing them on accounts, and everything that can befall an installation.

In: an App's name, permissions and events; an account. Out: records, and the `installation` events
that GitHub sends unasked.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from functools import cache

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from evals.loopback import shapes
from evals.loopback.state import (
    Account,
    App,
    Installation,
    Json,
    Repository,
    node_id,
)
from evals.loopback.world import World


def register_app(
    world: World,
    owner: Account,
    *,
    name: str,
    permissions: Mapping[str, str],
    events: Sequence[str],
    webhook_url: str | None = None,
) -> App:
    """A new App with a key, a webhook secret and a bot user of its own."""
    slug = "-".join(name.lower().split())
    private_key, public_key = _key_pair(len(world.apps))
    bot = Account(id=world.next_id(), login=f"{slug}[bot]", type="Bot")
    world.accounts[bot.id] = bot
    app = App(
        id=world.next_id(),
        slug=slug,
        name=name,
        owner=owner,
        bot=bot,
        client_id=f"Iv23{secrets.token_hex(8)}",
        client_secret=secrets.token_hex(20),
        private_key=private_key,
        public_key=public_key,
        permissions={"metadata": "read", **permissions},
        events=list(events),
        webhook_url=webhook_url,
        webhook_secret=secrets.token_hex(20),
        created_at=world.now(),
    )
    world.apps[app.id] = app
    return app


@cache
def _key_pair(nth: int) -> tuple[str, str]:
    """A private and a public key as PEM; made once a process, since that takes a while."""
    del nth
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,  # as GitHub gives them out
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return private.decode(), public.decode()


def install(
    world: World,
    app: App,
    account: Account,
    *,
    repositories: Sequence[Repository] | None,
    by: Account,
) -> Installation:
    """Install an App on an account, for all of its repositories or for some."""
    now = world.now()
    installation = Installation(
        id=world.next_id(),
        app=app,
        account=account,
        permissions=dict(app.permissions),
        events=list(app.events),
        repositories=None if repositories is None else {r.id for r in repositories},
        created_at=now,
        updated_at=now,
    )
    world.installations[installation.id] = installation
    covered = [_short(r) for r in world.repositories.values() if installation.covers(r)]
    _publish(world, installation, "created", by, repositories=covered, requester=None)
    return installation


def uninstall(world: World, installation: Installation, *, sender: Account) -> None:
    """Remove an installation; its tokens are dead at once."""
    covered = [_short(r) for r in world.repositories.values() if installation.covers(r)]
    installation.deleted = True
    _publish(world, installation, "deleted", sender, repositories=covered, requester=None)


def suspend(world: World, installation: Installation, *, by: Account) -> None:
    """Until further notice: no tokens, no webhooks."""
    installation.suspended_at, installation.suspended_by = world.now(), by
    _publish(world, installation, "suspend", by)


def unsuspend(world: World, installation: Installation, *, by: Account) -> None:
    """Take a suspension back."""
    installation.suspended_at, installation.suspended_by = None, None
    _publish(world, installation, "unsuspend", by)


def add_repositories(
    world: World, installation: Installation, added: Sequence[Repository], *, by: Account
) -> None:
    """Let the App see more repositories."""
    chosen = installation.repositories
    if chosen is not None:
        chosen |= {repository.id for repository in added}
    _selection_changed(world, installation, "added", by, added=added)


def remove_repositories(
    world: World, installation: Installation, removed: Sequence[Repository], *, by: Account
) -> None:
    """Let the App see fewer repositories; a choice of all becomes a choice of some."""
    gone = {repository.id for repository in removed}
    if installation.repositories is None:
        mine = [r for r in world.repositories.values() if installation.covers(r)]
        installation.repositories = {r.id for r in mine}
    installation.repositories -= gone
    _selection_changed(world, installation, "removed", by, removed=removed)


def _selection_changed(
    world: World,
    installation: Installation,
    action: str,
    by: Account,
    *,
    added: Sequence[Repository] = (),
    removed: Sequence[Repository] = (),
) -> None:
    content: Json = {
        "installation": shapes.installation(world, installation),
        "repository_selection": "all" if installation.repositories is None else "selected",
        "repositories_added": [_short(r) for r in added],
        "repositories_removed": [_short(r) for r in removed],
        "requester": None,
    }
    world.webhooks.publish_to_app("installation_repositories", action, content, installation, by)


def _publish(
    world: World, installation: Installation, action: str, by: Account, **more: object
) -> None:
    content = {"installation": shapes.installation(world, installation), **more}
    world.webhooks.publish_to_app("installation", action, content, installation, by)


def _short(repository: Repository) -> Json:
    return {
        "id": repository.id,
        "node_id": node_id("R", repository.id),
        "name": repository.name,
        "full_name": repository.full_name,
        "private": repository.private,
    }
