"""Starting a run: everything that is asked, pinned and refused before a token is spent.

In: who asks, on which issue, with which words. Out: a run, accepted or waiting for `go`; or a
`Refusal` in words. The policy is read from the default branch, whatever base is asked for, and kept
with the run, so that nothing pushed later changes the rules of a run that has started.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from bot.contracts import CodingRequest, Trigger, UserRef
from bot.errors import LiveRunExists, Refusal
from bot.github import messages
from bot.github.port import (
    Account,
    AppFacts,
    GitHubRepository,
    IssueFacts,
    Permission,
    RepositoryFacts,
)
from bot.github.protection import PlannedCommit, decide_promotable
from bot.go import OUTSIDERS_WORDS, go_deadline
from bot.intake.criteria import parse_criteria
from bot.live_run import commit_email
from bot.policy import POLICY_PATH, Policy, parse_policy, policy_digest
from bot.policy_proposal import PROPOSAL_READS, propose_policy
from bot.services import Services
from bot.store.runs import Created, NewRun
from bot.store.tables import RunState
from webhooks.hidden_text import VisibleText, sanitize_text

WORK_BRANCH_EXAMPLE = "ultracode/1-example"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A start as somebody asked for it. `words` is empty when the issue itself is the request."""

    installation_id: int
    repository_id: int
    issue_number: int
    issue_node_id: str
    requester: Account
    trigger: Trigger
    words: str
    base: str | None = None
    suites: Sequence[str] = ()
    delivery_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What the repository says at this moment, read once for one start."""

    app: AppFacts
    repository: GitHubRepository
    facts: RepositoryFacts
    issue: IssueFacts
    policy_file: bytes
    policy: Policy


async def start(services: Services, ask: Ask) -> Created:
    """Create the run that was asked for. Raises Refusal, LiveRunExists, GitHubError."""
    ground = await survey(services, ask)
    request, outsiders = await pin_request(ground, ask)
    waiting = outsiders
    async with services.database.begin() as tx:  # no run without its job, whoever dies here
        created = await services.runs.create(
            NewRun(
                repository_id=ask.repository_id,
                installation_id=ask.installation_id,
                issue_number=ask.issue_number,
                issue_node_id=ask.issue_node_id,
                trigger_kind=ask.trigger.kind,
                trigger_id=ask.trigger.id,
                requester_id=ask.requester.id,
                requester_login=ask.requester.login,
                request={
                    "coding_request": request.model_dump(mode="json"),
                    "policy": ground.policy_file.decode("utf-8"),
                    "repository": ground.facts.full_name,
                },
                base_ref=request.base_ref,
                base_sha=request.base_sha,
                state=RunState.AWAITING_GO if waiting else RunState.ACCEPTED,
                state_reason=OUTSIDERS_WORDS if waiting else None,
                deadline_at=go_deadline() if waiting else None,
            ),
            actor=f"github:{ask.requester.id}",
            delivery_id=ask.delivery_id,
            tx=tx,
        )
        if created.fresh:
            await services.queue.defer_advance(created.run.run_id, tx=tx)
    return created


async def record_refused(services: Services, ask: Ask, sentence: str) -> None:
    """Keep a refused start among the runs, so that whoever lists them sees that and why.

    Once for each trigger, and only where the issue has no live run: that one is what counts there.
    """
    new = NewRun(
        repository_id=ask.repository_id,
        installation_id=ask.installation_id,
        issue_number=ask.issue_number,
        issue_node_id=ask.issue_node_id,
        trigger_kind=ask.trigger.kind,
        trigger_id=ask.trigger.id,
        requester_id=ask.requester.id,
        requester_login=ask.requester.login,
        request={},
    )
    actor = f"github:{ask.requester.id}"
    try:
        async with services.database.begin() as tx:
            created = await services.runs.create(
                new, actor=actor, delivery_id=ask.delivery_id, tx=tx
            )
            if created.fresh:
                await services.runs.transition(
                    created.run.run_id,
                    from_states={RunState.ACCEPTED},
                    to_state=RunState.REFUSED,
                    delivery_id=ask.delivery_id,
                    outcome_sentence=sentence[:2_000],
                    tx=tx,
                )
    except LiveRunExists:
        return


# --- what the repository says -------------------------------------------------------------------


async def survey(services: Services, ask: Ask) -> Ground:
    """Read repository, issue and policy. Raises Refusal when there is nothing to work with."""
    repository = services.github.repository(ask.installation_id, ask.repository_id)
    facts = await repository.facts()
    if facts.archived or facts.disabled:
        raise Refusal(messages.archived_message())
    issue = await repository.issue(ask.issue_number)
    if issue is None:
        raise Refusal(messages.issue_gone_message())
    policy_file = await repository.read_file(POLICY_PATH, facts.default_branch)
    if policy_file is None:
        raise Refusal(messages.no_policy_message(await proposal(repository, facts)))
    return Ground(
        app=await services.github.app(),
        repository=repository,
        facts=facts,
        issue=issue,
        policy_file=policy_file,
        policy=parse_policy(policy_file),
    )


async def proposal(repository: GitHubRepository, facts: RepositoryFacts) -> str:
    """Return a policy file to copy, filled in from what the repository holds."""
    files = await repository.list_files(facts.default_branch)
    contents: dict[str, bytes] = {
        path: content
        for path in PROPOSAL_READS
        if path in files
        and (content := await repository.read_file(path, facts.default_branch)) is not None
    }
    return propose_policy(files, contents)


async def check_requester(ground: Ground, requester: Account) -> None:
    """Raise Refusal unless the requester has the permission that policy asks for."""
    wanted = Permission(ground.policy.requesters)
    has = await ground.repository.permission(requester.id, requester.login)
    if not has.at_least(wanted):
        raise Refusal(messages.requester_level_message(wanted))


async def pin_base(ground: Ground, ask: Ask) -> tuple[str, str]:
    """Return the base branch and its SHA. Raises Refusal when it cannot be worked on or pushed."""
    branch = ask.base or await own_branch(ground) or ground.facts.default_branch
    admitted = ground.policy.bases or (ground.facts.default_branch,)
    if not ground.policy.admits_base(branch, default_branch=ground.facts.default_branch):
        raise Refusal(messages.base_not_admitted_message(branch, admitted))
    sha = await ground.repository.branch_sha(branch)
    if sha is None:
        raise Refusal(messages.no_such_branch_message(branch))
    problems = decide_promotable(
        await ground.repository.protection(branch),
        await ground.repository.protection(WORK_BRANCH_EXAMPLE),
        planned_commit(ground),
        app_id=ground.app.id,
    )
    if problems:
        raise Refusal(messages.not_promotable_message(branch, problems))
    return branch, sha


async def own_branch(ground: Ground) -> str | None:
    """Return the branch of the pull request that was asked on; None on an issue.

    Raises:
        Refusal: It comes from a fork, where this App cannot push, or is closed.
    """
    if not ground.issue.is_pull:
        return None
    pull = await ground.repository.pull(ground.issue.number)
    if pull is None or pull.state != "open":
        raise Refusal(messages.pull_closed_message())
    if pull.head_repository_id != ground.repository.repository_id:
        raise Refusal(messages.fork_declined_message())
    return pull.head_ref


def planned_commit(ground: Ground) -> PlannedCommit:
    """Return what the commit and its branch will look like, as far as rules can ask."""
    email = commit_email(ground.app.bot_login)
    return PlannedCommit(
        message=messages.commit_subject(ground.issue.title, ground.issue.number),
        author_email=email,
        committer_email=email,
        work_branch=WORK_BRANCH_EXAMPLE,
    )


# --- the request --------------------------------------------------------------------------------


async def pin_request(ground: Ground, ask: Ask) -> tuple[CodingRequest, bool]:
    """Return the pinned work order, and whether an outsider's words wait for somebody's `go`."""
    await check_requester(ground, ask.requester)
    branch, sha = await pin_base(ground, ask)
    required, optional = pin_suites(ground.policy, branch, ask.suites)
    issue = ground.issue
    words = await visible(ask.words or f"{issue.title}\n\n{issue.body}")
    body = await visible(issue.body)
    criteria = parse_criteria(words.text, body.text)
    uses_issue = not ask.words or criteria != parse_criteria(words.text)
    outsiders = uses_issue and await written_by_outsider(ground)
    request = CodingRequest(
        repository_id=ask.repository_id,
        installation_id=ask.installation_id,
        issue_number=ask.issue_number,
        issue_title=issue.title[:1000],
        on_pull=issue.is_pull,
        base_ref=f"refs/heads/{branch}",
        base_sha=sha,
        default_branch=ground.facts.default_branch,
        requester=UserRef(id=ask.requester.id, login=ask.requester.login),
        trigger=ask.trigger,
        request=words.text.strip() or issue.title or "Do what the issue asks for.",
        success_criteria=criteria,
        required_suites=required,
        optional_suites=optional,
        outsiders_words=outsiders,
        hidden_text_removed=removed_notes(words, body),
        contributors=contributors(ask.requester, issue),
        policy_sha256=policy_digest(ground.policy_file),
    )
    return request, outsiders


async def visible(text: str) -> VisibleText:
    """Return what a reader sees of a text; hostile text takes seconds, so not on the loop."""
    return await asyncio.to_thread(sanitize_text, text)


def removed_notes(*texts: VisibleText) -> tuple[str, ...]:
    """Return what was hidden and is gone, a note each, for the run and its readers."""
    notes = (f"{r.count} {r.kind.replace('_', ' ')}" for text in texts for r in text.removed)
    return tuple(dict.fromkeys(notes))


def pin_suites(
    policy: Policy, branch: str, asked: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the ids of required and of optional suites. Raises Refusal when none is required."""
    required = [suite.id for suite in policy.required_suites(branch)]
    optional = [suite.id for suite in policy.optional_suites(branch)]
    unknown = [suite for suite in asked if suite not in required + optional]
    if unknown:
        raise Refusal(messages.no_such_suite_message(unknown, required + optional))
    required += [suite for suite in asked if suite in optional and suite not in required]
    if not required:
        raise Refusal(messages.no_required_suite_message(branch))
    return tuple(required), tuple(suite for suite in optional if suite not in required)


async def written_by_outsider(ground: Ground) -> bool:
    """Whether the issue's author or last editor lacks write: then a person must say `go`."""
    for writer in (ground.issue.author, ground.issue.last_editor):
        if writer is None:
            if ground.issue.author is None:
                return True
            continue
        has = await ground.repository.permission(writer.id, writer.login)
        if not has.at_least(Permission.WRITE):
            return True
    return False


def contributors(requester: Account, issue: IssueFacts) -> tuple[int, ...]:
    """Return the ids of all whose words are in the request so far."""
    people = [requester, issue.author, issue.last_editor]
    return tuple(dict.fromkeys(person.id for person in people if person is not None))
