from pathlib import Path
from typing import Any

import pytest
import yaml

from bot.github.access import Purpose

LEVELS = ("none", "read", "write")


@pytest.fixture(scope="module")
def manifest() -> dict[str, Any]:
    found = yaml.safe_load((Path(__file__).parents[4] / "app.yml").read_text())
    assert isinstance(found, dict)
    return found


def test_the_app_is_private_and_asks_for_what_the_design_names(manifest: dict[str, Any]) -> None:
    """Nobody else can install it, and its permissions are exactly those that are needed."""
    assert manifest["public"] is False
    assert manifest["default_permissions"] == {
        **dict.fromkeys(["contents", "pull_requests", "checks", "issues"], "write"),
        **dict.fromkeys(["metadata", "statuses", "members", "administration"], "read"),
    }


def test_no_token_asks_for_more_than_the_app_has(manifest: dict[str, Any]) -> None:
    """Every purpose's permissions are within the manifest's; workflows is never among them."""
    granted = manifest["default_permissions"]
    for purpose in Purpose:
        for name, level in purpose.permissions.items():
            assert LEVELS.index(level) <= LEVELS.index(granted.get(name, "none")), (purpose, name)
    assert "workflows" not in granted


def test_installation_events_are_not_asked_for(manifest: dict[str, Any]) -> None:
    """GitHub refuses a manifest that names the events it sends unasked."""
    events = manifest["default_events"]
    assert {"installation", "installation_repositories", "github_app_authorization"}.isdisjoint(
        events
    )
    assert {"issue_comment", "pull_request_review", "check_run", "push"} <= set(events)
