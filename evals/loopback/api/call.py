"""What every REST call starts from: who speaks, about which repository, with which values.

In: the HTTP request. Out: a `Call`, or an `At` a repository that the speaker may see; typed values
from the JSON body; pages with `Link` headers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request
from fastapi.responses import JSONResponse

from evals.loopback.auth import Actor, AppIdentity, Level, actor_from, app_from, can_see, demand
from evals.loopback.errors import GitHubError, invalid_field, not_found
from evals.loopback.state import (
    Json,
    Repository,
    Role,
)
from evals.loopback.story import story_of
from evals.loopback.world import World

T = TypeVar("T")
_PAGE_DEFAULT = 30
_PAGE_MOST = 100


class Values:
    """The JSON body of a request, read field by field; unknown fields are ignored."""

    def __init__(self, values: Json) -> None:
        self.all = values

    def text(self, field: str) -> str:
        """A string that must be there."""
        value = self.all.get(field)
        if not isinstance(value, str):
            message = f'Invalid request.\n\n"{field}" wasn\'t supplied.'
            raise GitHubError(422, message if value is None else f"{field} is not a string.")
        return value

    def maybe_text(self, field: str) -> str | None:
        """A string, or None when absent or null."""
        return None if self.all.get(field) is None else self.text(field)

    def flag(self, field: str, *, default: bool = False) -> bool:
        """A boolean."""
        value = self.all.get(field)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise GitHubError(422, f"Invalid request.\n\n{value!r} is not a boolean.")
        return value

    def number(self, field: str) -> int:
        """An integer that must be there."""
        value = self.all.get(field)
        if not isinstance(value, int) or isinstance(value, bool):
            raise invalid_field("Request", field)
        return value

    def texts(self, field: str) -> list[str]:
        """A list of strings; empty when absent."""
        value = self.all.get(field) or []
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise GitHubError(422, f"Invalid request.\n\n{field} is not an array of strings.")
        return value


@dataclass
class Call:
    """One REST call and whoever makes it."""

    world: World
    request: Request
    actor: Actor

    async def values(self) -> Values:
        """The body, which must be a JSON object; 400 when it is not JSON."""
        raw = await self.request.body()
        if not raw:
            return Values({})
        try:
            parsed = json.loads(raw)
        except ValueError as problem:
            raise GitHubError(400, "Problems parsing JSON") from problem
        if not isinstance(parsed, dict):
            raise GitHubError(400, "Body should be a JSON object")
        return Values(parsed)

    async def list_or_field(self, field: str) -> list[str]:
        """Some calls take `{field: […]}`, or the bare list, or one string."""
        raw = await self.request.body()
        try:
            parsed: Any = json.loads(raw or b"{}")
        except ValueError as problem:
            raise GitHubError(400, "Problems parsing JSON") from problem
        value = parsed.get(field, []) if isinstance(parsed, dict) else parsed
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, list):
            raise GitHubError(422, f"Invalid request.\n\n{field} is not an array.")
        return [item["name"] if isinstance(item, dict) else str(item) for item in items]

    def paged(
        self, items: Sequence[T], shape: Callable[[T], Json], *, wrapped: str | None = None
    ) -> JSONResponse:
        """One page of a list, with `Link` to the others; `wrapped` gives `{total_count, …}`."""
        size, page = self._page()
        first = (page - 1) * size
        shown = [shape(item) for item in items[first : first + size]]
        last = max(1, -(-len(items) // size))
        content: Any = shown if wrapped is None else {"total_count": len(items), wrapped: shown}
        headers = {"Link": link} if (link := self._links(page, last)) else {}
        return JSONResponse(content, headers=headers)

    def _page(self) -> tuple[int, int]:
        def positive(name: str, default: int) -> int:
            text = self.request.query_params.get(name, "")
            return max(1, int(text)) if text.isdecimal() else default

        return min(positive("per_page", _PAGE_DEFAULT), _PAGE_MOST), positive("page", 1)

    def _links(self, page: int, last: int) -> str:
        path = self.request.scope.get("original_path", self.request.url.path)
        address = self.request.url.replace(path=path)
        here = f"{self.world.url}{address.path}"
        wanted: dict[str, int] = {}
        if page > 1:
            wanted |= {"prev": min(page - 1, last), "first": 1}
        if page < last:
            wanted |= {"next": page + 1, "last": last}
        query = self.request.url.remove_query_params("page").query
        prefix = f"{here}?{query}&" if query else f"{here}?"
        return ", ".join(f'<{prefix}page={n}>; rel="{rel}"' for rel, n in wanted.items())

    def filter(self, name: str, default: str = "") -> str:
        """A query parameter."""
        return self.request.query_params.get(name, default)


@dataclass
class At(Call):
    """A call about one repository that the speaker may see."""

    repository: Repository

    def demand(self, permission: str, level: Level, role: Role = "read") -> None:
        """Refuse unless the speaker has the App permission, or a person the role."""
        demand(self.world, self.actor, self.repository, permission, level, role)


def _call(request: Request) -> Call:
    world = story_of(request).world
    return Call(world, request, actor_from(world, request.headers.get("authorization")))


def _at(request: Request, owner: str, name: str) -> At:
    call = _call(request)
    repository = call.world.repository(owner, name)
    if repository is None:
        moved = call.world.formerly(owner, name)
        if moved is not None and can_see(call.world, call.actor, moved):
            raise _moved(call, moved, owner, name)
        raise not_found()
    if not can_see(call.world, call.actor, repository):
        raise not_found()
    return At(call.world, request, call.actor, repository)


def _moved(call: Call, repository: Repository, owner: str, name: str) -> GitHubError:
    rest = call.request.url.path.split(f"/repos/{owner}/{name}", 1)[1]
    where = f"{call.world.api_url}/repositories/{repository.id}{rest}"
    query = f"?{call.request.url.query}" if call.request.url.query else ""
    status = 301 if call.request.method in ("GET", "HEAD") else 307
    return GitHubError(status, "Moved Permanently", headers={"Location": where + query})


def _app(request: Request) -> AppIdentity:
    return app_from(story_of(request).world, request.headers.get("authorization"))


Caller = Annotated[Call, Depends(_call)]
Repo = Annotated[At, Depends(_at)]
AsApp = Annotated[AppIdentity, Depends(_app)]
