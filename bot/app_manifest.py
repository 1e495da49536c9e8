"""The App's manifest, `app.yml`: what GitHub is asked for when an App is registered.

In: the file, which the wheel carries inside the package and a checkout holds at its root. Out: its
mapping. `ultracode setup` registers an App from it, `ultracode doctor` holds an App against it.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import yaml

WEBHOOK_PATH: Final = "/webhooks/github"
CALLBACK_PATH: Final = "/auth/callback"


def load_manifest() -> dict[str, Any]:
    """Return the manifest as it stands in the file, with its example addresses."""
    packaged = files("bot") / "app.yml"
    checkout = Path(__file__).parent.parent / "app.yml"
    source = packaged if packaged.is_file() else checkout
    return dict(yaml.safe_load(source.read_text(encoding="utf-8")))


def fill_manifest(*, name: str, public_url: str, redirect_url: str) -> dict[str, Any]:
    """Return the manifest with a server's own addresses."""
    address = public_url.rstrip("/")
    return load_manifest() | {
        "name": name,
        "url": address,
        "hook_attributes": {"url": address + WEBHOOK_PATH, "active": True},
        "redirect_url": redirect_url,
        "callback_urls": [address + CALLBACK_PATH],
    }
