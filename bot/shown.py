"""A run as operators see it. In: the database. Out: flat rows for `ultracode runs`.

The same facts stand in the status comment and in the concluding check run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bot.store.database import Database
from bot.store.pieces import Pieces
from bot.store.runs import Run, RunStore
from bot.store.tables import RunState

Row = dict[str, Any]


async def shown_runs(database: Database, state: str | None) -> list[Row]:
    """Return runs, newest first."""
    states = frozenset(RunState) if state is None else {RunState(state)}
    found = await RunStore(database).in_states(states)
    return [row_of(run) for run in reversed(found)]


async def shown_run(database: Database, run_id: str) -> Row:
    """Return one run with what it proved. Raises RunNotFound."""
    run = await RunStore(database).get(run_id)
    pieces = {key: piece.value for key, piece in (await Pieces(database).load_all(run_id)).items()}
    report: Row = pieces.get(f"report:{run.round}") or {}
    evidence: Row = pieces.get(f"evidence:{run.round}") or {}
    return row_of(run) | {
        "workers": sum(1 for key in pieces if key.startswith("worker:")),
        "candidate_sha": (pieces.get(f"candidate:{run.round}") or {}).get("sha"),
        "test_report_digest": report.get("digest"),
        "evidence_digest": evidence.get("digest"),
        "exit_codes": report.get("exit_codes"),
        "sandbox": report.get("sandbox"),
        "rounds": [round_line(pieces, number) for number in range(run.round + 1)],
        "ending": pieces.get("ending"),
    }


def round_line(pieces: Mapping[str, Row], number: int) -> str:
    """Return what one round came to, as far as it came: workers, suites, and why it failed."""
    parts = []
    workers = {
        key.rpartition(":")[2]: piece["output"]["status"]
        for key, piece in pieces.items()
        if key.startswith(f"worker:{number}:")
    }
    if workers:
        parts.append(", ".join(f"{name} {status}" for name, status in sorted(workers.items())))
    for suite in (pieces.get(f"report:{number}") or {}).get("suites", ()):
        verdict = "passed" if suite["passed"] else f"failed: {suite['reason']}"
        parts.append(f"suite {suite['suite_id']} {verdict}")
    result = pieces.get(f"result:{number}")
    if result and not result["passed"] and result["failure"]:
        parts.append(result["failure"])
    return " · ".join(parts)


def row_of(run: Run) -> Row:
    """Return what one line of a list shows."""
    return {
        "run_id": run.run_id,
        "state": str(run.state),
        "reason": run.state_reason,
        "sentence": run.outcome_sentence,
        "repository": run.request.get("repository"),
        "repository_id": run.repository_id,
        "issue_number": run.issue_number,
        "requester": run.requester_login,
        "round": run.round,
        "base": run.base_ref,
        "base_sha": run.base_sha,
        "branch": run.branch,
        "pull_number": run.pull_number,
        "tokens": run.input_tokens + run.output_tokens,
        "created_at": run.created_at,
        "ended_at": run.ended_at,
    }
