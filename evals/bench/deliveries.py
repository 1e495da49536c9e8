"""Webhook deliveries to fire: each a new comment with a GUID of its own, signed. 14 kB a body."""

from __future__ import annotations

import hashlib
import hmac
import json
import uuid
from typing import Any

SECRET = "a secret of the benchmark"
_SIZE = 14_000


def comment_requests(
    count: int, path: str, *, secret: str = SECRET, words: str = "/ultracode status"
) -> list[bytes]:
    """Return raw HTTP requests, one delivery each, of comments of an installation nobody knows."""
    return [_request(path, _body(words), secret) for _ in range(count)]


def _body(words: str) -> bytes:
    payload = _payload(uuid.uuid4().int >> 80, words)
    payload["comment"]["performed_via_github_app"] = None
    missing = _SIZE - len(json.dumps(payload))
    payload["repository"]["description"] = "x" * missing  # stands for GitHub's hundred other URLs
    return json.dumps(payload).encode()


def _payload(number: int, words: str) -> dict[str, Any]:
    user = {"id": 1001, "node_id": "U_1", "login": "somebody", "type": "User"}
    return {
        "action": "created",
        "issue": {
            "id": 1,
            "node_id": "I_1",
            "number": 1,
            "title": "Totals are off",
            "body": "They are too low.",
            "state": "open",
            "user": user,
            "author_association": "MEMBER",
            "labels": [],
            "locked": False,
        },
        "comment": {
            "id": number,
            "node_id": f"IC_{number}",
            "body": words,
            "user": user,
            "author_association": "MEMBER",
            "created_at": "2026-01-01T00:00:00Z",
            "updated_at": "2026-01-01T00:00:00Z",
        },
        "repository": {
            "id": 1,
            "node_id": "R_1",
            "name": "project",
            "full_name": "someone/project",
            "private": False,
            "default_branch": "main",
            "owner": user,
        },
        "sender": user,
        "installation": {"id": 7, "node_id": "MDg6"},
    }


def _request(path: str, body: bytes, secret: str) -> bytes:
    signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"User-Agent: GitHub-Hookshot/bench\r\nX-GitHub-Event: issue_comment\r\n"
        f"X-GitHub-Delivery: {uuid.uuid4()}\r\nX-Hub-Signature-256: sha256={signature}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
