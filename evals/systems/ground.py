"""The common ground: the same workspaces, suites, sandbox, model and merge tool for all systems.

In: an open stage. Out: for each case and system a `Site`, and for the two plain systems a `Desk`:
one workspace over the whole repository and a `merge` tool that fast-forwards the base branch when
they say that they are done. The workshop's own rules (denied paths, links, submodules) hold for all
three: what is compared is what stands between a finished workspace and the base branch.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agno.models.message import Message
from agno.models.response import ModelResponse
from agno.tools.function import Function
from openai import AsyncOpenAI
from pydantic import SecretStr

from bot.agents.model import Permit, WatchedModel
from bot.agents.toolkit import workspace_tools
from bot.agents.usage import Usage
from bot.errors import BudgetExceeded
from bot.github.client import GitHubClient
from bot.policy import Policy, parse_policy
from bot.tokens import InstallationCredentials
from evals.casebook import POLICY, Case
from evals.people import Person
from evals.stage import Stage
from workspace.artifacts import FolderArtifacts
from workspace.contracts import (
    CommitTemplate,
    Conflict,
    Pushed,
    RepoRef,
    RunPin,
    Scope,
    WorkerRecord,
    WorkKey,
    WorkspaceTools,
)
from workspace.errors import WorkspaceError
from workspace.sandbox.backend import Sandbox
from workspace.sandbox.choice import choose_sandbox
from workspace.service import Workshop

MAX_TURNS = 60
CALLS_UNDER_WAY = 2
EVERYTHING = Scope(task_id="all", read_only=False, write_globs=("**",))


@dataclass(frozen=True)
class Site:
    """A case in a repository of its own."""

    case: Case
    stage: Stage
    repository: str
    base_before: str

    def person(self, role: str) -> Person:
        """Return somebody by role, in this repository."""
        return self.stage.person(role, self.repository)


@dataclass
class Meter:
    """Watches the model calls of a plain system: one budget, as policy gives it to the workflow."""

    tokens_limit: int
    usage: Usage = field(default_factory=Usage)
    failure: Exception | None = None
    under_way: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def call(self, messages: list[Message]) -> AsyncIterator[Permit]:
        """Refuse the call that would pass the budget; count what an answer took."""
        del messages
        if self.failure is not None:
            raise self.failure
        if self.usage.calls >= MAX_TURNS or self.usage.total_tokens >= self.tokens_limit:
            raise BudgetExceeded("The budget of this case is used up.")

        async def take(answer: ModelResponse, usage: Usage) -> None:
            del answer
            self.usage += usage
            if self.usage.calls >= CALLS_UNDER_WAY:
                self.under_way.set()

        yield Permit(may_use_tools=True, take=take)

    def failed(self, failure: Exception) -> None:
        """Keep the first reason to stop."""
        self.failure = self.failure or failure


@dataclass
class Ground:
    """What all systems share; made by `common_ground`."""

    stage: Stage
    workshop: Workshop
    sandbox: Sandbox
    credentials: InstallationCredentials
    client: AsyncOpenAI
    model_id: str
    installation_id: int

    def model(self, meter: Meter) -> WatchedModel:
        """Return the model every system speaks to, metered."""
        return WatchedModel(
            id=self.model_id,
            api_key=self.client.api_key,
            async_client=self.client,
            store=False,
            watch=meter,
        )

    async def desk(self, site: Site) -> Desk:
        """Return a plain system's workspace at the base, as one run of its own."""
        facts: dict[str, Any] = await site.person("writer").facts()
        repo = RepoRef(id=facts["id"], url=facts["clone_url"])
        self.credentials.covers(repo.id, self.installation_id)
        pin = RunPin(
            run_id=f"plain{time.time_ns():x}",
            repo=repo,
            base_ref="refs/heads/main",
            original_base_sha=site.base_before,
            commit=CommitTemplate(
                author_name="plain",
                author_email="plain@example.invalid",
                committed_at=int(time.time()),
                message=site.case.title,
            ),
        )
        policy = await self._policy(pin)
        pin = pin.model_copy(
            update={"writes": policy.write_rules(), "sandbox": policy.sandbox_limits()}
        )
        key = WorkKey(run_id=pin.run_id, round=0, task_id=EVERYTHING.task_id)
        tools = await self.workshop.create_worker(
            pin, EVERYTHING, key=key, parent=site.base_before, suites=policy.suites_for("main")
        )
        return Desk(self.workshop, pin, key, tools, Meter(policy.limits.tokens))

    async def _policy(self, pin: RunPin) -> Policy:
        raw = await self.workshop.read_base_file(pin, POLICY, limit=100_000)
        return parse_policy(raw or b"")


