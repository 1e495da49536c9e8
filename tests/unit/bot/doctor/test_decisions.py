from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import SecretStr

from bot.app_manifest import fill_manifest, load_manifest
from bot.doctor.app import (
    decide_app,
    decide_clock,
    decide_deliveries,
    decide_installations,
    decide_ping,
    decide_webhook_config,
)
from bot.doctor.findings import Finding, Level, exit_code, fail, ok, warn, without_secrets
from bot.doctor.target import decide_branch, decide_workflows
from bot.doctor.workflows import decide_triggers, is_workflow
from bot.github.port import (
    Account,
    AppFacts,
    BranchProtection,
    HookDelivery,
    InstallationFacts,
    Rule,
    WebhookConfig,
)
from bot.settings import Settings

MANIFEST = load_manifest()
OWNER = Account(id=1, login="acme", kind="Organization")


def app(**changes: Any) -> AppFacts:
    given = {
        "id": 7,
        "slug": "ultracode",
        "name": "Ultracode",
        "owner": OWNER,
        "html_url": "https://github.com/apps/ultracode",
        "permissions": MANIFEST["default_permissions"],
        "events": tuple(MANIFEST["default_events"]),
    }
    return AppFacts(**(given | changes))


def said(findings: Any, level: Level) -> str:
    return "\n".join(finding.seen for finding in findings if finding.level is level)


def test_the_manifest_gets_a_servers_own_addresses() -> None:
    """Nothing of the example is left in it."""
    manifest = fill_manifest(
        name="Bot", public_url="https://bot.acme.dev/", redirect_url="http://127.0.0.1:1/x"
    )
    assert "example.com" not in str(manifest)
    assert manifest["hook_attributes"]["url"] == "https://bot.acme.dev/webhooks/github"


def test_an_app_as_registered_from_the_manifest_is_well() -> None:
    """Nothing is said against it."""
    assert {finding.level for finding in decide_app(app(), MANIFEST)} == {Level.OK}


def test_permissions_and_events_are_held_against_the_manifest() -> None:
    """What is missing fails, what is too much warns, each by its name on GitHub."""
    permissions = MANIFEST["default_permissions"] | {"checks": "read", "workflows": "write"}
    found = list(decide_app(app(permissions=permissions, events=("push",)), MANIFEST))
    assert "checks: write" in said(found, Level.FAIL)
    assert "issue_comment" in said(found, Level.FAIL)
    assert "workflows: write" in said(found, Level.WARN)
    assert exit_code(found) == 1


def test_an_installation_that_granted_less_fails_and_a_strangers_warns() -> None:
    """An account that has not accepted new permissions is named; so is one that is not served."""
    stranger = Account(id=2, login="stranger")
    installations = [
        InstallationFacts(id=1, account=OWNER, suspended=False, permissions={"issues": "write"}),
        InstallationFacts(id=2, account=stranger, suspended=False),
        InstallationFacts(id=3, account=OWNER, suspended=True),
    ]
    levels = [f.level for f in decide_installations(app(), installations, frozenset())]
    assert levels == [Level.FAIL, Level.WARN, Level.WARN]
    assert [f.level for f in decide_installations(app(), [], frozenset())] == [Level.WARN]


@pytest.mark.parametrize(
    ("seconds", "level"),
    [(0, "ok"), (9, "ok"), (30, "warn"), (-30, "warn"), (61, "fail"), (-3600, "fail")],
)
def test_the_clock_may_differ_by_seconds_only(seconds: int, level: str) -> None:
    """A minute is too much: GitHub would refuse the App's tokens."""
    assert decide_clock(timedelta(seconds=seconds)).level == level


@pytest.mark.parametrize(("status", "level"), [(200, "ok"), (401, "fail"), (404, "fail")])
def test_a_signed_ping_tells_whether_the_bot_is_there(status: int, level: str) -> None:
    """Only this bot with this secret answers 200."""
    assert decide_ping("https://bot/webhooks/github", status).level == level


def test_the_webhooks_settings_on_github_are_judged() -> None:
    """A form body, a missing secret, another address and unverified TLS are each named."""
    wrong = WebhookConfig(
        url="https://old/hook", content_type="form", signed=False, verifies_tls=False
    )
    found = list(decide_webhook_config(wrong, "https://bot.acme.dev"))
    assert [f.level for f in found] == [Level.WARN, Level.FAIL, Level.FAIL, Level.WARN]
    right = WebhookConfig(
        url="https://bot.acme.dev/webhooks/github",
        content_type="json",
        signed=True,
        verifies_tls=True,
    )
    assert not list(decide_webhook_config(right, "https://bot.acme.dev/"))


