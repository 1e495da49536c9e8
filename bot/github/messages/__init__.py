"""Every sentence people read on GitHub. In: facts. Out: Markdown. Pure; decides nothing.

    parts        what messages are made of          standing      states, ends, verdicts in words
    answers      answers to commands, refusals      status        the one status comment
    comments     where a person must act, and ends  pull_request  title, text, commit message
    followups    runs that follow another, verify   refusals      GitHub's refusals of a push
    evidence     suites, tests, files, digests      checks        check runs

Foreign words (of issues, repositories, models) enter only through `bot.github.escape`.
"""

from bot.github.messages.answers import (
    archived_message,
    bad_option_message,
    base_not_admitted_message,
    empty_revision_message,
    folded_hint_message,
    fork_declined_message,
    help_message,
    issue_gone_message,
    live_run_message,
    no_policy_message,
    no_required_suite_message,
    no_such_branch_message,
    no_such_suite_message,
    no_write_message,
    not_promotable_message,
    nothing_awaits_go_message,
    nothing_to_cancel_message,
    problem_message,
    pull_closed_message,
    requester_level_message,
    revisions_spent_message,
    second_command_note,
    status_answer_message,
    too_late_to_cancel_message,
    unknown_command_message,
)
from bot.github.messages.checks import DOUBLED_CHECK, check_runs, gate_check, left_check
from bot.github.messages.comments import (
    ending_comment,
    go_wanted_comment,
    push_refused_comment,
    review_wanted_comment,
    stumbled_comment,
    unhandled_comment,
)
from bot.github.messages.followups import (
    deciding_again_message,
    earlier_check_message,
    forgotten_message,
    landed_comment,
    nothing_to_retest_message,
    nothing_to_retry_message,
    nothing_to_verify_message,
    nothing_waits_message,
    retest_sentence,
    unknown_button_message,
    verify_message,
)
from bot.github.messages.lost_ground import (
    access_lost_sentence,
    cancelled_by_operator_sentence,
    cancelled_by_writer_sentence,
    cancelled_sentence,
    closed_by_writer_sentence,
    lost_ground_sentence,
)
from bot.github.messages.pull_request import (
    commit_message,
    commit_subject,
    pull_request_body,
    pull_request_title,
)
from bot.github.messages.refusals import push_refused_sentence
from bot.github.messages.standing import merged_elsewhere_sentence, verdict_sentence
from bot.github.messages.status import status_comment

__all__ = [
    "DOUBLED_CHECK",
    "access_lost_sentence",
    "archived_message",
    "bad_option_message",
    "base_not_admitted_message",
    "cancelled_by_operator_sentence",
    "cancelled_by_writer_sentence",
    "cancelled_sentence",
    "check_runs",
    "closed_by_writer_sentence",
    "commit_message",
    "commit_subject",
    "deciding_again_message",
    "earlier_check_message",
    "empty_revision_message",
    "ending_comment",
    "folded_hint_message",
    "forgotten_message",
    "fork_declined_message",
    "gate_check",
    "go_wanted_comment",
    "help_message",
    "issue_gone_message",
    "landed_comment",
    "left_check",
    "live_run_message",
    "lost_ground_sentence",
    "merged_elsewhere_sentence",
    "no_policy_message",
    "no_required_suite_message",
    "no_such_branch_message",
    "no_such_suite_message",
    "no_write_message",
    "not_promotable_message",
    "nothing_awaits_go_message",
    "nothing_to_cancel_message",
    "nothing_to_retest_message",
    "nothing_to_retry_message",
    "nothing_to_verify_message",
    "nothing_waits_message",
    "problem_message",
    "pull_closed_message",
    "pull_request_body",
    "pull_request_title",
    "push_refused_comment",
    "push_refused_sentence",
    "requester_level_message",
    "retest_sentence",
    "review_wanted_comment",
    "revisions_spent_message",
    "second_command_note",
    "status_answer_message",
    "status_comment",
    "stumbled_comment",
    "too_late_to_cancel_message",
    "unhandled_comment",
    "unknown_button_message",
    "unknown_command_message",
    "verdict_sentence",
    "verify_message",
]
