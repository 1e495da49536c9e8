"""What one run shows on GitHub: status comment, branch, draft pull request, check runs, promotion.

In: a claimed run and its view. Out: effects, each through the ledger, each found again before it is
repeated. Text comes from `bot.github.messages`; nothing is decided here.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property

from pydantic import AwareDatetime

from bot.clock import now
from bot.contracts import CandidateEnvelope, CodingRequest, Ending
from bot.errors import BotError
from bot.gate import GateFacts, ReviewRules, ReviewTarget, decide, load_gate_facts
from bot.github import messages
from bot.github.marks import Marks
from bot.github.port import (
    Comment,
    GitHubRepository,
    Permission,
    PullFacts,
)
from bot.github.protection import GATE_CHECK
from bot.github.repository import WORK_IN_PROGRESS
from bot.github.run_effects import RunEffects
from bot.go import load_goes
from bot.policy import Policy
from bot.run_pieces import RunPieces
from bot.store.effects import EffectKind, Effects
from bot.store.runs import RunStore
from bot.verdicts import Approved, Verdict
from bot.view import RunView, load_view
from workspace.contracts import (
    Candidate,
    Frozen,
    Moved,
    Pushed,
    PushRefused,
    RunPin,
    WorkspaceService,
)


class BranchTaken(BotError):
    """Somebody else pushed to the run's branch, so its candidate could not be shown there."""


class NotPushed(Exception):
    """The base branch did not take the candidate; `answer` says why."""

    def __init__(self, answer: Moved | PushRefused) -> None:
        super().__init__(str(answer))
        self.answer = answer


class Published(Frozen):
    """What GitHub made of a published envelope; times are GitHub's own."""

    pull_number: int
    pull_node_id: str
    gate_check_id: int
    published_at: AwareDatetime
    previous_sha: str | None


