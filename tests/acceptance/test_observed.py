"""What an operator sees of one story full of faults: logs, traces and metrics, and no secret."""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import jwt
import psycopg
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from psycopg import sql

from bot.store.database import libpq_url, sqlalchemy_url
from evals.collector import Collector, SeenSpan, collecting
from evals.scripted_model import ScriptedModel, parse_script, running
from evals.stage import Stage
from tests.acceptance.conftest import Shop
from tests.acceptance.lane import small_stage
from tests.acceptance.plays import judged, plan, play, run, task, work, write

SHOP = "octo-shop/observed"
#: Words of the repository, of people and of a model: they belong in no line and no span.
WORDS = "heron-in-the-reeds"
#: Whatever looks like a token GitHub minted, or like the App's own signature.
TOKENS = re.compile(rb"gh[a-z]_[A-Za-z0-9_-]{20,}|eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}")
#: How lines about the process itself begin.
NOBODYS = re.compile(
    r"worker st|evidence is unsigned|Started server|Waiting for|Application (startup|shutdown)"
    r"|Uvicorn running|Shutting down|Finished server|Adding tasks|Registering task|Starting worker"
    r"|[Ss]top|All jobs|No (periodic|job)|.*the database"
)


@dataclass
class Seen:
    """One story that was lived through, and everything an operator could read of it."""

    run: dict[str, Any]
    lines: list[dict[str, Any]]
    logs: bytes
    collector: Collector
    metrics: str
    kept: bytes
    secrets: dict[str, bytes]
    tokens_minted: int


@dataclass
class Operator:
    """Who holds the key that opens `/metrics`."""

    pem: str
    public: str

    def token(self) -> str:
        """Return a bearer token."""
        claims = {"aud": "ops", "iss": "ops", "sub": "prometheus", "scopes": ["ultracode:operator"]}
        return jwt.encode(claims | {"exp": int(time.time()) + 600}, self.pem, "RS256")


def operator() -> Operator:
    """Return an operator with a new key."""
    key = generate_private_key(65537, 2048)
    encoding, private = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    public = serialization.PublicFormat.SubjectPublicKeyInfo
    return Operator(
        key.private_bytes(encoding, private, serialization.NoEncryption()).decode(),
        key.public_key().public_bytes(encoding, public).decode(),
    )


@pytest.fixture(scope="module")
async def seen(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Seen]:
    """Live through one story while GitHub, the model, the database and a worker fail."""
    folder = tmp_path_factory.mktemp("observed")
    boss, canary = operator(), f"canary{secrets.token_hex(12)}"
    with collecting() as collector:
        async with (
            running(parse_script("entries: []")) as model,
            small_stage(folder, [SHOP], model) as stage,
        ):
            await stage.parts["web"].stop()
            plant(stage, canary, collector, boss)
            await stage.start_web()
            await stage.start_worker()
            shop = Shop(stage, model, SHOP)
            await let_things_fail(stage)
            finished = await story(shop, model)
            token = boss.token()
            metrics = await scrape(stage, token)
            for name in ("worker", "worker-2", "web"):
                await stage.parts[name].stop()
            minted = await tokens_minted(stage)
            logs = b"".join(path.read_bytes() for path in logs_of(folder))
            yield Seen(
                run=finished,
                lines=[json.loads(line) for line in logs.splitlines() if line.startswith(b"{")],
                logs=logs,
                collector=collector,
                metrics=metrics,
                kept=everything_kept(stage),
                secrets=planted(stage, model, canary),
                tokens_minted=minted,
            )


def plant(stage: Stage, canary: str, collector: Collector, boss: Operator) -> None:
    """Give each secret a value of its own, where the stage has not done so."""
    url = sqlalchemy_url(stage.environment["DATABASE_URL"]).set(password=f"{canary}database")
    stage.environment |= {
        "DATABASE_URL": url.render_as_string(hide_password=False),
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_EXPORTER_OTLP_HEADERS": f"api-key={canary}collector",
        "JWT_VERIFICATION_KEY": boss.public,
        "JWT_AUDIENCE": "ops",
        "JWT_ISSUER": "ops",
    }


