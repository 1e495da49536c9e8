"""What people do on GitHub, one method each, so that a test reads like a story.

In: who (`as_user`: a key of the cast such as "writer", a login, a person, or an App) and what. Out:
the record. Every method obeys the same rules as the REST API and publishes the same webhooks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fastapi import Request

from evals.loopback import (
    checks,
    issues,
    protection,
    pulls,
    pushes,
    reviews,
    statuses,
)
from evals.loopback.commit_rules import WantedUpdate
from evals.loopback.git_output import GitPerson
from evals.loopback.levers import Levers, Who
from evals.loopback.reviews import LineComment
from evals.loopback.state import (
    App,
    CheckRun,
    Comment,
    Issue,
    Json,
    PullRequest,
    Repository,
    Review,
    ReviewComment,
    ReviewThread,
)

SCOPE = "loopback.story"  # where a request carries the GitHub that it reached


def story_of(request: Request) -> Story:
    """The GitHub that a request reached; one application serves all of a process."""
    story: Story = request.scope[SCOPE]
    return story


@dataclass
class Story(Levers):
    """What people do; where they are and what they may is in `Levers`."""

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
        wanted = WantedUpdate(where, branch, old, sha)
        objections = await protection.objections_to_update(self.world, actor, wanted)
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
        await statuses.set_status(self.world, actor, where, sha, wanted)

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


def _issue(on: Issue | PullRequest) -> Issue:
    return on.issue if isinstance(on, PullRequest) else on
