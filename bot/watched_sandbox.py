"""The sandbox as an operator sees it. In: commands. Out: the same outcomes; a span and counts each.

A command's words come from models and repositories, so they are neither shown nor counted: how it
ended and how long it took is.
"""

from __future__ import annotations

from collections.abc import Mapping

from bot.measures import Measures
from bot.tracing import span
from workspace.sandbox.backend import Job, OnOutput, Outcome, Sandbox


class WatchedSandbox:
    """A `Sandbox` in front of another."""

    def __init__(self, sandbox: Sandbox, measures: Measures) -> None:
        self._sandbox = sandbox
        self._measures = measures

    @property
    def name(self) -> str:
        """See `Sandbox`."""
        return self._sandbox.name

    @property
    def options(self) -> tuple[str, ...]:
        """See `Sandbox`."""
        return self._sandbox.options

    @property
    def guarantees(self) -> Mapping[str, bool]:
        """See `Sandbox`."""
        return self._sandbox.guarantees

    async def run(self, job: Job, *, on_output: OnOutput | None = None) -> Outcome:
        """See `Sandbox`."""
        with span(f"sandbox {self.name}") as seen:
            outcome = await self._sandbox.run(job, on_output=on_output)
            seen.note(
                termination=outcome.termination,
                wall_seconds=outcome.wall_seconds,
                output_size=outcome.output_size,
                **({} if outcome.exit_code is None else {"exit_code": outcome.exit_code}),
            )
        self._measures.add("sandbox_commands", outcome.termination, 1)
        self._measures.add("sandbox_seconds", outcome.termination, outcome.wall_seconds)
        return outcome

    async def close(self) -> None:
        """See `Sandbox`."""
        await self._sandbox.close()
