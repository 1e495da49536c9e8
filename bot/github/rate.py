"""What GitHub still lets an installation ask. In: an answer's headers. Out: a `RateBudget`.

Source: https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

_RESOURCE: Final = re.compile(r"[a-z_]{1,40}")
#: Whose limit the call under way counts against: the transport below knows only requests.
_asking: ContextVar[int | None] = ContextVar("asking_installation", default=None)


@dataclass(frozen=True, slots=True)
class RateBudget:
    """One limit as last seen; `installation_id` is None for what the App itself asks."""

    installation_id: int | None
    resource: str
    limit: int
    remaining: int
    resets_at: int


@contextmanager
def asking_for(installation_id: int) -> Iterator[None]:
    """Count what is asked in here against this installation."""
    token = _asking.set(installation_id)
    try:
        yield
    finally:
        _asking.reset(token)


def parse_budget(headers: Mapping[str, str]) -> RateBudget | None:
    """Read the limit an answer speaks of; None where it speaks of none."""
    resource = headers.get("x-ratelimit-resource", "core")
    try:
        limit, remaining, resets_at = (
            int(headers[f"x-ratelimit-{name}"]) for name in ("limit", "remaining", "reset")
        )
    except (KeyError, ValueError):
        return None
    if not _RESOURCE.fullmatch(resource):
        return None
    return RateBudget(_asking.get(), resource, limit, remaining, resets_at)
