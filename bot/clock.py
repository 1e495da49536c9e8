"""The time, aware and in UTC. In: nothing. Out: now."""

from datetime import UTC, datetime


def now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)
