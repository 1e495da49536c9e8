"""Rate limits: points per hour and content writes per minute and hour, by token.

In: each request. Out: the `x-ratelimit-*` headers, or GitHub's refusals when a limit is used up.
https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from evals.loopback.auth import Actor
from evals.loopback.errors import GitHubError
from evals.loopback.state import (
    Json,
)
from evals.loopback.world import World

_HOUR, _MINUTE = 3600, 60


@dataclass
class _Spent:
    window: int = 0
    used: int = 0
    writes: deque[float] = field(default_factory=deque)


@dataclass
class Limits:
    """The limits of one GitHub; tests lower them."""

    world: World
    requests_per_hour: int = 5000
    writes_per_minute: int = 80
    writes_per_hour: int = 500
    enforce_writes: bool = False  # a busy test may write more than people would
    _spent: dict[str, _Spent] = field(default_factory=dict)

    def spend(self, actor: Actor, method: str, path: str) -> dict[str, str]:
        """Count one request; raises 403 with GitHub's headers when nothing is left."""
        if path == "/rate_limit":
            return self._headers(self._of(actor))
        spent = self._of(actor)
        spent.used += 1
        headers = self._headers(spent)
        if spent.used > self.requests_per_hour:
            raise GitHubError(403, "API rate limit exceeded for this token.", headers=headers)
        if method not in ("GET", "HEAD") and self.enforce_writes:
            self._write(spent, headers)
        return headers

    def _write(self, spent: _Spent, headers: dict[str, str]) -> None:
        now = self.world.now().timestamp()
        while spent.writes and spent.writes[0] <= now - _HOUR:
            spent.writes.popleft()
        spent.writes.append(now)
        in_minute = sum(at > now - _MINUTE for at in spent.writes)
        if in_minute > self.writes_per_minute or len(spent.writes) > self.writes_per_hour:
            message = (
                "You have exceeded a secondary rate limit and have been temporarily blocked from "
                "content creation. Please retry your request again later."
            )
            raise GitHubError(403, message, headers={**headers, "Retry-After": str(_MINUTE)})

    def _of(self, actor: Actor) -> _Spent:
        name = actor.token.value if actor.token else "anonymous"
        window = int(self.world.now().timestamp()) // _HOUR
        spent = self._spent.setdefault(name, _Spent(window))
        if spent.window != window:
            spent.window, spent.used = window, 0
        return spent

    def _headers(self, spent: _Spent) -> dict[str, str]:
        return {
            "X-RateLimit-Limit": str(self.requests_per_hour),
            "X-RateLimit-Remaining": str(max(0, self.requests_per_hour - spent.used)),
            "X-RateLimit-Used": str(spent.used),
            "X-RateLimit-Reset": str((spent.window + 1) * _HOUR),
            "X-RateLimit-Resource": "core",
        }

    def overview(self, actor: Actor) -> Json:
        """A `rate-limit-overview`."""
        spent = self._of(actor)
        rate = {
            "limit": self.requests_per_hour,
            "used": spent.used,
            "remaining": max(0, self.requests_per_hour - spent.used),
            "reset": (spent.window + 1) * _HOUR,
        }
        return {"resources": {"core": rate, "search": rate, "graphql": rate}, "rate": rate}
