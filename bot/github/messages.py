"""Every sentence people read on GitHub. In: facts. Out: Markdown. Pure; decides nothing.

Foreign words (of issues, repositories, models) enter only through `bot.github.escape`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bot.contracts import CodingRequest, Ending, ReviewOutput
from bot.github.escape import escaped, plain_words, quoted
from bot.github.port import CheckAction, CheckOutput, CheckRunWrite, Conclusion, Permission
from bot.github.protection import Problem
from bot.policy import POLICY_PATH
from bot.store.runs import Run
from bot.verdicts import (
    Approved,
    BaseMoved,
    Blocked,
    ForApprovals,
    ForCheck,
    ForGitHubsDecision,
    ForReady,
    ForRetarget,
    ForSettling,
    ForThreads,
    Landed,
    MergedElsewhere,
    Paused,
    Rejected,
    Verdict,
    Voided,
    Wait,
    Waiting,
)
from bot.view import RoundView, RunView
from webhooks.command_options import BadOption
from workspace.contracts import SuiteResult, shown_path

GATE_CHECK = "ultracode/review"
TEXT_BYTES = 65_000
SHOWN_FILES = 50
SHOWN_TESTS = 30


# --- answers to commands ------------------------------------------------------------------------


def help_message() -> str:
    """Say what the commands are."""
    return """\
Write one of these at the start of a line:

| comment | does |
|---|---|
| `/ultracode <request>` | starts a run; alone, it takes the issue as the request |
| `/ultracode --base <branch> <request>` | the same on another branch |
| `/ultracode status` | says where the run stands |
| `/ultracode go` | lets a run that waits for a go continue |
| `/ultracode cancel` | stops the run |
| `/ultracode help` | shows this |
"""


def folded_hint_message() -> str:
    """Hint at a command that Markdown folded into something else."""
    return (
        "A line here begins with `/ultracode`, but Markdown made it part of the quote or list "
        "above it, so it was not taken as a command. Put an empty line before it."
    )


def second_command_note() -> str:
    """Note that only the first command of a comment counts."""
    return "Only the first command of a comment counts; the later one was not done."


def no_write_message() -> str:
    """Refuse somebody without write access."""
    return "Only people with write access to this repository can use `/ultracode` here."


def requester_level_message(wanted: Permission) -> str:
    """Refuse somebody whom policy does not admit."""
    return f"This repository's policy lets people with {wanted} access start runs (`requesters`)."


def unknown_command_message(word: str, near: str) -> str:
    """Answer a misspelt command."""
    return f"`{word}` is no command. Did you mean `/ultracode {near}`? Nothing was started."


def bad_option_message(option: BadOption) -> str:
    """Answer an option that does not exist or lacks its value."""
    near = getattr(option, "did_you_mean", None)
    hint = f" Did you mean `{near}`?" if near else ""
    return f"`{option.option}` cannot be used here.{hint} Nothing was started."


def not_yet_message() -> str:
    """Answer a command that this version does not have."""
    return "This command is recognised, but this version of the bot cannot do it yet."


def live_run_message(run: Run | None) -> str:
    """Answer a start while a run is under way."""
    state = f" ({run.state})" if run else ""
    return (
        f"This issue already has a run under way{state}; its status comment is above. "
        "`/ultracode cancel`, alone on its line, stops it."
    )


def status_answer_message(run: Run | None) -> str:
    """Answer `/ultracode status`."""
    if run is None:
        return "There is no run on this issue yet. `/ultracode <request>` starts one."
    sentence = f" {escaped(run.outcome_sentence)}" if run.outcome_sentence else ""
    return f"Run `{run.run_id}` is **{run.state}**, round {run.round + 1}.{sentence}"


def nothing_awaits_go_message(run: Run | None) -> str:
    """Answer a `go` that nothing waits for."""
    state = f" The run is **{run.state}**." if run else " There is no live run."
    return f"Nothing here waits for a go.{state}"


def nothing_to_cancel_message() -> str:
    """Answer a `cancel` without a live run."""
    return "There is no live run to cancel here."


def too_late_to_cancel_message(run: Run) -> str:
    """Answer a `cancel` that came too late."""
    return f"The run is **{run.state}** and can no longer be cancelled."


# --- refusals before a run ----------------------------------------------------------------------


def archived_message() -> str:
    """Refuse an archived repository."""
    return "This repository is archived, so nothing can be merged into it."


def issue_gone_message() -> str:
    """Refuse an issue that is gone."""
    return "The issue is gone."


def no_policy_message(proposal: str) -> str:
    """Refuse a repository without policy, with a file to copy."""
    return (
        f"This repository has no `{POLICY_PATH}` on its default branch, so the bot does not know "
        "how candidates are judged. Commit this file (and correct it) to start:\n\n"
        f"```yaml\n{proposal.rstrip()}\n```"
    )


def base_not_admitted_message(branch: str) -> str:
    """Refuse a base branch that policy does not admit."""
    return (
        f"Policy does not admit `{escaped(branch)}` as a base branch. Add it to `bases` in "
        f"`{POLICY_PATH}` on the default branch."
    )


def no_such_branch_message(branch: str) -> str:
    """Refuse a base branch that does not exist."""
    return f"There is no branch `{escaped(branch)}`."


def no_such_suite_message(unknown: Sequence[str], known: Sequence[str]) -> str:
    """Refuse a suite that policy does not have."""
    return (
        f"Policy has no suite {', '.join(f'`{escaped(s)}`' for s in unknown)}. "
        f"It has {', '.join(f'`{s}`' for s in known)}."
    )


def no_required_suite_message(branch: str) -> str:
    """Refuse a branch that no required suite judges."""
    return f"No required suite in `{POLICY_PATH}` applies to `{escaped(branch)}`."


def not_promotable_message(branch: str, problems: Sequence[Problem]) -> str:
    """Refuse a base branch that this App could never move, naming the settings."""
    listed = "\n".join(f"- {p.setting} ({p.source}): {p.obstacle}" for p in problems)
    return (
        f"A candidate could not be merged into `{escaped(branch)}` by this App, so no work was "
        f"started. These settings stand in the way:\n\n{listed}"
    )


# --- the commit, the pull request ---------------------------------------------------------------


def commit_message(request: CodingRequest, run_id: str) -> str:
    """Return the message of the candidate's commit."""
    subject = plain_words(request.issue_title, limit=60) or "Requested change"
    requester = request.requester
    return (
        f"{subject} (#{request.issue_number})\n\n"
        f"{plain_words(request.request, limit=400)}\n\n"
        f"Ultracode-Run: {run_id}\n"
        f"Co-authored-by: {requester.login} "
        f"<{requester.id}+{requester.login}@users.noreply.github.com>\n"
    )


