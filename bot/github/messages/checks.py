"""The check runs on a candidate: what ran, what it said, and every digest to recompute it by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from bot.contracts import MAX_ROUNDS, Ending, ReviewOutput
from bot.github.escape import cut_bytes, visible, words
from bot.github.messages.evidence import (
    digests,
    failing_tests,
    files_list,
    log_details,
    outcome_counts,
    refused_lines,
    sandbox_warning,
    suite_log,
    suite_remarks,
    warning_lines,
)
from bot.github.messages.parts import (
    bullets,
    duration,
    fit,
    link,
    people,
    section,
    table,
    word_list,
)
from bot.github.messages.standing import state_title, verdict_sentence
from bot.github.messages.status import awaited_sentence, task_lines
from bot.github.port import (
    Annotation,
    CheckAction,
    CheckOutput,
    CheckRun,
    CheckRunWrite,
    Conclusion,
)
from bot.github.protection import GATE_CHECK
from bot.verdicts import Approved, Verdict
from bot.view import RoundView, RunView
from workspace.contracts import SuiteResult, TestOutcome

#: GitHub takes 65,535 bytes each of summary and text, and 50 annotations in one request.
PART_BYTES: Final = 60_000
LOG_BYTES: Final = 30_000
MAX_ANNOTATIONS: Final = 50
TITLE_CHARACTERS: Final = 200
#: GitHub deletes no check run: a doubled one gets a name that no rule asks for.
DOUBLED_CHECK: Final = "ultracode/doubled"

CANCEL: Final = CheckAction(
    label="Cancel", description="Stop this run; nothing is merged", identifier="cancel"
)
REFRESH: Final = CheckAction(
    label="Refresh", description="Build anew on the base as it is", identifier="refresh"
)
RERUN: Final = CheckAction(
    label="Re-run suites", description="Test this candidate once more", identifier="rerun_suites"
)


def check_runs(view: RunView, shown: RoundView) -> tuple[CheckRunWrite, ...]:
    """The check runs of a round's candidate, all but the gate's."""
    suites = shown.report.suites if shown.report else ()
    verdicts = (("verifier", shown.verifier), ("refuter", shown.refuter))
    return (
        *(suite_check(view, shown, suite) for suite in suites),
        scope_check(view, shown),
        *(reviewer_check(view, shown, name, said) for name, said in verdicts if said is not None),
    )


def suite_check(view: RunView, shown: RoundView, suite: SuiteResult) -> CheckRunWrite:
    """One suite: outcomes, failing tests, its log, and annotations in files of the diff."""
    remarks = [*suite_remarks(suite)]
    if not suite.required and not suite.passed:
        remarks.append("This suite is optional; it does not stop the candidate.")
    facts = [
        ("exit", suite.termination if suite.exit_code is None else str(suite.exit_code)),
        ("judged by", suite.judged_by.replace("_", " ")),
        ("time", duration(suite.duration_seconds)),
        ("result digest", f"`{suite.result_digest}`"),
        ("run key", f"`{suite.run_key}`"),
        ("log SHA-256", f"`{suite.log.sha256}`"),
    ]
    if suite.junit:
        facts.append(("JUnit SHA-256", f"`{suite.junit.sha256}`"))
    said = _Said(
        title=f"{'Passed' if suite.passed else 'Did not pass'}: {outcome_counts(suite)}",
        conclusion=_suite_conclusion(suite),
        summary=(sandbox_warning(shown.report), table(("", ""), facts), bullets(remarks)),
        text=(
            section("Failing tests", failing_tests(suite.outcomes)),
            log_details(suite_log(shown.evidence, suite.suite_id), LOG_BYTES),
        ),
        annotations=tuple(_annotations(shown, suite)),
        actions=(CANCEL if _goes_on(view, shown) else RERUN,),
    )
    return _check(view, shown, f"ultracode/suite/{suite.suite_id}", said)


def _goes_on(view: RunView, shown: RoundView) -> bool:
    """Whether a round of repair follows this one: then there is a run to cancel, none to test."""
    suites = shown.report is not None and shown.report.passed
    heard = (shown.verifier, shown.refuter)
    passed = suites and all(said is None or said.candidate_passed for said in heard)
    rounds = view.policy.limits.rounds if view.policy else MAX_ROUNDS
    return not passed and shown.round + 1 < rounds


def _suite_conclusion(suite: SuiteResult) -> Conclusion:
    if suite.passed:
        return "success"
    if not suite.required:
        return "neutral"
    return "timed_out" if suite.termination == "timeout" else "failure"


def _annotations(shown: RoundView, suite: SuiteResult) -> Iterator[Annotation]:
    """Failing tests in files of the diff; GitHub shows an annotation nowhere else."""
    changed = {file.path for file in shown.candidate.changed_files} if shown.candidate else set()
    failing = [test for test in suite.outcomes if test.outcome in {"failed", "error"}]
    here = [test for test in failing if test.file in changed]
    for test in here[:MAX_ANNOTATIONS]:
        yield Annotation(
            path=test.file or "",
            line=max(1, test.line or 1),
            level="failure",
            title=visible(test.key, keep="")[:255],
            message=_annotation_message(test),
        )


def _annotation_message(test: TestOutcome) -> str:
    return cut_bytes(visible(test.message), 4_000) or f"This test {test.outcome}."


def scope_check(view: RunView, shown: RoundView) -> CheckRunWrite:
    """Where workers were allowed to write, and what Git says they wrote."""
    refused = refused_lines(shown)
    files = shown.candidate.changed_files if shown.candidate else ()
    said = _Said(
        title="Paths were refused" if refused else "All changes lie within the plan's paths",
        conclusion="failure" if refused else "success",
        summary=(
            "Read from Git's own view of every worker's files, not from what a worker says.",
            bullets(task_lines(shown)),
            section("Refused", bullets(refused)),
            section("Warnings", bullets(warning_lines(shown), 20)),
        ),
        text=(section("Changed files", files_list(files)),),
    )
    return _check(view, shown, "ultracode/scope", said)


def reviewer_check(view: RunView, shown: RoundView, name: str, said: ReviewOutput) -> CheckRunWrite:
    """What the verifier or the refuter found. A model's words: they can stop, never merge."""
    passed = said.candidate_passed
    titles = {
        ("verifier", True): "Every criterion was checked and met",
        ("verifier", False): "A criterion is not met",
        ("refuter", True): "No counterexample was found",
        ("refuter", False): "A counterexample was found",
    }
    words_of_it = _Said(
        title=titles[name, passed],
        conclusion="success" if passed else "failure",
        summary=(
            "A model's judgement. It can stop a candidate; it can never merge one.",
            section("Blocking issues", word_list(said.blocking_issues)),
        ),
        text=(section("What was looked at", word_list(said.evidence)),),
    )
    return _check(view, shown, f"ultracode/{name}", words_of_it)


