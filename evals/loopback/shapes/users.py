"""Accounts as JSON."""

from __future__ import annotations

from datetime import datetime

from evals.loopback.state import (
    GHOST_ID,
    Account,
    Json,
    node_id,
)
from evals.loopback.world import World

_LINKS = {
    "followers_url": "/followers",
    "following_url": "/following{/other_user}",
    "gists_url": "/gists{/gist_id}",
    "starred_url": "/starred{/owner}{/repo}",
    "subscriptions_url": "/subscriptions",
    "organizations_url": "/orgs",
    "repos_url": "/repos",
    "events_url": "/events{/privacy}",
    "received_events_url": "/received_events",
}


def moment(at: datetime | None) -> str | None:
    """A time as GitHub writes it: UTC, whole seconds, `Z`."""
    return at.strftime("%Y-%m-%dT%H:%M:%SZ") if at else None


def ghost() -> Account:
    """The account GitHub shows where a deleted one stood."""
    return Account(id=GHOST_ID, login="ghost")


def user(world: World, account: Account) -> Json:
    """A `simple-user`; a deleted account shows as the ghost."""
    shown = ghost() if account.deleted else account
    api = f"{world.api_url}/users/{shown.login}"
    web = f"{world.url}/apps/{shown.login.removesuffix('[bot]')}"
    return {
        "login": shown.login,
        "id": shown.id,
        "node_id": node_id("U", shown.id),
        "avatar_url": f"{world.url}/avatars/u/{shown.id}",
        "gravatar_id": "",
        "url": api,
        "html_url": web if shown.type == "Bot" else f"{world.url}/{shown.login}",
        **{key: api + path for key, path in _LINKS.items()},
        "type": shown.type,
        "user_view_type": "public",
        "site_admin": False,
    }


def user_or_none(world: World, account: Account | None) -> Json | None:
    """A `nullable-simple-user`: None for nobody and for deleted accounts."""
    return None if account is None or account.deleted else user(world, account)


def public_user(world: World, account: Account) -> Json:
    """A `public-user`, as `GET /users/{login}` and `GET /user` answer."""
    at = "2020-01-01T00:00:00Z"
    return {
        **user(world, account),
        "name": account.name,
        "company": None,
        "blog": "",
        "location": None,
        "email": None,
        "hireable": None,
        "bio": None,
        "twitter_username": None,
        "public_repos": 0,
        "public_gists": 0,
        "followers": 0,
        "following": 0,
        "created_at": at,
        "updated_at": at,
    }
