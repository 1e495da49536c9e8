"""The three systems that are compared: one agent, a Team, and this project's workflow.

Each gets a `Site` (a case's repository on the loopback GitHub) and comes back with an `Effort`:
what it says of itself and what it took. Whether its end was right is nobody's word here: see
`evals.oracle`.
"""

from __future__ import annotations

from typing import Protocol

from evals.systems.effort import Effort
from evals.systems.ground import Site


class System(Protocol):
    """One way to work on a request."""

    @property
    def name(self) -> str:
        """`agent`, `team` or `workflow`."""
        ...

    async def work(self, site: Site) -> Effort:
        """Work on the case until the system itself stops."""
        ...
