"""Forgets what Agno keeps of a run: its session, and its traces for AgentOS.

In: a database and a run, whose id is the session's. Out: their rows deleted; what was never there
is fine. Why here: Agno's tables are known where agents and the workflow live, and nowhere else.
"""

from __future__ import annotations

from agno.db.postgres import AsyncPostgresDb
from sqlalchemy import String, column, delete, select, table, text

from bot.store.database import Database


async def forget_session(database: Database, schema: str, run_id: str) -> None:
    """Delete a run's session and Agno runs."""
    await AsyncPostgresDb(db_engine=database.engine, db_schema=schema).delete_session(run_id)


async def forget_traces(database: Database, schema: str, run_id: str) -> None:
    """Delete a run's traces, for which Agno has no call (3.1.10); nobody may have recorded any."""
    trace_id, session_id = column("trace_id", String), column("session_id", String)
    traces = table("agno_traces", trace_id, session_id, schema=schema)
    spans = table("agno_spans", column("trace_id", String), schema=schema)
    of_run = traces.c.session_id == run_id
    async with database.begin() as tx:
        name = {"name": f"{schema}.agno_traces"}
        recorded = await tx.execute(text("select to_regclass(:name)"), name)
        if recorded.scalar_one() is None:
            return
        in_run = select(traces.c.trace_id).where(of_run)
        await tx.execute(delete(spans).where(spans.c.trace_id.in_(in_run)))
        await tx.execute(delete(traces).where(of_run))
