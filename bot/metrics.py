"""Prometheus' view of the server. In: `ServerFacts`. Out: text.

Web and worker are separate processes and there may be many of each, so what is shown at `/metrics`
(operator scope) is what stands in PostgreSQL: the same whichever web process answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from bot.store.server_facts import ServerFacts

__all__ = ["CONTENT_TYPE_LATEST", "exposed"]

_RATE_LABELS: Final = ("installation", "resource")
#: What workers bring (`bot.measures`), by its name there.
_MEASURES: Final = {
    "sandbox_seconds": (
        CounterMetricFamily,
        "Wall time of commands in the sandbox, by how they ended.",
        ("termination",),
    ),
    "sandbox_commands": (
        CounterMetricFamily,
        "Commands run in the sandbox, by how they ended.",
        ("termination",),
    ),
    "github_limit": (GaugeMetricFamily, "Calls GitHub allows an hour.", _RATE_LABELS),
    "github_remaining": (
        GaugeMetricFamily,
        "Calls GitHub still allows, as last seen.",
        _RATE_LABELS,
    ),
    "github_resets_at": (GaugeMetricFamily, "When GitHub allows all of them again.", _RATE_LABELS),
}


def exposed(facts: ServerFacts) -> bytes:
    """Return what the database knows, as Prometheus reads it."""
    registry = CollectorRegistry()
    registry.register(_FromFacts(facts))
    return generate_latest(registry)


class _FromFacts:
    """Turns counted rows into metrics: gauges, since retention deletes rows and they may fall.

    What workers measured is never deleted: sums are counters.
    """

    def __init__(self, facts: ServerFacts) -> None:
        self._facts = facts

    def collect(self) -> Iterator[Metric]:
        """Return the metrics."""
        facts = self._facts
        acks = GaugeMetricFamily(
            "ultracode_deliveries", "Acknowledged deliveries that are kept.", labels=["outcome"]
        )
        for outcome, count in facts.deliveries.items():
            acks.add_metric([outcome], count)
        yield acks
        jobs = GaugeMetricFamily("ultracode_jobs", "Jobs.", labels=["queue", "status"])
        for (queue, status), count in facts.jobs.items():
            jobs.add_metric([queue, status], count)
        yield jobs
        states = GaugeMetricFamily("ultracode_runs", "Runs by state or outcome.", labels=["state"])
        for state, count in facts.runs.items():
            states.add_metric([state], count)
        yield states
        done = GaugeMetricFamily(
            "ultracode_effects", "Writes to GitHub.", labels=["kind", "confirmed"]
        )
        for (kind, confirmed), count in facts.effects.items():
            done.add_metric([kind, str(confirmed).lower()], count)
        yield done
        yield from self._numbers()
        yield from self._measured()

    def _numbers(self) -> Iterator[Metric]:
        facts = self._facts
        for name, words, value in (
            ("queued_runs", "Runs that wait to start.", facts.queued),
            ("oldest_job_seconds", "Age of the oldest job nobody took.", facts.oldest_job_seconds),
            ("model_calls", "Model calls of all runs kept.", facts.total.model_calls),
            ("input_tokens", "Tokens sent, of all runs kept.", facts.total.input_tokens),
            ("output_tokens", "Tokens received, of all runs kept.", facts.total.output_tokens),
            ("cost", "Money, in ULTRACODE_PRICES' currency.", float(facts.total.cost)),
            ("day_tokens", "Tokens of the last 24 hours' runs.", facts.day.tokens),
            ("day_cost", "Money of the last 24 hours' runs.", float(facts.day.cost)),
        ):
            yield GaugeMetricFamily(f"ultracode_{name}", words, value=value)
        if facts.last_delivery_seconds is not None:
            yield GaugeMetricFamily(
                "ultracode_last_delivery_seconds",
                "Age of the newest delivery.",
                value=facts.last_delivery_seconds,
            )

    def _measured(self) -> Iterator[Metric]:
        for name, (kind, words, labels) in _MEASURES.items():
            metric = kind(f"ultracode_{name}", words, labels=labels)
            for row in self._facts.measured:
                if row.name == name:
                    metric.add_metric(row.subject.split(":"), row.value)
            yield metric
