"""The one status comment of a run: edited in place, nobody is notified, readable on a phone."""

from __future__ import annotations

from typing import Final

from bot.github.escape import code, fence, quote, words
from bot.github.messages.evidence import (
    digests_table,
    mark,
    refused_lines,
    report_remarks,
    sandbox_warning,
    suites_line,
    suites_table,
    warning_lines,
)
from bot.github.messages.parts import (
    bullets,
    code_list,
    details,
    duration,
    fit,
    link,
    moment,
    paragraphs,
    person,
    plural,
    sha,
    table,
    word_list,
)
from bot.github.messages.standing import GO_WORDS, state_title, verdict_sentence
from bot.store.tables import PUSH_REFUSED
from bot.view import RoundView, RunView

#: GitHub takes 65,536 characters of a comment; bytes are never fewer than characters.
COMMENT_BYTES: Final = 60_000

_SIGNS: Final = {
    "promoted": "✅",
    "reported": "✅",
    "merged_elsewhere": "☑️",
    "revised": "☑️",
    "awaiting_review": "👀",
    "awaiting_go": "✋",
    "accepted": "⏳",
    "planning": "⏳",
    "working": "⏳",
    "approved": "⏳",
    "promoting": "⏳",
    "cancelling": "⏳",
    "stale": "⏳",
}


def status_comment(view: RunView) -> str:
    """The whole comment; what does not fit is left out from the end, part by part."""
    return fit(
        [
            headline(view),
            now_sentence(view),
            sandbox_warning(view.last_round.report if view.last_round else None),
            rounds_table(view),
            _last_round_remarks(view),
            facts_line(view),
            details("What was asked", _asked(view)),
            *(
                details(f"Round {shown.round + 1}", _round(shown))
                for shown in reversed(view.rounds)
            ),
        ],
        COMMENT_BYTES,
        _note(view),
    )


def headline(view: RunView) -> str:
    """State and place, first thing on the screen."""
    state = view.ending.outcome if view.ending else view.state
    where = f" · #{view.pull_number}" if view.pull_number else ""
    round_words = f" · round {view.last_round.round + 1}" if view.last_round else ""
    return f"{_SIGNS.get(state, '❌')} **{state_title(state)}**{where}{round_words}"


_PUSH_REFUSED: Final = (
    "Approved, but GitHub refused the push; a comment says why and what to change. Then "
    "`/ultracode retry` by somebody with write access pushes the same candidate again."
)


def now_sentence(view: RunView) -> str:
    """What is awaited, from whom, until when; or how it ended."""
    if view.ending is not None:
        return words(view.ending.sentence, 2_000)
    until = f" Until {moment(view.deadline_at)}." if view.deadline_at else ""
    if view.state == "accepted" and view.position:
        return f"In the queue, at position {view.position}. Work starts when others are done."
    if view.state == "awaiting_go":
        why = GO_WORDS.get(view.reason, "somebody must let it go on")
        return f"Waiting for `/ultracode go` by somebody with write access: {why}.{until}"
    if view.state == "awaiting_review" and view.reason == PUSH_REFUSED:
        return f"{_PUSH_REFUSED}{until}"
    if view.state == "awaiting_review":
        return f"{awaited_sentence(view)}{until}"
    return verdict_sentence(view.verdict) if view.verdict else ""


def awaited_sentence(view: RunView) -> str:
    """What the gate waits for, in its words once it spoke."""
    if view.verdict is not None:
        return verdict_sentence(view.verdict)
    envelope = view.envelope
    at = f" at {sha(envelope.candidate_sha)}" if envelope else ""
    pull = f"#{view.pull_number}" if view.pull_number else "the pull request"
    reviews, by_whom = _review_demand(view)
    return f"Waiting for {reviews} of {pull}{at}{by_whom}."


def review_demand(view: RunView) -> str:
    """How many reviews by whom policy asks for."""
    return "".join(_review_demand(view))


def _review_demand(view: RunView) -> tuple[str, str]:
    review = view.policy.review if view.policy else None
    if review is None or review.approvals == 1:
        level = review.from_ if review else "write"
        return "an approving review", f" by somebody with {level} access"
    return f"{review.approvals} approving reviews", f" by people with {review.from_} access"


