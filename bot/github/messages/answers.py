"""Answers to commands: what was not done and why, and what to do instead."""

from __future__ import annotations

import json
from collections.abc import Sequence

from bot.github.escape import code, fence, words
from bot.github.messages.parts import bullets, code_list, link, paragraphs, plural
from bot.github.messages.standing import state_title, state_words
from bot.github.port import Permission
from bot.github.protection import Obstacle, Problem
from bot.policy import POLICY_PATH
from bot.store.runs import Run
from webhooks.command_options import BadOption

NOTHING_STARTED = "Nothing was started."


def help_message() -> str:
    """Say what the commands are."""
    return """\
Write one of these at the start of a line, in ordinary text:

| comment | does |
|---|---|
| `/ultracode <request>` | starts a run; alone, it takes this issue as the request |
| `/ultracode --base <branch> --suite <id> <request>` | on another branch, with further suites |
| `/ultracode status` | says where the run stands |
| `/ultracode go` | lets a run that waits for a go continue |
| `/ultracode cancel` | stops the run |
| `/ultracode retry` | continues where a run failed |
| `/ultracode revise <feedback>` | one further run on the same pull request |
| `/ultracode refresh` | builds the candidate anew on the base branch as it is now |
| `/ultracode verify [sha]` | shows the chain of evidence of a commit |
| `/ultracode help` | shows this |

A review on the pull request decides: an approval merges exactly the commit it approves;
requesting changes or closing stops it."""


def folded_hint_message() -> str:
    """Hint at a command that Markdown folded into something else."""
    return (
        "A line here begins with `/ultracode`, but Markdown made it part of the quote, list or "
        "table above it, so it is no command. Put an empty line before it."
    )


def second_command_note() -> str:
    """Note that only the first command of a comment counts."""
    return "Only the first command of a comment counts; the later one was not done."


def no_write_message() -> str:
    """Refuse somebody without write access."""
    return (
        "Only people with write access to this repository can steer runs here. Somebody who has "
        "it can write the same comment."
    )


def requester_level_message(wanted: Permission) -> str:
    """Refuse somebody whom policy does not admit."""
    return (
        f"This repository's policy lets people with {wanted} access start runs (`requesters` in "
        f"`{POLICY_PATH}`)."
    )


def unknown_command_message(word: str, near: str) -> str:
    """Answer a misspelt command."""
    return f"{code(word)} is no command. Did you mean `/ultracode {near}`? {NOTHING_STARTED}"


_OPTION_PROBLEMS = {
    "unknown": "is no option",
    "no_value": "needs a value",
    "bad_value": "cannot have that value",
    "twice": "was given twice",
    "not_with_command": "does not go with a command",
}


def bad_option_message(option: BadOption) -> str:
    """Answer an option that cannot be followed."""
    problem = _OPTION_PROBLEMS[option.problem]
    value = f" ({code(option.value)})" if option.value else ""
    near = f" Did you mean `{option.did_you_mean}`?" if option.did_you_mean else ""
    return (
        f"{code(option.option)} {problem}{value}.{near} The options are `--base <branch>` and "
        f"`--suite <id>`, right after `/ultracode`. {NOTHING_STARTED}"
    )


def live_run_message(run: Run | None, status_url: str | None = None) -> str:
    """Answer a start while a run is under way."""
    where = link("Its status comment", status_url)
    state = f" ({state_words(run.state)})" if run else ""
    return (
        f"This issue already has a run under way{state}. {where} says where it stands; "
        f"`/ultracode cancel`, alone on its line, stops it. {NOTHING_STARTED}"
    )


def status_answer_message(run: Run | None) -> str:
    """Answer `/ultracode status`."""
    if run is None:
        return "There is no run on this issue yet. `/ultracode <request>` starts one."
    sentence = f" {words(run.outcome_sentence)}" if run.outcome_sentence else ""
    pull = f" Its pull request is #{run.pull_number}." if run.pull_number else ""
    return (
        f"Run {code(run.run_id)}: **{state_title(run.state)}**, in round {run.round + 1}."
        f"{sentence}{pull} The status comment has the rest."
    )


def nothing_awaits_go_message(run: Run | None) -> str:
    """Answer a `go` that nothing waits for."""
    state = f"The run is {state_words(run.state)}." if run else "There is no run under way."
    return f"Nothing here waits for a go. {state}"


def nothing_to_cancel_message() -> str:
    """Answer a `cancel` without a live run."""
    return "There is no run under way here, so there is nothing to cancel."