def planted(stage: Stage, model: ScriptedModel, canary: str) -> dict[str, bytes]:
    """Return every secret of the server by name."""
    pem = Path(stage.environment["GITHUB_PRIVATE_KEY_PATH"]).read_text().splitlines()
    return {
        "webhook secret": stage.github["webhook_secret"].encode(),
        "private key": pem[len(pem) // 2].encode(),
        "model key": model.api_key.encode(),
        "database password": f"{canary}database".encode(),
        "session secret": stage.environment["GITHUB_CLIENT_SECRET"].encode(),
        "collector's key": f"{canary}collector".encode(),
    }


async def let_things_fail(stage: Stage) -> None:
    """Let GitHub refuse, fail and doubt what it issued itself."""
    faults: list[dict[str, Any]] = [
        {"kind": "error", "method": "POST", "path": "*/comments", "status": 502, "skip": 1},
        {"kind": "secondary_limit", "method": "PATCH", "path": "*", "seconds": 1},
        {"kind": "error", "method": "GET", "path": "*/collaborators/*", "status": 401},
        {"kind": "reset", "method": "POST", "path": "*/check-runs"},
        {"kind": "error", "method": "GET", "path": "*info/refs*", "status": 500},
    ]
    async with httpx.AsyncClient(trust_env=False) as client:
        for fault in faults:
            url = f"{stage.github['url']}/_loopback/faults"
            (await client.post(url, json=fault)).raise_for_status()
        web = f"http://127.0.0.1:{stage.web_port}"
        forged = {"X-Hub-Signature-256": "sha256=" + "0" * 64, "Content-Type": "application/json"}
        await client.post(f"{web}/webhooks/github", headers=forged, content=b"{}")
        await client.get(f"{web}/auth/callback?code=forged&state=forged")
    await stage.let_webhooks_go_wrong("duplicate", "issue_comment")


async def story(shop: Shop, model: ScriptedModel) -> dict[str, Any]:
    """Ask, let a worker die and the database hang up, approve; return the run as it ended."""
    faulty = {"faults": [{"kind": 429}, {"kind": "truncated"}]}
    first = work("state", run("cat state.txt"), write("state.txt", f"bad {WORDS}\n"), **faulty)
    mended = work("state", run("cat state.txt"), write("state.txt", "good\n"), round=1)
    state = task("state", "state.txt")
    shop.play(play([plan(state), first], judged(), [plan(state, round=1), mended], judged(round=1)))
    issue = await shop.ask(f"/ultracode Make the state good, {WORDS}.")
    await shop.model_was_asked("worker")
    await shop.stage.parts["worker"].kill()
    with psycopg.connect(libpq_url(shop.stage.environment["DATABASE_URL"])) as connection:
        connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where pid <> pg_backend_pid() and usename = current_user"
        )
    await shop.stage.start_worker("worker-2")
    pull = await shop.ready()
    await shop.reviewer.review(pull["number"])
    return await shop.ended(issue)


async def scrape(stage: Stage, token: str) -> str:
    """Return `/metrics` once a worker has brought what it measured."""
    url = f"http://127.0.0.1:{stage.web_port}/metrics"
    headers = {"authorization": f"Bearer {token}"}
    await stage.parts["worker-2"].stop()  # it writes what it counted before it ends
    async with httpx.AsyncClient(trust_env=False) as client:
        answer = await client.get(url, headers=headers)
    assert answer.status_code == 200
    return answer.text


async def tokens_minted(stage: Stage) -> int:
    """How many tokens GitHub gave out."""
    async with httpx.AsyncClient(trust_env=False) as client:
        journal = (await client.get(f"{stage.github['url']}/_loopback/journal")).json()
    return sum("access_tokens" in e["path"] and e["status"] == 201 for e in journal)


def logs_of(folder: Path) -> list[Path]:
    """Return what the bot's own processes wrote."""
    return [folder / f"{name}.log" for name in ("web", "worker", "worker-2")]


def everything_kept(stage: Stage) -> bytes:
    """Return every byte of the data folder and of the database's tables."""
    files = [path for path in (stage.folder / "data").rglob("*") if path.is_file()]
    kept = b"".join(path.read_bytes() for path in files)
    with psycopg.connect(libpq_url(stage.environment["DATABASE_URL"])) as connection:
        tables = connection.execute(
            "select schemaname, tablename from pg_tables"
            " where schemaname not in ('pg_catalog', 'information_schema')"
        ).fetchall()
        for table in tables:
            rows = sql.SQL("select t::text from {} t").format(sql.Identifier(*table))
            for row in connection.execute(rows):
                kept += row[0].encode()
            for row in connection.execute("select body from deliveries"):
                kept += row[0]
    return kept


# --- what is seen ---------------------------------------------------------------------------------


def test_the_story_ended_well(seen: Seen) -> None:
    """Everything that failed was outlived, and what is looked at below is a whole run."""
    assert seen.run["state"] == "promoted"
    assert seen.tokens_minted > 0
    assert sum(line["event"] == "round ended" for line in seen.lines) >= 2


