"""The one place that talks to GitHub. In: ids and credentials. Out: the port's facts or errors.

Why so much care around a client library: measured on githubkit 0.16, it re-sends a POST after a
502, its HTTP cache served one token's answer to another, its token cache is global to the process
and ignores the address, and nothing times out. So: no retries of its own, no HTTP cache, tokens
kept in `bot.github.access`, a deadline on every call; no redirect is followed, so that no token
ever reaches another host.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, NoReturn, TypeVar
from urllib.parse import parse_qsl, quote, urlsplit

import httpx
from githubkit import AppAuthStrategy, GitHub, Response, TokenAuthStrategy
from githubkit.cache import MemCacheStrategy
from githubkit.config import get_config
from githubkit.exception import (
    GraphQLFailed,
    RateLimitExceeded,
    RequestError,
    RequestFailed,
    RequestTimeout,
)
from pydantic import SecretStr, ValidationError

from bot.github.access import Grant, Json, Purpose, Tokens
from bot.github.door import Answer, BadCredentials, Door, Moved, Query, read_all_pages
from bot.github.port import (
    AccessLost,
    AppFacts,
    GitHubError,
    GitHubRefused,
    GitHubRepository,
    GitHubUnavailable,
    HookDelivery,
    InstallationFacts,
    NotFound,
    RateLimited,
    RepositoryFacts,
    WebhookConfig,
)
from bot.github.rate import RateBudget, asking_for, parse_budget
from bot.github.repository import Repository
from bot.github.wire import (
    parse_app,
    parse_delivery,
    parse_installation,
    parse_repository,
    parse_webhook_config,
)

_Auth = AppAuthStrategy | TokenAuthStrategy
_Result = TypeVar("_Result")

_VERSION: Final = {"X-GitHub-Api-Version": "2022-11-28"}
_DEFAULT_WAIT_SECONDS: Final = 60.0
_LONGEST_WAIT_SECONDS: Final = 3600.0


class GitHubClient:
    """`GitHubApp` over HTTP. One per process and address; close it with `aclose`."""

    def __init__(
        self,
        *,
        app_id: int,
        private_key: SecretStr,
        api_url: str,
        timeout_seconds: float = 15,
        on_budget: Callable[[RateBudget], None] | None = None,
    ) -> None:
        self._app_id = app_id
        self._private_key = private_key
        self._wire = _Wire(api_url, timeout_seconds, on_budget)
        self._tokens = Tokens(self._mint)
        self._app: AppFacts | None = None
        self._app_ids: dict[str, int | None] = {}

    async def app(self) -> AppFacts:
        """See the port."""
        if self._app is None:
            self._app = parse_app(await self._as_app("GET", "app"))
        return self._app

    def repository(self, installation_id: int, repository_id: int) -> GitHubRepository:
        """See the port."""
        return Repository(Door(self, installation_id, repository_id))

    async def token(self, repository_id: int, installation_id: int, *, write: bool) -> SecretStr:
        """See the port."""
        purpose = Purpose.GIT_WRITE if write else Purpose.GIT_READ
        return SecretStr(await self._tokens.get(Grant(installation_id, repository_id, purpose)))

    async def installations(self) -> tuple[InstallationFacts, ...]:
        """See the port."""
        raws = await read_all_pages(self._page_as_app, "app/installations", "", {})
        return tuple(parse_installation(raw) for raw in raws)

    async def installation(self, installation_id: int) -> InstallationFacts | None:
        """See the port."""
        try:
            raw = await self._as_app("GET", f"app/installations/{installation_id}")
        except NotFound:
            return None
        return parse_installation(raw)

    async def installed_repositories(self, installation_id: int) -> tuple[RepositoryFacts, ...]:
        """See the port."""
        return await self.covered_repositories(Grant(installation_id, None, Purpose.LIST))

    async def installation_of(self, full_name: str) -> InstallationFacts | None:
        """See the port."""
        owner, _, name = full_name.partition("/")
        path = f"repos/{quote(owner, safe='')}/{quote(name, safe='')}/installation"
        try:
            return parse_installation(await self._as_app("GET", path))
        except NotFound:
            return None

    async def webhook_config(self) -> WebhookConfig:
        """See the port."""
        return parse_webhook_config(await self._as_app("GET", "app/hook/config"))

    async def deliveries(self, *, since: datetime) -> tuple[HookDelivery, ...]:
        """See the port."""

        def enough(raws: list[Json]) -> bool:
            return bool(raws) and parse_delivery(raws[-1]).delivered_at < since

        raws = await read_all_pages(self._page_as_app, "app/hook/deliveries", "", {}, enough)
        found = (parse_delivery(raw) for raw in raws)
        return tuple(delivery for delivery in found if delivery.delivered_at >= since)

    async def redeliver(self, delivery_id: int) -> None:
        """See the port."""
        await self._as_app("POST", f"app/hook/deliveries/{delivery_id}/attempts")

    async def aclose(self) -> None:
        """See the port."""
        await self._wire.aclose()

    # --- for the doors --------------------------------------------------------------------------

    @property
    def app_id(self) -> int:
        """This App's id, as configured."""
        return self._app_id

    async def exchange(
        self, grant: Grant, method: str, path: str, *, query: Query | None, body: Json | None
    ) -> Answer:
        """Send one request with a token for `grant`."""
        return await self._authorised(
            grant, lambda auth: self._wire.exchange(auth, method, path, query=query, body=body)
        )

    async def graphql(
        self, grant: Grant, query: str, variables: Mapping[str, object], *, reads: bool
    ) -> Json:
        """Send one GraphQL document with a token for `grant`."""
        return await self._authorised(
            grant, lambda auth: self._wire.graphql(auth, query, variables, reads=reads)
        )

    async def covered_repositories(self, grant: Grant) -> tuple[RepositoryFacts, ...]:
        """Return the repositories a token for `grant` opens."""

        async def page(path: str, query: Query) -> Answer:
            return await self.exchange(grant, "GET", path, query=query, body=None)

        raws = await read_all_pages(page, "installation/repositories", "repositories", {})
        return tuple(parse_repository(raw) for raw in raws)

    async def app_id_of(self, grant: Grant, bot_login: str) -> int | None:
        """Return the App behind a bot's login; remembered, since it never changes."""
        if bot_login not in self._app_ids:
            slug = quote(bot_login.removesuffix("[bot]"), safe="")
            try:
                raw = (
                    await self.exchange(grant, "GET", f"apps/{slug}", query=None, body=None)
                ).json
                self._app_ids[bot_login] = int(raw["id"])
            except NotFound:
                self._app_ids[bot_login] = None
        return self._app_ids[bot_login]

    # --- authorisation --------------------------------------------------------------------------

    async def _authorised(
        self, grant: Grant, call: Callable[[_Auth], Awaitable[_Result]]
    ) -> _Result:
        token = await self._tokens.get(grant)
        try:
            with asking_for(grant.installation_id):
                return await call(TokenAuthStrategy(token))
        except BadCredentials:  # nothing was done: asking again with a new token is safe
            self._tokens.drop(grant, token)
        token = await self._tokens.get(grant)
        with asking_for(grant.installation_id):
            return await call(TokenAuthStrategy(token))

    async def _mint(self, grant: Grant) -> str:
        body: Json = {"permissions": dict(grant.purpose.permissions)}
        if grant.repository_id is not None:
            body["repository_ids"] = [grant.repository_id]
        path = f"app/installations/{grant.installation_id}/access_tokens"
        try:
            return str((await self._as_app("POST", path, body))["token"])
        except BadCredentials:
            raise
        except GitHubRefused as refused:
            if "permission" in refused.message.lower():
                raise
            raise AccessLost(refused.message, status=refused.status) from None

    async def _as_app(self, method: str, path: str, body: Json | None = None) -> Any:
        auth = AppAuthStrategy(self._app_id, self._private_key.get_secret_value())
        answer = await self._wire.exchange(auth, method, path, query=None, body=body)
        return answer.json

    async def _page_as_app(self, path: str, query: Query) -> Answer:
        auth = AppAuthStrategy(self._app_id, self._private_key.get_secret_value())
        return await self._wire.exchange(auth, "GET", path, query=query, body=None)


