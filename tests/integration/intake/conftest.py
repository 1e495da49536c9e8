"""The bot's doors over a loopback GitHub: webhooks in over HTTP, jobs one by one, no agents."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from pydantic import SecretStr
from sqlalchemy import select

from bot.advance import clean_up
from bot.app import create_app
from bot.github.port import CheckOutput, CheckRunWrite
from bot.intake.door import handle_delivery
from bot.services import Services
from bot.settings import Settings
from bot.store.effects import EffectKind
from bot.store.fence import holding
from bot.store.runs import Run
from bot.store.tables import RunState, deliveries
from bot.worker import open_services
from evals.loopback import LoopbackGitHub, running
from evals.loopback.state import CheckRun, Issue, PullRequest
from webhooks.signature import sign

POLICY = """\
version: 1
bases: [main, "topic/*", "release/*"]
suites:
  unit: {run: "true", required: true}
"""


@dataclass
class Bot:
    """The bot, as far as its doors: what it heard, said and remembers."""

    github: LoopbackGitHub
    services: Services
    web: httpx.AsyncClient
    heard: set[int] = field(default_factory=set)

    async def hear(self) -> None:
        """Let everything that happened on GitHub arrive, and do the jobs that came of it."""
        await self.github.settle()
        for delivery in list(self.github.deliveries):
            if delivery.app is self.github.app and delivery.id not in self.heard:
                self.heard.add(delivery.id)
                await self.post(delivery.event, delivery.body, guid=delivery.guid)
        await self.work()

    async def post(self, event: str, body: bytes, *, guid: str | None = None) -> int:
        """Bring one delivery to the door, signed as GitHub does; return the answer's status."""
        headers = {
            "Content-Type": "application/json",
            "X-GitHub-Event": event,
            "X-GitHub-Delivery": guid or str(uuid.uuid4()),
            "X-Hub-Signature-256": sign(body, SecretStr(self.github.app.webhook_secret)),
        }
        answer = await self.web.post("/webhooks/github", content=body, headers=headers)
        return answer.status_code

    async def work(self) -> None:
        """Handle what is stored and unhandled, and bring cancelled runs to their ends."""
        async with self.services.database.begin() as tx:
            waiting = select(deliveries.c.delivery_id).where(deliveries.c.outcome.is_(None))
            found = list((await tx.execute(waiting)).scalars())
        for delivery_id in found:
            await handle_delivery(self.services, delivery_id)
        for run in await self.services.runs.in_states({RunState.CANCELLING}):
            await clean_up(self.services, run.run_id)
        await self.github.settle()

    # --- what there is ---------------------------------------------------------------------------

    async def runs(self) -> list[Run]:
        """Return every run, oldest first."""
        return await self.services.runs.in_states(frozenset(RunState))

    async def said(self, on: Issue | PullRequest) -> list[str]:
        """Return what the bot said there, oldest first."""
        issue = on.issue if isinstance(on, PullRequest) else on
        return [c.body for c in issue.comments.values() if c.user is self.github.app.bot]

    def last(self, event: str) -> dict[str, Any]:
        """Return the newest payload of an event to this App."""
        mine = [d for d in self.github.deliveries if d.app is self.github.app and d.event == event]
        payload: dict[str, Any] = orjson.loads(mine[-1].body)
        return payload

    # --- what people do --------------------------------------------------------------------------

    async def start(self, body: str = "/ultracode Make sums right.") -> tuple[Issue, Run]:
        """Let a writer start a run on a new issue; it is accepted and nobody works on it."""
        issue = await self.github.open_issue(as_user="writer", title="Sums are off", body="")
        await self.github.comment(issue, as_user="writer", body=body)
        await self.hear()
        return issue, (await self.runs())[-1]

    async def pull(self, branch: str, *, number: int = 1) -> PullRequest:
        """Let a writer open a pull request from a branch of this repository."""
        await self.github.push(
            {"notes.md": f"Note {number}\n"}, as_user="writer", branch=branch, start="main"
        )
        return await self.github.open_pull(as_user="writer", title="Notes", head=branch)

    async def check(self, run: Run, name: str, sha: str) -> CheckRun:
        """Let the bot put a check run of a run on a commit, buttons and all, by its ledger."""
        claim = await self.services.runs.claim(run.run_id)
        assert claim is not None
        door = self.services.github.repository(run.installation_id, run.repository_id)
        shown = CheckRunWrite(
            name=name,
            head_sha=sha,
            external_id=f"{run.run_id}:0:{name}",
            conclusion="action_required",
            output=CheckOutput(title="It", summary="waits"),
        )

        async def act() -> str:
            return str(await door.create_check_run(shown))

        with holding(run.run_id, claim.epoch):
            made = await self.services.effects.perform(
                run.run_id,
                f"check:0:{name}",
                epoch=claim.epoch,
                kind=EffectKind.CHECK_RUN,
                intent={},
                act=act,
            )
        await self.hear()
        every = self.github.repository().check_runs()
        return next(check for check in every if str(check.id) == made)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    (path / ".github").mkdir(parents=True)
    (path / ".github" / "ultracode.yml").write_text(POLICY)
    (path / "sums.py").write_text("def add(a, b):\n    return a - b\n")
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-q", "-m", "Begin")):
        subprocess.run(["git", *identity, *words], cwd=path, check=True, capture_output=True)
    return path


@pytest.fixture
async def bot(source: Path, tmp_path: Path, database_url: str) -> AsyncIterator[Bot]:
    async with running(repos={"acme/sums": source, "acme/other": source}) as github:
        settings = Settings(
            database_url=SecretStr(database_url),
            github_app_id=github.app.id,
            github_private_key=SecretStr(github.app.private_key),
            github_webhook_secret=SecretStr(github.app.webhook_secret),
            github_api_url=github.api_url,
            agent_model_id="openai:none",
            openai_api_key=SecretStr("none"),
            ultracode_data_dir=tmp_path / "data",
            ultracode_sandbox="local",
            ultracode_trust="trusted",
        )
        async with open_services(settings) as services:
            app = create_app(settings, services.database)
            async with (
                app.router.lifespan_context(app),
                httpx.AsyncClient(
                    transport=httpx.ASGITransport(app), base_url="http://127.0.0.1"
                ) as web,
            ):
                yield Bot(github, services, web)
            await github.settle()
