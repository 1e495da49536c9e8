"""The pages an App sends people to: register it from a manifest, install it, sign in with it.

In: a browser. Out: a page that asks who agrees, and the redirect back to whoever asked.
"""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode, urlsplit

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response

from evals.loopback import installing, manifests, shapes, signin
from evals.loopback.auth import Actor
from evals.loopback.errors import GitHubError, forbidden, invalid, not_found
from evals.loopback.forms import demand_same_site
from evals.loopback.pages import show
from evals.loopback.state import Account, App, Json
from evals.loopback.story import story_of

router = APIRouter()


async def _fields(request: Request) -> dict[str, str]:
    return {key: str(value) for key, value in (await request.form()).items()}


def _agreeing(request: Request, fields: dict[str, str]) -> Actor:
    demand_same_site(request)
    return story_of(request).acting(fields.get("as", ""))


# --- registering from a manifest ---


@router.post("/settings/apps/new")
@router.post("/organizations/{login}/settings/apps/new")
async def offer_app(request: Request, login: str | None = None) -> Response:
    """Another site's form posts a manifest here; the person sees it before agreeing."""
    world, fields = story_of(request).world, await _fields(request)
    manifest = manifests.parse_manifest(fields.get("manifest", ""))
    if manifest is None:
        raise invalid("Manifest is not a JSON object", message="Invalid manifest")
    objections = manifests.objections_to(world, manifest)
    if objections:
        raise invalid(*objections, message="Invalid GitHub App configuration")
    return show(
        request,
        "register.html",
        leads_to=manifest["redirect_url"],
        manifest=manifest,
        text=fields["manifest"],
        state=request.query_params.get("state", ""),
        owner=login or "",
    )


@router.post("/settings/apps/create")
async def create_app(request: Request) -> Response:
    """The person agrees; back to the manifest's address with a code."""
    world, fields = story_of(request).world, await _fields(request)
    who = _agreeing(request, fields).who()
    manifest = manifests.parse_manifest(fields.get("manifest", "")) or {}
    objections = manifests.objections_to(world, manifest)
    if objections:
        raise invalid(*objections, message="Invalid GitHub App configuration")
    owner = world.account(fields["owner"]) if fields.get("owner") else who
    if owner is None:
        raise not_found()
    code = story_of(request).registrations.register(world, owner, manifest)
    return _back(manifest["redirect_url"], code=code, state=fields.get("state", ""))


@router.post("/app-manifests/{code}/conversions", status_code=201)
async def convert(request: Request, code: str) -> Json:
    """Exchange the code for the App and its secrets, once."""
    world = story_of(request).world
    app = story_of(request).registrations.exchange(world, code)
    if app is None:
        raise not_found()
    return {
        **shapes.app(world, app),
        "client_id": app.client_id,
        "client_secret": app.client_secret,
        "webhook_secret": app.webhook_secret,
        "pem": app.private_key,
    }


# --- installing ---


@router.get("/apps/{slug}/installations/new")
async def offer_installation(request: Request, slug: str) -> Response:
    """Where an App sends people to install it."""
    world, app = story_of(request).world, _app(request, slug)
    owners = {repository.owner.login for repository in world.repositories.values()}
    return show(request, "install.html", app=app, owners=sorted(owners))


@router.post("/apps/{slug}/installations/new")
async def install(request: Request, slug: str) -> Response:
    """The person installs the App on all repositories of an account."""
    world, fields = story_of(request).world, await _fields(request)
    who, app = _agreeing(request, fields).who(), _app(request, slug)
    owner = world.account(fields.get("owner", ""))
    mine = [r for r in world.repositories.values() if r.owner is owner]
    if owner is None or not all(world.role(who, r) == "admin" for r in mine):
        raise forbidden(f"{who.login} may not install Apps there.")
    installing.install(world, app, owner, repositories=None, by=who)
    return RedirectResponse("/_loopback", 303)


def _app(request: Request, slug: str) -> App:
    found = [app for app in story_of(request).world.apps.values() if app.slug == slug]
    if not found:
        raise not_found()
    return found[0]


# --- signing in ---


@router.get("/login/oauth/authorize")
async def ask_consent(request: Request) -> Response:
    """Where an App sends people to sign in."""
    app, redirect = _asked(request)
    fields = dict(parse_qsl(request.url.query))
    return show(
        request, "consent.html", leads_to=redirect, app=app, redirect=redirect, fields=fields
    )


@router.post("/login/oauth/authorize")
async def give_consent(request: Request) -> Response:
    """The person agrees; back to the App with a code, or with `access_denied`."""
    fields = await _fields(request)
    account: Account = _agreeing(request, fields).who()
    app, redirect = _asked(request, fields)
    state = fields.get("state", "")
    if fields.get("deny"):
        return _back(redirect, error="access_denied", state=state)
    if fields.get("code_challenge") and fields.get("code_challenge_method") != "S256":
        raise GitHubError(422, "code_challenge_method must be S256")
    challenge = fields.get("code_challenge") or None
    code = story_of(request).signins.consent(
        story_of(request).world, app, account, redirect_uri=redirect, challenge=challenge
    )
    return _back(redirect, code=code, state=state)


def _asked(request: Request, fields: dict[str, str] | None = None) -> tuple[App, str]:
    asked = fields if fields is not None else dict(request.query_params)
    app = signin.app_of_client(story_of(request).world, asked.get("client_id", ""))
    if app is None:
        raise not_found()
    redirect = signin.redirect_for(app, asked.get("redirect_uri") or None)
    if redirect is None:
        raise GitHubError(422, "The redirect_uri is not associated with this application.")
    return app, redirect


@router.post("/login/oauth/access_token")
async def access_token(request: Request) -> Response:
    """The App's server exchanges a code; the answer's form follows `Accept`."""
    if "json" in request.headers.get("content-type", ""):
        values = {key: str(value) for key, value in (await request.json()).items()}
    else:
        values = {**dict(request.query_params), **await _fields(request)}
    answer = story_of(request).signins.token(story_of(request).world, values)
    if "json" in request.headers.get("accept", ""):
        return JSONResponse(answer)
    return PlainTextResponse(urlencode(answer), media_type="application/x-www-form-urlencoded")


def _back(address: str, **more: str) -> Response:
    joint = "&" if urlsplit(address).query else "?"
    said = urlencode({key: value for key, value in more.items() if value})
    return RedirectResponse(f"{address}{joint}{said}", 302)
