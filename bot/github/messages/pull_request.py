"""The pull request a person decides on, and the commit it holds. All templates are ours."""

from __future__ import annotations

from typing import Final

from bot.contracts import CodingRequest
from bot.github.escape import plain, quote, words
from bot.github.messages.evidence import (
    build_files_note,
    collapsed_note,
    digests_table,
    files_list,
    mark,
    report_remarks,
    sandbox_warning,
    suites_line,
    suites_table,
    warning_lines,
)
from bot.github.messages.parts import (
    bullets,
    details,
    fit,
    link,
    paragraphs,
    person,
    section,
    sha,
    word_list,
)
from bot.github.messages.status import COMMENT_BYTES, review_demand, rounds_table, task_lines
from bot.view import RoundView, RunView

SUBJECT_CHARACTERS: Final = 68


def pull_request_title(view: RunView) -> str:
    """The title: the issue's, as plain words."""
    return plain(view.request.issue_title, 120) or f"Change of run {view.run_id}"


def pull_request_body(view: RunView) -> str:
    """What was asked, what was done and why, what proves it, how to review."""
    shown = view.last_round
    return fit(
        [
            closes_line(view.request),
            section("What was asked", quote(view.request.request, 4_000)),
            *(_round_sections(view, shown) if shown else ()),
            section("How to review", how_to_review(view)),
            details("Success criteria", word_list(view.request.success_criteria)),
            *(
                details(f"Round {old.round + 1}", _earlier(old))
                for old in reversed(view.rounds[:-1])
            ),
            _origin(view),
        ],
        COMMENT_BYTES,
        f"… and more than fits here. {link('The evidence', view.evidence_url)} has it all.",
    )


def closes_line(request: CodingRequest) -> str:
    """`Closes` works for issues and the default branch only; what else was asked on is named."""
    base = request.base_ref.removeprefix("refs/heads/")
    closes = base == request.default_branch and not request.on_pull
    word = "Closes" if closes else "For"
    return f"{word} #{request.issue_number}"


def _round_sections(view: RunView, shown: RoundView) -> tuple[str, ...]:
    files = shown.candidate.changed_files if shown.candidate else ()
    synthesis = shown.synthesis
    return (
        section("What changed and why", quote(synthesis.summary, 6_000) if synthesis else ""),
        section("Open risks", word_list(synthesis.unresolved_risks) if synthesis else ""),
        section("Evidence", _evidence(shown)),
        section(
            "Files", paragraphs(files_list(files), collapsed_note(files), build_files_note(files))
        ),
        section("Plan", paragraphs(words(shown.plan.reason), bullets(task_lines(shown)))),
        section("Warnings", bullets(warning_lines(shown), 20)),
        details("Digests", digests_table(shown)),
        rounds_table(view) if len(view.rounds) > 1 else "",
    )


def _evidence(shown: RoundView) -> str:
    if shown.report is None:
        return ""
    verifier = shown.verifier.candidate_passed if shown.verifier else None
    refuter = shown.refuter.candidate_passed if shown.refuter else None
    failure = shown.result.failure if shown.result else ""
    return paragraphs(
        sandbox_warning(shown.report),
        f"❌ **This round did not pass:** {words(failure, 1_000)}" if failure else "",
        suites_table(shown.report),
        report_remarks(shown.report),
        f"Verifier {mark(verifier)} · Refuter {mark(refuter)}",
    )


def how_to_review(view: RunView) -> str:
    """What each kind of review does."""
    at = f" {sha(view.envelope.candidate_sha)}" if view.envelope else ""
    return (
        "Read the diff; the Checks tab has what ran and the digests. It takes "
        f"{review_demand(view)}: **approving** merges exactly the commit{at} that was tested, "
        "**requesting changes** or **closing** stops it. Passing suites are evidence, never proof: "
        "code under test runs in the same process as its tests."
    )


def _earlier(shown: RoundView) -> str:
    failure = shown.result.failure if shown.result else ""
    return paragraphs(
        f"Did not pass: {words(failure, 1_000)}" if failure else "",
        suites_line(shown.report) if shown.report else "",
        bullets(task_lines(shown)),
        digests_table(shown),
    )


def _origin(view: RunView) -> str:
    evidence = f" · {link('evidence', view.evidence_url)}" if view.evidence_url else ""
    return f"<sub>Run {view.run_id} · asked by {person(view.request.requester)}{evidence}</sub>"


def commit_message(request: CodingRequest, run_id: str) -> str:
    """The candidate's commit message: a function of the run, so that its SHA repeats."""
    login, number_of_account = plain(request.requester.login, 110), request.requester.id
    trailers = (
        f"Ultracode-Run: {run_id}\n"
        f"Co-authored-by: {login} <{number_of_account}+{login}@users.noreply.github.com>"
    )
    subject = commit_subject(request.issue_title, request.issue_number)
    return paragraphs(subject, plain(request.request, 400), trailers) + "\n"


def commit_subject(issue_title: str, issue_number: int) -> str:
    """The first line of the candidate's commit message."""
    number = f" (#{issue_number})"
    return (plain(issue_title, SUBJECT_CHARACTERS - len(number)) or "Requested change") + number