@dataclass
class Desk:
    """One workspace, its tools, and the merge tool of a system without a gate."""

    workshop: Workshop
    pin: RunPin
    key: WorkKey
    tools: WorkspaceTools
    meter: Meter
    merged_sha: str | None = None
    frozen: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def functions(self) -> tuple[Function, ...]:
        """Return the tools of a worker, the same as in the workflow."""
        return workspace_tools(
            self.tools, read_only=False, run_id=self.pin.run_id, failures=self.meter
        )

    async def merge(self) -> str:
        """Commit everything in the workspace and fast-forward the base branch to that commit.

        Call it once, when the request is done.
        """
        async with self.lock:
            try:
                return await self._merge()
            except WorkspaceError as failure:
                return f"Nothing was merged: {failure}"

    async def _merge(self) -> str:
        base = self.pin.original_base_sha
        self.frozen = True
        record = await self.workshop.inspect_and_freeze(
            self.pin, EVERYTHING, key=self.key, parent=base
        )
        if record.refused:
            return f"Nothing was merged: {refused_sentence(record)}"
        candidate = await self.workshop.compose(self.pin, [record], round=0, parent=base)
        if isinstance(candidate, Conflict):
            return f"Nothing was merged: {candidate.reason}."
        if not candidate.changed:
            return "There is nothing to merge."
        pushed = await self.workshop.promote(self.pin, candidate.sha, expected=base)
        if not isinstance(pushed, Pushed):
            return f"Nothing was merged: {pushed}"
        self.merged_sha = candidate.sha
        return f"The base branch is at {candidate.sha}."

    async def leave(self) -> None:
        """Give the workspace up, unless the merge has done so already."""
        if not self.frozen:
            await self.workshop.cancel(self.pin.run_id)


def refused_sentence(record: WorkerRecord) -> str:
    """Return what the workshop refuses to take from a workspace."""
    return "; ".join(f"{path.path}: {path.reason}" for path in record.refused[:3])


@asynccontextmanager
async def common_ground(stage: Stage, folder: Path) -> AsyncIterator[Ground]:
    """Open a workshop beside the stage's own, on the same GitHub, model and kind of sandbox."""
    key = Path(stage.environment["GITHUB_PRIVATE_KEY_PATH"])
    github = GitHubClient(
        app_id=int(stage.environment["GITHUB_APP_ID"]),
        private_key=SecretStr(await asyncio.to_thread(key.read_text)),
        api_url=stage.environment["GITHUB_API_URL"],
    )
    credentials = InstallationCredentials(github)
    sandbox = await choose_sandbox()
    workshop = Workshop(
        folder,
        credentials=credentials,
        artifacts=FolderArtifacts(folder / "artifacts"),
        sandbox=sandbox,
        allow_loopback_http=True,
    )
    client = AsyncOpenAI(
        api_key=stage.environment["OPENAI_API_KEY"],
        base_url=stage.environment.get("OPENAI_BASE_URL"),
    )
    try:
        yield Ground(
            stage=stage,
            workshop=workshop,
            sandbox=sandbox,
            credentials=credentials,
            client=client,
            model_id=stage.environment["AGENT_MODEL_ID"].removeprefix("openai:"),
            installation_id=int(stage.github["installation_id"]),
        )
    finally:
        await client.close()
        await workshop.close()
        await sandbox.close()
        await github.aclose()
