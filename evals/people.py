"""People on the stage: what somebody does and sees on GitHub, over its REST API and nothing else.

In: an API address, a login and a token. Out: issues, comments, reviews and checks as a person finds
them. Works the same against the loopback GitHub and the real one.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import httpx

Json = dict[str, Any]
PATIENCE_SECONDS = 120.0
LOOK_SECONDS = 0.1


class NeverHappened(AssertionError):
    """What a person waited for did not come; the message says what was there instead."""


@dataclass(frozen=True)
class Person:
    """Somebody with a token, in one repository."""

    api: str
    repository: str
    login: str
    token: str

    # --- what they do ----------------------------------------------------------------------------

    async def open_issue(self, title: str, body: str = "") -> int:
        """Open an issue; return its number."""
        issue = await self._call("POST", "/issues", {"title": title, "body": body})
        return int(issue["number"])

    async def comment(self, number: int, body: str) -> int:
        """Comment on an issue or pull request; return the comment's id."""
        comment = await self._call("POST", f"/issues/{number}/comments", {"body": body})
        return int(comment["id"])

    async def label(self, number: int, name: str) -> None:
        """Put a label on an issue."""
        await self._call("POST", f"/issues/{number}/labels", {"labels": [name]})

    async def review(
        self, pull: int, event: str = "APPROVE", *, body: str = "", commit: str | None = None
    ) -> int:
        """Review a pull request, at its head unless `commit` is given; return the review's id."""
        wanted = {"event": event, "body": body} | ({"commit_id": commit} if commit else {})
        return int((await self._call("POST", f"/pulls/{pull}/reviews", wanted))["id"])

    async def rerequest(self, check: Json) -> None:
        """Ask for a check run again."""
        await self._call("POST", f"/check-runs/{check['id']}/rerequest")

    async def close(self, pull: int) -> None:
        """Close a pull request without merging it."""
        await self._call("PATCH", f"/pulls/{pull}", {"state": "closed"})

    async def merge(self, pull: int, method: str = "merge") -> str:
        """Merge a pull request by hand; return the merge's SHA."""
        merged = await self._call("PUT", f"/pulls/{pull}/merge", {"merge_method": method})
        return str(merged["sha"])

    async def lock(self, branch: str) -> None:
        """Let nobody push to a branch; takes an admin."""
        rules: Json = {
            "required_status_checks": None,
            "enforce_admins": True,
            "required_pull_request_reviews": None,
            "restrictions": None,
            "lock_branch": True,
        }
        await self._call("PUT", f"/branches/{branch}/protection", rules)

    async def unlock(self, branch: str) -> None:
        """Take all protection off a branch; takes an admin."""
        await self._call("DELETE", f"/branches/{branch}/protection")

    async def commit_file(self, branch: str, path: str, content: str) -> str:
        """Commit one file to a branch; return the commit's SHA."""
        found = await self._find("GET", f"/contents/{path}?ref={branch}")
        encoded = base64.b64encode(content.encode()).decode()
        body = {"message": f"Write {path}", "content": encoded, "branch": branch}
        if found is not None:
            body["sha"] = found["sha"]
        return str((await self._call("PUT", f"/contents/{path}", body))["commit"]["sha"])

    # --- what they see ---------------------------------------------------------------------------

    async def facts(self) -> Json:
        """Return the repository itself."""
        return await self._call("GET", "")

    async def issue(self, number: int) -> Json:
        """Return an issue."""
        return await self._call("GET", f"/issues/{number}")

    async def comments(self, number: int) -> list[Json]:
        """Return the comments on an issue or pull request, oldest first."""
        return await self._all(f"/issues/{number}/comments")

    async def reactions(self, comment: int) -> list[str]:
        """Return the reactions on a comment."""
        found = await self._all(f"/issues/comments/{comment}/reactions")
        return [reaction["content"] for reaction in found]

    async def pulls(self) -> list[Json]:
        """Return all pull requests, open and closed."""
        return await self._all("/pulls", state="all")

    async def pull(self, number: int) -> Json:
        """Return a pull request."""
        return await self._call("GET", f"/pulls/{number}")

    async def reviews(self, pull: int) -> list[Json]:
        """Return all reviews of a pull request, oldest first."""
        return await self._all(f"/pulls/{pull}/reviews")

    async def checks(self, sha: str) -> list[Json]:
        """Return every check run on a commit."""
        return await self._all(f"/commits/{sha}/check-runs", key="check_runs", filter="all")

    async def branch(self, name: str) -> str | None:
        """Return where a branch points, or None."""
        found = await self._find("GET", f"/git/ref/heads/{name}")
        return None if found is None else str(found["object"]["sha"])

    async def commits(self, name: str) -> list[Json]:
        """Return the history of a branch, newest first."""
        return await self._all("/commits", sha=name)

    # --- waiting ---------------------------------------------------------------------------------

    async def until(
        self,
        look: Callable[[], Awaitable[Any]],
        *,
        seconds: float = PATIENCE_SECONDS,
        pause: float = LOOK_SECONDS,
        what: str = "it",
    ) -> Any:
        """Look again and again until something truthy is there; return it."""
        deadline = time.monotonic() + seconds
        while True:
            seen = await look()
            if seen:
                return seen
            if time.monotonic() > deadline:
                raise NeverHappened(f"{what} did not come within {seconds:.0f} s")
            await asyncio.sleep(pause)

    # --- HTTP ------------------------------------------------------------------------------------

    async def _call(self, method: str, path: str, body: Json | None = None) -> Json:
        async with self._client() as client:
            answer = await client.request(method, self._url(path), json=body)
            if answer.is_error:
                raise httpx.HTTPStatusError(
                    f"{method} {path}: {answer.status_code} {answer.text[:500]}",
                    request=answer.request,
                    response=answer,
                )
            found: Json = answer.json() if answer.content else {}
            return found

    async def _find(self, method: str, path: str) -> Json | None:
        try:
            return await self._call(method, path)
        except httpx.HTTPStatusError as missing:
            if missing.response.status_code == httpx.codes.NOT_FOUND:
                return None
            raise

    async def _all(self, path: str, key: str | None = None, **query: str) -> list[Json]:
        found: list[Json] = []
        async with self._client() as client:
            url: str | None = self._url(path)
            params: dict[str, str] | None = {"per_page": "100", **query}
            while url:
                answer = await client.get(url, params=params)
                answer.raise_for_status()
                page = answer.json()
                found += page[key] if key else page
                url, params = answer.links.get("next", {}).get("url"), None
        return found

    def _client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            headers={
                "authorization": f"Bearer {self.token}",
                "accept": "application/vnd.github+json",
            },
            timeout=30,
            trust_env=False,
        )

    def _url(self, path: str) -> str:
        return f"{self.api}/repos/{self.repository}{path}"
