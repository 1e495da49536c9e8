"""Webhooks: every event becomes a signed delivery with a GUID, sent once, kept for redelivery.

In: events that the rules publish. Out: HTTP POSTs to each App's webhook address, and the record
that `/app/hook/deliveries` shows. As on GitHub nothing is retried by itself, an answer must come
within 10 s, and a redelivery repeats the GUID.
https://docs.github.com/webhooks/using-webhooks/handling-failed-webhook-deliveries
"""

from __future__ import annotations

import asyncio
import hmac
import ssl
import uuid
from collections import deque
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Literal

import httpx
import orjson

from evals.loopback import shapes
from evals.loopback.state import (
    Account,
    App,
    Installation,
    Json,
    Repository,
    node_id,
)
from evals.loopback.world import World

_ANSWER_WITHIN_SECONDS = 10.0
_ALWAYS = {"installation", "installation_repositories"}  # unasked, without subscription

HookFault = Literal["drop", "duplicate", "reorder", "delay"]


@dataclass(kw_only=True, eq=False)
class Delivery:
    """One webhook POST, made or still to be made."""

    id: int
    guid: str
    event: str
    action: str | None
    app: App
    installation: Installation | None
    repository: Repository | None
    body: bytes
    delivered_at: datetime
    redelivery: bool = False
    duration: float = 0.0
    status: str = "queued"
    status_code: int = 0
    request_headers: dict[str, str] = field(default_factory=dict)
    response_headers: dict[str, str] = field(default_factory=dict)
    response_body: str = ""


@dataclass(kw_only=True, eq=False)
class HookRule:
    """What goes wrong with the next `times` deliveries of an event (any event when None)."""

    fault: HookFault
    event: str | None = None
    times: int = 1
    seconds: float = 0.0


@cache
def _trusted() -> ssl.SSLContext:
    """Reading the machine's certificates takes longer than all else at start; once is enough."""
    return ssl.create_default_context()


