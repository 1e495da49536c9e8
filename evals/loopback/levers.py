"""Who is there, and the levers nobody has on github.com: accounts, installations, faults.

In: who (a key of the cast such as "writer", a login, a person, or an App). Out: the actor they are,
and a GitHub that changes or misbehaves under everybody's hands.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from evals.loopback import (
    housekeeping,
    installing,
    issues,
    pulls,
)
from evals.loopback.auth import Actor, actor_of_token, mint_installation_token
from evals.loopback.deliveries import Delivery, HookRule, Webhooks
from evals.loopback.faults import Fault
from evals.loopback.journal import Exchange, new_journal
from evals.loopback.ledger import state_of
from evals.loopback.limits import Limits
from evals.loopback.manifests import Registrations
from evals.loopback.people import Person
from evals.loopback.push_hook import HookServer
from evals.loopback.signin import SignIns
from evals.loopback.state import (
    App,
    Installation,
    Issue,
    Json,
    Protection,
    PullRequest,
    Repository,
    Ruleset,
)
from evals.loopback.world import World

Who = str | Person | App


@dataclass
class Levers:
    """A world with people in it, and everything that serves them."""

    world: World
    webhooks: Webhooks
    hooks: HookServer
    limits: Limits
    people: dict[str, Person] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    exchanges: deque[Exchange] = field(default_factory=new_journal)
    registrations: Registrations = field(default_factory=Registrations)
    signins: SignIns = field(default_factory=SignIns)
    app: App = field(init=False)

    def set_webhook_url(self, url: str | None) -> None:
        """Where the App's webhooks go from now on, and people who signed in.

        What was published before stays failed until it is redelivered.
        """
        self.app.webhook_url = url
        parts = urlsplit(url or "")
        self.app.callback_urls = [f"{parts.scheme}://{parts.netloc}"] if url else []

    # --- finding ---

    def person(self, who: str) -> Person:
        """Somebody by key ("writer") or login."""
        if who in self.people:
            return self.people[who]
        return next(p for p in self.people.values() if p.login == who)

    def repository(self, full_name: str | None = None) -> Repository:
        """A repository by name; the first one when not said."""
        if full_name is None:
            return next(iter(self.world.repositories.values()))
        found = self.world.repository(*full_name.split("/"))
        assert found is not None, f"no repository {full_name}"
        return found

    def acting(self, who: Who) -> Actor:
        """The actor a person or an App is, with all that it may do."""
        if isinstance(who, App):
            token = mint_installation_token(self.world, self._installation(who))
            return Actor(who.bot, token, who)
        person = who if isinstance(who, Person) else self.person(who)
        return actor_of_token(self.world, person.token)

    def issue(self, number: int, repository: Repository | None = None) -> Issue:
        """An issue by number."""
        return issues.find(repository or self.repository(), number)

    def pull(self, number: int, repository: Repository | None = None) -> PullRequest:
        """A pull request by number."""
        return pulls.find(repository or self.repository(), number)

    # --- rules and housekeeping ---

    def protect(self, rules: Protection, repository: Repository | None = None) -> None:
        """Protect a branch in the classic way."""
        (repository or self.repository()).protections[rules.branch] = rules

    def add_ruleset(self, rules: Sequence[Json], repository: Repository | None = None) -> Ruleset:
        """An active ruleset for the default branch."""
        where, now = repository or self.repository(), self.world.now()
        ruleset = Ruleset(
            id=self.world.next_id(),
            name=f"ruleset {len(where.rulesets) + 1}",
            target="branch",
            enforcement="active",
            bypass_actors=[],
            conditions={"ref_name": {"include": ["~DEFAULT_BRANCH"], "exclude": []}},
            rules=list(rules),
            created_at=now,
            updated_at=now,
        )
        where.rulesets[ruleset.id] = ruleset
        return ruleset

    def grant(self, who: str, role: str, repository: Repository | None = None) -> None:
        """Change what somebody may do."""
        where = repository or self.repository()
        housekeeping.grant(self.world, where, self.person(who).account, role)

    def delete_user(self, who: str) -> None:
        """Delete an account: its reviews have no user any more, its words are the ghost's."""
        self.person(who).account.deleted = True

    async def edit_repository(
        self,
        *,
        as_user: Who = "admin",
        repository: Repository | None = None,
        **changes: Any,
    ) -> None:
        """Rename, archive, …: see `housekeeping.Changes`."""
        where, actor = repository or self.repository(), self.acting(as_user)
        await housekeeping.edit(self.world, actor, where, housekeeping.Changes(**changes))

    def suspend(self, app: App, *, as_user: str = "admin") -> None:
        """Suspend an App's installation."""
        by = self.person(as_user).account
        for installation in self.world.installations.values():
            if installation.app is app:
                installing.suspend(self.world, installation, by=by)

    def unsuspend(self, app: App, *, as_user: str = "admin") -> None:
        """Take that back."""
        by = self.person(as_user).account
        for installation in self.world.installations.values():
            if installation.app is app:
                installing.unsuspend(self.world, installation, by=by)

    def uninstall(self, app: App, *, as_user: str = "admin") -> None:
        """Remove an App's installation."""
        by = self.person(as_user).account
        for installation in self.world.installations.values():
            if installation.app is app and not installation.deleted:
                installing.uninstall(self.world, installation, sender=by)

    def give_repository(self, app: App, repository: Repository, *, as_user: str = "admin") -> None:
        """Let an App see a repository."""
        installation = self._installation(app)
        by = self.person(as_user).account
        installing.add_repositories(self.world, installation, [repository], by=by)

    def take_repository(self, app: App, repository: Repository, *, as_user: str = "admin") -> None:
        """Let an App see a repository no more."""
        installation = self._installation(app)
        by = self.person(as_user).account
        installing.remove_repositories(self.world, installation, [repository], by=by)

    def _installation(self, app: App) -> Installation:
        every = self.world.installations.values()
        return next(i for i in every if i.app is app and not i.deleted)

    async def settle(self) -> None:
        """Wait until nothing is on its way: background work of GitHub's and webhooks."""
        while self.world.pending:
            await asyncio.gather(*list(self.world.pending))
        await self.webhooks.idle()

    # --- misbehaviour ---

    def go_wrong(self, fault: Fault) -> Fault:
        """Let the next matching calls go wrong."""
        self.faults.append(fault)
        return fault

    def lose_webhooks(self, rule: HookRule) -> HookRule:
        """Let the next matching deliveries go wrong."""
        self.webhooks.rules.append(rule)
        return rule

    def redeliver(self, delivery: Delivery) -> Delivery:
        """Send a delivery again under its GUID."""
        return self.webhooks.redeliver(delivery)

    async def state(self) -> Json:
        """Everything there is as plain facts, refs from Git: see `ledger.py`."""
        return await state_of(self.world)

    @property
    def journal(self) -> list[Exchange]:
        """What was said over REST and GraphQL so far, oldest first."""
        return list(self.exchanges)

    @property
    def deliveries(self) -> list[Delivery]:
        """Every delivery so far."""
        return self.webhooks.deliveries
