"""Traces for operators. In: pieces of work, by name. Out: spans, sent to the operator's collector.

Why: one trace leads from a webhook through its job, the workflow, its agents and their tools to
every command in the sandbox, across processes. Spans hold ids, names, counts and times, never text
of a repository, a prompt or a token; what was raised is named by its type only. Unless
OTEL_EXPORTER_OTLP_ENDPOINT is set nothing of OpenTelemetry is imported, and a span is a comparison.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Literal, Protocol, TypeAlias

from bot.settings import ServerRole, Settings

Value: TypeAlias = str | int | float | bool
Kind = Literal["server", "consumer", "client", "internal"]


class Span(Protocol):
    """A piece of work under way."""

    def note(self, **values: Value) -> None:
        """Note ids, names and counts that were not known at its beginning."""
        ...


class Spans(Protocol):
    """Whoever makes spans and sends them (`bot.otlp`)."""

    def span(
        self, name: str, kind: Kind, parent: str | None, values: dict[str, Value]
    ) -> AbstractContextManager[Span]:
        """Open a span below `parent` (a W3C traceparent), else below the one that is open."""
        ...

    def traceparent(self) -> str | None:
        """Return the open span's W3C traceparent."""
        ...

    def close(self) -> None:
        """Send what is left."""
        ...


class _Untold:
    def note(self, **values: Value) -> None:
        """Tell nobody."""


class _Switch:
    """Whether this process traces: set once, when it starts to serve."""

    spans: Spans | None = None


_UNTOLD = _Untold()


@contextmanager
def tracing(settings: Settings, role: ServerRole) -> Iterator[None]:
    """Trace for as long as this is open, if the operator named a collector."""
    endpoint = settings.otel_exporter_otlp_endpoint
    if endpoint is None:
        yield
        return
    from bot.otlp import OtlpSpans  # noqa: PLC0415 - half a second that only those who trace pay

    headers = settings.otel_exporter_otlp_headers
    spans = _Switch.spans = OtlpSpans(
        endpoint, headers.get_secret_value() if headers else "", role=role
    )
    try:
        yield
    finally:
        _Switch.spans = None
        spans.close()


@contextmanager
def span(
    name: str, *, kind: Kind = "internal", parent: str | None = None, **values: Value
) -> Iterator[Span]:
    """Show a piece of work as a span, with the ids that log lines have; nothing when untraced."""
    if _Switch.spans is None:
        yield _UNTOLD
        return
    with _Switch.spans.span(name, kind, parent, values) as opened:
        yield opened


def traceparent() -> str | None:
    """Return where a job deferred now hangs in its trace; None when untraced."""
    return None if _Switch.spans is None else _Switch.spans.traceparent()
