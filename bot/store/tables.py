"""Our tables. In: nothing. Out: SQLAlchemy tables, and the words their columns use.

Why: the tables of the design, the signing keys, signed-in browsers and measures, beside those of
procrastinate and Agno. Everything is keyed on GitHub's numeric ids, never on names. Times are the
database's, so that a wrong clock on one machine decides nothing. JSON columns are `json`, not
`jsonb`: what models and Git say may hold NUL and lone surrogates, which only `json` keeps.
`bot/store/migrations` creates the tables; a test holds both to be the same.
"""

from enum import StrEnum
from typing import Final

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    Double,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    Table,
    Text,
    UniqueConstraint,
    func,
    text,
)


class RunState(StrEnum):
    """Where a run stands. The last ten are ends, with the names people see."""

    ACCEPTED = "accepted"
    AWAITING_GO = "awaiting_go"
    PLANNING = "planning"
    WORKING = "working"
    AWAITING_REVIEW = "awaiting_review"
    APPROVED = "approved"
    PROMOTING = "promoting"
    CANCELLING = "cancelling"
    STALE = "stale"

    PROMOTED = "promoted"
    REPORTED = "reported"
    FAILED = "failed"
    REJECTED = "rejected"
    REVISED = "revised"
    MERGED_ELSEWHERE = "merged_elsewhere"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    REFUSED = "refused"
    CONFLICTED = "conflicted"


LIVE_STATES: Final = frozenset(
    {
        RunState.ACCEPTED,
        RunState.AWAITING_GO,
        RunState.PLANNING,
        RunState.WORKING,
        RunState.AWAITING_REVIEW,
        RunState.APPROVED,
        RunState.PROMOTING,
        RunState.CANCELLING,
        RunState.STALE,
    }
)
END_STATES: Final = frozenset(RunState) - LIVE_STATES
#: A person has to act: nothing is held, no job exists.
WAITING_STATES: Final = frozenset({RunState.AWAITING_GO, RunState.AWAITING_REVIEW})
#: A job has to exist: the reconciler defers one where it does not.
ACTIVE_STATES: Final = LIVE_STATES - WAITING_STATES
#: Agents and suites are busy: what the limits on concurrent runs count.
BUSY_STATES: Final = frozenset({RunState.PLANNING, RunState.WORKING})


class DeliveryOutcome(StrEnum):
    """How a delivery ended. `failed` and `unparsed` ones are taken again when redelivered."""

    HANDLED = "handled"
    IGNORED = "ignored"
    REFUSED = "refused"
    FAILED = "failed"
    UNPARSED = "unparsed"


#: The `state_reason` of a run that waits for others of its repository or installation to finish.
QUEUED: Final = "queued"
#: The `state_reason` of an ended run whose ending GitHub could not be told.
UNSEEN: Final = "unseen"
#: That of a run awaiting review whose approved candidate GitHub refused: `retry` pushes again.
PUSH_REFUSED: Final = "push_refused"

#: The audit trail's word for an ended run whose content is no longer kept.
FORGOTTEN: Final = "forgotten"

metadata: Final = MetaData(
    naming_convention={
        "ix": "%(table_name)s_%(column_0_N_name)s",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "ck": "%(table_name)s_%(constraint_name)s_check",
        "fk": "%(table_name)s_%(column_0_name)s_fkey",
        "pk": "%(table_name)s_pkey",
    }
)


def _in(column: str, values: frozenset[RunState] | type[StrEnum]) -> str:
    return f"{column} in ({', '.join(repr(str(value)) for value in sorted(values))})"


def _time(name: str) -> Column[object]:
    return Column(name, DateTime(timezone=True), nullable=False, server_default=func.now())


deliveries: Final = Table(
    "deliveries",
    metadata,
    Column("delivery_id", Text, primary_key=True),  # GitHub's GUID, outside the signature
    Column("body_sha256", Text, nullable=False, unique=True),
    Column("event", Text, nullable=False),
    Column("action", Text),
    Column("installation_id", BigInteger),
    Column("repository_id", BigInteger),
    Column("body", LargeBinary, nullable=False),
    _time("received_at"),
    Column("outcome", Text),
    Column("outcome_reason", Text),
    Column("settled_at", DateTime(timezone=True)),
    CheckConstraint(_in("outcome", DeliveryOutcome), name="outcome"),
    Index("deliveries_unsettled", "received_at", postgresql_where=text("outcome is null")),
    Index("deliveries_received_at", "received_at"),
)

