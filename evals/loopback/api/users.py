"""Accounts, limits, and facts about this GitHub: https://docs.github.com/rest/users."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from evals.loopback import shapes
from evals.loopback.api.call import Caller
from evals.loopback.errors import forbidden, not_found
from evals.loopback.state import Json
from evals.loopback.story import story_of

router = APIRouter()


@router.get("/user")
async def me(call: Caller) -> Json:
    """The person behind the token; installations are nobody."""
    if call.actor.installation is not None:
        raise forbidden()
    return shapes.public_user(call.world, call.actor.who())


@router.get("/users/{login}")
async def get_user(call: Caller, login: str) -> Json:
    """Anybody by name."""
    account = call.world.account(login)
    if account is None:
        raise not_found()
    return shapes.public_user(call.world, account)


@router.get("/user/{number}")
async def get_user_by_id(call: Caller, number: int) -> Json:
    """Anybody by id; names change, ids do not."""
    account = call.world.accounts.get(number)
    if account is None or account.deleted:
        raise not_found()
    return shapes.public_user(call.world, account)


@router.get("/rate_limit")
async def rate_limit(request: Request, call: Caller) -> Json:
    """What is left of the hour; asking costs nothing."""
    return story_of(request).limits.overview(call.actor)


@router.get("/meta")
async def meta(call: Caller) -> JSONResponse:
    """Facts that clients ask a GitHub for first."""
    body: Json = {"verifiable_password_authentication": False}
    if call.world.enterprise:
        body["installed_version"] = "3.19.0"
    return JSONResponse(body)


@router.get("/zen")
async def zen() -> Response:
    """Something short."""
    return Response("Keep it logically awesome.", media_type="text/plain")


@router.get("/")
async def root(call: Caller) -> Json:
    """Where things are."""
    api = call.world.api_url
    return {
        "current_user_url": f"{api}/user",
        "rate_limit_url": f"{api}/rate_limit",
        "repository_url": f"{api}/repos/{{owner}}/{{repo}}",
        "user_url": f"{api}/users/{{user}}",
    }