def pull_request_title(view: RunView) -> str:
    """Return the pull request's title."""
    return plain_words(view.request.issue_title, limit=120) or f"Run {view.run_id}"


def pull_request_body(view: RunView) -> str:
    """Return the pull request's text: asked, done, proved, how to review."""
    return "\n\n".join(
        part
        for part in (
            f"Closes #{view.request.issue_number}",
            "### What was asked\n\n" + quoted(view.request.request, limit=4_000),
            criteria_section(view),
            *(round_section(shown) for shown in reversed(view.rounds)),
            HOW_TO_REVIEW,
            f"Run `{view.run_id}`.",
        )
        if part
    )


HOW_TO_REVIEW = (
    "### How to review\n\nRead the diff; the suites' outcomes and digests stand in the Checks tab. "
    "**Approve** to merge exactly this commit; **request changes** or **close** to stop it. "
    "A passing suite is evidence, never proof."
)


def criteria_section(view: RunView) -> str:
    """Return the success criteria as a list."""
    return "### Success criteria\n\n" + bullets(view.request.success_criteria)


def round_section(shown: RoundView) -> str:
    """Return one round: plan, workers, files, suites, verdicts."""
    lines = [f"### Round {shown.round + 1}", "", escaped(shown.plan.reason), ""]
    for task in shown.plan.tasks:
        where = ", ".join(f"`{g}`" for g in task.write_globs) or "read-only"
        lines.append(f"- **{task.id}** ({where}): {escaped(task.objective, limit=300)}")
    if shown.candidate:
        lines += ["", files_line(shown)]
    if shown.report:
        lines += ["", suites_table(shown.report.suites)]
    if shown.evidence:
        lines += ["", f"Evidence digest `{shown.evidence.digest}`"]
    if shown.synthesis:
        lines += ["", escaped(shown.synthesis.summary)]
        if shown.synthesis.unresolved_risks:
            lines += ["", "Open risks:", "", bullets(shown.synthesis.unresolved_risks)]
    if shown.result and shown.result.failure:
        lines += ["", f"**Did not pass:** {escaped(shown.result.failure)}"]
    return "\n".join(lines)