def test_no_secret_is_written_anywhere(seen: Seen) -> None:
    """Neither logs, traces, metrics, files nor tables hold a secret or a token."""
    places = {
        "logs": seen.logs,
        "traces": seen.collector.raw,
        "metrics": seen.metrics.encode(),
        "files and tables": seen.kept,
    }
    for place, content in places.items():
        found = [name for name, value in seen.secrets.items() if value in content]
        assert found == [], place
        assert TOKENS.findall(content) == [], place
    assert seen.collector.headers[0]["api-key"].encode() == seen.secrets["collector's key"]


def test_no_words_of_people_or_models_are_logged_or_traced(seen: Seen) -> None:
    """What is in the repository, the request and the model's calls stays out of both."""
    assert WORDS.encode() in seen.kept, "they were there to be told"
    assert WORDS.encode() not in seen.logs
    assert WORDS.encode() not in seen.collector.raw


def test_every_line_says_what_it_is_about(seen: Seen) -> None:
    """Each line is JSON; one about work has its run or delivery, and deeper down round and task."""
    assert all(line.startswith(b"{") for line in seen.logs.splitlines())
    nameless = [
        line["event"]
        for line in seen.lines
        if not line.keys() & {"run_id", "delivery_id"} and not NOBODYS.match(line["event"])
    ]
    assert nameless == ["delivery refused"], "the one whose signature was forged has no name"
    run_id = seen.run["run_id"]
    frozen = [line for line in seen.lines if line["event"] == "work item frozen"]
    assert {(line["run_id"], line["round"], line["task_id"]) for line in frozen} == {
        (run_id, 0, "state"),
        (run_id, 1, "state"),
    }
    worked = [line for line in seen.lines if line["event"] in {"agent answered", "round ended"}]
    assert all(
        {"run_id", "delivery_id", "round"} <= line.keys() for line in worked if "round" in line
    )
    assert all(line["delivery_id"] for line in frozen)


def test_one_trace_leads_from_the_webhook_to_the_sandbox(seen: Seen) -> None:
    """The command a worker ran hangs below tool, agent, step, workflow, job and webhook."""
    commands = [span for span in seen.collector.spans if span.name.startswith("sandbox")]
    chains = [[above.name for above in seen.collector.ancestry(span)] for span in commands]
    inside = ["tool run_command", "agent worker", "work item", "step round", "workflow"]
    asked = ["job handle_delivery", "webhook"]
    whole = [names for names in chains if names[1:6] == inside and names[-2:] == asked]
    assert whole, chains
    assert set(whole[0][6:-2]) == {"job advance_run"}, "and again below it, where it came back"
    assert any("suites" in names and names[-1] == "webhook" for names in chains), chains


def test_spans_carry_ids_and_counts(seen: Seen) -> None:
    """A span can be found by its run, and says how much a model took and how a command ended."""

    def one(name: str) -> SeenSpan:
        return next(span for span in reversed(seen.collector.spans) if span.name == name)

    webhooks = [span for span in seen.collector.spans if span.name == "webhook"]
    assert {span.role for span in webhooks} == {"web"}
    assert 202 in {span.attributes["http.response.status_code"] for span in webhooks}
    assert one("job advance_run").role == "worker"
    assert one("step finalize").attributes["ultracode.run_id"] == seen.run["run_id"]
    assert one("model call").attributes["gen_ai.usage.input_tokens"]
    assert one("work item").attributes["ultracode.task_id"] == "state"
    assert one("sandbox local").attributes["ultracode.termination"] == "exit"


def test_metrics_tell_what_workers_saw(seen: Seen) -> None:
    """The web role shows acks, runs, model calls, sandbox seconds and GitHub's rate budget."""
    values = {
        line.rpartition(" ")[0]: float(line.rpartition(" ")[2])
        for line in seen.metrics.splitlines()
        if not line.startswith("#")
    }
    assert values['ultracode_deliveries{outcome="handled"}'] >= 1
    assert values['ultracode_runs{state="promoted"}'] == 1
    assert values["ultracode_model_calls"] >= 8
    assert values["ultracode_input_tokens"] > 0
    assert values['ultracode_sandbox_seconds_total{termination="exit"}'] > 0
    assert values['ultracode_sandbox_commands_total{termination="exit"}'] >= 2
    budgets = {name: left for name, left in values.items() if "github_remaining" in name}
    assert any('installation="app"' not in name and left > 0 for name, left in budgets.items())
    assert values["ultracode_last_delivery_seconds"] >= 0