@dataclass(frozen=True, kw_only=True)
class Publisher:
    """Publishes one run under one claim. `view` gives the run as it stands at a moment."""

    run_id: str
    epoch: int
    request: CodingRequest
    policy: Policy
    pin: RunPin
    branch: str
    app_id: int
    repository: GitHubRepository
    runs: RunStore
    pieces: RunPieces
    effects: Effects
    marks: Marks
    workshop: WorkspaceService
    public_url: str | None
    previous_sha: str | None = None
    _status: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def view(self, verdict: Verdict | None = None, *, position: int | None = None) -> RunView:
        """Return the run as it stands now."""
        view = await load_view(
            await self.runs.get(self.run_id),
            self.request,
            self.pieces,
            branch=self.branch,
            public_url=self.public_url,
            verdict=verdict,
        )
        return replace(view, position=position, policy=self.policy, as_of=now())

    # --- the status comment ----------------------------------------------------------------------

    async def refresh_status(
        self, verdict: Verdict | None = None, *, position: int | None = None
    ) -> None:
        """Bring the one status comment up to date; nobody is notified."""
        async with self._status:
            text = messages.status_comment(await self.view(verdict, position=position))
            await self._done.edited_comment(self.request.issue_number, "status", text)

    async def ask_for_go(self) -> None:
        """Show what waits for somebody's `go`: words, a plan or a candidate."""
        await self.refresh_status()
        view = await self.view()
        await self.say(f"go:{view.reason}", messages.go_wanted_comment(view))

    async def say(self, key: str, text: str) -> int:
        """Post a new comment on the issue, once; return its id."""
        return await self._done.comment(self.request.issue_number, key, text)

    # --- a round ---------------------------------------------------------------------------------

    async def publish_round(self, round: int, *, passed: bool) -> None:
        """Show a round's candidate: branch, draft pull request, check runs."""
        view = await self.view()
        shown = view.rounds[round]
        candidate = shown.candidate
        if candidate is None or not candidate.changed:
            return
        if not passed and self.policy.publish.rounds != "every":
            return
        await self._back_to_draft(round, view.pull_number)
        await self._push(round, candidate.sha)
        known = await self._pushed_before(round) is not None
        pull = await self._pull(view)
        await self._record(pull)
        if known:
            await self._describe(pull, messages.pull_request_body(view))
        for check in messages.check_runs(view, shown):
            await self._done.check(round, check)

    async def _back_to_draft(self, round: int, number: int | None) -> None:
        """Take a pull request that an earlier run made ready back to draft, before a push to it.

        Whoever sees it ready sees a published envelope; an approval in between would not count.
        """
        if number is None or self.previous_sha is None or round > 0:
            return
        pull = await self.repository.pull(number)
        if pull is None or pull.draft:
            return

        async def act() -> str:
            await self.repository.set_draft(pull, draft=True)
            return str(pull.number)

        await self._done.perform("draft", EffectKind.READY_FOR_REVIEW, act)

    async def _record(self, pull: PullFacts) -> None:
        await self.runs.record(
            self.run_id,
            epoch=self.epoch,
            branch=self.branch,
            pull_number=pull.number,
            pull_node_id=pull.node_id,
        )

    async def _push(self, round: int, sha: str) -> None:
        expected = await self._pushed_before(round)

        async def act() -> str:
            answer = await self.workshop.publish_branch(
                self.pin, self.branch, sha, expected=expected
            )
            match answer:
                case Pushed():
                    return sha
                case Moved(actual=actual):
                    raise BranchTaken(
                        f"The branch `{self.branch}` is at {(actual or 'nothing')[:12]}, which "
                        "this run did not put there."
                    )
                case PushRefused(reason=reason):
                    raise BranchTaken(f"GitHub refused the push of `{self.branch}`: {reason}")

        async def find() -> str | None:
            return sha if await self.repository.branch_sha(self.branch) == sha else None

        await self._done.perform(f"branch:{round}", EffectKind.BRANCH, act, find)

    async def _pushed_before(self, round: int) -> str | None:
        for earlier in range(round - 1, -1, -1):
            if sha := await self._done.confirmed(f"branch:{earlier}"):
                return sha
        return self.previous_sha

    async def _pull(self, view: RunView) -> PullFacts:
        """Return the run's one pull request, opening it as a draft when there is none."""
        made: list[PullFacts] = []

        async def act() -> str:
            pull = await self.repository.create_draft_pull(
                head=self.branch,
                base=self._base,
                title=messages.pull_request_title(view),
                body=messages.pull_request_body(view),
            )
            made.append(pull)
            return str(pull.number)

        async def find() -> str | None:
            pulls = await self.repository.pulls_of_branch(self.branch)
            return next((str(pull.number) for pull in pulls), None)

        number = view.pull_number or int(
            await self._done.perform("pull", EffectKind.PULL_REQUEST, act, find)
        )
        pull = made[0] if made else await self.repository.pull(number)
        if pull is None:
            raise BranchTaken(f"Pull request #{number} is gone.")
        return pull

    async def _describe(self, pull: PullFacts, body: str) -> None:
        async def act() -> str:
            await self.repository.update_pull(pull.number, body=body)
            return str(pull.number)

        await self._done.perform(f"pull:{self._done.next()}", EffectKind.PULL_REQUEST_EDIT, act)

    # --- the envelope ----------------------------------------------------------------------------

    async def ask_for_review(self, envelope: CandidateEnvelope) -> Published:
        """Open the gate's check, tell the requester, and leave draft, in this order.

        The pull request leaves draft last: whoever sees it ready sees a published envelope.
        """
        published = await self._envelope_published(envelope)

        async def act() -> str:
            pull = await self.repository.pull(published.pull_number)
            if pull is not None and pull.draft:
                await self.repository.set_draft(pull, draft=False)
            elif pull is not None and pull.title.startswith(WORK_IN_PROGRESS):
                title = pull.title.removeprefix(WORK_IN_PROGRESS)
                await self.repository.update_pull(pull.number, title=title)
            return str(published.pull_number)

        await self._done.perform(f"ready:{envelope.round}", EffectKind.READY_FOR_REVIEW, act)
        return published

    async def _envelope_published(self, envelope: CandidateEnvelope) -> Published:
        return await self.pieces.once(
            f"published:{envelope.round}", Published, lambda: self._publish(envelope)
        )

    async def _publish(self, envelope: CandidateEnvelope) -> Published:
        view = await self.view()
        pull = await self._pull(view)
        gate = await self._done.check(envelope.round, messages.gate_check(view, None))
        comment_id = await self.say(
            f"review:{envelope.round}", messages.review_wanted_comment(view)
        )
        comment = await self._own_comment(comment_id)
        return Published(
            pull_number=pull.number,
            pull_node_id=pull.node_id,
            gate_check_id=gate,
            published_at=comment.created_at if comment else now(),
            previous_sha=await self._pushed_before(envelope.round),
        )

    async def _own_comment(self, comment_id: int) -> Comment | None:
        own = await self.repository.own_comments(self.request.issue_number)
        return next((comment for comment in own if comment.id == comment_id), None)

    # --- the gate --------------------------------------------------------------------------------

    async def decide_gate(
        self, envelope: CandidateEnvelope, *, refresh_when_behind: bool = False
    ) -> Verdict:
        """Read everything afresh from GitHub and decide. Raises GitHubError."""
        target = await self._target(envelope)
        rules = replace(await self._rules(), refresh_when_behind=refresh_when_behind)
        return decide(await self._facts(target), target, rules)

    async def _facts(self, target: ReviewTarget) -> GateFacts:
        return await load_gate_facts(self.repository, target, app_id=self.app_id, observed_at=now())

    async def _target(self, envelope: CandidateEnvelope) -> ReviewTarget:
        candidate = await self.pieces.demand(f"candidate:{envelope.round}", Candidate)
        published = await self._envelope_published(envelope)
        return ReviewTarget(
            pull_number=published.pull_number,
            candidate_sha=envelope.candidate_sha,
            candidate_tree=candidate.tree,
            original_base_sha=envelope.original_base_sha,
            branch=self.branch,
            base=self._base,
            pushed_at=published.published_at,
            published_at=published.published_at,
            previous_sha=published.previous_sha,
        )

    @property
    def _base(self) -> str:
        return self.pin.base_ref.removeprefix("refs/heads/")

    async def _rules(self) -> ReviewRules:
        review = self.policy.review
        let_go = await load_goes(self.pieces)
        return ReviewRules(
            approvals=review.approvals,
            permission=Permission(review.from_),
            contributors=frozenset((*self.request.contributors, *(go.who.id for go in let_go))),
            contributors_may_approve=review.contributors_may_approve,
        )

    async def show_verdict(self, envelope: CandidateEnvelope, verdict: Verdict) -> None:
        """Bring the gate's check and the status comment up to date with what is awaited."""
        await self._update_gate(envelope, verdict)
        await self.refresh_status(verdict)

    async def open_gate(self, envelope: CandidateEnvelope, verdict: Approved) -> None:
        """Conclude `ultracode/review` as success, before the push, so that it can be required."""
        await self._update_gate(envelope, verdict)

    async def _update_gate(self, envelope: CandidateEnvelope, verdict: Verdict) -> None:
        published = await self._envelope_published(envelope)
        check = messages.gate_check(await self.view(), verdict)

        async def act() -> str:
            await self.repository.update_check_run(published.gate_check_id, check)
            return str(published.gate_check_id)

        await self._done.perform(f"gate:{self._done.next()}", EffectKind.CHECK_RUN_EDIT, act)

    # --- promotion and the end -------------------------------------------------------------------

    async def promotion_begun(self) -> bool:
        """Whether a push of this run's candidate to the base was ever begun."""
        return await self.effects.get(self.run_id, "promotion") is not None

    async def promoted_at(self) -> datetime | None:
        """Return when the push to the base was confirmed, by the database's clock."""
        effect = await self.effects.get(self.run_id, "promotion")
        return None if effect is None else effect.confirmed_at

    async def promote(self, envelope: CandidateEnvelope) -> Pushed | Moved | PushRefused:
        """Push the reviewed SHA to the base branch under a lease on the original base.

        Only a push that landed is confirmed in the ledger: after any other answer another attempt
        looks at the ref first, and pushes under the same lease. A refused one is forgotten, so that
        the run can be cancelled.
        """
        sha = envelope.candidate_sha

        async def act() -> str:
            answer = await self.workshop.promote(self.pin, sha, expected=envelope.original_base_sha)
            if not isinstance(answer, Pushed):
                raise NotPushed(answer)
            return sha

        async def find() -> str | None:
            return sha if await self.repository.branch_sha(self._base) == sha else None

        try:
            await self._done.perform("promotion", EffectKind.PROMOTION, act, find)
        except NotPushed as stopped:
            if isinstance(stopped.answer, PushRefused):
                await self.effects.withdraw(self.run_id, "promotion", epoch=self.epoch)
            return stopped.answer
        return Pushed(sha=sha)

    async def conclude(self, ending: Ending) -> None:
        """Show an ending: open checks concluded, status comment, one new comment, tidied up."""
        view = await self.view()
        await self._conclude_gate(view, ending)
        await self._tidy(view, ending)
        await self.say("ending", messages.ending_comment(view, ending))
        await self.refresh_status()

    async def _conclude_gate(self, view: RunView, ending: Ending) -> None:
        """Conclude the gate's check on the last candidate that was pushed, if any was."""
        shown = view.last_round
        if shown is None or shown.candidate is None or ending.outcome == "promoted":
            return
        if await self._done.confirmed(f"branch:{shown.round}") is None:
            return
        check = messages.gate_check(view, None, ending=ending)
        made_now = await self._done.confirmed(f"check:{shown.round}:{GATE_CHECK}") is None
        check_id = await self._done.check(shown.round, check)
        if made_now:
            return

        async def act() -> str:
            await self.repository.update_check_run(check_id, check)
            return str(check_id)

        await self._done.perform("gate:ending", EffectKind.CHECK_RUN_EDIT, act)

    async def _tidy(self, view: RunView, ending: Ending) -> None:
        if ending.outcome == "promoted":
            await self._close_unmarked(view, ending)
        if ending.outcome in {"promoted", "merged_elsewhere", "rejected", "cancelled"}:
            await self._delete_branch(view)

    async def _close_unmarked(self, view: RunView, ending: Ending) -> None:
        """Close a pull request that GitHub does not mark merged: its base is not the default."""
        if view.pull_number is None or self._base == self.request.default_branch:
            return
        number, text = view.pull_number, messages.landed_comment(self._base, ending)

        async def act() -> str:
            await self.repository.update_pull(number, state="closed")
            return str(number)

        await self._done.comment(number, "landed", text)
        await self._done.perform("pull:closed", EffectKind.PULL_REQUEST_EDIT, act)

    async def _delete_branch(self, view: RunView) -> None:
        if view.pull_number is None and not await self._push_begun(view):
            return

        async def act() -> str:
            await self.repository.delete_branch(self.branch)
            return self.branch

        await self._done.perform("branch:deleted", EffectKind.BRANCH_DELETION, act)

    async def _push_begun(self, view: RunView) -> bool:
        begun = [await self.effects.get(self.run_id, f"branch:{r.round}") for r in view.rounds]
        return any(effect is not None for effect in begun)

    # --- the ledger ------------------------------------------------------------------------------

    @cached_property
    def _done(self) -> RunEffects:
        return RunEffects(
            run_id=self.run_id,
            epoch=self.epoch,
            repository=self.repository,
            effects=self.effects,
            marks=self.marks,
        )
