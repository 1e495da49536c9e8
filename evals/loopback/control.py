"""The stage's own switchboard, for whoever runs a loopback GitHub as a process of its own.

In: JSON under `/_loopback`. Out: facts no client of GitHub gets to see, levers nobody has there:
faults, lags, the clock, deleted accounts. Nothing here exists on github.com.
"""

from __future__ import annotations

import math
from datetime import timedelta

from fastapi import APIRouter, Request
from fastapi.responses import Response

from evals.loopback.api.call import Values
from evals.loopback.deliveries import HookRule
from evals.loopback.errors import GitHubError, invalid, not_found
from evals.loopback.faults import KINDS, Fault
from evals.loopback.ledger import state_of
from evals.loopback.state import Json
from evals.loopback.story import story_of

router = APIRouter(prefix="/_loopback")


async def _values(request: Request) -> Values:
    values = await request.json()
    if not isinstance(values, dict):
        raise GitHubError(400, "Body should be a JSON object")
    return Values(values)


@router.get("/state")
async def state(request: Request) -> Json:
    """Everything there is, from this GitHub's side: what invariants are asserted on."""
    return await state_of(story_of(request).world)


@router.get("/deliveries")
async def deliveries(request: Request) -> list[Json]:
    """Every delivery to any App, oldest first."""
    shown = ("id", "guid", "event", "action", "redelivery", "status", "status_code")
    return [{key: getattr(d, key) for key in shown} for d in story_of(request).deliveries]


@router.get("/journal")
async def journal(request: Request) -> list[Json]:
    """Every REST and GraphQL call so far, without bodies."""
    return [
        {"method": e.method, "path": e.path, "query": e.query, "status": e.status}
        for e in story_of(request).journal
    ]


@router.post("/settle", status_code=204)
async def settle(request: Request) -> Response:
    """Wait until background work and webhooks are done."""
    await story_of(request).settle()
    return Response(status_code=204)


@router.put("/webhook")
async def set_webhook(request: Request) -> Json:
    """Set where the first App's webhooks go: `{"url": …}`; null for nowhere."""
    url = (await _values(request)).maybe_text("url")
    story_of(request).set_webhook_url(url)
    return {"url": url}


@router.post("/faults", status_code=201)
async def add_fault(request: Request) -> Json:
    """Let calls go wrong: `{kind, method, path, times, skip, status, seconds}`."""
    values = (await _values(request)).all
    if values.get("kind") not in KINDS or not set(values) <= set(Fault.__dataclass_fields__):
        raise invalid(f"kind is one of {', '.join(KINDS)}; fields are those of Fault")
    story_of(request).go_wrong(Fault(**values))
    return values


@router.get("/faults")
async def list_faults(request: Request) -> list[Json]:
    """Every fault with how often it has struck."""
    return [vars(fault) for fault in story_of(request).faults]


@router.delete("/faults", status_code=204)
async def clear_faults(request: Request) -> Response:
    """Let everything go right again, webhooks too."""
    story_of(request).faults.clear()
    story_of(request).webhooks.rules.clear()
    return Response(status_code=204)


@router.post("/webhook-faults", status_code=201)
async def add_hook_fault(request: Request) -> Json:
    """Let deliveries go wrong: `{fault: drop|duplicate|reorder|delay, event, times, seconds}`."""
    values = (await _values(request)).all
    if values.get("fault") not in ("drop", "duplicate", "reorder", "delay"):
        raise invalid("fault is one of drop, duplicate, reorder, delay")
    story_of(request).lose_webhooks(HookRule(**values))
    return values


@router.patch("/settings")
async def change_settings(request: Request) -> Json:
    """Change lags (null: until `/release`), clock and limits; only what is named."""
    story, values = story_of(request), (await _values(request)).all
    world, limits = story.world, story.limits
    for name in ("pull_head_lag_seconds", "merged_lag_seconds"):
        if name in values:
            setattr(world, name, math.inf if values[name] is None else float(values[name]))
    for name in ("requests_per_hour", "writes_per_minute", "writes_per_hour", "enforce_writes"):
        setattr(limits, name, values.get(name, getattr(limits, name)))
    if "clock_offset_seconds" in values:
        world.clock_offset = timedelta(seconds=values["clock_offset_seconds"])
    return values


@router.post("/release", status_code=204)
async def release(request: Request) -> Response:
    """Let what a lag of null held back happen now."""
    story_of(request).world.release()
    return Response(status_code=204)


@router.post("/press", status_code=204)
async def press(request: Request) -> Response:
    """Press a check run's own button: `{repository, check_run, identifier, as_user}`."""
    story, values = story_of(request), await _values(request)
    repository = story.repository(values.maybe_text("repository"))
    wanted = values.number("check_run")
    run = next((r for r in repository.check_runs() if r.id == wanted), None)
    if run is None:
        raise not_found()
    who, identifier = values.text("as_user"), values.text("identifier")
    await story.press(run, identifier, as_user=who, repository=repository)
    return Response(status_code=204)


@router.post("/users/{key}/delete", status_code=204)
async def delete_user(request: Request, key: str) -> Response:
    """Delete an account; its token is dead, its reviews have no user."""
    story_of(request).delete_user(key)
    return Response(status_code=204)


@router.post("/installation/{act}", status_code=204)
async def befall(request: Request, act: str) -> Response:
    """What befalls the first App's installation: suspend, unsuspend, uninstall."""
    story = story_of(request)
    acts = {"suspend": story.suspend, "unsuspend": story.unsuspend, "uninstall": story.uninstall}
    if act not in acts:
        raise not_found()
    acts[act](story.app)
    return Response(status_code=204)
