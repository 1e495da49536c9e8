"""What the doctor found. In: single looks. Out: lines for people, an object for programs.

Why one type: every look, whatever it looked at, ends in the same three words (ok, warn, fail) and
says what to do unless all is well. Secrets are taken out here, in the one place all lines pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from pydantic import SecretStr

from bot.settings import Settings
from bot.store.database import sqlalchemy_url


class Level(StrEnum):
    """How bad it is: `fail` keeps the bot from working, `warn` is for a person to decide."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: what was looked at, what was seen, and what to do (empty when nothing)."""

    level: Level
    subject: str
    seen: str
    remedy: str = ""


def ok(subject: str, seen: str) -> Finding:
    """All is well."""
    return Finding(Level.OK, subject, seen)


def warn(subject: str, seen: str, remedy: str) -> Finding:
    """It works, and a person should know."""
    return Finding(Level.WARN, subject, seen, remedy)


def fail(subject: str, seen: str, remedy: str) -> Finding:
    """It does not work until something is done."""
    return Finding(Level.FAIL, subject, seen, remedy)


def exit_code(findings: Iterable[Finding]) -> int:
    """Return 1 when anything fails, else 0: warnings alone stop nobody's deployment."""
    return int(any(finding.level is Level.FAIL for finding in findings))


def shown_findings(findings: Sequence[Finding]) -> str:
    """Return the findings as lines for a terminal."""
    width = max((len(finding.subject) for finding in findings), default=0)
    lines = []
    for finding in findings:
        lines.append(f"{finding.level:<5} {finding.subject:<{width}}  {finding.seen}")
        if finding.remedy:
            lines.append(f"{'':<{width + 8}}→ {finding.remedy}")
    counts = [f"{sum(f.level is level for f in findings)} {level}" for level in Level]
    return "\n".join([*lines, ", ".join(counts)])


def findings_object(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the findings for programs."""
    return {"ok": exit_code(findings) == 0, "findings": [asdict(found) for found in findings]}


def without_secrets(findings: Iterable[Finding], settings: Settings) -> tuple[Finding, ...]:
    """Replace every secret of these settings, whoever quoted it."""
    secrets = sorted(_secrets_of(settings), key=len, reverse=True)

    def clean(text: str) -> str:
        for secret in secrets:
            text = text.replace(secret, "•••")
        return text

    return tuple(
        replace(found, seen=clean(found.seen), remedy=clean(found.remedy)) for found in findings
    )


def _secrets_of(settings: Settings) -> Iterable[str]:
    values = (getattr(settings, name) for name in Settings.model_fields)
    for text in (value.get_secret_value() for value in values if isinstance(value, SecretStr)):
        if text:
            yield text
    for url in (settings.database_url, settings.agentos_database_url):
        if url is not None and (password := sqlalchemy_url(url.get_secret_value()).password):
            yield password
