"""What is known of a run. In: a row. Out: frozen values that the rest of the bot reads.

Why: a run that was read is a fact of that moment; only the store changes runs (bot/store/runs.py).
"""

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from sqlalchemy import Row

from bot.store.tables import END_STATES, RunState

_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_TIME_DIGITS: Final = 9  # milliseconds, until the year 3084
_CHANCE_DIGITS: Final = 4


@dataclass(frozen=True, slots=True)
class Run:
    """One execution of the workflow for one coding request, as the database has it."""

    run_id: str
    repository_id: int
    installation_id: int
    issue_number: int
    issue_node_id: str | None
    trigger_kind: str
    trigger_id: str
    parent_run_id: str | None
    requester_id: int
    requester_login: str
    state: RunState
    state_reason: str | None
    epoch: int
    round: int
    request: Mapping[str, Any]
    base_ref: str | None
    base_sha: str | None
    candidate_id: str | None
    candidate_sha: str | None
    pull_number: int | None
    pull_node_id: str | None
    branch: str | None
    status_comment_id: int | None
    agno_session_id: str | None
    agno_run_id: str | None
    model_calls: int
    input_tokens: int
    output_tokens: int
    cost: Decimal
    outcome_sentence: str | None
    created_at: datetime
    updated_at: datetime
    deadline_at: datetime | None
    envelope_published_at: datetime | None
    ended_at: datetime | None

    @property
    def ended(self) -> bool:
        """Whether nothing but clean-up is done for it any more."""
        return self.state in END_STATES

    @property
    def usage(self) -> "Usage":
        """What its agents have used so far."""
        return Usage(self.model_calls, self.input_tokens, self.output_tokens, self.cost)


@dataclass(frozen=True, slots=True)
class NewRun:
    """What is known of a run when it is accepted."""

    repository_id: int
    installation_id: int
    issue_number: int
    trigger_kind: str
    trigger_id: str
    requester_id: int
    requester_login: str
    request: Mapping[str, Any]
    issue_node_id: str | None = None
    parent_run_id: str | None = None
    base_ref: str | None = None
    base_sha: str | None = None
    state: RunState = RunState.ACCEPTED
    state_reason: str | None = None
    branch: str | None = None
    pull_number: int | None = None
    pull_node_id: str | None = None
    deadline_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Model calls, tokens, and money where prices are set."""

    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: Decimal = Decimal(0)

    @property
    def tokens(self) -> int:
        """Tokens in both directions: what limits count."""
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class Created:
    """The run is there; `fresh` is false when this trigger had made it before."""

    run: Run
    fresh: bool


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to write for a run, until somebody claims it after us."""

    run: Run
    epoch: int


@dataclass(frozen=True, slots=True)
class Started:
    """The run may work."""

    run: Run


@dataclass(frozen=True, slots=True)
class Queued:
    """The run has to wait for others; `position` 1 is the next to start."""

    position: int


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One line of the audit trail."""

    sequence: int
    at: datetime
    kind: str
    actor: str
    run_id: str | None
    delivery_id: str | None
    detail: Mapping[str, Any]


def new_run_id() -> str:
    """A short id of lower-case letters and digits that sorts by time."""
    now = int(time.time() * 1000)
    digits = [_ALPHABET[now >> 5 * place & 31] for place in reversed(range(_TIME_DIGITS))]
    digits += [secrets.choice(_ALPHABET) for _ in range(_CHANCE_DIGITS)]
    return "".join(digits)


def run_of(row: Row[Any]) -> Run:
    """The run in a row of `runs`."""
    values = row._asdict()
    return Run(**{**values, "state": RunState(values["state"])})
