"""Records traces for AgentOS: what ran when, for how long, at how many tokens. Never the words.

In: spans of Agno's instrumentation and of `bot.agents.spans`. Out: rows in Agno's trace tables,
written by a thread of its own, so that no run waits for them, and lost without harm when the
database is away. Why an allow-list: prompts, tool arguments, outputs and errors hold repository
text, which has its own places, readers and retention. Only workers of `ultracode serve --agentos`
record.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from agno.db.postgres import PostgresDb
from agno.tracing.exporter import DatabaseSpanExporter
from agno.tracing.schemas import Span
from openinference.instrumentation import TraceConfig
from openinference.instrumentation.agno import AgnoInstrumentor
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from sqlalchemy import create_engine

from bot.store.database import sqlalchemy_url

#: What is kept of a span: who it was for, what kind of work, and numbers.
_KEPT: Final = re.compile(
    r"agno\.(agent|run|workflow)\.id|graph\.node\.(id|name|parent_id)|llm\.(model_name|provider)"
    r"|llm\.token_count\.[a-z_.]+|openinference\.span\.kind|session\.id|tool\.name|user\.id"
)


class WordlessTraces(PostgresDb):
    """Agno's trace tables, for spans without anything that was said."""

    def create_span(self, span: Span) -> None:
        """Store one span."""
        super().create_span(without_words(span))

    def create_spans(self, spans: Sequence[Span]) -> None:
        """Store spans that ended together."""
        super().create_spans([without_words(span) for span in spans])


def without_words(span: Span) -> Span:
    """Return a span as it may be stored."""
    kept = {name: value for name, value in span.attributes.items() if _KEPT.fullmatch(name)}
    return replace(span, attributes=kept, status_message=None)


@asynccontextmanager
async def recorded_traces(url: str, schema: str) -> AsyncIterator[None]:
    """Record what this process does until the context closes. Once in a process.

    Args:
        url: The database of the traces; their tables are made at the first span.
        schema: Where in it.
    """
    engine = create_engine(
        sqlalchemy_url(url),
        pool_size=1,
        pool_pre_ping=True,
        hide_parameters=True,
        connect_args={"connect_timeout": 10},
    )
    provider = TracerProvider()
    store = WordlessTraces(db_engine=engine, db_schema=schema)
    provider.add_span_processor(BatchSpanProcessor(DatabaseSpanExporter(store)))
    trace.set_tracer_provider(provider)
    instrumentor = AgnoInstrumentor()
    # Words are hidden here too, so that spans that wait for the thread do not hold them in memory.
    hidden = TraceConfig(hide_inputs=True, hide_outputs=True)
    instrumentor.instrument(tracer_provider=provider, config=hidden)
    try:
        yield
    finally:
        instrumentor.uninstrument()
        await asyncio.to_thread(provider.shutdown)
        engine.dispose()
