"""What people do on GitHub, one method each, so that a test reads like a story.

In: who (`as_user`: a key of the cast such as "writer", a login, a person, or an App) and what. Out:
the record. Every method obeys the same rules as the REST API and publishes the same webhooks.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from fastapi import Request

from evals.loopback import (
    checks,
    housekeeping,
    installing,
    issues,
    protection,
    pulls,
    pushes,
    reviews,
)
from evals.loopback.auth import Actor, actor_of_token, mint_installation_token
from evals.loopback.bare import GitPerson
from evals.loopback.deliveries import Delivery, HookRule, Webhooks
from evals.loopback.faults import Fault
from evals.loopback.journal import Exchange, new_journal
from evals.loopback.limits import Limits
from evals.loopback.manifests import Registrations
from evals.loopback.people import Person
from evals.loopback.push_hook import HookServer
from evals.loopback.reviews import LineComment
from evals.loopback.signin import SignIns
from evals.loopback.state import (
    App,
    CheckRun,
    Comment,
    Installation,
    Issue,
    Json,
    Protection,
    PullRequest,
    Repository,
    Review,
    ReviewComment,
    ReviewThread,
    Ruleset,
    World,
)

Who = str | Person | App
SCOPE = "loopback.story"  # where a request carries the GitHub that it reached


def story_of(request: Request) -> Story:
    """The GitHub that a request reached; one application serves all of a process."""
    story: Story = request.scope[SCOPE]
    return story


@dataclass
class Story:
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

    # --- issues ---

    async def open_issue(
        self,
        *,
        as_user: Who,
        title: str,
        body: str = "",
        labels: Sequence[str] = (),
        repository: Repository | None = None,
    ) -> Issue:
        """Open an issue."""
        where = repository or self.repository()
        actor = self.acting(as_user)
        return issues.open_issue(self.world, actor, where, title=title, body=body, labels=labels)

    async def comment(self, on: Issue | PullRequest, *, as_user: Who, body: str) -> Comment:
        """Comment on an issue or pull request."""
        return issues.comment(self.world, self.acting(as_user), _issue(on), body)

    async def edit_issue(
        self, issue: Issue, *, as_user: Who, title: str | None = None, body: str | None = None
    ) -> None:
        """Change an issue's words."""
        issues.edit(self.world, self.acting(as_user), issue, title=title, body=body)

    async def edit_comment(self, comment: Comment, *, as_user: Who, body: str) -> None:
        """Change a comment's words."""
        issues.edit_comment(self.world, self.acting(as_user), comment, body)

    async def delete_comment(self, comment: Comment, *, as_user: Who) -> None:
        """Remove a comment."""
        issues.delete_comment(self.world, self.acting(as_user), comment)

    async def label(self, on: Issue | PullRequest, name: str, *, as_user: Who) -> None:
        """Put a label on."""
        issues.add_labels(self.world, self.acting(as_user), _issue(on), [name])

    async def unlabel(self, on: Issue | PullRequest, name: str, *, as_user: Who) -> None:
        """Take a label off."""
        issues.remove_label(self.world, self.acting(as_user), _issue(on), name)

    async def close_issue(self, issue: Issue, *, as_user: Who) -> None:
        """Close an issue."""
        issues.close(self.world, self.acting(as_user), issue)

    async def reopen_issue(self, issue: Issue, *, as_user: Who) -> None:
        """Open an issue again."""
        issues.reopen(self.world, self.acting(as_user), issue)

    async def lock_issue(self, on: Issue | PullRequest, *, as_user: Who) -> None:
        """Lock a conversation."""
        issues.lock(self.world, self.acting(as_user), _issue(on))

    async def delete_issue(self, issue: Issue, *, as_user: Who = "admin") -> None:
        """Delete an issue."""
        issues.delete(self.world, self.acting(as_user), issue)

    async def transfer_issue(self, issue: Issue, to: Repository, *, as_user: Who) -> Issue:
        """Move an issue to another repository."""
        return issues.transfer(self.world, self.acting(as_user), issue, to)

    # --- code ---

    async def push(
        self,
        files: Mapping[str, str | bytes | None],
        *,
        as_user: Who,
        branch: str | None = None,
        message: str = "Change files",
        repository: Repository | None = None,
        start: str | None = None,
    ) -> str:
        """Commit files (None removes one) on a branch, made from `start` when new; its SHA."""
        where, actor = repository or self.repository(), self.acting(as_user)
        name = branch or where.default_branch
        old = await where.git.branch(name)
        parent = start or old or await where.git.branch(where.default_branch)
        data = {p: d.encode() if isinstance(d, str) else d for p, d in files.items()}
        tree = await where.git.write_tree(parent, data)
        who = actor.who()
        person = GitPerson(who.name or who.login, who.email, self.world.now())
        new = await where.git.write_commit(tree, [parent] if parent else [], message, person)
        await self.move_branch(name, new, as_user=as_user, repository=where)
        return new

    async def move_branch(
        self, branch: str, sha: str | None, *, as_user: Who, repository: Repository | None = None
    ) -> None:
        """Point a branch at a commit, whatever it pointed to (None deletes it), rules asked."""
        where, actor = repository or self.repository(), self.acting(as_user)
        ref, old = f"refs/heads/{branch}", await where.git.branch(branch)
        wanted = protection.WantedUpdate(branch, old, sha)
        objections = await protection.objections_to_update(self.world, actor, where, wanted)
        assert objections is None, objections
        async with where.git.writing:
            if sha is not None:
                done = await where.git.update_ref(ref, sha, old)
            else:
                done = await where.git.delete_ref(ref, old or "")
        assert done, f"{branch} moved meanwhile"
        await pushes.after_push(self.world, where, actor, [pushes.RefChange(ref, old, sha)])

    async def tip(self, branch: str | None = None, repository: Repository | None = None) -> str:
        """The commit a branch points to, from Git; the default branch when not said."""
        where = repository or self.repository()
        sha = await where.git.branch(branch or where.default_branch)
        assert sha is not None, f"no branch {branch}"
        return sha

    # --- pull requests ---

    async def open_pull(
        self,
        *,
        as_user: Who,
        head: str,
        base: str | None = None,
        title: str = "A change",
        body: str = "",
        draft: bool = False,
        repository: Repository | None = None,
    ) -> PullRequest:
        """Open a pull request."""
        where = repository or self.repository()
        wanted = pulls.Proposal(
            title=title, body=body, base=base or where.default_branch, head=head, draft=draft
        )
        return await pulls.open_pull(self.world, self.acting(as_user), where, wanted)

    async def review(
        self,
        pull: PullRequest,
        *,
        as_user: Who,
        event: str = "APPROVE",
        body: str = "",
        commit_id: str | None = None,
        comments: Sequence[LineComment] = (),
    ) -> Review:
        """Review a pull request; at its head unless another commit is named."""
        return await reviews.create(
            self.world,
            self.acting(as_user),
            pull,
            event=event,
            body=body,
            commit_id=commit_id,
            comments=list(comments),
        )

    async def dismiss(self, review: Review, *, as_user: Who, message: str = "Stale") -> None:
        """Dismiss a review."""
        reviews.dismiss(self.world, self.acting(as_user), review, message)

    async def reply(self, to: ReviewComment, *, as_user: Who, body: str) -> ReviewComment:
        """Answer in a review thread."""
        actor = self.acting(as_user)
        return await reviews.reply(self.world, actor, to.review.pull, to.id, body)

    async def resolve(self, thread: ReviewThread, *, as_user: Who, resolved: bool = True) -> None:
        """Resolve a review thread, or open it again."""
        reviews.resolve(self.world, self.acting(as_user), thread, resolved=resolved)

    async def close_pull(self, pull: PullRequest, *, as_user: Who) -> None:
        """Close a pull request unmerged."""
        issues.close(self.world, self.acting(as_user), pull.issue)

    async def reopen_pull(self, pull: PullRequest, *, as_user: Who) -> None:
        """Open a pull request again."""
        await pulls.reopen(self.world, self.acting(as_user), pull)

    async def retarget(self, pull: PullRequest, base: str, *, as_user: Who) -> None:
        """Aim a pull request at another branch."""
        await pulls.edit(self.world, self.acting(as_user), pull, base=base)

    async def set_draft(self, pull: PullRequest, *, as_user: Who, draft: bool) -> None:
        """Mark ready for review, or a draft."""
        await pulls.set_draft(self.world, self.acting(as_user), pull, draft=draft)

    async def merge_pull(self, pull: PullRequest, *, as_user: Who, method: str = "merge") -> str:
        """Press the merge button; the new tip of the base."""
        return await pulls.merge(self.world, self.acting(as_user), pull, method=method)

    # --- checks ---

    async def check(
        self,
        sha: str,
        name: str,
        conclusion: str | None,
        *,
        as_app: App,
        repository: Repository | None = None,
    ) -> CheckRun:
        """Another App reports a check; None leaves it running."""
        where, actor = repository or self.repository(), self.acting(as_app)
        status = "completed" if conclusion else "in_progress"
        wanted: Json = {"name": name, "head_sha": sha, "status": status}
        if conclusion:
            wanted["conclusion"] = conclusion
        return await checks.create_run(self.world, actor, where, wanted)

    async def status(
        self,
        sha: str,
        context: str,
        state: str,
        *,
        as_user: Who,
        repository: Repository | None = None,
    ) -> None:
        """Somebody sets a commit status."""
        where, actor = repository or self.repository(), self.acting(as_user)
        wanted: Json = {"context": context, "state": state}
        await checks.set_status(self.world, actor, where, sha, wanted)

    async def press(
        self, run: CheckRun, identifier: str, *, as_user: Who, repository: Repository | None = None
    ) -> None:
        """Press one of a check run's own buttons."""
        where = repository or self.repository()
        checks.press(self.world, self.acting(as_user), where, run, identifier)

    async def rerequest(
        self, run: CheckRun, *, as_user: Who, repository: Repository | None = None
    ) -> None:
        """Press "Re-run" on a check."""
        where = repository or self.repository()
        checks.rerequest_run(self.world, self.acting(as_user), where, run)

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

    @property
    def journal(self) -> list[Exchange]:
        """What was said over REST and GraphQL so far, oldest first."""
        return list(self.exchanges)

    @property
    def deliveries(self) -> list[Delivery]:
        """Every delivery so far."""
        return self.webhooks.deliveries


def _issue(on: Issue | PullRequest) -> Issue:
    return on.issue if isinstance(on, PullRequest) else on
