"""The five tables of the bot."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


_LIVE = (
    "state in ('accepted', 'approved', 'awaiting_go', 'awaiting_review', 'cancelling', "
    "'planning', 'promoting', 'stale', 'working')"
)
_STATES = (
    "state in ('accepted', 'approved', 'awaiting_go', 'awaiting_review', 'cancelled', "
    "'cancelling', 'conflicted', 'expired', 'failed', 'merged_elsewhere', 'planning', "
    "'promoted', 'promoting', 'refused', 'rejected', 'reported', 'revised', 'stale', "
    "'working')"
)


def upgrade() -> None:
    """Create them."""
    _create_deliveries()
    _create_runs()
    _create_pieces()
    _create_effects()
    _create_events()


def _create_deliveries() -> None:
    op.create_table(
        "deliveries",
        sa.Column("delivery_id", sa.Text(), nullable=False),
        sa.Column("body_sha256", sa.Text(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=True),
        sa.Column("installation_id", sa.BigInteger(), nullable=True),
        sa.Column("repository_id", sa.BigInteger(), nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column(
            "received_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("outcome_reason", sa.Text(), nullable=True),
        sa.Column("settled_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "outcome in ('failed', 'handled', 'ignored', 'refused', 'unparsed')",
            name=op.f("deliveries_outcome_check"),
        ),
        sa.PrimaryKeyConstraint("delivery_id", name=op.f("deliveries_pkey")),
        sa.UniqueConstraint("body_sha256", name=op.f("deliveries_body_sha256_key")),
    )
    op.create_index("deliveries_received_at", "deliveries", ["received_at"], unique=False)
    op.create_index(
        "deliveries_unsettled",
        "deliveries",
        ["received_at"],
        unique=False,
        postgresql_where=sa.text("outcome is null"),
    )


def _create_effects() -> None:
    op.create_table(
        "effects",
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("intent", sa.JSON(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=True),
        sa.Column("external_id", sa.Text(), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("confirmed_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("scope", "key", name=op.f("effects_pkey")),
    )
    op.create_index("effects_kind_external_id", "effects", ["kind", "external_id"], unique=False)


def _create_runs() -> None:
    op.create_table(
        "runs",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("installation_id", sa.BigInteger(), nullable=False),
        sa.Column("issue_number", sa.Integer(), nullable=False),
        sa.Column("issue_node_id", sa.Text(), nullable=True),
        sa.Column("trigger_kind", sa.Text(), nullable=False),
        sa.Column("trigger_id", sa.Text(), nullable=False),
        sa.Column("parent_run_id", sa.Text(), nullable=True),
        sa.Column("requester_id", sa.BigInteger(), nullable=False),
        sa.Column("requester_login", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), server_default="accepted", nullable=False),
        sa.Column("state_reason", sa.Text(), nullable=True),
        sa.Column("epoch", sa.Integer(), server_default="0", nullable=False),
        sa.Column("round", sa.Integer(), server_default="0", nullable=False),
        sa.Column("request", sa.JSON(), nullable=False),
        sa.Column("base_ref", sa.Text(), nullable=True),
        sa.Column("base_sha", sa.Text(), nullable=True),
        sa.Column("candidate_id", sa.Text(), nullable=True),
        sa.Column("candidate_sha", sa.Text(), nullable=True),
        sa.Column("pull_number", sa.Integer(), nullable=True),
        sa.Column("pull_node_id", sa.Text(), nullable=True),
        sa.Column("branch", sa.Text(), nullable=True),
        sa.Column("status_comment_id", sa.BigInteger(), nullable=True),
        sa.Column("agno_session_id", sa.Text(), nullable=True),
        sa.Column("agno_run_id", sa.Text(), nullable=True),
        sa.Column("model_calls", sa.Integer(), server_default="0", nullable=False),
        sa.Column("input_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("cost", sa.Numeric(), server_default="0", nullable=False),
        sa.Column("outcome_sentence", sa.Text(), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column(
            "updated_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("deadline_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("envelope_published_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(_STATES, name=op.f("runs_state_check")),
        sa.ForeignKeyConstraint(
            ["parent_run_id"], ["runs.run_id"], name=op.f("runs_parent_run_id_fkey")
        ),
        sa.PrimaryKeyConstraint("run_id", name=op.f("runs_pkey")),
        sa.UniqueConstraint("repository_id", "trigger_kind", "trigger_id", name="runs_trigger_key"),
    )
    op.create_index("runs_branch", "runs", ["repository_id", "branch"], unique=False)
    op.create_index("runs_candidate", "runs", ["repository_id", "candidate_sha"], unique=False)
    op.create_index("runs_installation", "runs", ["installation_id", "created_at"], unique=False)
    op.create_index(
        "runs_live", "runs", ["state", "deadline_at"], unique=False, postgresql_where=sa.text(_LIVE)
    )
    op.create_index(
        "runs_one_live_per_issue",
        "runs",
        ["repository_id", "issue_number"],
        unique=True,
        postgresql_where=sa.text(_LIVE),
    )
    op.create_index("runs_pull", "runs", ["repository_id", "pull_number"], unique=False)


def _create_events() -> None:
    op.create_table(
        "events",
        sa.Column("sequence", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column(
            "at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=True),
        sa.Column("delivery_id", sa.Text(), nullable=True),
        sa.Column("detail", sa.JSON(), server_default="{}", nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("events_run_id_fkey")),
        sa.PrimaryKeyConstraint("sequence", name=op.f("events_pkey")),
    )
    op.create_index("events_run_id", "events", ["run_id", "sequence"], unique=False)


def _create_pieces() -> None:
    op.create_table(
        "pieces",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.JSON(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("contract_version", sa.Integer(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("pieces_run_id_fkey")),
        sa.PrimaryKeyConstraint("run_id", "key", name=op.f("pieces_pkey")),
    )
