"""`ultracode doctor`, as an operator and an admin type it."""

from typing import Any

import pytest

from evals.loopback import LoopbackGitHub
from evals.scripted_model import parse_script
from evals.scripted_model import running as running_model

from .conftest import Said, Ultracode

pytestmark = pytest.mark.postgres
MODEL = parse_script("entries: []\n")


def levels(said: Said) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for finding in said.json["findings"]:
        found.setdefault(finding["subject"], set()).add(finding["level"])
    return found


def words(said: Said, subject: str) -> str:
    found: list[dict[str, Any]] = said.json["findings"]
    return " ".join(f["seen"] + f["remedy"] for f in found if f["subject"] == subject)


async def test_a_server_that_is_well(
    github: LoopbackGitHub, web: str, ultracode: Ultracode
) -> None:
    """Nothing fails, what a person should know is a warning, and programs can read it."""
    await github.open_issue(as_user="writer", title="One")
    await github.settle()
    async with running_model(MODEL) as model:
        provider = {"OPENAI_BASE_URL": model.base_url, "OPENAI_API_KEY": model.api_key}
        said = await ultracode("doctor", "acme/sums", "--json", **provider)
        shown = await ultracode("doctor", **provider)
    assert said.code == 0, said.out + said.err
    assert said.json["ok"] is True
    found = levels(said)
    for subject in ("database", "model", "clock", "App", "webhook address", "policy"):
        assert found[subject] == {"ok"}, said.out
    assert "did not arrive" in words(said, "deliveries")  # the App was installed before web was up
    assert found["deliveries"] == found["sandbox"] == found["workflows"] == {"warn"}
    assert ".github/workflows/ci.yml runs on push" in words(said, "workflows")
    assert shown.code == 0
    assert "0 fail" in shown.out


async def test_a_server_on_which_much_is_wrong(
    github: LoopbackGitHub, web: str, ultracode: Ultracode
) -> None:
    """Each wrong thing is one line with a remedy, the exit code is 1, and no secret is printed."""
    github.app.permissions["checks"] = "read"
    github.add_ruleset([{"type": "required_signatures"}])
    said = await ultracode(
        "doctor",
        "acme/sums",
        "--json",
        GITHUB_WEBHOOK_SECRET="canary-other-secret",
        DATABASE_URL="postgresql://bot:canary-password@127.0.0.1:9/none",
    )
    assert said.code == 1
    assert said.err == ""
    found = levels(said)
    for subject in ("database", "model", "App permissions", "webhook address", "branch main"):
        assert "fail" in found[subject], said.out
    assert "required_signatures" in words(said, "branch main")
    assert "canary" not in said.out
    nowhere = await ultracode("doctor", "acme/none", "--json")
    assert "not installed" in words(nowhere, "acme/none")


async def test_settings_that_cannot_be_read(ultracode: Ultracode) -> None:
    """A missing key and a misspelt variable are findings, not tracebacks."""
    said = await ultracode("doctor", "--json", GITHUB_APP_ID="")
    assert said.code == 1
    assert "GITHUB_APP_ID is not set" in words(said, "settings")
    said = await ultracode("doctor", ULTRACODE_SANDBX="x")
    assert (said.code, said.err) == (1, "")
    assert "ULTRACODE_SANDBOX" in said.out


async def test_a_foreign_key_is_named(
    github: LoopbackGitHub, environment: dict[str, str], ultracode: Ultracode
) -> None:
    """An App id that the key does not belong to is one failed line."""
    said = await ultracode("doctor", "--json", GITHUB_APP_ID="999999")
    assert levels(said)["App"] == {"fail"}
