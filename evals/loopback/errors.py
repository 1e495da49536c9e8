"""Refusals in GitHub's own words: each carries a status and the JSON body clients know.

In: what a rule found wrong. Out: an exception that `server.py` turns into the answer.
Shapes: https://docs.github.com/rest/using-the-rest-api/troubleshooting-the-rest-api
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DOCUMENTATION = "https://docs.github.com/rest"


class GitHubError(Exception):
    """An answer other than success."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        errors: list[Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.errors = errors
        self.headers = dict(headers or {})

    def body(self) -> dict[str, Any]:
        """The JSON a client gets."""
        body: dict[str, Any] = {"message": self.message}
        if self.errors is not None:
            body["errors"] = self.errors
        return {**body, "documentation_url": DOCUMENTATION, "status": str(self.status)}


def not_found() -> GitHubError:
    """404: absent, or not yours to know about."""
    return GitHubError(404, "Not Found")


def bad_credentials() -> GitHubError:
    """401: a token that is unknown, expired or revoked."""
    return GitHubError(401, "Bad credentials")


def forbidden(message: str = "Resource not accessible by integration") -> GitHubError:
    """403: known, but not permitted."""
    return GitHubError(403, message)


def invalid(*errors: dict[str, str] | str, message: str = "Validation Failed") -> GitHubError:
    """422: well formed, but not acceptable."""
    return GitHubError(422, message, errors=list(errors))


def invalid_field(resource: str, field: str, code: str = "invalid", **more: str) -> GitHubError:
    """422 about one field, in the shape `{resource, field, code}`."""
    return invalid({"resource": resource, "field": field, "code": code, **more})