# --- the gate -----------------------------------------------------------------------------------

_CONCLUSIONS: Final[Mapping[str, Conclusion]] = {
    "promoted": "success",
    "reported": "success",
    "failed": "failure",
    "rejected": "cancelled",
    "conflicted": "failure",
    "refused": "failure",
    "cancelled": "cancelled",
    "expired": "cancelled",
    "merged_elsewhere": "neutral",
    "revised": "neutral",
}


def gate_check(
    view: RunView, verdict: Verdict | None, *, ending: Ending | None = None
) -> CheckRunWrite:
    """The gate: action required while it waits, success when it opens, and its end in words."""
    shown = view.last_round
    assert shown is not None, "a gate stands on a round's candidate"
    return _check(view, shown, GATE_CHECK, _gate_words(view, verdict, ending))


def _gate_words(view: RunView, verdict: Verdict | None, ending: Ending | None) -> _Said:
    if ending is not None:
        return _Said(
            title=state_title(ending.outcome),
            conclusion=_CONCLUSIONS[ending.outcome],
            summary=(words(ending.sentence),),
            actions=(RERUN,) if ending.outcome in {"failed", "expired"} else (),
        )
    if isinstance(verdict, Approved):
        return _Said(
            title=f"Approved by {', '.join(account.login for account in verdict.by)}",
            conclusion="success",
            summary=(f"Approved by {people(verdict.by)}, at exactly this commit.",),
        )
    return _Said(
        title="Waiting for a review",
        conclusion="action_required",
        summary=(
            verdict_sentence(verdict) if verdict else awaited_sentence(view),
            "Review the pull request itself: that is the only way to decide.",
        ),
        actions=(CANCEL, RERUN, REFRESH),
    )


def left_check(check: CheckRun, *, name: str) -> CheckRunWrite:
    """Conclude a check run that a stopped worker left behind, doubled or open."""
    doubled = name == DOUBLED_CHECK
    return CheckRunWrite(
        name=name,
        head_sha=check.head_sha,
        external_id=check.external_id,
        conclusion="neutral" if doubled else "cancelled",
        output=CheckOutput(
            title="Doubled" if doubled else "Stopped",
            summary="The same check run stands on this commit already; this one says nothing."
            if doubled
            else "The run has ended, and this check run was left open; it says nothing.",
        ),
    )


# --- what all share -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    """What one check run says. Summary and text are parts, left out from the end when too long."""

    title: str
    conclusion: Conclusion
    summary: tuple[str, ...]
    text: tuple[str, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    actions: tuple[CheckAction, ...] = ()


def _check(view: RunView, shown: RoundView, name: str, said: _Said) -> CheckRunWrite:
    """A check run on a round's candidate. The digests come first: they are never cut."""
    assert shown.candidate is not None, "a check run stands on a candidate"
    bound = table(("", ""), [(label, f"`{value}`") for label, value in digests(shown)])
    note = f"… and more than fits here. {link('The evidence', view.evidence_url)} has it all."
    return CheckRunWrite(
        name=name,
        head_sha=shown.candidate.sha,
        external_id=f"{view.run_id}:{shown.round}:{name}",
        conclusion=said.conclusion,
        output=CheckOutput(
            title=said.title[:TITLE_CHARACTERS],
            summary=fit(said.summary, PART_BYTES, note),
            text=fit((bound, *said.text), PART_BYTES, note),
            annotations=said.annotations,
        ),
        details_url=view.evidence_url,
        actions=said.actions,
    )