def files_line(shown: RoundView) -> str:
    """Return the candidate and the files it changes."""
    assert shown.candidate is not None
    files = [f"`{escaped(shown_path(f.path))}`" for f in shown.candidate.changed_files]
    more = f" and {len(files) - SHOWN_FILES} more" if len(files) > SHOWN_FILES else ""
    return f"Candidate `{shown.candidate.sha}`: {', '.join(files[:SHOWN_FILES])}{more}"


def suites_table(suites: Sequence[SuiteResult]) -> str:
    """Return what ran, its exit code, its outcomes and its digest, one suite a row."""
    rows = ["| suite | result | exit | passed | failed | digest |", "|---|---|---|---|---|---|"]
    for suite in suites:
        failed = suite.count("failed") + suite.count("error")
        rows.append(
            f"| {suite.suite_id} | {'passed' if suite.passed else 'did not pass'} "
            f"| {suite.exit_code} | {suite.count('passed')} | {failed} "
            f"| `{suite.result_digest[:16]}` |"
        )
    return "\n".join(rows)


def bullets(lines: Iterable[str]) -> str:
    """Return foreign lines as a list."""
    return "\n".join(f"- {escaped(line, limit=500)}" for line in lines)


# --- the status comment -------------------------------------------------------------------------

STATE_WORDS = {
    "accepted": "Accepted; work starts in a moment.",
    "awaiting_go": "Waiting for `/ultracode go` from somebody with write access.",
    "planning": "Looking at the repository and planning.",
    "working": "Working.",
    "awaiting_review": "The candidate passed and waits for a review.",
    "approved": "Approved; promoting.",
    "promoting": "Promoting.",
    "cancelling": "Stopping.",
}


def status_comment(view: RunView) -> str:
    """Return the one status comment of a run."""
    state = view.ending.outcome if view.ending else view.state
    lines = [f"**{state}** · round {len(view.rounds) or 1} · run `{view.run_id}`", ""]
    lines.append(now_sentence(view))
    if view.pull_number:
        lines += ["", f"Pull request: #{view.pull_number}"]
    lines += ["", "<details><summary>What was asked</summary>", ""]
    lines += [quoted(view.request.request, limit=4_000), "", criteria_section(view)]
    lines += ["", "</details>"]
    if view.request.hidden_text_removed:
        removed = ", ".join(view.request.hidden_text_removed)
        lines += ["", f"Hidden text was removed before any model saw it: {removed}."]
    for shown in reversed(view.rounds):
        lines += ["", round_section(shown)]
    usage = view.usage
    lines += ["", f"{usage.model_calls} model calls, {usage.tokens:,} tokens."]
    return "\n".join(lines)


def now_sentence(view: RunView) -> str:
    """Return what is awaited, or how it ended."""
    if view.ending is not None:
        return ending_sentence(view.ending)
    if view.reason == "queued" and view.position:
        return f"Queued, position {view.position}."
    words = STATE_WORDS.get(view.state, view.state)
    until = f" Until {view.deadline_at:%Y-%m-%d %H:%M} UTC." if view.deadline_at else ""
    verdict = f" {verdict_sentence(view.verdict)}" if view.verdict else ""
    return f"{words}{verdict}{until}"


def ending_sentence(ending: Ending) -> str:
    """Return an ending in one sentence."""
    return f"Ended **{ending.outcome}**. {escaped(ending.sentence)}"


# --- new comments -------------------------------------------------------------------------------


def mention(view: RunView) -> str:
    """Return the one mention the bot makes: the requester's."""
    return f"@{view.request.requester.login}"


def review_wanted_comment(view: RunView) -> str:
    """Ask for the review."""
    until = f" until {view.deadline_at:%Y-%m-%d}" if view.deadline_at else ""
    sha = view.envelope.candidate_sha if view.envelope else ""
    return (
        f"{mention(view)} the candidate `{sha[:12]}` passed and waits for a review on "
        f"#{view.pull_number}{until}."
    )


