"""Who is speaking, and what they may do.

In: the `Authorization` header of a request. Out: an `Actor` (a person, an installation, nobody) or
an `AppIdentity` (an App by its JWT), or a refusal in GitHub's words.
Rules: https://docs.github.com/apps/creating-github-apps/authenticating-with-a-github-app
"""

from __future__ import annotations

import base64
import binascii
import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

import jwt

from evals.loopback.errors import GitHubError, bad_credentials, forbidden, not_found
from evals.loopback.state import (
    ROLES,
    Account,
    App,
    Installation,
    Json,
    Repository,
    Role,
    Token,
)
from evals.loopback.world import World

Level = Literal["read", "write", "admin"]
_LEVELS = ("none", "read", "write", "admin")
_JWT_LIFE_SECONDS = 600
_JWT_DRIFT_SECONDS = 60
_INSTALLATION_TOKEN_LIFE = timedelta(hours=1)


@dataclass(frozen=True)
class Actor:
    """Whoever a request acts for; `account` None is an anonymous reader."""

    account: Account | None = None
    token: Token | None = None
    app: App | None = None  # set when an App acts, alone or for a person

    @property
    def installation(self) -> Installation | None:
        """The installation that acts, when no person does."""
        return self.token.installation if self.token else None

    def who(self) -> Account:
        """The account that acts; 401 for nobody."""
        if self.account is None:
            raise GitHubError(401, "Requires authentication")
        return self.account


@dataclass(frozen=True)
class AppIdentity:
    """An App that proved itself with its key."""

    app: App


def allows(permissions: dict[str, str], name: str, level: Level) -> bool:
    """Whether a set of App permissions contains at least this level."""
    return _LEVELS.index(permissions.get(name, "none")) >= _LEVELS.index(level)


def can_see(world: World, actor: Actor, repository: Repository) -> bool:
    """Whether the actor may know that the repository exists."""
    if actor.installation is None:
        hidden = actor.app and not _app_may(world, actor.app, repository, "metadata", "read")
        return not hidden and world.role(actor.account, repository) != "none"
    if not actor.installation.covers(repository):
        return not repository.private
    chosen = actor.token.repository_ids if actor.token else None
    return chosen is None or repository.id in chosen or not repository.private


def may(
    world: World, actor: Actor, repository: Repository, permission: str, level: Level, role: Role
) -> bool:
    """Whether an App has the permission here, or a person at least the role."""
    if actor.installation is not None and actor.token is not None:
        chosen = actor.token.repository_ids
        inside = actor.installation.covers(repository) and (
            chosen is None or repository.id in chosen
        )
        if not inside:
            return level == "read" and not repository.private
        return allows(actor.token.permissions or {}, permission, level)
    if actor.app is not None and not _app_may(world, actor.app, repository, permission, level):
        return False
    return ROLES.index(world.role(actor.account, repository)) >= ROLES.index(role)


def _app_may(world: World, app: App, repository: Repository, permission: str, level: Level) -> bool:
    """A person who signed in through an App may do no more than the App may."""
    installation = world.installation(app, repository)
    if installation is None or installation.suspended_at is not None:
        return level == "read" and not repository.private
    return allows(installation.permissions, permission, level)


def demand(
    world: World,
    actor: Actor,
    repository: Repository,
    permission: str | tuple[str, ...],
    level: Level,
    role: Role,
) -> None:
    """Refuse unless `may`; of several permissions an App needs one.

    Raises 404 where the repository is not to be known, 401 to nobody, 403 otherwise.
    """
    if not can_see(world, actor, repository):
        raise not_found()
    names = (permission,) if isinstance(permission, str) else permission
    if any(may(world, actor, repository, name, level, role) for name in names):
        if level != "read" and repository.archived:
            raise forbidden("Repository was archived so is read-only.")
        return
    if actor.installation is not None:
        raise forbidden()
    actor.who()
    if role == "admin":
        raise not_found()
    raise forbidden("Must have admin rights to Repository.")


# --- reading the header ---


def actor_from(world: World, header: str | None) -> Actor:
    """The person or installation behind a token; nobody when there is no header."""
    if not header:
        return Actor()
    scheme, _, value = header.partition(" ")
    if scheme.lower() not in ("bearer", "token", "basic"):
        raise bad_credentials()
    secret = _basic_password(value) if scheme.lower() == "basic" else value.strip()
    if secret.count(".") == 2 and secret.startswith("ey"):  # noqa: PLR2004 - a JWT's two dots
        raise GitHubError(401, "A JSON web token could not be decoded")
    return actor_of_token(world, secret)


