"""The seam between the front door and the store: what is handed over, and the two answers.

In: a verified delivery with its event. Out: whether it was new. The implementation lives with the
database; this module knows only that acceptance is durable before it is answered.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from webhooks.events import Event
from webhooks.payloads import InstallationId, RepositoryId


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One webhook POST whose signature was checked, as it arrived."""

    delivery_id: str
    """GitHub's GUID, lower case. The signature leaves it out: the body's digest is a second key."""
    event_name: str
    """The `X-GitHub-Event` header, for example `issue_comment`."""
    action: str | None
    """The payload's `action`; None for events that have none (push, status)."""
    installation_id: InstallationId | None
    repository_id: RepositoryId | None
    body_sha256: str
    """SHA-256 of `body`, 64 lower-case hex digits."""
    body: bytes = field(repr=False)
    """The payload exactly as signed."""
    received_at: datetime
    """When the web process had read the whole body; aware, UTC."""
    unparsed_reason: str | None = None
    """Why a known event did not fit its model; None when it did."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The delivery is stored and its job deferred, both committed."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """This delivery, or one with the same body, was taken before; nothing was done."""


class Inbox(Protocol):
    """Takes deliveries durably."""

    async def accept(self, delivery: Delivery, event: Event | None) -> Accepted | Duplicate:
        """Store the delivery and defer its job in one transaction.

        `event` is None exactly when `delivery.unparsed_reason` is set. Any exception means nothing
        is known to be stored: the sender is told to come again.
        """
        ...
