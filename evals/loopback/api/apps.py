"""Apps, their installations, tokens and deliveries: https://docs.github.com/rest/apps."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from evals.loopback import installing, shapes
from evals.loopback.api.call import AsApp, Call, Caller, Repo, Values
from evals.loopback.auth import Actor, AppIdentity, mint_installation_token
from evals.loopback.deliveries import Delivery, Webhooks
from evals.loopback.errors import GitHubError, forbidden, not_found
from evals.loopback.shapes.deliveries import delivery_item, full_delivery
from evals.loopback.state import (
    Installation,
    Json,
    Repository,
)
from evals.loopback.story import story_of
from evals.loopback.world import World

router = APIRouter()


@router.get("/app")
async def get_app(request: Request, by: AsApp) -> Json:
    """The App itself."""
    return shapes.app(story_of(request).world, by.app)


@router.get("/app/installations")
async def list_installations(call: Request, by: AsApp) -> Response:
    """Everywhere the App is installed."""
    world = story_of(call).world
    found = [i for i in world.installations.values() if i.app is by.app and not i.deleted]
    return _paged(call, found)


def _paged(request: Request, found: list[Installation]) -> Response:
    world = story_of(request).world
    return Call(world, request, Actor()).paged(found, lambda i: shapes.installation(world, i))


@router.get("/app/installations/{number}")
async def get_installation(request: Request, by: AsApp, number: int) -> Json:
    """One installation."""
    return shapes.installation(story_of(request).world, _own(request, by, number))


@router.post("/app/installations/{number}/access_tokens", status_code=201)
async def create_token(request: Request, by: AsApp, number: int) -> Json:
    """A token for an installation, narrowed to repositories and permissions where asked."""
    world = story_of(request).world
    installation = _own(request, by, number)
    values = await _values(request)
    token = mint_installation_token(
        world,
        installation,
        repositories=_chosen(world, installation, values),
        permissions=values.all.get("permissions") or None,
    )
    return shapes.installation_token(world, token)


async def _values(request: Request) -> Values:
    return await Call(story_of(request).world, request, Actor()).values()


def _chosen(world: World, installation: Installation, values: Values) -> list[Repository] | None:
    names = values.texts("repositories")
    numbers = values.all.get("repository_ids") or []
    if not names and not numbers:
        return None
    found = [world.repository(installation.account.login, name) for name in names]
    found += [world.repositories.get(number) for number in numbers]
    known = [r for r in found if r is not None and not r.deleted]
    if len(known) != len(found):
        raise GitHubError(
            422,
            "There is at least one repository that does not exist or is not accessible to the "
            "parent installation.",
        )
    return known


@router.delete("/app/installations/{number}", status_code=204)
async def delete_installation(request: Request, by: AsApp, number: int) -> Response:
    """The App uninstalls itself."""
    installation = _own(request, by, number)
    installing.uninstall(story_of(request).world, installation, sender=by.app.bot)
    return Response(status_code=204)


@router.put("/app/installations/{number}/suspended", status_code=204)
async def suspend(request: Request, by: AsApp, number: int) -> Response:
    """The App suspends its own installation."""
    installing.suspend(story_of(request).world, _own(request, by, number), by=by.app.bot)
    return Response(status_code=204)


@router.delete("/app/installations/{number}/suspended", status_code=204)
async def unsuspend(request: Request, by: AsApp, number: int) -> Response:
    """And takes that back."""
    installing.unsuspend(story_of(request).world, _own(request, by, number), by=by.app.bot)
    return Response(status_code=204)


def _own(request: Request, by: AppIdentity, number: int) -> Installation:
    world = story_of(request).world
    installation = world.installations.get(number)
    if installation is None or installation.deleted or installation.app is not by.app:
        raise not_found()
    return installation


@router.get("/repos/{owner}/{name}/installation")
async def installation_of_repository(request: Request, by: AsApp, owner: str, name: str) -> Json:
    """The App's installation that covers a repository."""
    world = story_of(request).world
    repository = world.repository(owner, name)
    installation = repository and world.installation(by.app, repository)
    if not installation:
        raise not_found()
    return shapes.installation(world, installation)


@router.get("/orgs/{login}/installation")
@router.get("/users/{login}/installation")
async def installation_of_account(request: Request, by: AsApp, login: str) -> Json:
    """The App's installation on an account."""
    world = story_of(request).world
    every = (i for i in world.installations.values() if i.app is by.app and not i.deleted)
    found = next((i for i in every if i.account.login.casefold() == login.casefold()), None)
    if found is None:
        raise not_found()
    return shapes.installation(world, found)