def rounds_table(view: RunView) -> str:
    """One row a round."""
    if not view.rounds:
        return ""
    head = ("Round", "Candidate", "Files", "Suites", "Verifier", "Refuter")
    return table(head, [_round_row(shown) for shown in view.rounds])


def _round_row(shown: RoundView) -> tuple[str, ...]:
    candidate = shown.candidate
    return (
        str(shown.round + 1),
        sha(candidate.sha, 7) if candidate else "…",
        str(len(candidate.changed_files)) if candidate else "…",
        suites_line(shown.report),
        mark(shown.verifier.candidate_passed if shown.verifier else None),
        mark(shown.refuter.candidate_passed if shown.refuter else None),
    )


def _last_round_remarks(view: RunView) -> str:
    """What must be seen without opening anything: failures, refused paths, broken tests."""
    shown = view.last_round
    if shown is None:
        return ""
    refused = refused_lines(shown)
    failure = shown.result.failure if shown.result else ""
    return paragraphs(
        f"This round did not pass: {words(failure, 1_000)}" if failure else "",
        f"Refused paths:\n\n{bullets(refused, 10)}" if refused else "",
        report_remarks(shown.report),
    )


def facts_line(view: RunView) -> str:
    """Who, on what, at which price."""
    request, usage = view.request, view.usage
    base = request.base_ref.removeprefix("refs/heads/")
    parts = [
        f"asked by {person(request.requester)}",
        f"on {code(base)} at {sha(request.base_sha, 7)}",
        plural(usage.model_calls, "model call"),
        plural(usage.tokens, "token"),
    ]
    if usage.cost:
        parts.append(f"cost {usage.cost:.2f}")
    if view.as_of is not None:
        parts.append(duration((view.as_of - view.created_at).total_seconds()))
    parts.append(link("evidence", view.evidence_url) if view.evidence_url else "")
    parts.append(f"run {code(view.run_id)}")
    return " · ".join(part for part in parts if part)


def _asked(view: RunView) -> str:
    request = view.request
    removed = request.hidden_text_removed
    return paragraphs(
        fence(request.request, 8_000) if request.outsiders_words else quote(request.request, 8_000),
        f"**Success criteria**\n\n{word_list(request.success_criteria)}",
        f"**Feedback**\n\n{word_list(request.feedback)}" if request.feedback else "",
        f"Suites that must pass: {code_list(request.required_suites)}.",
        f"Hidden text was removed before any model saw it: {code_list(removed)}."
        if removed
        else "",
    )


def _round(shown: RoundView) -> str:
    plan, synthesis = shown.plan, shown.synthesis
    warnings = warning_lines(shown)
    return paragraphs(
        words(plan.reason),
        bullets(task_lines(shown)),
        suites_table(shown.report) if shown.report else "",
        quote(synthesis.summary) if synthesis else "",
        f"Open risks:\n\n{word_list(synthesis.unresolved_risks)}"
        if synthesis and synthesis.unresolved_risks
        else "",
        _objections("Verifier", shown.verifier.blocking_issues if shown.verifier else ()),
        _objections("Refuter", shown.refuter.blocking_issues if shown.refuter else ()),
        bullets(warnings, 20),
        digests_table(shown),
    )


def task_lines(shown: RoundView) -> list[str]:
    """The plan's work items, each with where it may write and what its worker says."""
    said = {worker.record.task_id: worker.output for worker in shown.workers}
    lines = []
    for task in shown.plan.tasks:
        where = code_list(task.write_globs, 10) if task.write_globs else "reads only"
        output = said.get(task.id)
        is_blocked = output is not None and output.status == "blocked"
        blocked = f" **Blocked:** {words(output.summary, 300)}" if output and is_blocked else ""
        lines.append(f"**{task.id}** ({where}): {words(task.objective, 300)}{blocked}")
    return lines


def _objections(who: str, issues: tuple[str, ...]) -> str:
    return f"{who} objects:\n\n{word_list(issues)}" if issues else ""


def _note(view: RunView) -> str:
    where = link("The evidence", view.evidence_url)
    return f"… and more than fits here. {where} has it all."
