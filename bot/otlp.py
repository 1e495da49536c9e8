"""OpenTelemetry behind `bot.tracing`. In: spans. Out: OTLP over HTTP to the operator's collector.

Imported only where a collector is named. No provider is set for the whole process, so that no
library's own instrumentation can send what passes through it; and what is open is kept under a key
of our own, so that these spans and those that AgentOS records are never each other's parents.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import structlog
from opentelemetry import context, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.re import parse_env_headers

from bot.settings import ServerRole
from bot.tracing import Kind, Span, Value

_KINDS: Final = {
    "server": SpanKind.SERVER,
    "consumer": SpanKind.CONSUMER,
    "client": SpanKind.CLIENT,
    "internal": SpanKind.INTERNAL,
}
_OPEN: Final = context.create_key("ultracode-span")
_TRACES: Final = "/v1/traces"
_SEND_EVERY_MILLISECONDS: Final = 1_000
_SEND_SECONDS: Final = 5.0


class OtlpSpans:
    """Makes spans and sends them in the background; what cannot be sent is dropped."""

    def __init__(self, endpoint: str, headers: str, *, role: ServerRole) -> None:
        exporter = OTLPSpanExporter(
            endpoint=endpoint.rstrip("/") + _TRACES,
            headers=parse_env_headers(headers, liberal=True),
            timeout=_SEND_SECONDS,
        )
        resource = Resource(
            {
                "service.name": "ultracode",
                "service.instance.id": uuid.uuid4().hex,
                "ultracode.role": role,
            }
        )
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(
            BatchSpanProcessor(exporter, schedule_delay_millis=_SEND_EVERY_MILLISECONDS)
        )
        self._tracer = self._provider.get_tracer("ultracode")
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def span(
        self, name: str, kind: Kind, parent: str | None, values: dict[str, Value]
    ) -> Iterator[Span]:
        """See `bot.tracing.Spans`."""
        above = self._propagator.extract({"traceparent": parent}) if parent else _open_context()
        opened = self._tracer.start_span(
            name,
            context=above,
            kind=_KINDS[kind],
            attributes=_named(structlog.contextvars.get_contextvars() | values),
        )
        token = context.attach(context.set_value(_OPEN, opened))
        try:
            yield _Opened(opened)
        except BaseException as error:  # its words may be the repository's
            opened.set_attribute("error.type", type(error).__name__)
            opened.set_status(Status(StatusCode.ERROR))
            raise
        finally:
            context.detach(token)
            opened.end()

    def traceparent(self) -> str | None:
        """See `bot.tracing.Spans`."""
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier, _open_context())
        return carrier.get("traceparent")

    def close(self) -> None:
        """Send what is left, for a few seconds at most."""
        self._provider.shutdown()


class _Opened:
    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def note(self, **values: Value) -> None:
        self._span.set_attributes(_named(values))


def _open_context() -> context.Context:
    """Return a context that holds our open span, and nobody else's."""
    opened = context.get_value(_OPEN)
    if not isinstance(opened, trace.Span):
        return context.Context()
    return trace.set_span_in_context(opened, context.Context())


def _named(values: dict[str, Value]) -> dict[str, Value]:
    """Put our names where no other's are; `a__b` is spelt `a.b` and belongs to a convention."""
    return {
        name.replace("__", ".") if "__" in name else f"ultracode.{name}": value
        for name, value in values.items()
    }
