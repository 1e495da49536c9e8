"""Registering an App from a manifest: what GitHub accepts, and what it refuses and why.

In: the JSON that a form posts to `/settings/apps/new`. Out: a code that is good once, for an hour,
or the list of objections. Unlike GitHub this one takes webhook addresses on loopback: it lives
there.
https://docs.github.com/apps/sharing-github-apps/registering-a-github-app-from-a-manifest
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from evals.loopback import installing
from evals.loopback.state import (
    Account,
    App,
    Json,
)
from evals.loopback.world import World

_NAME_CHARACTERS = 34
_CALLBACKS = 10
_CODE_LIFE = timedelta(hours=1)
_LEVELS = {"read", "write", "admin"}
_PERMISSIONS = frozenset(
    [
        "actions",
        "administration",
        "artifact_metadata",
        "attestations",
        "checks",
        "code_quality",
        "codespaces",
        "contents",
        "dependabot_secrets",
        "deployments",
        "discussions",
        "environments",
        "issues",
        "merge_queues",
        "metadata",
        "packages",
        "pages",
        "pull_requests",
        "repository_custom_properties",
        "repository_hooks",
        "repository_projects",
        "secret_scanning_alerts",
        "secrets",
        "security_events",
        "single_file",
        "statuses",
        "vulnerability_alerts",
        "workflows",
        "members",
        "organization_administration",
        "organization_hooks",
        "organization_plan",
        "organization_projects",
        "organization_secrets",
        "organization_self_hosted_runners",
        "organization_user_blocking",
        "email_addresses",
        "followers",
        "git_ssh_keys",
        "gpg_keys",
        "interaction_limits",
        "profile",
        "starring",
    ]
)
_FIELDS = frozenset(
    [
        "name",
        "url",
        "hook_attributes",
        "redirect_url",
        "callback_urls",
        "setup_url",
        "description",
        "public",
        "default_events",
        "default_permissions",
        "request_oauth_on_install",
        "setup_on_update",
    ]
)
#: Which permission lets an App hear an event; one of several is enough.
_HEARD_WITH: dict[str, tuple[str, ...]] = {
    "check_run": ("checks",),
    "check_suite": ("checks",),
    "create": ("contents",),
    "delete": ("contents",),
    "deployment": ("deployments",),
    "deployment_status": ("deployments",),
    "issue_comment": ("issues", "pull_requests"),
    "issues": ("issues",),
    "label": ("issues", "pull_requests", "metadata"),
    "member": ("members",),
    "merge_group": ("merge_queues",),
    "pull_request": ("pull_requests",),
    "pull_request_review": ("pull_requests",),
    "pull_request_review_comment": ("pull_requests",),
    "pull_request_review_thread": ("pull_requests",),
    "push": ("contents",),
    "release": ("contents",),
    "repository": ("metadata",),
    "status": ("statuses",),
    "workflow_run": ("actions",),
}


@dataclass
class Registrations:
    """Codes that were given out and not yet exchanged."""

    codes: dict[str, tuple[App, datetime]] = field(default_factory=dict)

    def register(self, world: World, owner: Account, manifest: Json) -> str:
        """Register the App of an acceptable manifest; its code."""
        hook = manifest.get("hook_attributes") or {}
        app = installing.register_app(
            world,
            owner,
            name=manifest["name"],
            permissions=manifest.get("default_permissions") or {},
            events=manifest.get("default_events") or [],
            webhook_url=hook.get("url"),
        )
        app.external_url = manifest["url"]
        app.callback_urls = list(manifest.get("callback_urls") or [])
        code = secrets.token_hex(20)
        self.codes[code] = (app, world.now())
        return code

    def exchange(self, world: World, code: str) -> App | None:
        """The App of a code, once; None for a code that is unknown, used or too old."""
        app, made_at = self.codes.pop(code, (None, world.now()))
        return app if app and world.now() - made_at < _CODE_LIFE else None


def parse_manifest(text: str) -> Json | None:
    """The manifest as an object, or None when it is none."""
    try:
        manifest = json.loads(text)
    except ValueError:
        return None
    return manifest if isinstance(manifest, dict) else None


def objections_to(world: World, manifest: Json) -> list[str]:
    """Why GitHub would not take a manifest; empty when it would."""
    return [
        *_unknown_fields(manifest),
        *_name_objections(world, manifest),
        *_address_objections(manifest),
        *_permission_objections(manifest),
        *_event_objections(manifest),
    ]


def _unknown_fields(manifest: Json) -> Iterator[str]:
    for name in sorted(set(manifest) - _FIELDS):
        yield f"Invalid manifest: {name} is not a permitted key"


def _name_objections(world: World, manifest: Json) -> Iterator[str]:
    name = manifest.get("name")
    if not isinstance(name, str) or not name.strip():
        yield "Name can't be blank"
    elif len(name) > _NAME_CHARACTERS:
        yield f"Name is too long (maximum is {_NAME_CHARACTERS} characters)"
    elif any(app.name.casefold() == name.casefold() for app in world.apps.values()):
        yield "Name is already taken"


def _address_objections(manifest: Json) -> Iterator[str]:
    if not _is_address(manifest.get("url")):
        yield "Url must be a valid URL"
    hook = manifest.get("hook_attributes")
    if hook is not None and not _is_address(hook.get("url")):
        yield "Hook url must be a valid URL"
    if not _is_address(manifest.get("redirect_url")):
        yield "Redirect url must be a valid URL"
    callbacks = manifest.get("callback_urls") or []
    if len(callbacks) > _CALLBACKS:
        yield f"Callback urls are too many (maximum is {_CALLBACKS})"
    for callback in callbacks:
        if not _is_address(callback):
            yield f"Callback url {callback} must be a valid URL"


def _is_address(text: object) -> bool:
    if not isinstance(text, str):
        return False
    parts = urlsplit(text)
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def _permission_objections(manifest: Json) -> Iterator[str]:
    for name, level in (manifest.get("default_permissions") or {}).items():
        if name not in _PERMISSIONS:
            yield f"Default permission records resource is not included in the list: {name}"
        elif level not in _LEVELS:
            yield f"Default permission records action is not included in the list: {name}: {level}"


def _event_objections(manifest: Json) -> Iterator[str]:
    granted = set(manifest.get("default_permissions") or {}) | {"metadata"}
    events = manifest.get("default_events") or []
    unknown = [event for event in events if event not in _HEARD_WITH]
    if unknown:
        yield f"Default events unsupported: {', '.join(unknown)}"
    deaf = [e for e in events if e in _HEARD_WITH and not granted & set(_HEARD_WITH[e])]
    if deaf:
        yield f"Default events are not supported by permissions: {', '.join(deaf)}"
    if events and manifest.get("hook_attributes") is None:
        yield "Hook url can't be blank when events are subscribed to"