@router.get("/apps/{slug}")
async def get_app_by_slug(call: Caller, slug: str) -> Json:
    """Any App by its slug."""
    found = next((app for app in call.world.apps.values() if app.slug == slug), None)
    if found is None:
        raise not_found()
    return shapes.app(call.world, found)


# --- as an installation ---


@router.get("/installation/repositories")
async def installation_repositories(call: Caller) -> JSONResponse:
    """What the installation token may see."""
    token = call.actor.token
    if call.actor.installation is None or token is None:
        raise forbidden("You must authenticate with an installation access token")
    covered = [r for r in call.world.repositories.values() if call.actor.installation.covers(r)]
    chosen = token.repository_ids
    seen = [r for r in covered if not r.deleted and (chosen is None or r.id in chosen)]
    return call.paged(seen, lambda r: shapes.repository(call.world, r), wrapped="repositories")


@router.delete("/installation/token", status_code=204)
async def revoke_token(call: Caller) -> Response:
    """The token that asks is worth nothing afterwards."""
    if call.actor.token is None or call.actor.installation is None:
        raise forbidden("You must authenticate with an installation access token")
    call.actor.token.revoked = True
    return Response(status_code=204)


# --- webhook configuration and deliveries ---


@router.get("/app/hook/config")
async def get_hook_config(by: AsApp) -> Json:
    """Where webhooks go."""
    return _hook_config(by)


@router.patch("/app/hook/config")
async def set_hook_config(request: Request, by: AsApp) -> Json:
    """Change the address or the secret."""
    values = await _values(request)
    by.app.webhook_url = values.maybe_text("url") or by.app.webhook_url
    by.app.webhook_secret = values.maybe_text("secret") or by.app.webhook_secret
    return _hook_config(by)


def _hook_config(by: AppIdentity) -> Json:
    secret = "********" if by.app.webhook_secret else None
    config: Json = {"content_type": "json", "insecure_ssl": "0", "url": by.app.webhook_url or ""}
    return {**config, "secret": secret} if secret else config


@router.get("/app/hook/deliveries")
async def list_deliveries(request: Request, by: AsApp) -> JSONResponse:
    """Deliveries, newest first, paged by an opaque cursor."""
    found = [d for d in reversed(_webhooks(request).deliveries) if d.app is by.app]
    found = [d for d in found if d.status != "queued"]
    size = min(int(request.query_params.get("per_page", "30")), 100)
    cursor = request.query_params.get("cursor", "")
    if cursor.startswith("v1_"):
        found = [d for d in found if d.id < int(cursor.removeprefix("v1_"))]
    shown = found[:size]
    headers = {}
    if len(found) > size:
        world = story_of(request).world
        address = f"{world.api_url}/app/hook/deliveries?per_page={size}&cursor=v1_{shown[-1].id}"
        headers["Link"] = f'<{address}>; rel="next"'
    return JSONResponse([delivery_item(d) for d in shown], headers=headers)


@router.get("/app/hook/deliveries/{number}")
async def get_delivery(request: Request, by: AsApp, number: int) -> Json:
    """One delivery with request and response."""
    return full_delivery(_delivery(request, by, number))


@router.post("/app/hook/deliveries/{number}/attempts", status_code=202)
async def redeliver(request: Request, by: AsApp, number: int) -> Json:
    """Send a delivery again, under its old GUID."""
    _webhooks(request).redeliver(_delivery(request, by, number))
    return {}


def _delivery(request: Request, by: AppIdentity, number: int) -> Delivery:
    for delivery in _webhooks(request).deliveries:
        if delivery.id == number and delivery.app is by.app:
            return delivery
    raise not_found()


def _webhooks(request: Request) -> Webhooks:
    return story_of(request).webhooks


@router.get("/user/installations")
async def installations_for_user(call: Caller) -> JSONResponse:
    """For a person signed in through an App: where that App is installed for them."""
    who, app = call.actor.who(), call.actor.app
    if app is None:
        raise forbidden("You must authenticate with an access token authorized to a GitHub App")
    seen = [
        i
        for i in call.world.installations.values()
        if i.app is app
        and not i.deleted
        and any(
            i.covers(r) and call.world.role(who, r) != "none"
            for r in call.world.repositories.values()
        )
    ]
    return call.paged(seen, lambda i: shapes.installation(call.world, i), wrapped="installations")


@router.get("/repos/{owner}/{name}/hooks")
async def repository_hooks(at: Repo) -> list[Json]:
    """Repositories here have no hooks of their own: Apps have."""
    at.demand("repository_hooks", "read", "admin")
    return []
