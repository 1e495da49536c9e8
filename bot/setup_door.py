"""The loopback page of `ultracode setup`. In: a browser on this machine. Out: one code, once.

Why so narrow: while it is up, any page in the browser and any user of the machine can knock. So the
`Host` must be the address we gave out (no other name may lead here), the path is random, `state` is
compared in constant time and counts once, and the page may send its form to GitHub only.
https://docs.github.com/apps/sharing-github-apps/registering-a-github-app-from-a-manifest
"""

from __future__ import annotations

import asyncio
import hmac
import json
import re
import secrets
from collections.abc import Mapping
from html import escape
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote, urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

_CODE: Final = re.compile(r"[A-Za-z0-9_-]{1,255}")
_PAGE: Final = """<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>Ultracode</title>
<body style="font:16px/1.5 system-ui;max-width:36rem;margin:3rem auto;padding:0 1rem">
<h1>Register the App</h1>
<p>GitHub will show you what it asks for. Nothing is written on this machine before you confirm the
App and its owner in the terminal.</p>
<form method="post" action="{action}"><input type="hidden" name="manifest" value="{manifest}">
<button>Continue to {host}</button></form></body></html>"""
_DONE: Final = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Ultracode</title>
<body><h1>Registered</h1><p>Go back to your terminal and confirm.</p></body></html>"""


class SetupDoor:
    """An ASGI application that leads to GitHub and takes the code that comes back."""

    def __init__(self, *, port: int, web_url: str, organization: str | None) -> None:
        self._host = f"127.0.0.1:{port}"
        self._web_url = web_url
        self._organization = organization
        self._path = f"/{secrets.token_urlsafe(24)}"
        self._state: str | None = secrets.token_urlsafe(24)
        self.manifest: Mapping[str, Any] = {}
        self.code: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @property
    def url(self) -> str:
        """Where the admin's browser begins."""
        return f"http://{self._host}{self._path}"

    @property
    def redirect_url(self) -> str:
        """Where GitHub sends the browser back to."""
        return f"{self.url}/done"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http":
            answer = self._answer(Request(scope))
            answer.headers["Cache-Control"] = "no-store"
            answer.headers["Referrer-Policy"] = "no-referrer"
            answer.headers["X-Frame-Options"] = "DENY"
            await answer(scope, receive, send)

    def _answer(self, request: Request) -> Response:
        if request.headers.get("host") != self._host:
            return _refused(HTTPStatus.MISDIRECTED_REQUEST, "This is not the address given out.")
        if request.method != "GET":
            return _refused(HTTPStatus.METHOD_NOT_ALLOWED, "Only GET.")
        if hmac.compare_digest(request.url.path.encode(), self._path.encode()):
            return self._offer()
        if hmac.compare_digest(request.url.path.encode(), f"{self._path}/done".encode()):
            return self._take(request.query_params)
        return _refused(HTTPStatus.NOT_FOUND, "There is nothing here.")

    def _offer(self) -> Response:
        if self._state is None:
            return _refused(HTTPStatus.GONE, "The App was registered; go back to your terminal.")
        parts = urlsplit(self._web_url)
        owner = f"/organizations/{quote(self._organization, '')}" if self._organization else ""
        action = f"{self._web_url}{owner}/settings/apps/new?state={self._state}"
        page = _PAGE.format(
            action=escape(action), manifest=escape(json.dumps(self.manifest)), host=parts.netloc
        )
        answer = HTMLResponse(page)
        answer.headers["Content-Security-Policy"] = (
            f"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; "
            f"frame-ancestors 'none'; form-action {parts.scheme}://{parts.netloc}"
        )
        return answer

    def _take(self, query: Mapping[str, str]) -> Response:
        if self._state is None:
            return _refused(HTTPStatus.GONE, "This was used; go back to your terminal.")
        if not hmac.compare_digest(query.get("state", "").encode(), self._state.encode()):
            return _refused(HTTPStatus.FORBIDDEN, "This did not begin here; nothing was done.")
        code = query.get("code", "")
        if not _CODE.fullmatch(code):
            return _refused(HTTPStatus.BAD_REQUEST, "GitHub sent no code.")
        self._state = None
        self.code.set_result(code)
        return HTMLResponse(_DONE)


def _refused(status: HTTPStatus, sentence: str) -> Response:
    return PlainTextResponse(sentence + "\n", status)
