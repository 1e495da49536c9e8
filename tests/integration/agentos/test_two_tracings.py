"""Traces for the operator's collector and for AgentOS, recorded by one process."""

from __future__ import annotations

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from bot.settings import Settings
from bot.tracing import span, tracing
from evals.collector import collecting


def test_neither_hangs_below_the_other() -> None:
    """Opened one inside the other, each kind's spans are each other's parents, and only theirs."""
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    agentos = provider.get_tracer("agentos")
    with collecting() as collector:
        settings = Settings(otel_exporter_otlp_endpoint=collector.url)
        with (
            tracing(settings, "worker"),
            agentos.start_as_current_span("Run"),
            span("workflow"),
            agentos.start_as_current_span("Model"),
            span("sandbox"),
        ):
            pass
    provider.shutdown()
    sent = {each.name: each for each in collector.spans}
    assert [above.name for above in collector.ancestry(sent["sandbox"])] == ["sandbox", "workflow"]
    assert sent["workflow"].parent_id == ""
    model, run = kept.get_finished_spans()
    assert (model.name, run.name, run.parent) == ("Model", "Run", None)
    assert model.parent is not None
    assert model.parent.span_id == run.context.span_id
