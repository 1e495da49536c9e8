"""A stand-in for an OpenTelemetry collector: takes OTLP over HTTP, and remembers.

In: POSTs of protobuf to `/v1/traces`, as any exporter sends them. Out: spans as plain values, and
everything that arrived as bytes, so that a test can look for what must not be in it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

Value = str | int | float | bool


@dataclass(frozen=True)
class SeenSpan:
    """One span; ids in hexadecimal, `parent_id` empty for the first of its trace."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    role: str
    attributes: dict[str, Value]


@dataclass
class Collector:
    """What arrived so far."""

    url: str
    spans: list[SeenSpan] = field(default_factory=list)
    raw: bytes = b""
    headers: list[dict[str, str]] = field(default_factory=list)

    def take(self, body: bytes, headers: dict[str, str]) -> None:
        """Decode one request. Raises DecodeError."""
        request = ExportTraceServiceRequest.FromString(body)
        self.raw += body
        self.headers.append(headers)
        for group in request.resource_spans:
            role = str(_values(group.resource.attributes).get("ultracode.role", ""))
            for scope in group.scope_spans:
                self.spans += [
                    SeenSpan(
                        name=span.name,
                        trace_id=span.trace_id.hex(),
                        span_id=span.span_id.hex(),
                        parent_id=span.parent_span_id.hex(),
                        role=role,
                        attributes=_values(span.attributes),
                    )
                    for span in scope.spans
                ]

    def ancestry(self, span: SeenSpan) -> list[SeenSpan]:
        """Return a span and all above it that arrived, innermost first."""
        known = {(each.trace_id, each.span_id): each for each in self.spans}
        chain = [span]
        while (above := known.get((span.trace_id, chain[-1].parent_id))) is not None:
            chain.append(above)
        return chain


@contextmanager
def collecting() -> Iterator[Collector]:
    """Run a collector on a free port of loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            status = 200 if self.path == "/v1/traces" else 404
            try:
                collector.take(body, dict(self.headers.items()))
            except DecodeError:
                status = 400
            self.send_response(status)
            self.send_header("Content-Type", "application/x-protobuf")
            self.end_headers()
            self.wfile.write(ExportTraceServiceResponse().SerializeToString())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its signature
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector = Collector(url=f"http://127.0.0.1:{server.server_port}")
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        serving.join()


def _values(attributes: Iterable[KeyValue]) -> dict[str, Value]:
    return {pair.key: _value(pair.value) for pair in attributes}


def _value(value: AnyValue) -> Value:
    kind = value.WhichOneof("value")
    found: Value = "" if kind is None else getattr(value, kind)
    return found
