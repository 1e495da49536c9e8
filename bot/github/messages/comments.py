"""New comments: where a person must act, and at every end. Each mentions only the requester."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from bot.contracts import Ending
from bot.github.escape import code, fence, words
from bot.github.messages.evidence import digests_table, suites_table
from bot.github.messages.parts import (
    bullets,
    code_list,
    mention,
    moment,
    paragraphs,
    sha,
    word_list,
)
from bot.github.messages.status import review_demand, task_lines
from bot.view import RoundView, RunView
from workspace.contracts import ChangedFile, shown_path


def review_wanted_comment(view: RunView) -> str:
    """Ask for the review."""
    until = f", until {moment(view.deadline_at)}" if view.deadline_at else ""
    at = f" at {sha(view.envelope.candidate_sha)}" if view.envelope else ""
    return (
        f"{mention(view.request.requester)} the candidate passed its suites, the verifier and the "
        f"refuter. #{view.pull_number}{at} waits for {review_demand(view)}{until}. Approving it "
        "merges exactly that commit."
    )


def push_refused_comment(view: RunView, sentence: str) -> str:
    """Tell the requester that GitHub refused an approved candidate, and how to go on."""
    return paragraphs(
        f"{mention(view.request.requester)} the candidate is approved and nothing was merged.",
        words(sentence, 2_000),
        "Change that, then say `/ultracode retry`: the same candidate is pushed again, without "
        "another round. `/ultracode cancel` ends the run.",
    )


def stumbled_comment(reason: str) -> str:
    """Say that something keeps going wrong while the run waits, and that nothing is lost by it."""
    return (
        f"Something went wrong again and again while this was being decided: {words(reason, 500)} "
        "Nothing is lost: the candidate and its approvals stand, and the bot keeps trying. "
        "`/ultracode cancel` stops the run."
    )


def unhandled_comment(reason: str) -> str:
    """Say that what was asked could not be handled, and what to do."""
    return (
        f"This could not be done: {words(reason, 500)} "
        "Please ask again; the operator of this server finds the error in its log."
    )


def go_wanted_comment(view: RunView) -> str:
    """Show what waits for a go, word for word, and ask for it."""
    return _GO_COMMENTS.get(view.reason, _outsiders_comment)(view)


def _outsiders_comment(view: RunView) -> str:
    request = view.request
    return paragraphs(
        f"{mention(request.requester)} the words below were written or changed by somebody without "
        "write access. If they are what you want done, `/ultracode go` lets the run use exactly "
        "these; `/ultracode cancel` stops it. Later edits of the issue change nothing.",
        fence(request.request, 20_000),
        f"Success criteria:\n\n{fence(chr(10).join(request.success_criteria), 10_000)}",
    )


def _plan_comment(view: RunView) -> str:
    shown = view.last_round
    return paragraphs(
        f"{mention(view.request.requester)} this is the plan. `/ultracode go` starts the work; "
        "`/ultracode cancel` stops the run.",
        _plan(view, shown) if shown else "",
    )


def _plan(view: RunView, shown: RoundView) -> str:
    added = {suite for task in shown.plan.tasks for suite in task.additional_suite_ids}
    suites = dict.fromkeys((*view.request.required_suites, *sorted(added)))
    return paragraphs(
        words(shown.plan.reason),
        bullets(task_lines(shown)),
        f"Suites that will judge it: {code_list(tuple(suites))}.",
        f"Success criteria:\n\n{word_list(view.request.success_criteria)}",
    )


def _publish_comment(view: RunView) -> str:
    shown = view.last_round
    candidate = shown.candidate if shown else None
    at = f" ({sha(candidate.sha)})" if candidate else ""
    return paragraphs(
        f"{mention(view.request.requester)} a candidate is ready{at} and has not been pushed: "
        "pushing it starts this repository's own workflows on code nobody has read. "
        "`/ultracode go` pushes it; `/ultracode cancel` stops the run.",
        _held(shown) if shown else "",
    )


def _held(shown: RoundView) -> str:
    """What check runs would say, were there a commit on GitHub to hang them on."""
    files = [code(shown_path(f.path), 200) for f in _changed(shown)]
    return paragraphs(
        suites_table(shown.report) if shown.report else "",
        f"Files changed:\n\n{bullets(files)}" if files else "",
        digests_table(shown),
    )


def _changed(shown: RoundView) -> tuple[ChangedFile, ...]:
    return shown.candidate.changed_files if shown.candidate else ()


_GO_COMMENTS: Final[Mapping[str | None, Callable[[RunView], str]]] = {
    "outsiders_words": _outsiders_comment,
    "plan": _plan_comment,
    "publish": _publish_comment,
}


# --- ends ---------------------------------------------------------------------------------------


def ending_comment(view: RunView, ending: Ending) -> str:
    """Tell the requester how the run ended, and what can be done now."""
    said = words(ending.sentence, 2_000)
    first = f"{mention(view.request.requester)} **{ending.outcome}**: {_ENDS[ending.outcome]}"
    return paragraphs(f"{first} {said}".rstrip(), _what_now(view, ending))


_ENDS: Final[Mapping[str, str]] = {
    "promoted": "merged.",
    "reported": "done: there was nothing to change.",
    "failed": "this run failed, and nothing was merged.",
    "rejected": "this run was rejected, and nothing was merged.",
    "revised": "a revision of this run has begun.",
    "merged_elsewhere": "this run's pull request was merged, but not by this run.",
    "cancelled": "this run was cancelled, and nothing was merged.",
    "expired": "nobody decided in time, so this run has expired.",
    "refused": "this run was refused.",
    "conflicted": "the base branch moved, and the candidate does not fit onto it any more.",
}


def _what_now(view: RunView, ending: Ending) -> str:
    """What can be done after this end: the commands that take up what it left."""
    base = code(view.request.base_ref.removeprefix("refs/heads/"))
    pull = f"#{view.pull_number}" if view.pull_number else ""
    match ending.outcome:
        case "promoted":
            return f"{base} is at {sha(ending.sha)}: the very commit that was tested and approved."
        case "failed" | "expired" if pull:
            return (
                f"{pull} and its branch are kept for a while, for whoever wants to take over. "
                "`/ultracode revise <feedback>` goes on from this candidate, `/ultracode retry` "
                "starts anew with the same words."
            )
        case "failed" | "cancelled" | "rejected" | "expired" | "conflicted" | "refused":
            return "`/ultracode retry` starts anew with the same words."
        case _:
            return ""
