"""Browsers that signed in to read evidence."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Create their table."""
    op.create_table(
        "browser_sessions",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("browser_sessions_pkey")),
    )
    op.create_index("browser_sessions_expires_at", "browser_sessions", ["expires_at"])
