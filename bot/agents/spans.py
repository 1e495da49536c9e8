"""The two spans of ours in a run's trace. In: who and what. Out: a span around the work inside.

Why: Agno's instrumentation does not see a workflow that is continued, and looks for models in
Agno's own modules only. Unless somebody records (`bot.agents.agentos_traces`) a span does nothing.
Their attributes are named as OpenInference names them, which is what AgentOS reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from opentelemetry import trace

from bot.agents.usage import Usage

_TRACER: Final = trace.get_tracer("ultracode")
_KIND: Final = "openinference.span.kind"


@contextmanager
def run_span(run_id: str, user_id: str, workflow_id: str) -> Iterator[None]:
    """Hold together what one worker does for a run until it waits or ends: one trace.

    `user_id` is `github:<numeric id>`: AgentOS shows the trace to nobody else but admins.
    """
    attributes = {
        _KIND: "CHAIN",
        "agno.run.id": run_id,
        "agno.workflow.id": workflow_id,
        "session.id": run_id,
        "user.id": user_id,
    }
    with _recording(_TRACER.start_span("Run", attributes=attributes)):
        yield


@contextmanager
def model_span(model_id: str) -> Iterator[Callable[[Usage], None]]:
    """Stand around one call of a model; the caller says what it took."""
    span = _TRACER.start_span("Model", attributes={_KIND: "LLM", "llm.model_name": model_id})

    def took(usage: Usage) -> None:
        span.set_attributes(
            {
                "llm.token_count.prompt": usage.input_tokens,
                "llm.token_count.completion": usage.output_tokens,
                "llm.token_count.total": usage.total_tokens,
            }
        )

    with _recording(span):
        yield took


def _recording(span: trace.Span) -> AbstractContextManager[trace.Span]:
    """Hold a span open; what is raised is not kept, since its text may quote the repository."""
    return trace.use_span(
        span, end_on_exit=True, record_exception=False, set_status_on_exception=False
    )
