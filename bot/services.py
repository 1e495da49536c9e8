"""Everything one worker process shares between jobs, made once in `bot.worker`.

In: settings. Out: collaborators. Handlers take this and nothing global, so a test builds the same
world with other addresses.
"""

from __future__ import annotations

from dataclasses import dataclass

from bot.agents.model import Models
from bot.agents.prices import Prices
from bot.github.marks import Marks
from bot.github.port import GitHubApp
from bot.measures import Measures
from bot.queue import Queue
from bot.settings import Settings
from bot.store.database import Database
from bot.store.effects import Effects
from bot.store.inbox import Deliveries
from bot.store.pieces import Pieces
from bot.store.runs import RunStore
from bot.tokens import InstallationCredentials
from bot.workflow import WorkflowStore
from workspace.contracts import WorkspaceService


@dataclass(frozen=True)
class Services:
    """The collaborators of one worker process."""

    settings: Settings
    database: Database
    deliveries: Deliveries
    runs: RunStore
    pieces: Pieces
    effects: Effects
    queue: Queue
    github: GitHubApp
    marks: Marks
    workshop: WorkspaceService
    models: Models
    prices: Prices
    credentials: InstallationCredentials
    agno_db: WorkflowStore
    measures: Measures