def delivery(guid: str, status: int, minute: int) -> HookDelivery:
    return HookDelivery(
        id=minute,
        guid=guid,
        delivered_at=datetime(2026, 1, 1, 0, minute, tzinfo=UTC),
        redelivery=False,
        status="OK",
        status_code=status,
        event="issues",
        action=None,
        installation_id=None,
        repository_id=None,
    )


@pytest.mark.parametrize(
    ("deliveries", "level"),
    [
        ([], "warn"),
        ([delivery("a", 202, 1)], "ok"),
        ([delivery("a", 500, 1), delivery("a", 202, 2)], "ok"),
        ([delivery("a", 500, 1), delivery("b", 202, 2)], "warn"),
        ([delivery("a", 202, 1), delivery("b", 401, 2)], "fail"),
        ([delivery("a", 202, 1), delivery("b", 502, 2)], "fail"),
    ],
)
def test_the_newest_attempt_of_each_delivery_counts(
    deliveries: list[HookDelivery], level: str
) -> None:
    """A delivery that arrived at the second attempt is well; a newest one that did not is not."""
    assert decide_deliveries(deliveries).level == level


def test_an_app_that_may_bypass_protection_fails() -> None:
    """The rule would not hold for the bot, so its approval would be worth less than it looks."""
    bypassed = Rule(
        type="pull_request",
        parameters={"required_approving_review_count": 1},
        source="acme",
        bypass="always",
    )
    found = list(
        decide_branch("main", BranchProtection(rules=(bypassed,)), BranchProtection(), app())
    )
    assert "may bypass protection" in said(found, Level.FAIL)


def test_what_cannot_be_promoted_fails_and_no_protection_warns() -> None:
    """The doctor says before a run what a run would be refused for."""
    signed = BranchProtection(rules=(Rule(type="required_signatures", source="acme"),))
    found = list(decide_branch("main", signed, BranchProtection(), app()))
    assert "required_signatures" in said(found, Level.FAIL)
    found = list(decide_branch("main", BranchProtection(), BranchProtection(), app()))
    assert "No rule demands a review" in said(found, Level.WARN)


@pytest.mark.parametrize(
    ("on", "started"),
    [
        ("on: push", ("push",)),
        ("on: [push, pull_request]", ("push", "pull_request")),
        ("on: {push: {branches: [main]}}", ()),
        ("on: {push: {branches: ['**']}}", ("push",)),
        ("on: {push: {branches: ['*']}}", ()),
        ("on: {push: {branches: ['ultracode/*']}}", ("push",)),
        ("on: {push: {branches: ['**', '!ultracode/**']}}", ()),
        ("on: {push: {branches-ignore: ['ultracode/**']}}", ()),
        ("on: {push: {tags: ['v*']}}", ()),
        ("on: {pull_request: {branches: [main]}}", ("pull_request",)),
        ("on: {pull_request: {branches: [release]}}", ()),
        ("on: pull_request_target", ("pull_request_target",)),
        ("on: {schedule: [{cron: '0 0 * * *'}], workflow_dispatch: }", ()),
        ("'on': push", ("push",)),
        ("name: x", ()),
        ("on: [", None),
        ("just text", None),
    ],
)
def test_triggers_are_read_as_github_reads_them(on: str, started: tuple[str, ...] | None) -> None:
    """Which workflows a push to a work branch and its pull request would start."""
    found = decide_triggers(on.encode(), work_branch="ultracode/1-abc", base="main")
    assert found == started


def test_only_files_directly_in_the_folder_are_workflows() -> None:
    """As on GitHub."""
    assert is_workflow(".github/workflows/ci.yml")
    assert not is_workflow(".github/workflows/deep/ci.yml")
    assert not is_workflow("docs/ci.yml")


def test_workflows_that_would_run_are_named() -> None:
    """With the events that start them, and a warning for what cannot be read."""
    found = list(decide_workflows({"a.yml": ("push",), "b.yml": (), "c.yml": None}, None))
    assert [f.level for f in found] == [Level.WARN, Level.WARN]
    assert "a.yml runs on push" in found[0].seen


def test_no_secret_is_shown_whoever_quotes_it() -> None:
    """Not a key, not a password inside a database's address."""
    settings = Settings(
        openai_api_key=SecretStr("sk-canary-1"),
        database_url=SecretStr("postgresql://bot:canary-2@db/bot"),
    )
    (found,) = without_secrets([fail("x", "sk-canary-1 and canary-2", "canary-2")], settings)
    assert found == Finding(Level.FAIL, "x", "••• and •••", "•••")


def test_only_a_failure_makes_the_exit_code() -> None:
    """A warning is for a person to decide."""
    assert exit_code([ok("a", "b"), warn("a", "b", "c")]) == 0
    assert exit_code([fail("a", "b", "c")]) == 1
