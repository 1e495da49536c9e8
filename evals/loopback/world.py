"""Everything one GitHub knows, its clock, its addresses, and where its events go.

In: records of `state.py`. Out: look-ups by name and id, what somebody may do, background work.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from evals.loopback.state import (
    ROLES,
    Account,
    App,
    Installation,
    Json,
    Repository,
    Role,
    Token,
)


class Publisher(Protocol):
    """Where events go; `deliveries.py` signs and sends them."""

    def publish(
        self,
        event: str,
        action: str | None,
        content: Json,
        *,
        repository: Repository | None,
        sender: Account,
        only: App | None = None,
    ) -> None:
        """Hand one event to every App that should hear it (or to one of them)."""

    def publish_to_app(
        self, event: str, action: str, content: Json, installation: Installation, sender: Account
    ) -> None:
        """Hand an event about an installation to its App."""


@dataclass(kw_only=True, eq=False, repr=False)
class World:
    """Everything this GitHub knows, its clock, and the addresses it is reached at."""

    url: str = "http://127.0.0.1"
    enterprise: bool = False
    webhooks: Publisher
    pull_head_lag_seconds: float = 0.0
    merged_lag_seconds: float = 0.0
    clock_offset: timedelta = timedelta()
    accounts: dict[int, Account] = field(default_factory=dict)
    apps: dict[int, App] = field(default_factory=dict)
    installations: dict[int, Installation] = field(default_factory=dict)
    tokens: dict[str, Token] = field(default_factory=dict)
    repositories: dict[int, Repository] = field(default_factory=dict)
    pending: set[asyncio.Task[None]] = field(default_factory=set)
    held: list[Coroutine[Any, Any, None]] = field(default_factory=list)
    _ids: itertools.count[int] = field(default_factory=lambda: itertools.count(1_000_001))

    def next_id(self) -> int:
        """A number no other thing here has."""
        return next(self._ids)

    def now(self) -> datetime:
        """This GitHub's own time, whole seconds, which tests may move (`clock_offset`)."""
        return datetime.now(UTC) + self.clock_offset

    def later(self, seconds: float, work: Coroutine[Any, Any, None]) -> None:
        """Do something in the background, as GitHub's own jobs do; `inf` until `release`."""
        if math.isinf(seconds):
            self.held.append(work)
            return

        async def wait_and_work() -> None:
            await asyncio.sleep(seconds)
            await work

        task = asyncio.create_task(wait_and_work())
        self.pending.add(task)
        task.add_done_callback(self.pending.discard)

    def release(self) -> None:
        """Let what was held back happen now."""
        held, self.held = self.held, []
        for work in held:
            self.later(0, work)

    @property
    def api_url(self) -> str:
        """The root of the REST API: Enterprise Server serves it under a prefix."""
        return f"{self.url}/api/v3" if self.enterprise else self.url

    def account(self, login: str) -> Account | None:
        """The account of that name, in any case, unless it was deleted."""
        wanted = login.casefold()
        live = (a for a in self.accounts.values() if not a.deleted)
        return next((a for a in live if a.login.casefold() == wanted), None)

    def repository(self, owner: str, name: str) -> Repository | None:
        """The repository now called `owner/name`."""
        wanted = f"{owner}/{name}".casefold()
        live = (r for r in self.repositories.values() if not r.deleted)
        return next((r for r in live if r.full_name.casefold() == wanted), None)

    def formerly(self, owner: str, name: str) -> Repository | None:
        """The repository that used to be called `owner/name`, before a rename or transfer."""
        wanted = f"{owner}/{name}".casefold()
        live = (r for r in self.repositories.values() if not r.deleted)
        return next((r for r in live if wanted in r.former_names), None)

    def installation(self, app: App, repository: Repository) -> Installation | None:
        """That App's installation which covers the repository, suspended or not."""
        every = (i for i in self.installations.values() if i.app is app)
        return next((i for i in every if i.covers(repository)), None)

    def role(self, account: Account | None, repository: Repository) -> Role:
        """What a person may do: their own grant, or what everybody may on a public repository."""
        floor: Role = "none" if repository.private else "read"
        if account is None or account.deleted:
            return floor if account is None else "none"
        if account is repository.owner:
            return "admin"
        granted = repository.collaborators.get(account.id, "none")
        return max(granted, floor, key=ROLES.index)