# --- one exchange -------------------------------------------------------------------------------


class _SharedTransport(httpx.AsyncBaseTransport):
    """One connection pool behind the many short-lived clients githubkit makes."""

    def __init__(
        self, timeout_seconds: float, on_budget: Callable[[RateBudget], None] | None
    ) -> None:
        self._on_budget = on_budget
        self._pool = httpx.AsyncHTTPTransport(
            limits=httpx.Limits(max_connections=20, keepalive_expiry=timeout_seconds)
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._pool.handle_async_request(request)
        if self._on_budget is not None and (budget := parse_budget(response.headers)) is not None:
            self._on_budget(budget)
        return response

    async def aclose(self) -> None:
        """A client ended, the pool goes on."""

    async def close_pool(self) -> None:
        await self._pool.aclose()


class _Wire:
    """Requests and answers, with GitHub's failures in our words."""

    def __init__(
        self,
        api_url: str,
        timeout_seconds: float,
        on_budget: Callable[[RateBudget], None] | None,
    ) -> None:
        self._timeout_seconds = timeout_seconds
        self._transport = _SharedTransport(timeout_seconds, on_budget)
        self._config = get_config(
            base_url=api_url,
            user_agent="ultracode-bot",
            follow_redirects=False,
            timeout=timeout_seconds,
            trust_env=False,
            async_transport=self._transport,
            http_cache=False,
            auto_retry=False,
        )

    async def aclose(self) -> None:
        await self._transport.close_pool()

    async def exchange(
        self, auth: _Auth, method: str, path: str, *, query: Query | None, body: Json | None
    ) -> Answer:
        async def call(github: GitHub[Any]) -> Response[Any]:
            return await github.arequest(
                method, path, params=query and dict(query), json=body, headers=_VERSION
            )

        return _answer(await self._call(auth, call, method, path, reads=method == "GET"))

    async def graphql(
        self, auth: _Auth, query: str, variables: Mapping[str, object], *, reads: bool
    ) -> Json:
        async def call(github: GitHub[Any]) -> Json:
            return await github.async_graphql(query, dict(variables))

        return await self._call(auth, call, "POST", "graphql", reads=reads)

    async def _call(
        self,
        auth: _Auth,
        call: Callable[[GitHub[Any]], Awaitable[_Result]],
        method: str,
        path: str,
        *,
        reads: bool,
    ) -> _Result:
        """Call once; a read that met a broken connection or a 5xx once more."""
        # A cache of its own keeps App JWTs from outliving the call; the name keeps the client
        # alive, which githubkit holds by weak references only.
        config = dataclasses.replace(self._config, cache_strategy=MemCacheStrategy())
        github: GitHub[Any] = GitHub(auth, config=config)
        for last in (not reads, True):
            try:
                async with asyncio.timeout(self._timeout_seconds):
                    return await call(github)
            except (TimeoutError, RequestTimeout):
                _raise(GitHubUnavailable(f"GitHub did not answer in time ({method} {path})"))
            except (RequestError, GraphQLFailed, RateLimitExceeded, ValueError) as error:
                translated = _in_our_words(error, f"{method} {path}")
                if last or not isinstance(translated, GitHubUnavailable):
                    _raise(translated)
        raise AssertionError("unreachable")


def _raise(error: GitHubError) -> NoReturn:
    """Raise without a cause: the cause holds the request, and with it the token."""
    raise error from None


def _answer(response: Response[Any]) -> Answer:
    if response.status_code in range(300, 400):
        raise Moved("GitHub answered with a redirect", status=response.status_code)
    link = response.raw_response.links.get("next", {}).get("url")
    next_query = dict(parse_qsl(urlsplit(link).query)) if link else None
    try:
        return Answer(response.json() if response.content else None, next_query)
    except ValueError:
        raise GitHubUnavailable("GitHub's answer is not JSON") from None


# --- GitHub's failures in our words -------------------------------------------------------------


def _in_our_words(error: Exception, where: str) -> GitHubError:
    if isinstance(error, RateLimitExceeded):
        return _rate_limited(error.response, where)
    if isinstance(error, RequestFailed):
        return _failed(error.response, where)
    if isinstance(error, GraphQLFailed):
        message = "; ".join(found.message for found in error.response.errors or ())
        missing = any(found.type == "NOT_FOUND" for found in error.response.errors or ())
        return NotFound(message, status=404) if missing else GitHubRefused(message, status=200)
    if isinstance(error, RequestError):
        return GitHubUnavailable(f"GitHub could not be reached ({where}: {error.exc!r})")
    if isinstance(error, ValueError) and not isinstance(error, ValidationError):
        # githubkit reads `Retry-After` as a whole number and trips over anything else
        return RateLimited(_DEFAULT_WAIT_SECONDS, f"GitHub's rate limit ({where})")
    return GitHubUnavailable(f"GitHub's answer was not understood ({where})")


def _failed(response: Response[Any], where: str) -> GitHubError:
    status, message = response.status_code, _message(response)
    if status == 429 or (status == 403 and _speaks_of_limits(response, message)):  # noqa: PLR2004 - HTTP
        return _rate_limited(response, where)
    if status >= 500:  # noqa: PLR2004 - server errors
        return GitHubUnavailable(f"GitHub failed with {status} ({where})")
    kinds: Mapping[int, type[GitHubRefused]] = {401: BadCredentials, 404: NotFound, 410: NotFound}
    return kinds.get(status, GitHubRefused)(message, status=status, where=where)


def _rate_limited(response: Response[Any], where: str) -> RateLimited:
    sentence = f"GitHub's rate limit ({where}): {_message(response)}"
    return RateLimited(_wait_seconds(response), sentence)


def _speaks_of_limits(response: Response[Any], message: str) -> bool:
    """A 403 is a limit by header, by nothing remaining, or (secondary limits) by words only."""
    spent = response.headers.get("x-ratelimit-remaining") == "0"
    return spent or "retry-after" in response.headers or "rate limit" in message.lower()


def _message(response: Response[Any]) -> str:
    try:
        raw = response.json()
        details = [
            d.get("message") or d.get("code") for d in raw.get("errors", ()) if isinstance(d, dict)
        ]
        details += [d for d in raw.get("errors", ()) if isinstance(d, str)]
        said = [str(raw["message"]), *(str(detail) for detail in details if detail)]
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"HTTP {response.status_code}"
    return ": ".join(said)[:2000]


def _wait_seconds(response: Response[Any]) -> float:
    """How long to wait, by GitHub's own clock where it names a moment."""
    headers = response.headers
    try:
        if "retry-after" in headers:
            seconds = float(headers["retry-after"])
        elif headers.get("x-ratelimit-remaining") == "0":
            now = parsedate_to_datetime(headers["date"]).timestamp()
            seconds = float(headers["x-ratelimit-reset"]) - now
        else:
            seconds = _DEFAULT_WAIT_SECONDS
    except (KeyError, ValueError, TypeError):
        seconds = _DEFAULT_WAIT_SECONDS
    return min(max(seconds, 1.0), _LONGEST_WAIT_SECONDS)
