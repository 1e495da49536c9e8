"""A GitHub that misbehaves on demand, and the switchboard that tells it to."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest

from evals.loopback import Fault, HookRule, LoopbackGitHub

from .conftest import Receiver

AsPerson = Callable[[str], httpx.AsyncClient]
REPO = "/repos/acme/sums"


@pytest.fixture
async def switchboard(github: LoopbackGitHub) -> AsyncIterator[httpx.AsyncClient]:
    where = f"{github.url}/_loopback"
    async with httpx.AsyncClient(base_url=where, trust_env=False) as client:
        yield client


async def say(client: httpx.AsyncClient, github: LoopbackGitHub) -> httpx.Response:
    return await client.post(f"{REPO}/issues/1/comments", json={"body": "x"})


@pytest.fixture
async def issue(github: LoopbackGitHub) -> Any:
    return await github.open_issue(as_user="writer", title="One")


# --- calls ---


async def test_errors_do_nothing(github: LoopbackGitHub, as_person: AsPerson, issue: Any) -> None:
    """A 5xx answers without effect, as many times as told, to the calls that match."""
    fault = github.go_wrong(Fault(kind="error", method="POST", path="*/comments", times=2))
    writer = as_person("writer")
    assert (await writer.get(f"{REPO}/issues/1")).status_code == 200
    answers = [(await say(writer, github)).status_code for _ in range(3)]
    assert (answers, fault.hits, len(issue.comments)) == ([502, 502, 201], 2, 1)


async def test_skipped_calls(github: LoopbackGitHub, as_person: AsPerson, issue: Any) -> None:
    """A fault may let the first calls pass."""
    github.go_wrong(Fault(kind="error", status=500, path="*/issues/*", skip=1))
    writer = as_person("writer")
    assert (await writer.get(f"{REPO}/issues/1")).status_code == 200
    assert (await writer.get(f"{REPO}/issues/1")).status_code == 500


@pytest.mark.parametrize(
    ("kind", "status", "told"),
    [
        ("rate_limited", 429, True),
        ("secondary_limit", 403, True),
        ("secondary_limit_bare", 403, False),
    ],
)
async def test_limits_on_demand(
    github: LoopbackGitHub, as_person: AsPerson, issue: Any, kind: Any, status: int, told: bool
) -> None:
    """Rate limits come with `Retry-After`, and a secondary one also without."""
    github.go_wrong(Fault(kind=kind, seconds=7))
    answer = await say(as_person("writer"), github)
    assert (answer.status_code, "retry-after" in answer.headers) == (status, told)
    assert issue.comments == {}


@pytest.mark.parametrize("kind", ["error_after", "reset_after", "timeout_after"])
async def test_effects_nobody_learns_of(
    github: LoopbackGitHub, as_person: AsPerson, issue: Any, kind: Any
) -> None:
    """A call that took effect can answer 502, hang up, or never answer."""
    github.go_wrong(Fault(kind=kind, method="POST"))
    writer = as_person("writer")
    writer.timeout = httpx.Timeout(1)
    if kind == "error_after":
        assert (await say(writer, github)).status_code == 502
    else:
        with pytest.raises(httpx.TransportError):
            await say(writer, github)
    assert len(issue.comments) == 1


async def test_reset(github: LoopbackGitHub, as_person: AsPerson, issue: Any) -> None:
    """A reset connection has no answer and no effect."""
    github.go_wrong(Fault(kind="reset", method="POST"))
    writer = as_person("writer")
    with pytest.raises(httpx.TransportError):
        await say(writer, github)
    assert issue.comments == {}
    assert (await say(writer, github)).status_code == 201


async def test_stale_reads(github: LoopbackGitHub, as_person: AsPerson, issue: Any) -> None:
    """A stale read repeats what the same call answered before."""
    reader = as_person("reader")
    await reader.get(f"{REPO}/issues/1")
    await github.close_issue(issue, as_user="writer")
    github.go_wrong(Fault(kind="stale", method="GET", path="*/issues/1"))
    assert (await reader.get(f"{REPO}/issues/1")).json()["state"] == "open"
    assert (await reader.get(f"{REPO}/issues/1")).json()["state"] == "closed"


async def test_delay(github: LoopbackGitHub, as_person: AsPerson, issue: Any) -> None:
    """A delayed call takes effect when its caller has given up."""
    github.go_wrong(Fault(kind="delay", seconds=0.5, method="POST"))
    writer = as_person("writer")
    writer.timeout = httpx.Timeout(0.1)
    with pytest.raises(httpx.TimeoutException):
        await say(writer, github)
    until = time.monotonic() + 30
    while not issue.comments and time.monotonic() < until:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0.05)
    assert len(issue.comments) == 1


# --- webhooks ---


async def test_lost_doubled_and_swapped(
    github: LoopbackGitHub, receiver: Receiver, issue: Any
) -> None:
    """A delivery can be lost, come twice under one GUID, or after the next one."""
    await github.settle()
    receiver.received.clear()
    receiver.guids.clear()
    github.lose_webhooks(HookRule(fault="drop", event="issue_comment"))
    await github.comment(issue, as_user="writer", body="lost")
    github.lose_webhooks(HookRule(fault="duplicate", event="issue_comment"))
    await github.comment(issue, as_user="writer", body="twice")
    github.lose_webhooks(HookRule(fault="reorder", event="issue_comment"))
    await github.comment(issue, as_user="writer", body="late")
    await github.comment(issue, as_user="writer", body="early")
    await github.settle()
    said = [body["comment"]["body"] for _, body in receiver.received]
    assert said == ["twice", "twice", "early", "late"]
    assert receiver.guids[0] == receiver.guids[1]
    github.redeliver(next(d for d in github.deliveries if d.status.startswith("dropped")))
    await github.settle()
    assert receiver.last("issue_comment")["comment"]["body"] == "lost"


# --- limits ---


async def test_hourly_limit(github: LoopbackGitHub, as_person: AsPerson, issue: Any) -> None:
    """Each token has its own hour; headers count down, and nothing is left at the end."""
    github.limits.requests_per_hour = 3
    reader = as_person("reader")
    left = [
        (await reader.get(f"{REPO}/issues/1")).headers["x-ratelimit-remaining"] for _ in range(3)
    ]
    assert left == ["2", "1", "0"]
    over = await reader.get(f"{REPO}/issues/1")
    assert (over.status_code, over.headers["x-ratelimit-remaining"]) == (403, "0")
    assert (await reader.get("/rate_limit")).json()["rate"]["remaining"] == 0
    assert (await as_person("writer").get(f"{REPO}/issues/1")).status_code == 200
    github.world.clock_offset = timedelta(hours=1)
    assert (await reader.get(f"{REPO}/issues/1")).status_code == 200


async def test_writes_a_minute(github: LoopbackGitHub, as_person: AsPerson, issue: Any) -> None:
    """Where writes are counted, too many in a minute are refused for a while."""
    github.limits.enforce_writes, github.limits.writes_per_minute = True, 2
    writer = as_person("writer")
    answers = [(await say(writer, github)).status_code for _ in range(3)]
    assert answers == [201, 201, 403]
    github.world.clock_offset = timedelta(minutes=2)
    assert (await say(writer, github)).status_code == 201


# --- the switchboard ---


async def test_state_as_plain_facts(
    github: LoopbackGitHub, switchboard: httpx.AsyncClient, issue: Any
) -> None:
    """The state shows refs from Git, conversations with whom they notify, and reactions."""
    await github.comment(issue, as_user="writer", body="@rosa see `@ada` and @acme/core")
    shown = (await switchboard.get("/state")).json()["acme/sums"]
    assert shown["refs"]["refs/heads/main"] == await github.tip()
    [comment] = shown["issues"][0]["comments"]
    assert (comment["by"], comment["mentions"]) == ("wim", ["rosa", "acme/core"])


async def test_levers(
    github: LoopbackGitHub, switchboard: httpx.AsyncClient, as_person: AsPerson, issue: Any
) -> None:
    """Another process sets the webhook, faults, lags and the clock, and deletes people."""
    await switchboard.put("/webhook", json={"url": None})
    assert github.app.webhook_url is None
    made = await switchboard.post("/faults", json={"kind": "error", "status": 503})
    assert made.status_code == 201
    assert (await as_person("reader").get(REPO)).status_code == 503
    assert (await switchboard.get("/faults")).json()[0]["hits"] == 1
    assert (await switchboard.post("/faults", json={"kind": "explode"})).status_code == 422
    assert (await switchboard.delete("/faults")).status_code == 204
    await switchboard.post("/webhook-faults", json={"fault": "drop"})
    assert github.webhooks.rules[0].fault == "drop"
    await switchboard.patch("/settings", json={"pull_head_lag_seconds": None})
    assert github.world.pull_head_lag_seconds == float("inf")
    await switchboard.patch("/settings", json={"clock_offset_seconds": 60})
    assert github.world.clock_offset == timedelta(minutes=1)
    await switchboard.post("/users/reader/delete")
    assert (await as_person("reader").get("/user")).status_code == 401
    await switchboard.post("/installation/suspend")
    assert github.installation.suspended_at is not None
    assert (await switchboard.post("/settle")).status_code == 204
    assert (await switchboard.get("/journal")).json()[0]["path"] == "/user"


async def test_buttons_by_switchboard(
    github: LoopbackGitHub, switchboard: httpx.AsyncClient, receiver: Receiver
) -> None:
    """A check run's own button, which REST cannot press, can be pressed here as anybody."""
    run = await github.check(await github.tip(), "c", "failure", as_app=github.app)
    run.actions = [{"label": "Cancel", "description": "Stop", "identifier": "cancel"}]
    pressed = {"check_run": run.id, "identifier": "cancel", "as_user": "writer"}
    assert (await switchboard.post("/press", json=pressed)).status_code == 204
    refused = await switchboard.post("/press", json={**pressed, "as_user": "reader"})
    assert refused.status_code == 403
    await github.settle()
    assert receiver.actions("check_run") == ["created", "completed", "requested_action"]