def too_late_to_cancel_message(run: Run) -> str:
    """Answer a `cancel` that came too late."""
    return f"The run is {state_words(run.state)} and can no longer be cancelled."


def empty_revision_message() -> str:
    """Answer a `revise` without feedback."""
    return "Say what should be different: `/ultracode revise <feedback>`."


def revisions_spent_message(limit: int) -> str:
    """Answer a `revise` beyond policy's limit."""
    return (
        f"This pull request has had {plural(limit, 'revision')}, all that policy allows "
        f"(`limits.revisions` in `{POLICY_PATH}`)."
    )


def fork_declined_message() -> str:
    """Decline to work on a pull request from a fork."""
    return (
        "This pull request comes from a fork, where the bot cannot push. Start the run on an issue "
        "of this repository instead, or push the branch here."
    )


def pull_closed_message() -> str:
    """Refuse to work on the branch of a closed pull request."""
    return f"This pull request is closed, so there is no branch to work on. {NOTHING_STARTED}"


# --- refusals before a run ----------------------------------------------------------------------


def archived_message() -> str:
    """Refuse an archived repository."""
    return "This repository is archived, so nothing can be merged into it."


def issue_gone_message() -> str:
    """Refuse an issue that is gone."""
    return "The issue is gone."


def no_policy_message(proposal: str) -> str:
    """Refuse a repository without policy, with a file to copy."""
    return paragraphs(
        f"This repository has no `{POLICY_PATH}` on its default branch, so the bot does not know "
        "which tests a change must pass. Commit this file there, corrected where it guesses "
        "wrong, and write the command again:",
        fence(proposal).replace("```text", "```yaml", 1),
    )


def base_not_admitted_message(branch: str, bases: Sequence[str] = ()) -> str:
    """Refuse a base branch that policy does not admit, with the line that would admit it."""
    admitted = ", ".join(json.dumps(base, ensure_ascii=False) for base in (*bases, branch))
    line = fence(f"bases: [{admitted}]").replace("```text", "```yaml", 1) if bases else ""
    return paragraphs(
        f"Policy does not admit {code(branch)} as a base branch. Add it to `bases` in "
        f"`{POLICY_PATH}` on the default branch{':' if line else '.'}",
        line,
    )


def no_such_branch_message(branch: str) -> str:
    """Refuse a base branch that does not exist."""
    return f"There is no branch {code(branch)} here. {NOTHING_STARTED}"


def no_such_suite_message(unknown: Sequence[str], known: Sequence[str]) -> str:
    """Refuse a suite that policy does not have."""
    return (
        f"Policy has no suite {code_list(unknown)} for this branch. It has {code_list(known)}. "
        f"{NOTHING_STARTED}"
    )


def no_required_suite_message(branch: str) -> str:
    """Refuse a branch that no required suite judges."""
    return (
        f"No required suite in `{POLICY_PATH}` applies to {code(branch)}, so a change to it could "
        "not be judged. Add one, or widen the `bases` of one."
    )


def not_promotable_message(branch: str, problems: Sequence[Problem]) -> str:
    """Refuse a base branch that this App could never move, naming the settings."""
    return paragraphs(
        f"This App could not merge anything into {code(branch)}, so no work was started. In the "
        "way:",
        bullets(map(problem_message, problems)),
    )


_OBSTACLES = {
    Obstacle.SIGNED_COMMITS: "commits must be signed, and the bot's are not",
    Obstacle.MERGE_QUEUE: "changes must pass through a merge queue, which would make other commits "
    "than the one that was reviewed",
    Obstacle.LOCKED: "the branch is locked",
    Obstacle.PUSH_RESTRICTED: "only some may push, and this App is not among them; add it there",
    Obstacle.DEPLOYMENTS: "a deployment must succeed first, which the bot never starts",
    Obstacle.COMMIT_PATTERN: "the bot's commit does not fit this pattern",
    Obstacle.UNKNOWN_RULE: "the bot does not know this kind of rule, so it cannot promise to keep "
    "it",
    Obstacle.WORK_BRANCH: "this keeps the bot from making or updating its `ultracode/*` branches; "
    "exempt them",
    Obstacle.BYPASS: "this App may get around the protection it should be held by; take it off",
}


def problem_message(problem: Problem) -> str:
    """Say what one setting has to do with it."""
    where = words(problem.source, 200)
    return f"{code(problem.setting)} ({where}): {_OBSTACLES[problem.obstacle]}."