runs: Final = Table(
    "runs",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("repository_id", BigInteger, nullable=False),
    Column("installation_id", BigInteger, nullable=False),
    Column("issue_number", Integer, nullable=False),
    Column("issue_node_id", Text),
    Column("trigger_kind", Text, nullable=False),
    Column("trigger_id", Text, nullable=False),
    Column("parent_run_id", Text, ForeignKey("runs.run_id")),
    Column("requester_id", BigInteger, nullable=False),
    Column("requester_login", Text, nullable=False),
    Column("state", Text, nullable=False, server_default=RunState.ACCEPTED),
    Column("state_reason", Text),
    Column("epoch", Integer, nullable=False, server_default="0"),
    Column("round", Integer, nullable=False, server_default="0"),
    Column("request", JSON, nullable=False),
    Column("base_ref", Text),
    Column("base_sha", Text),
    Column("candidate_id", Text),
    Column("candidate_sha", Text),
    Column("pull_number", Integer),
    Column("pull_node_id", Text),
    Column("branch", Text),
    Column("status_comment_id", BigInteger),
    Column("agno_session_id", Text),
    Column("agno_run_id", Text),
    Column("model_calls", Integer, nullable=False, server_default="0"),
    Column("input_tokens", BigInteger, nullable=False, server_default="0"),
    Column("output_tokens", BigInteger, nullable=False, server_default="0"),
    Column("cost", Numeric, nullable=False, server_default="0"),
    Column("outcome_sentence", Text),
    _time("created_at"),
    _time("updated_at"),
    Column("deadline_at", DateTime(timezone=True)),
    Column("envelope_published_at", DateTime(timezone=True)),
    Column("ended_at", DateTime(timezone=True)),
    UniqueConstraint("repository_id", "trigger_kind", "trigger_id", name="runs_trigger_key"),
    CheckConstraint(_in("state", RunState), name="state"),
    Index(
        "runs_one_live_per_issue",
        "repository_id",
        "issue_number",
        unique=True,
        postgresql_where=text(_in("state", LIVE_STATES)),
    ),
    Index("runs_live", "state", "deadline_at", postgresql_where=text(_in("state", LIVE_STATES))),
    Index("runs_pull", "repository_id", "pull_number"),
    Index("runs_candidate", "repository_id", "candidate_sha"),
    Index("runs_branch", "repository_id", "branch"),
    Index("runs_installation", "installation_id", "created_at"),
)

pieces: Final = Table(
    "pieces",
    metadata,
    Column("run_id", Text, ForeignKey("runs.run_id"), primary_key=True),
    Column("key", Text, primary_key=True),
    Column("value", JSON, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("contract_version", Integer, nullable=False),
    _time("created_at"),
)

effects: Final = Table(
    "effects",
    metadata,
    Column("scope", Text, primary_key=True),  # a run_id, or `delivery:<guid>` and the like
    Column("key", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("intent", JSON, nullable=False),
    Column("epoch", Integer),
    Column("external_id", Text),
    _time("created_at"),
    Column("confirmed_at", DateTime(timezone=True)),
    Index("effects_kind_external_id", "kind", "external_id"),
)

signing_keys: Final = Table(
    "signing_keys",
    metadata,
    Column("key_id", Text, primary_key=True),
    Column("public_key", LargeBinary, nullable=False),
    _time("first_used_at"),
)

events: Final = Table(
    "events",
    metadata,
    Column("sequence", BigInteger, Identity(always=True), primary_key=True),
    _time("at"),
    Column("kind", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("run_id", Text, ForeignKey("runs.run_id")),
    Column("delivery_id", Text),
    Column("detail", JSON, nullable=False, server_default="{}"),
    Index("events_run_id", "run_id", "sequence"),
)

#: Browsers that signed in to read evidence, and sign-ins that were used up. The key is a digest of
#: what the browser holds, and `sealed` opens only with that: the database alone gives no token.
browser_sessions: Final = Table(
    "browser_sessions",
    metadata,
    Column("key", Text, primary_key=True),
    Column("sealed", LargeBinary, nullable=False),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    Index("browser_sessions_expires_at", "expires_at"),
)

#: What workers count for `/metrics`. Nothing decides by it.
measures: Final = Table(
    "measures",
    metadata,
    Column("name", Text, primary_key=True),
    Column("subject", Text, primary_key=True),  # of what kind: `exit`, `1234:core`
    Column("value", Double, nullable=False),
    _time("updated_at"),
)