def actor_of_token(world: World, value: str) -> Actor:
    """The actor behind a token value; 401 when it does not count, 403 when suspended."""
    token = world.tokens.get(value)
    if token is None or token.revoked or _expired(world, token):
        raise bad_credentials()
    if token.installation is not None:
        if token.installation.deleted:
            raise bad_credentials()
        if token.installation.suspended_at is not None:
            raise forbidden("This installation has been suspended")
        return Actor(token.installation.app.bot, token, token.installation.app)
    if token.account is None or token.account.deleted:
        raise bad_credentials()
    return Actor(token.account, token, token.app)


def app_from(world: World, header: str | None) -> AppIdentity:
    """The App behind an RS256 JWT, checked as GitHub checks it."""
    scheme, _, value = (header or "").partition(" ")
    if scheme.lower() != "bearer" or value.count(".") != 2:  # noqa: PLR2004 - a JWT's two dots
        raise GitHubError(401, "A JSON web token could not be decoded")
    app = _app_of_issuer(world, value)
    try:
        claims = jwt.decode(
            value,
            app.public_key,
            algorithms=["RS256"],
            options={"verify_exp": False, "verify_iat": False, "verify_sub": False},
        )
    except jwt.InvalidTokenError as problem:
        raise GitHubError(401, "A JSON web token could not be decoded") from problem
    _check_times(world, claims)
    return AppIdentity(app)


def _app_of_issuer(world: World, value: str) -> App:
    try:
        claims = jwt.decode(value, options={"verify_signature": False, "verify_sub": False})
    except jwt.InvalidTokenError as problem:
        raise GitHubError(401, "A JSON web token could not be decoded") from problem
    issuer = str(claims.get("iss", ""))
    for app in world.apps.values():
        if issuer in (str(app.id), app.client_id):
            return app
    raise GitHubError(401, "Integration not found")


def _check_times(world: World, claims: Json) -> None:
    now = world.now().timestamp()
    issued, expires = claims.get("iat"), claims.get("exp")
    if not isinstance(issued, int | float) or issued > now + _JWT_DRIFT_SECONDS:
        raise GitHubError(
            401, "'Issued at' claim ('iat') must be an Integer representing the time in the past"
        )
    if not isinstance(expires, int | float) or expires <= now:
        raise GitHubError(
            401,
            "'Expiration time' claim ('exp') must be a numeric value representing a future time",
        )
    if expires > now + _JWT_LIFE_SECONDS + _JWT_DRIFT_SECONDS:
        raise GitHubError(401, "'Expiration time' claim ('exp') is too far in the future")


def _basic_password(value: str) -> str:
    try:
        user, _, password = base64.b64decode(value, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError) as problem:
        raise bad_credentials() from problem
    return password if password not in ("", "x-oauth-basic") else user


def _expired(world: World, token: Token) -> bool:
    return token.expires_at is not None and token.expires_at <= world.now()


# --- making tokens ---


def mint_user_token(world: World, account: Account, *, app: App | None = None) -> Token:
    """A personal token, or a user-to-server token when an App acts for the person."""
    prefix = "ghu" if app else "ghp"
    token = Token(value=f"{prefix}_{secrets.token_urlsafe(27)}", account=account, app=app)
    world.tokens[token.value] = token
    return token


def mint_installation_token(
    world: World,
    installation: Installation,
    *,
    repositories: list[Repository] | None = None,
    permissions: dict[str, str] | None = None,
) -> Token:
    """An installation token, at most as wide as the installation, for one hour."""
    if installation.suspended_at is not None:
        raise forbidden("This installation has been suspended")
    granted = dict(installation.permissions)
    for name, level in (permissions or {}).items():
        if level not in _LEVELS or not allows(granted, name, level):  # type: ignore[arg-type]
            raise GitHubError(
                422,
                "The permissions requested are not granted to this installation.",
            )
    if any(not installation.covers(repository) for repository in repositories or []):
        raise GitHubError(
            422,
            "There is at least one repository that does not exist or is not accessible "
            "to the parent installation.",
        )
    token = Token(
        value=f"ghs_{secrets.token_urlsafe(39)}",
        app=installation.app,
        installation=installation,
        permissions={"metadata": "read", **permissions} if permissions else granted,
        repository_ids={r.id for r in repositories} if repositories else None,
        expires_at=world.now() + _INSTALLATION_TOKEN_LIFE,
    )
    world.tokens[token.value] = token
    return token
