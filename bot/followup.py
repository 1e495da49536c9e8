"""Runs that follow another: a revision, a refresh on a moved base, a retest, a retry.

In: a run that is to be followed and why. Out: that run ended with the reason, and a linked run that
goes on with its request. Nothing is read from the issue again: request, criteria and feedback come
from the row, so that nobody's later edit enters.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from bot.contracts import CodingRequest, Trigger, UserRef
from bot.errors import Refusal
from bot.github import messages
from bot.github.port import GitHubRepository
from bot.policy import POLICY_PATH, parse_policy, policy_digest
from bot.services import Services
from bot.store.database import Transaction
from bot.store.runs import NewRun, Run
from bot.store.tables import RunState
from workspace.contracts import Candidate, Frozen

Kind = Literal["revision", "refresh", "retest", "retry"]


class FollowUp(Frozen):
    """What the next run is: why, because of whom, and with which feedback.

    A revision works on from the candidate; a refresh puts it on the base as it is now; a retest
    judges the same files on the same base once more; a retry begins anew.
    """

    kind: Kind
    trigger: Trigger
    who: UserRef
    feedback: str = Field(default="", max_length=8_000)
    delivery_id: str | None = None


async def plan_follow(
    services: Services, run: Run, candidate: Candidate | None, next_: FollowUp
) -> NewRun:
    """Return the run that is to follow an ended one.

    Raises:
        Refusal: The base is gone, policy no longer admits it, or revisions are spent.
    """
    repository = services.github.repository(run.installation_id, run.repository_id)
    policy_file, request = await next_request(repository, run, candidate, next_)
    if next_.kind == "revision":
        await check_revisions(services, run, parse_policy(policy_file).limits.revisions)
    keeps_place = next_.kind != "retry"
    return NewRun(
        repository_id=run.repository_id,
        installation_id=run.installation_id,
        issue_number=run.issue_number,
        issue_node_id=run.issue_node_id,
        trigger_kind=next_.trigger.kind,
        trigger_id=next_.trigger.id,
        parent_run_id=run.run_id,
        requester_id=next_.who.id,
        requester_login=next_.who.login,
        request={
            "coding_request": request.model_dump(mode="json"),
            "policy": policy_file.decode("utf-8"),
            "repository": run.request.get("repository"),
            "kind": next_.kind,
            "previous_sha": candidate.sha if candidate and keeps_place else None,
        },
        base_ref=request.base_ref,
        base_sha=request.base_sha,
        branch=run.branch if keeps_place else None,
        pull_number=run.pull_number if keeps_place else None,
        pull_node_id=run.pull_node_id if keeps_place else None,
    )


async def start_follow(
    services: Services, new: NewRun, next_: FollowUp, tx: Transaction | None = None
) -> Run:
    """Create a planned run and let it start; the same trigger makes one. Raises LiveRunExists."""
    created = await services.runs.create(
        new, actor=f"github:{next_.who.id}", delivery_id=next_.delivery_id, tx=tx
    )
    if created.fresh:
        await services.queue.defer_advance(created.run.run_id, tx=tx)
    return created.run


async def next_request(
    repository: GitHubRepository, run: Run, candidate: Candidate | None, next_: FollowUp
) -> tuple[bytes, CodingRequest]:
    """Return the policy as it is now, and the earlier request under it."""
    earlier = CodingRequest.model_validate(run.request["coding_request"])
    policy_file = await repository.read_file(POLICY_PATH, earlier.default_branch)
    if policy_file is None:
        raise Refusal(messages.no_policy_message(str(run.request["policy"])))
    base = earlier.base_ref.removeprefix("refs/heads/")
    policy = parse_policy(policy_file)
    if not policy.admits_base(base, default_branch=earlier.default_branch):
        raise Refusal(messages.base_not_admitted_message(base))
    base_sha = earlier.base_sha
    if next_.kind in {"refresh", "retry"}:
        tip = await repository.branch_sha(base)
        if tip is None:
            raise Refusal(messages.no_such_branch_message(base))
        base_sha = tip
    required = [suite.id for suite in policy.required_suites(base)]
    optional = [suite.id for suite in policy.optional_suites(base)]
    asked = [suite for suite in earlier.required_suites if suite in optional]
    changes = {
        "base_sha": base_sha,
        "requester": next_.who,
        "trigger": next_.trigger,
        "required_suites": (*required, *asked),
        "optional_suites": tuple(suite for suite in optional if suite not in asked),
        "policy_sha256": policy_digest(policy_file),
        "contributors": tuple(dict.fromkeys((*earlier.contributors, next_.who.id))),
        "feedback": (*earlier.feedback, next_.feedback) if next_.feedback else earlier.feedback,
        "parent_candidate_sha": candidate.sha if candidate and next_.kind == "revision" else None,
    }
    return policy_file, earlier.model_copy(update=changes)


async def check_revisions(services: Services, run: Run, limit: int) -> None:
    """Raise Refusal when this lineage has been revised as often as policy allows."""
    revisions, step = 0, run
    while step.parent_run_id is not None:
        revisions += step.request.get("kind") == "revision"
        step = await services.runs.get(step.parent_run_id)
    if revisions >= limit:
        raise Refusal(messages.revisions_spent_message(limit))


async def refreshes_in_a_row(services: Services, run: Run) -> int:
    """Return how many refreshes led to this run, back to the last that a person's words began."""
    refreshes, step = 0, run
    while step.parent_run_id is not None and step.request.get("kind") == "refresh":
        refreshes += 1
        step = await services.runs.get(step.parent_run_id)
    return refreshes


#: A revision can take up the candidate these ended with.
REVISABLE_ENDS = frozenset({RunState.FAILED, RunState.EXPIRED})
#: Suites can run once more on the candidate of these.
RETESTABLE = frozenset({RunState.AWAITING_REVIEW, RunState.FAILED, RunState.EXPIRED})
#: A retry starts these anew.
RETRIABLE = frozenset(
    {
        RunState.FAILED,
        RunState.EXPIRED,
        RunState.CANCELLED,
        RunState.CONFLICTED,
        RunState.REJECTED,
        RunState.REFUSED,
    }
)
