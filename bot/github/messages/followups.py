"""Answers about runs that follow another, and the chain of evidence in words."""

from __future__ import annotations

from collections.abc import Sequence

from bot.contracts import Ending, UserRef
from bot.github.escape import code
from bot.github.messages.parts import link, paragraphs, sha, table
from bot.github.messages.standing import state_words
from bot.store.runs import Run
from bot.view import RoundView, RunView


def nothing_waits_message(run: Run | None) -> str:
    """Answer `revise` or `refresh` without a candidate that waits for a review."""
    state = f" The newest run is **{run.state}**." if run else ""
    return f"No candidate waits for a review here.{state} `/ultracode retry` starts one anew."


def retest_sentence(who: UserRef) -> str:
    """Say why a run ends whose candidate is tested once more."""
    return (
        f"{who.login} asked to run the suites again; the same change is tested and reviewed anew, "
        "and earlier approvals do not carry over."
    )


def nothing_to_retest_message(run: Run) -> str:
    """Answer "Re-run suites" while there is no finished candidate, or after it is decided."""
    return (
        f"Suites run again on a candidate that waits for a review, or whose run failed or expired. "
        f"This run is **{state_words(run.state)}**."
    )


def earlier_check_message(run: Run | None) -> str:
    """Answer a button on the check of a candidate that others have followed."""
    where = f" It is run {code(run.run_id)} now." if run else ""
    return (
        "That check stands on an earlier candidate, so its button does nothing any more."
        f"{where} Press it on the newest commit of the pull request."
    )


def unknown_button_message(identifier: str) -> str:
    """Answer a button that this version of the bot does not have."""
    return f"The button {code(identifier)} is no longer known. `/ultracode help` says what is."


def deciding_again_message() -> str:
    """Answer `retry` while a candidate waits."""
    return "The gate is decided again now; the status comment shows what it says."


def nothing_to_retry_message(run: Run | None) -> str:
    """Answer `retry` without anything to start anew."""
    if run is None:
        return "There is no run here to retry. `/ultracode <request>` starts one."
    return f"The newest run is **{run.state}**; there is nothing to retry."


def nothing_to_verify_message(wanted: str | None) -> str:
    """Answer `verify` without evidence."""
    which = f" for {code(wanted)}" if wanted else ""
    return f"There is no evidence{which} here: no candidate came as far as its suites."


def forgotten_message(run: Run) -> str:
    """Answer who asks for what an ended run left behind, after its retention."""
    return (
        f"Run {code(run.run_id)} ended too long ago: its candidate and its evidence are no longer "
        "kept (`retention` in the policy file says how long). `/ultracode retry` starts anew with "
        "the same words."
    )


def verify_message(
    view: RunView, shown: RoundView, broken: Sequence[str], *, keys_url: str | None
) -> str:
    """Show the chain of a candidate, link by link, as the stored bytes prove it, and where to look.

    Args:
        view: The run.
        shown: The round of the candidate.
        broken: Links that do not hold, a sentence each.
        keys_url: Where this server publishes its public keys, if people can reach it.
    """
    candidate, report, evidence = shown.candidate, shown.report, shown.evidence
    if candidate is None or report is None or evidence is None:
        return nothing_to_verify_message(None)
    links = [
        ("request", code(evidence.bindings.get("request", ""))),
        ("policy", code(evidence.bindings.get("policy", ""))),
        ("plan", code(evidence.bindings.get("plan", ""))),
        ("base", code(candidate.original_base_sha)),
        ("candidate", code(candidate.sha)),
        ("diff", code(evidence.diff_digest)),
        ("test report", code(report.digest)),
        ("evidence", code(evidence.digest)),
    ]
    verdict = (
        "Every digest was recomputed from the stored bytes, and they agree."
        if not broken
        else "The chain is broken: " + " ".join(broken)
    )
    return paragraphs(
        f"Run {code(view.run_id)}, candidate {sha(candidate.sha)}. {verdict}",
        table(("link", "SHA or SHA-256"), links),
        bundle_sentence(candidate.sha, evidence.signed_by, keys_url=keys_url),
    )


def bundle_sentence(candidate_sha: str, signed_by: str | None, *, keys_url: str | None) -> str:
    """Say where the bundle is to be had, who signed it, and how anybody checks it."""
    file = f"{candidate_sha[:12]}.json"
    signer = f"signed with key {code(signed_by)}" if signed_by else "unsigned: there is no key"
    keys = f" The public keys are {link('published', keys_url)}." if signed_by and keys_url else ""
    pinned = " --key KEYS.json" if signed_by else ""
    return (
        f"The bundle with all of it ({signer}) is written on the bot's server "
        f"by {code(f'ultracode bundle {candidate_sha} --out {file}')}; anybody checks it offline "
        f"with {code(f'ultracode verify {file}{pinned}')}.{keys}"
    )


def landed_comment(base: str, ending: Ending) -> str:
    """Say where the commit went when GitHub cannot: it marks merges on the default branch only."""
    return (
        f"The candidate {sha(ending.sha)} is on {code(base)} now. GitHub marks pull requests as "
        "merged on the default branch only, so this one is closed."
    )
