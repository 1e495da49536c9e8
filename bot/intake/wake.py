"""Which runs an event on GitHub wakes. In: an event that is no command. Out: run ids to advance.

Nothing is decided here: the gate reads everything afresh from GitHub. An event that concerns no run
of ours wakes nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from bot.policy import parse_policy
from bot.store.run_queries import RunQueries
from bot.store.runs import Run
from bot.store.tables import RunState
from webhooks.events import (
    CheckRunCompleted,
    CheckSuiteCompleted,
    PullRequestClosed,
    PullRequestConvertedToDraft,
    PullRequestEdited,
    PullRequestReadyForReview,
    PullRequestReopened,
    PullRequestSynchronized,
    Pushed,
    ReviewDismissed,
    ReviewEdited,
    ReviewSubmitted,
    ReviewThreadResolved,
    ReviewThreadUnresolved,
    StatusChanged,
)

PullEvent: TypeAlias = (
    PullRequestClosed
    | PullRequestConvertedToDraft
    | PullRequestEdited
    | PullRequestReadyForReview
    | PullRequestReopened
    | PullRequestSynchronized
    | ReviewDismissed
    | ReviewEdited
    | ReviewSubmitted
    | ReviewThreadResolved
    | ReviewThreadUnresolved
)
CheckEvent: TypeAlias = CheckRunCompleted | CheckSuiteCompleted | StatusChanged
WakingEvent: TypeAlias = PullEvent | CheckEvent | Pushed

#: A gate decision is due in these: people have something to decide, or have decided.
DECIDABLE = frozenset({RunState.AWAITING_REVIEW, RunState.APPROVED})


async def runs_to_wake(event: WakingEvent, runs: RunQueries, *, app_id: int) -> list[str]:
    """Return the ids of the runs whose gate should be decided again.

    Our own check runs wake nobody: deciding updates one of them, which would wake us again.
    """
    if is_our_own(event, app_id):
        return []
    match event:
        case Pushed():
            found = await _pushed(event, runs)
        case CheckRunCompleted():
            found = await runs.of_candidate(event.repository.id, event.check_run.head_sha)
        case CheckSuiteCompleted():
            found = await runs.of_candidate(event.repository.id, event.check_suite.head_sha)
        case StatusChanged():
            found = await runs.of_candidate(event.repository.id, event.sha)
        case _:
            found = await runs.of_pull(event.repository.id, event.pull_request.number)
    return [run.run_id for run in _decidable(found)]


def is_our_own(event: WakingEvent, app_id: int) -> bool:
    """Whether an event tells of a check that this App made itself."""
    match event:
        case CheckRunCompleted(check_run=checked) | CheckSuiteCompleted(check_suite=checked):
            return checked.app is not None and checked.app.id == app_id
        case _:
            return False


async def _pushed(event: Pushed, runs: RunQueries) -> list[Run]:
    """A push concerns the run whose branch it moved, and those whose policy follows the base."""
    if event.branch is None:
        return []
    behind = await runs.waiting_on_base(event.repository.id, f"refs/heads/{event.branch}")
    return [
        *await runs.of_branch(event.repository.id, event.branch),
        *(run for run in behind if follows_base(run)),
    ]


def follows_base(run: Run) -> bool:
    """Whether the policy a run was accepted under has it built anew when its base moves."""
    return parse_policy(str(run.request["policy"]).encode()).refresh.when_behind


def _decidable(found: Iterable[Run]) -> list[Run]:
    return [run for run in found if run.state in DECIDABLE]
