"""A GitHub that runs on loopback over real bare repositories.

In: repositories on disk. Out: REST, GraphQL, Git over HTTP, signed webhooks and small pages, as
much of github.com as the bot leans on, enforced as GitHub enforces it. `running` starts one inside
a test; `python -m evals.loopback` runs it alone.
"""

from evals.loopback.deliveries import Delivery, HookRule
from evals.loopback.faults import Fault
from evals.loopback.github import LoopbackGitHub, running
from evals.loopback.people import Person
from evals.loopback.reviews import LineComment
from evals.loopback.state import Protection

__all__ = [
    "Delivery",
    "Fault",
    "HookRule",
    "LineComment",
    "LoopbackGitHub",
    "Person",
    "Protection",
    "running",
]
