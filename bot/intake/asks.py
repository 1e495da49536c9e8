"""What people ask for: a comment, a review, a reply in its thread or a label becomes an answer.

In: an event on an issue or pull request. Out: the delivery's outcome; every recognised command got
a reaction first and then words. Permission is asked of GitHub for every command, by the sender's
id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field, replace
from typing import TypeAlias, TypedDict, assert_never

from bot.contracts import Trigger, UserRef
from bot.errors import LiveRunExists, Refusal
from bot.feedback import place
from bot.github import messages
from bot.github.port import Account, GitHubRepository, Permission, ReactionTarget
from bot.intake.answers import Answers
from bot.intake.follow import refresh, retry, revise, verify
from bot.intake.start import Ask, record_refused, start
from bot.intake.steer import cancel, go
from bot.policy import POLICY_PATH, Policy, PolicyError, parse_policy
from bot.services import Services
from bot.store.runs import Run
from bot.store.tables import DeliveryOutcome, RunState
from webhooks.command_options import BadOption
from webhooks.commands import (
    Cancel,
    Command,
    Go,
    Help,
    ParsedComment,
    Refresh,
    Retry,
    Revise,
    Start,
    Status,
    Unknown,
    Verify,
    parse_command,
)
from webhooks.events import (
    IssueCommentCreated,
    IssueLabeled,
    PullRequestLabeled,
    ReviewCommentCreated,
    ReviewSubmitted,
)
from webhooks.payloads import Account as PayloadAccount

Telling: TypeAlias = Status | Help | Unknown | BadOption
Following: TypeAlias = Retry | Revise | Refresh | Verify


class By(TypedDict):
    """Who asked, and by what."""

    who: UserRef
    trigger: Trigger


class Actor(TypedDict):
    """Who acts, because of which delivery, for the audit trail and for people."""

    who: UserRef
    delivery_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Voice:
    """Somebody who spoke: where, and how to answer there.

    `place` names the file and line of a review thread, empty elsewhere.
    """

    services: Services
    answers: Answers
    who: Account
    issue_node_id: str
    trigger: Trigger
    delivery_id: str
    place: str = ""
    removed_label: str | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def repository(self) -> GitHubRepository:
        """Return where it was said."""
        return self.answers.repository

    @property
    def number(self) -> int:
        """Return the issue or pull request it was said on."""
        return self.answers.number

    async def run(self) -> Run | None:
        """Return the live run of this issue, or of this pull request of ours."""
        runs = self.services.runs
        repository_id = self.repository.repository_id
        live = await runs.live_of_issue(repository_id, self.number)
        if live is not None:
            return live
        return next(
            (run for run in await runs.of_pull(repository_id, self.number) if not run.ended), None
        )

    @property
    def actor(self) -> Actor:
        """Return who acts, because of which delivery."""
        return {"who": self.user, "delivery_id": self.delivery_id}

    @property
    def user(self) -> UserRef:
        """Return who speaks, as requests keep it."""
        return UserRef(id=self.who.id, login=self.who.login)

    async def last_run(self) -> Run | None:
        """Return the newest run of this issue or pull request, ended or not."""
        runs, repository_id = self.services.runs, self.repository.repository_id
        found = await runs.of_issue(repository_id, self.number)
        found += await runs.of_pull(repository_id, self.number)
        begun = [run for run in found if "coding_request" in run.request]  # not refused at once
        return max(begun, key=lambda run: run.run_id) if begun else None


# --- doors --------------------------------------------------------------------------------------


async def on_comment(
    services: Services, event: IssueCommentCreated, delivery_id: str
) -> DeliveryOutcome:
    """Answer a comment, if it asks for anything and a person wrote it."""
    comment = event.comment
    if not comment.is_by_person or event.sender is None or event.installation is None:
        return DeliveryOutcome.IGNORED
    parsed = await asyncio.to_thread(parse_command, comment.body)
    if parsed.command is None and not parsed.hint:
        return DeliveryOutcome.IGNORED
    repository = services.github.repository(event.installation.id, event.repository.id)
    voice = Voice(
        services=services,
        answers=Answers(
            services=services,
            repository=repository,
            scope=f"comment:{comment.id}",
            target=ReactionTarget(kind="comment", id=comment.id),
            number=event.issue.number,
        ),
        who=account_of(event.sender),
        issue_node_id=event.issue.node_id,
        trigger=Trigger(kind="comment", id=str(comment.id)),
        delivery_id=delivery_id,
    )
    return await hear(voice, parsed)


async def on_thread(
    services: Services, event: ReviewCommentCreated, delivery_id: str
) -> DeliveryOutcome:
    """Answer a comment on a file of a pull request in its thread; the place is context."""
    comment = event.comment
    if not comment.is_by_person or event.sender is None or event.installation is None:
        return DeliveryOutcome.IGNORED
    parsed = await asyncio.to_thread(parse_command, comment.body)
    if parsed.command is None and not parsed.hint:
        return DeliveryOutcome.IGNORED
    repository = services.github.repository(event.installation.id, event.repository.id)
    pull = event.pull_request
    voice = Voice(
        services=services,
        answers=Answers(
            services=services,
            repository=repository,
            scope=f"review_comment:{comment.id}",
            target=ReactionTarget(kind="review_comment", id=comment.id),
            number=pull.number,
            thread=comment.in_reply_to_id or comment.id,
        ),
        who=account_of(event.sender),
        issue_node_id=pull.node_id,
        trigger=Trigger(kind="review_comment", id=str(comment.id)),
        delivery_id=delivery_id,
        place=place(comment.path, comment.line or comment.original_line),
    )
    return await hear(voice, parsed)


async def on_review(
    services: Services, event: ReviewSubmitted, delivery_id: str
) -> DeliveryOutcome:
    """Answer a command in a review's own words.

    Where a review requests changes, all it says is feedback by itself: `revise` adds nothing.
    """
    review = event.review
    if review.author is None or not review.author.is_person or event.installation is None:
        return DeliveryOutcome.IGNORED
    parsed = await asyncio.to_thread(parse_command, review.body)
    if parsed.command is None and not parsed.hint:
        return DeliveryOutcome.IGNORED
    if review.state == "changes_requested" and isinstance(parsed.command, Revise):
        return DeliveryOutcome.IGNORED
    repository = services.github.repository(event.installation.id, event.repository.id)
    voice = Voice(
        services=services,
        answers=Answers(
            services=services,
            repository=repository,
            scope=f"review:{review.id}",
            target=None,
            number=event.pull_request.number,
        ),
        who=account_of(review.author),
        issue_node_id=event.pull_request.node_id,
        trigger=Trigger(kind="review", id=str(review.id)),
        delivery_id=delivery_id,
    )
    return await hear(voice, parsed)


async def on_label(
    services: Services, event: IssueLabeled | PullRequestLabeled, delivery_id: str
) -> DeliveryOutcome:
    """Start a run for what got the label, in the name of whoever set it.

    On a pull request that is what `/ultracode` alone would do there.
    """
    sender = event.sender
    labeled = event.pull_request if isinstance(event, PullRequestLabeled) else event.issue
    if sender is None or not sender.is_person or event.installation is None:
        return DeliveryOutcome.IGNORED
    repository = services.github.repository(event.installation.id, event.repository.id)
    voice = Voice(
        services=services,
        answers=Answers(
            services=services,
            repository=repository,
            scope=f"delivery:{delivery_id}",
            target=ReactionTarget(kind="issue", id=labeled.number),
            number=labeled.number,
        ),
        who=account_of(sender),
        issue_node_id=labeled.node_id,
        trigger=Trigger(kind="label", id=delivery_id),
        delivery_id=delivery_id,
    )
    if event.label.name != await label_of(repository):
        return DeliveryOutcome.IGNORED
    outcome = await hear(voice, ParsedComment(Start("")))
    await voice.answers.take_label_off(event.label.name)
    return outcome


async def hear(voice: Voice, parsed: ParsedComment) -> DeliveryOutcome:
    """React, check the permission, do what was asked, answer."""
    if parsed.command is None:
        await voice.answers.hint_once_a_day(voice.who, messages.folded_hint_message())
        return DeliveryOutcome.HANDLED
    if not await permitted(voice):
        return DeliveryOutcome.REFUSED
    await voice.answers.react("eyes")
    if parsed.ignored_second_command:
        voice.notes.append(messages.second_command_note())
    return await answered(voice, obey(voice, parsed.command))


async def permitted(voice: Voice) -> bool:
    """Whether somebody may steer runs here, asked of GitHub now; who may not is told once a day."""
    has = await voice.repository.permission(voice.who.id, voice.who.login)
    if has.at_least(Permission.WRITE):
        return True
    await voice.answers.refuse_once_a_day(voice.who, messages.no_write_message())
    return False


async def answered(voice: Voice, work: Awaitable[str]) -> DeliveryOutcome:
    """Do what was asked for and say what came of it, refusals too."""
    try:
        answer = await work
    except LiveRunExists:
        answer = messages.live_run_message(await voice.run())
    except Refusal as refusal:
        await voice.answers.say("refusal", with_notes(refusal.sentence, voice.notes))
        return DeliveryOutcome.REFUSED
    if answer or voice.notes:
        await voice.answers.say("answer", with_notes(answer, voice.notes))
    return DeliveryOutcome.HANDLED


async def obey(voice: Voice, command: Command) -> str:
    """Do what one command says; return the answer, empty where the status comment answers."""
    match command:
        case Start():
            return await start_run(voice, command)
        case Go():
            said = By(who=UserRef(id=voice.who.id, login=voice.who.login), trigger=voice.trigger)
            run = await voice.run()
            return await go(voice.services, run, delivery_id=voice.delivery_id, **said)
        case Cancel():
            return await cancel(voice.services, await voice.run(), **voice.actor)
        case Retry() | Revise() | Refresh() | Verify():
            return await follow_up(voice, command)
        case _:
            return await tell(voice, command)


async def follow_up(voice: Voice, command: Following) -> str:
    """Do what leads to another run, or explain one."""
    services, run = voice.services, await voice.last_run()
    by = By(who=voice.user, trigger=voice.trigger)
    if run is not None and Trigger(kind=run.trigger_kind, id=run.trigger_id) == voice.trigger:
        return ""  # this very wish has led to it already
    match command:
        case Revise():
            there = replace(command, feedback=in_place(voice, command.feedback))
            return await revise(services, run, there, **by)
        case Refresh():
            return await refresh(services, run, command, **by)
        case Retry():
            return await retry(services, run, **by)
        case Verify(sha=sha):
            return await verify(services, run, sha)
        case _:
            assert_never(command)


async def tell(voice: Voice, command: Telling) -> str:
    """Return the answer to a command that changes nothing."""
    match command:
        case Status():
            return messages.status_answer_message(await voice.last_run())
        case Help():
            return messages.help_message()
        case Unknown(word=word, did_you_mean=near):
            return messages.unknown_command_message(word, near)
        case BadOption():
            return messages.bad_option_message(command)
        case _:
            assert_never(command)


async def start_run(voice: Voice, command: Start) -> str:
    """Start a run; its status comment is the answer.

    On the bot's own pull request it is a run for the issue that one came from.
    """
    own = await voice.services.runs.of_pull(voice.repository.repository_id, voice.number)
    ask = Ask(
        installation_id=voice.repository.installation_id,
        repository_id=voice.repository.repository_id,
        issue_number=own[-1].issue_number if own else voice.number,
        issue_node_id=(own[-1].issue_node_id or "") if own else voice.issue_node_id,
        requester=voice.who,
        trigger=voice.trigger,
        words=in_place(voice, command.request),
        base=command.base,
        suites=command.suites,
        delivery_id=voice.delivery_id,
    )
    try:
        created = await start(voice.services, ask)
    except Refusal as refusal:
        await record_refused(voice.services, ask, refusal.sentence)
        raise
    if created.run.state is RunState.REFUSED:  # before; its words may not have come through
        raise Refusal(created.run.outcome_sentence or "")
    return ""


def in_place(voice: Voice, text: str) -> str:
    """Return somebody's words with the place they were said at, where that was a review thread."""
    return f"{voice.place}: {text}" if voice.place and text.strip() else text


async def label_of(repository: GitHubRepository) -> str:
    """Return the label that starts runs here; its default where the policy cannot be read."""
    raw = await repository.read_file(POLICY_PATH, (await repository.facts()).default_branch)
    default: str = Policy.model_fields["label"].default
    try:
        return default if raw is None else parse_policy(raw).label
    except PolicyError:
        return default


def account_of(account: PayloadAccount) -> Account:
    """Return an account of a payload as the port speaks of it."""
    return Account(id=account.id, login=account.login, kind=account.type)


def with_notes(answer: str, notes: list[str]) -> str:
    """Return an answer and the notes beneath it."""
    return "\n\n".join(part for part in (answer, *notes) if part)