def go_wanted_comment(view: RunView) -> str:
    """Show outsiders' words and ask for a go."""
    return (
        f"{mention(view)} the text below was written by somebody without write access. "
        "`/ultracode go` lets the run use it word for word; `/ultracode cancel` stops it.\n\n"
        f"{quoted(view.request.request)}\n\n{criteria_section(view)}"
    )


def ending_comment(view: RunView, ending: Ending) -> str:
    """Tell the requester how the run ended."""
    return f"{mention(view)} {ending_sentence(ending)}"


def landed_comment(base: str, ending: Ending) -> str:
    """Say where the commit went when GitHub cannot: it marks merges on the default branch only."""
    return (
        f"The candidate `{ending.sha}` is on `{escaped(base)}` now. GitHub marks pull requests "
        "as merged on the default branch only, so this one is closed."
    )


# --- check runs ---------------------------------------------------------------------------------


def check_runs(view: RunView, shown: RoundView) -> tuple[CheckRunWrite, ...]:
    """Return the check runs of a round's candidate, the gate's not among them."""
    candidate, report = shown.candidate, shown.report
    assert candidate is not None
    suites = report.suites if report else ()
    return (
        *(suite_check(view, shown, suite) for suite in suites),
        scope_check(view, shown),
        *(
            reviewer_check(view, shown, name, verdict)
            for name, verdict in (("verifier", shown.verifier), ("refuter", shown.refuter))
            if verdict is not None
        ),
    )


def suite_check(view: RunView, shown: RoundView, suite: SuiteResult) -> CheckRunWrite:
    """Return the check run of one suite."""
    failing = [t for t in suite.outcomes if t.outcome in {"failed", "error"}]
    names = ", ".join(f"{suite.count(o)} {o}" for o in ("passed", "failed", "error", "skipped"))
    lines = [
        f"Exit code **{suite.exit_code}** ({suite.termination}), {names}.",
        "" if suite.passed else f"\nDid not pass: {escaped(suite.reason)}",
        named_tests("Now passing", suite.fail_to_pass),
        named_tests("Broken", suite.pass_to_fail),
        named_tests("Missing", suite.missing),
        named_tests("Failing", [test.key for test in failing]),
    ]
    return check(
        view,
        shown,
        f"ultracode/suite/{suite.suite_id}",
        "success" if suite.passed else "failure",
        "Passed" if suite.passed else "Did not pass",
        "\n".join(line for line in lines if line),
        f"result digest `{suite.result_digest}`\nrun key `{suite.run_key}`\n"
        f"log SHA-256 `{suite.log.sha256}`",
    )


def scope_check(view: RunView, shown: RoundView) -> CheckRunWrite:
    """Return the check run that says where workers wrote."""
    lines = [
        f"- **{task.id}**: {', '.join(f'`{g}`' for g in task.write_globs) or 'read-only'}"
        for task in shown.plan.tasks
    ]
    summary = "Git's own view of every worker's files lies within its globs.\n\n" + "\n".join(lines)
    return check(view, shown, "ultracode/scope", "success", "Within scope", summary)


def reviewer_check(
    view: RunView, shown: RoundView, name: str, verdict: ReviewOutput
) -> CheckRunWrite:
    """Return the check run of the verifier or the refuter."""
    passed = verdict.candidate_passed
    summary = "No blocking issue." if passed else bullets(verdict.blocking_issues)
    conclusion: Conclusion = "success" if passed else "failure"
    title = "No objection" if passed else "Objects"
    return check(view, shown, f"ultracode/{name}", conclusion, title, summary)


def gate_check(
    view: RunView, verdict: Verdict | None, *, ending: Ending | None = None
) -> CheckRunWrite:
    """Return the gate's check run: action required while it waits, success when it opened."""
    shown = view.last_round
    assert shown is not None
    if ending is not None:
        return check(view, shown, GATE_CHECK, "cancelled", ending.outcome, ending_sentence(ending))
    if isinstance(verdict, Approved):
        by = ", ".join(account.login for account in verdict.by)
        return check(view, shown, GATE_CHECK, "success", f"Approved by {by}", "The gate is open.")
    summary = verdict_sentence(verdict) if verdict else "Approve the pull request to merge it."
    return check(
        view,
        shown,
        GATE_CHECK,
        "action_required",
        "Waiting for a review",
        summary,
        actions=(CheckAction(label="Cancel", description="Stop this run", identifier="cancel"),),
    )


