"""The way to one repository. In: paths below it. Out: answers, with its name and tokens added.

Why: a repository keeps its id but not its name. The name is read when first needed, and again when
GitHub answers with a redirect; nothing else ever follows one. Lists are read to their end.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from bot.github.access import Grant, Json, Purpose
from bot.github.port import AccessLost, GitHubError, GitHubRefused, NotFound, RepositoryFacts

Query = Mapping[str, str | int]

_MAX_PAGES: Final = 200


class BadCredentials(GitHubRefused):
    """GitHub does not accept the token (401)."""


class Moved(GitHubRefused):
    """GitHub answered with a redirect: the repository has another name by now."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: its JSON (None when empty), and the query of the next page, if there is one."""

    json: Any
    next_query: dict[str, str] | None


class Exchange(Protocol):
    """What a door needs of the client. Every method raises the port's errors."""

    @property
    def app_id(self) -> int:
        """This App's id."""
        ...

    async def exchange(
        self, grant: Grant, method: str, path: str, *, query: Query | None, body: Json | None
    ) -> Answer:
        """Send one request with a token for `grant`."""
        ...

    async def graphql(
        self, grant: Grant, query: str, variables: Mapping[str, object], *, reads: bool
    ) -> Json:
        """Send one GraphQL document with a token for `grant`."""
        ...

    async def covered_repositories(self, grant: Grant) -> tuple[RepositoryFacts, ...]:
        """Return the repositories a token for `grant` opens."""
        ...

    async def app_id_of(self, grant: Grant, bot_login: str) -> int | None:
        """Return the App behind a bot's login, or None."""
        ...


async def read_all_pages(
    page: Callable[[str, Query], Awaitable[Answer]],
    path: str,
    key: str,
    query: Query,
    enough: Callable[[list[Json]], bool] = lambda _: False,
) -> list[Json]:
    """Read a list to its end. Only the query of GitHub's `next` link is used, never its host.

    Args:
        page: Reads one page.
        path: Where the list is.
        key: Names the list where GitHub wraps it; empty where the answer is the list.
        query: Filters.
        enough: Whether what was read so far suffices.
    """
    items: list[Json] = []
    wanted: Query = {"per_page": 100, **query}
    for _ in range(_MAX_PAGES):
        answer = await page(path, wanted)
        items += answer.json[key] if key else answer.json
        if answer.next_query is None or enough(items):
            return items
        wanted = {**query, **answer.next_query}
    raise GitHubError(f"GitHub's list at {path} does not end")


class Door:
    """One repository through one installation. Paths are below it, or from the root (`/…`)."""

    def __init__(self, client: Exchange, installation_id: int, repository_id: int) -> None:
        self._client = client
        self.app_id = client.app_id
        self.installation_id = installation_id
        self.repository_id = repository_id
        self._facts: RepositoryFacts | None = None

    async def facts(self) -> RepositoryFacts:
        """Return the repository as it is now, and remember its name. Raises AccessLost."""
        covered = await self._client.covered_repositories(self._grant(Purpose.READ))
        self._facts = next((repo for repo in covered if repo.id == self.repository_id), None)
        if self._facts is None:
            raise AccessLost("The installation does not cover this repository.", status=404)
        return self._facts

    async def get(self, path: str, **query: str | int) -> Any | None:
        """Read one object; None where GitHub says 404."""
        try:
            return (await self._request("GET", path, query)).json
        except NotFound:
            return None

    async def pages(self, path: str, key: str = "", **query: str | int) -> list[Json]:
        """Read a whole list; `key` names it where GitHub wraps it. Raises NotFound."""

        async def page(path: str, query: Query) -> Answer:
            return await self._request("GET", path, query)

        return await read_all_pages(page, path, key, query)

    async def send(
        self, method: str, path: str, body: Json | None = None, *, purpose: Purpose = Purpose.TALK
    ) -> Any:
        """Write once: never repeated after an answer that leaves the outcome open."""
        return (await self._request(method, path, None, body, purpose)).json

    async def query(self, query: str, **variables: object) -> Json:
        """Ask GraphQL (`$owner`, `$name` are given); return the answer's `repository`."""
        facts = self._facts or await self.facts()
        named = {"owner": facts.owner.login, "name": facts.name, **variables}
        answer = await self._client.graphql(self._grant(Purpose.READ), query, named, reads=True)
        return dict(answer["repository"])

    async def mutate(self, mutation: str, **variables: object) -> None:
        """Change something only GraphQL can change. Sent once."""
        grant = self._grant(Purpose.CODE)
        await self._client.graphql(grant, mutation, variables, reads=False)

    async def app_id_of(self, bot_login: str) -> int | None:
        """Return the App behind a bot's login, or None."""
        return await self._client.app_id_of(self._grant(Purpose.READ), bot_login)

    def _grant(self, purpose: Purpose) -> Grant:
        return Grant(self.installation_id, self.repository_id, purpose)

    async def _request(
        self,
        method: str,
        path: str,
        query: Query | None,
        body: Json | None = None,
        purpose: Purpose = Purpose.READ,
    ) -> Answer:
        for attempt in (1, 2):
            full = await self._full_path(path)
            try:
                return await self._client.exchange(
                    self._grant(purpose), method, full, query=query, body=body
                )
            except Moved:  # renamed or transferred since its name was read; nothing was done
                if attempt == 2:  # noqa: PLR2004 - the second and last
                    raise
                self._facts = None
        raise AssertionError("unreachable")

    async def _full_path(self, path: str) -> str:
        if path.startswith("/"):
            return path.removeprefix("/")
        facts = self._facts or await self.facts()
        return f"repos/{facts.full_name}/{path}"