class Webhooks:
    """Signs, sends and remembers deliveries, one queue per App, in order unless told otherwise."""

    def __init__(self) -> None:
        self.deliveries: list[Delivery] = []
        self.rules: list[HookRule] = []
        self._queues: dict[int, asyncio.Queue[Delivery]] = {}
        self._senders: list[asyncio.Task[None]] = []
        self._held: deque[Delivery] = deque()
        self._client = httpx.AsyncClient(
            timeout=_ANSWER_WITHIN_SECONDS, trust_env=False, verify=_trusted()
        )
        self.world: World

    # --- publishing ---

    def publish(
        self,
        event: str,
        action: str | None,
        content: Json,
        *,
        repository: Repository | None,
        sender: Account,
        only: App | None = None,
    ) -> None:
        """Queue one event for every App that is installed where it happened and subscribed."""
        for installation in list(self.world.installations.values()):
            if only is not None and installation.app is not only:
                continue
            if _hears(installation, event, repository):
                payload = self._payload(action, content, installation, repository, sender)
                self._enqueue(event, action, payload, installation, repository)

    def publish_to_app(
        self, event: str, action: str, content: Json, installation: Installation, sender: Account
    ) -> None:
        """Queue an event about the installation itself, which needs no subscription."""
        payload = self._payload(action, content, installation, None, sender)
        self._enqueue(event, action, payload, installation, None)

    def _payload(
        self,
        action: str | None,
        content: Json,
        installation: Installation,
        repository: Repository | None,
        sender: Account,
    ) -> Json:
        payload: Json = {"action": action, **content} if action else dict(content)
        if repository is not None:
            payload.setdefault("repository", shapes.repository(self.world, repository))
            if repository.owner.type == "Organization":
                payload["organization"] = _organization(self.world, repository.owner)
        shown = {"id": installation.id, "node_id": node_id("INS", installation.id)}
        payload.setdefault("installation", shown)
        payload["sender"] = shapes.user(self.world, sender)
        return payload

    def _enqueue(
        self,
        event: str,
        action: str | None,
        payload: Json,
        installation: Installation,
        repository: Repository | None,
    ) -> None:
        delivery = Delivery(
            id=self.world.next_id(),
            guid=str(uuid.uuid4()),
            event=event,
            action=action,
            app=installation.app,
            installation=installation,
            repository=repository,
            body=orjson.dumps(payload),
            delivered_at=self.world.now(),
        )
        self.deliveries.append(delivery)
        self._queue(installation.app).put_nowait(delivery)

    def redeliver(self, original: Delivery) -> Delivery:
        """Send the same body under the same GUID once more."""
        again = Delivery(
            id=self.world.next_id(),
            guid=original.guid,
            event=original.event,
            action=original.action,
            app=original.app,
            installation=original.installation,
            repository=original.repository,
            body=original.body,
            delivered_at=self.world.now(),
            redelivery=True,
        )
        self.deliveries.append(again)
        self._queue(original.app).put_nowait(again)
        return again

    # --- sending ---

    def _queue(self, app: App) -> asyncio.Queue[Delivery]:
        if app.id not in self._queues:
            self._queues[app.id] = asyncio.Queue()
            self._senders.append(asyncio.create_task(self._send_all(self._queues[app.id])))
        return self._queues[app.id]

    async def _send_all(self, queue: asyncio.Queue[Delivery]) -> None:
        while True:
            delivery = await queue.get()
            try:
                await self._send_with_faults(delivery)
            finally:
                queue.task_done()

    async def _send_with_faults(self, delivery: Delivery) -> None:
        rule = self._rule_for(delivery)
        fault = rule.fault if rule and not delivery.redelivery else None
        if fault == "drop":
            delivery.status, delivery.status_code = "dropped on its way", 0
            return
        if fault == "reorder":
            self._held.append(delivery)
            return
        if fault == "delay" and rule is not None:
            await asyncio.sleep(rule.seconds)
        await self._send(delivery)
        if fault == "duplicate":
            await self._send(delivery)
        while self._held:
            await self._send(self._held.popleft())

    def _rule_for(self, delivery: Delivery) -> HookRule | None:
        for rule in self.rules:
            if rule.times > 0 and rule.event in (None, delivery.event):
                rule.times -= 1
                return rule
        return None

    async def _send(self, delivery: Delivery) -> None:
        delivery.request_headers = _headers(delivery)
        delivery.delivered_at = self.world.now()
        if not delivery.app.webhook_url:
            delivery.status = "no webhook address is set"
            return
        began = asyncio.get_running_loop().time()
        try:
            answer = await self._client.post(
                delivery.app.webhook_url, content=delivery.body, headers=delivery.request_headers
            )
        except httpx.TimeoutException:
            delivery.status, delivery.status_code = "timed out", 504
        except httpx.HTTPError:
            delivery.status, delivery.status_code = "failed to connect to host", 502
        else:
            delivery.status_code = answer.status_code
            wrong = f"Invalid HTTP Response: {answer.status_code}"
            delivery.status = "OK" if answer.is_success else wrong
            delivery.response_headers = dict(answer.headers)
            delivery.response_body = answer.text[:10_000]
        delivery.duration = round(asyncio.get_running_loop().time() - began, 3)

    async def idle(self) -> None:
        """Wait until every queued delivery was sent or failed; held ones go out last."""
        for queue in list(self._queues.values()):
            await queue.join()
        while self._held:
            await self._send(self._held.popleft())

    async def close(self) -> None:
        """Stop sending."""
        for task in self._senders:
            task.cancel()
        await asyncio.gather(*self._senders, return_exceptions=True)
        await self._client.aclose()


def _hears(installation: Installation, event: str, repository: Repository | None) -> bool:
    if installation.deleted or installation.suspended_at is not None:
        return False
    if repository is not None and not installation.covers(repository):
        return False
    return event in _ALWAYS or event in installation.events


def _headers(delivery: Delivery) -> dict[str, str]:
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "GitHub-Hookshot/loopback",
        "Accept": "*/*",
        "X-GitHub-Delivery": delivery.guid,
        "X-GitHub-Event": delivery.event,
        "X-GitHub-Hook-ID": str(delivery.app.id),
        "X-GitHub-Hook-Installation-Target-ID": str(delivery.app.id),
        "X-GitHub-Hook-Installation-Target-Type": "integration",
    }
    if delivery.app.webhook_secret:
        key = delivery.app.webhook_secret.encode()
        for header, kind in (("X-Hub-Signature", "sha1"), ("X-Hub-Signature-256", "sha256")):
            headers[header] = f"{kind}={hmac.new(key, delivery.body, kind).hexdigest()}"
    return headers


def _organization(world: World, owner: Account) -> Json:
    shown = shapes.user(world, owner)
    api = f"{world.api_url}/orgs/{owner.login}"
    return {
        "login": owner.login,
        "id": owner.id,
        "node_id": shown["node_id"],
        "url": api,
        "repos_url": f"{api}/repos",
        "events_url": f"{api}/events",
        "hooks_url": f"{api}/hooks",
        "issues_url": f"{api}/issues",
        "members_url": f"{api}/members{{/member}}",
        "public_members_url": f"{api}/public_members{{/member}}",
        "avatar_url": shown["avatar_url"],
        "description": None,
    }