def check(
    view: RunView,
    shown: RoundView,
    name: str,
    conclusion: Conclusion,
    title: str,
    summary: str,
    digests: str = "",
    *,
    actions: tuple[CheckAction, ...] = (),
) -> CheckRunWrite:
    """Return a check run on a round's candidate, with the digests every one of them carries."""
    assert shown.candidate is not None
    bound = [f"candidate `{shown.candidate.sha}`", digests]
    if shown.report:
        bound.append(f"test report digest `{shown.report.digest}`")
    if shown.evidence:
        bound.append(f"evidence digest `{shown.evidence.digest}`")
    return CheckRunWrite(
        name=name,
        head_sha=shown.candidate.sha,
        external_id=f"{view.run_id}:{shown.round}:{name}",
        conclusion=conclusion,
        output=CheckOutput(
            title=title,
            summary=cut(summary),
            text=cut("\n".join(f"- {line}" for part in bound for line in part.splitlines())),
        ),
        details_url=view.evidence_url,
        actions=actions,
    )


def named_tests(title: str, names: Sequence[str]) -> str:
    """Return some tests by name, or nothing."""
    if not names:
        return ""
    shown = ", ".join(f"`{escaped(name, limit=200)}`" for name in names[:SHOWN_TESTS])
    more = f" and {len(names) - SHOWN_TESTS} more" if len(names) > SHOWN_TESTS else ""
    return f"\n{title}: {shown}{more}"


def cut(text: str) -> str:
    """Return text within GitHub's limit of 65,535 bytes."""
    raw = text.encode()
    return text if len(raw) <= TEXT_BYTES else raw[:TEXT_BYTES].decode(errors="ignore") + "\n…"


# --- the gate in words --------------------------------------------------------------------------


def verdict_sentence(verdict: Verdict) -> str:
    """Return what the gate says, for people."""
    match verdict:
        case Approved(by=by):
            return f"Approved by {', '.join(account.login for account in by)}."
        case Waiting(waits=waits):
            return " ".join(wait_sentence(wait) for wait in waits)
        case Blocked(by=who):
            return f"{who.login} requested changes, which blocks this candidate."
        case Rejected(by=who):
            return f"{who.login} closed the pull request."
        case MergedElsewhere(by=somebody):
            return f"{somebody.login if somebody else 'Somebody'} merged the pull request."
        case Paused() | Landed() | Voided() | BaseMoved():
            return STANDING_WORDS[type(verdict)]


STANDING_WORDS = {
    Paused: "The pull request was closed by somebody without write access; reopen it to go on.",
    Landed: "The base branch already stands at the candidate.",
    Voided: "Somebody else changed the branch, so this candidate cannot be merged.",
    BaseMoved: "The base branch moved after this candidate was made.",
}


def wait_sentence(wait: Wait) -> str:
    """Return one thing that is awaited."""
    match wait:
        case ForApprovals(needed=needed, given_by=given, ignored=ignored):
            missing = needed - len(given)
            notes = "".join(
                f" The approval of {i.by.login if i.by else 'a deleted account'} does not count: "
                f"{DISCOUNT_WORDS[i.why]}."
                for i in ignored
            )
            return f"Awaiting {missing} approval(s).{notes}"
        case ForGitHubsDecision():
            return "GitHub does not call the reviews sufficient yet (code owners, say)."
        case ForThreads(count=count):
            return f"{count} review thread(s) must be resolved."
        case ForCheck(context=context, red=red):
            return f"Required check `{escaped(context)}` {'failed' if red else 'is not green yet'}."
        case ForReady():
            return "The pull request was turned back into a draft; mark it ready for review."
        case ForRetarget(base=base):
            return f"The pull request was pointed at `{escaped(base)}`; point it back."
        case ForSettling():
            return "GitHub has not caught up with the push yet."


DISCOUNT_WORDS = {
    "other_commit": "it names another commit",
    "before_envelope": "it came before the candidate was ready",
    "no_permission": "the account has not the permission policy asks for",
    "not_a_person": "it is no person's",
    "contributor": "the words of that person are part of this work",
}
