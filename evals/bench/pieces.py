"""What keeping every finished piece costs: our table against Agno's own session saves.

The same 33 pieces of three rounds, 240 kB together. Ours is one fenced insert each; Agno's save
writes the whole session each time, and would not survive a kill in the middle of a run.
"""

from __future__ import annotations

import asyncio
import itertools
from functools import partial
from typing import Any

from agno.db.postgres import AsyncPostgresDb
from agno.session.workflow import WorkflowSession

from bot.store.database import Database, create_engine
from bot.store.migrate import upgrade
from bot.store.pieces import Pieces
from bot.store.runs import NewRun, RunStore, new_run_id
from evals.bench.bare_stage import bare_stage
from evals.bench.row import Goal, Row, medians

SAVES = 33
PIECE_BYTES = 240_000 // SAVES
ROUNDS = 5
_ISSUES = itertools.count(1)


async def measure_pieces() -> list[Row]:
    """Save the same pieces both ways, in turn."""
    async with bare_stage() as world:
        url = world.environment["DATABASE_URL"]
        await asyncio.to_thread(upgrade, url)
        async with Database(url) as database:
            agno = AsyncPostgresDb(db_engine=create_engine(url), db_schema="agno")
            await _sessions(agno)  # makes Agno's tables
            ours, theirs = await medians(
                ROUNDS, partial(_pieces, database), partial(_sessions, agno)
            )
            await agno.db_engine.dispose()
    return [Row("33 finished pieces kept", "Agno's session saves", ours, theirs, "s", Goal(0.5))]


def _value(number: int) -> dict[str, Any]:
    return {"number": number, "text": "x" * PIECE_BYTES}


async def _pieces(database: Database) -> None:
    runs, pieces = RunStore(database), Pieces(database)
    created = await runs.create(_new_run(), actor="github:1")
    run_id = created.run.run_id
    claim = await runs.claim(run_id)
    assert claim is not None
    for number in range(SAVES):
        await pieces.save(
            run_id, f"record:{number}", _value(number), epoch=claim.epoch, contract_version=1
        )


def _new_run() -> NewRun:
    return NewRun(
        repository_id=1,
        installation_id=1,
        issue_number=next(_ISSUES),
        trigger_kind="comment",
        trigger_id=new_run_id(),
        requester_id=1,
        requester_login="somebody",
        request={},
    )


async def _sessions(agno: AsyncPostgresDb) -> None:
    session = WorkflowSession(
        session_id=new_run_id(), user_id="github:1", workflow_id="bench", session_data={}
    )
    kept: dict[str, Any] = {}
    for number in range(SAVES):
        kept[f"record:{number}"] = _value(number)
        session.session_data = {"session_state": kept}
        await agno.upsert_session(session)
