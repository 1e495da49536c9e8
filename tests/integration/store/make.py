"""Small made-up runs for the tests of the store."""

import itertools
from typing import Any

from bot.store.runs import NewRun, Run, RunStore

_triggers = itertools.count(1)


def new_run(**changes: Any) -> NewRun:
    """A run that somebody asked for on issue 7 of repository 11, by a comment of its own."""
    values = {
        "repository_id": 11,
        "installation_id": 5,
        "issue_number": 7,
        "trigger_kind": "comment",
        "trigger_id": str(next(_triggers)),
        "requester_id": 3,
        "requester_login": "ada",
        "request": {"request": "fix it"},
    }
    return NewRun(**{**values, **changes})


async def make_run(runs: RunStore, **changes: Any) -> Run:
    """The same, created."""
    return (await runs.create(new_run(**changes), actor="github:3")).run
