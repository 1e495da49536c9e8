"""A private repository, a run that waits for its review, and browsers in front of its page."""

from __future__ import annotations

import re
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from pydantic import BaseModel, SecretStr

from bot.app import create_app
from bot.pages.door import PagesDoor
from bot.pages.run_page import RunPages
from bot.proof import artifacts_of
from bot.settings import Settings
from bot.store.database import Database
from bot.store.fence import holding
from bot.store.pieces import Pieces
from bot.store.runs import NewRun, Run, RunStore
from bot.store.tables import RunState
from bot.view import RoundView
from evals.loopback import LoopbackGitHub, running
from tests.unit.bot.github.views import CANDIDATE, a_request, a_round
from workspace.contracts import Artifact

ADDRESS = "http://bot.test"
LOG = b"<script>alert(1)</script> 2 passed\n"


@dataclass
class Site:
    """The pages over one stored run."""

    github: LoopbackGitHub
    settings: Settings
    database: Database
    run: Run
    artifact: Artifact
    stack: AsyncExitStack
    app: httpx.ASGITransport
    jwt_key: RSAPrivateKey
    door: PagesDoor

    @property
    def pages(self) -> RunPages:
        """Return what the pages read."""
        return RunPages(self.database, artifacts_of(self.settings))

    async def browser(self) -> httpx.AsyncClient:
        """Open a browser that never signed in and follows nothing by itself."""
        client = httpx.AsyncClient(transport=self.app, base_url=ADDRESS)
        return await self.stack.enter_async_context(client)

    async def consent(self, address: str, who: str) -> str:
        """Let somebody agree on GitHub's page; return where GitHub sends the browser."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        async with httpx.AsyncClient(trust_env=False) as github:
            agreed = await github.post(
                f"{self.github.url}/login/oauth/authorize",
                data={**asked, "as": who},
            )
        assert agreed.status_code == 302, agreed.text[:500]
        return str(agreed.headers["location"])

    async def signed_in(self, who: str, *, wanted: str = "/") -> httpx.AsyncClient:
        """Return a browser somebody signed in with."""
        browser = await self.browser()
        begun = await browser.get("/auth/login", params={"next": wanted})
        back = await browser.get(await self.consent(begun.headers["location"], who))
        assert back.status_code == 303, back.text
        assert back.headers["location"] == wanted
        return browser


@asynccontextmanager
async def opened_site(
    folder: Path, database_url: str, text: str | None = None
) -> AsyncIterator[Site]:
    """Open the pages over a run; with `text`, that text stands in every foreign place."""
    source = folder / "source"
    source.mkdir()
    (source / "sums.py").write_text("def add(a, b):\n    return a - b\n")
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-q", "-m", "Begin")):
        subprocess.run(["git", *identity, *words], cwd=source, check=True, capture_output=True)
    key = generate_private_key(65537, 2048)
    async with running(repos={"acme/sums": source}, private=True) as github, AsyncExitStack() as on:
        github.set_webhook_url(f"{ADDRESS}/webhooks/github")
        settings = Settings(
            database_url=SecretStr(database_url),
            github_app_id=github.app.id,
            github_private_key=SecretStr(github.app.private_key),
            github_webhook_secret=SecretStr(github.app.webhook_secret or ""),
            github_api_url=github.api_url,
            github_client_id=github.app.client_id,
            github_client_secret=SecretStr(github.app.client_secret),
            public_url=ADDRESS,
            jwt_verification_key=SecretStr(public_pem(key)),
            jwt_audience="ultracode",
            jwt_issuer="https://issuer.example",
            ultracode_operators=frozenset({github.person("outsider").account.id}),
            ultracode_data_dir=folder / "data",
        )
        async with Database(database_url) as database:
            run, artifact = await stored_run(settings, database, github, text)
            door = PagesDoor(settings, database)
            app = create_app(settings, database, pages=door)
            async with app.router.lifespan_context(app), on:
                transport = httpx.ASGITransport(app)
                yield Site(github, settings, database, run, artifact, on, transport, key, door)


@pytest.fixture
async def site(tmp_path: Path, database_url: str) -> AsyncIterator[Site]:
    async with opened_site(tmp_path, database_url) as opened:
        yield opened


def public_pem(key: RSAPrivateKey) -> str:
    """Return the public half as the operator's environment holds it."""
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


async def stored_run(
    settings: Settings, database: Database, github: LoopbackGitHub, text: str | None
) -> tuple[Run, Artifact]:
    """Store what a run leaves behind that made one candidate and waits for its review."""
    store = RunStore(database)
    repository = github.repository()
    request = a_request(text)
    made = await store.create(
        NewRun(
            repository_id=repository.id,
            installation_id=github.installation.id,
            issue_number=request.issue_number,
            trigger_kind="comment",
            trigger_id="1",
            requester_id=7,
            requester_login="anna",
            request={
                "coding_request": request.model_dump(mode="json"),
                "repository": repository.full_name,
            },
        ),
        actor="github:7",
    )
    run = made.run
    claim = await store.claim(run.run_id)
    assert claim is not None
    artifact = await artifacts_of(settings).put(repository.id, run.run_id, LOG, "text/plain")
    shown = stored_round(artifact, text)
    with holding(run.run_id, claim.epoch):
        for name, piece in pieces_of(shown).items():
            await Pieces(database).save(
                run.run_id,
                name,
                piece.model_dump(mode="json"),
                epoch=claim.epoch,
                contract_version=1,
            )
        for to in (RunState.PLANNING, RunState.WORKING, RunState.AWAITING_REVIEW):
            await store.transition(
                run.run_id,
                from_states=frozenset(RunState),
                to_state=to,
                epoch=claim.epoch,
                candidate_sha=CANDIDATE,
            )
    return await store.get(run.run_id), artifact


def stored_round(artifact: Artifact, text: str | None) -> RoundView:
    """Return a round whose diff and report are stored bytes."""
    shown = a_round(text)
    assert shown.candidate is not None
    assert shown.report is not None
    return replace(
        shown,
        candidate=shown.candidate.model_copy(update={"diff_uri": artifact.uri}),
        report=shown.report.model_copy(update={"artifact_uri": artifact.uri}),
    )


def pieces_of(shown: RoundView) -> dict[str, BaseModel]:
    """Return a round's pieces by the keys they are stored under."""
    found = {
        "plan:0": shown.plan,
        "worker:0:login": shown.workers[0],
        "candidate:0": shown.candidate,
        "report:0": shown.report,
        "evidence:0": shown.evidence,
        "synthesis:0": shown.synthesis,
        "verdict:0:verifier": shown.verifier,
        "verdict:0:refuter": shown.refuter,
        "result:0": shown.result,
    }
    return {name: piece for name, piece in found.items() if piece is not None}


def hrefs(page: str) -> list[str]:
    """Return every address a page names."""
    return re.findall(r'(?:href|src|action)="([^"]*)"', page)
