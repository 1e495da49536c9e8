"""The say that this GitHub has in every push: git's `update` hook asks here, ref by ref.

In: what the hook sends over a socket in our own folder (`hook.py`), while git still holds the new
objects in quarantine. Out: yes, or the words and the kind of a refusal.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from evals.loopback import protection
from evals.loopback.auth import Actor
from evals.loopback.bare import ZERO
from evals.loopback.commit_rules import WantedUpdate
from evals.loopback.state import (
    Repository,
)
from evals.loopback.world import World

_WORKFLOWS = ".github/workflows/"


@dataclass(frozen=True)
class Push:
    """One receive-pack in progress, by the random name its hook knows it under."""

    repository: Repository
    actor: Actor


class HookServer:
    """Answers the `update` hook of every repository here."""

    def __init__(self, world: World, folder: Path) -> None:
        self._world = world
        self.socket = folder / "hook.sock"
        self.hooks = folder / "hooks"
        self.pushes: dict[str, Push] = {}
        self.words: dict[str, dict[str, str]] = {}
        self._server: asyncio.AbstractServer | None = None

    async def start(self) -> None:
        """Write the hook and listen for it."""
        self.hooks.mkdir()
        script = Path(__file__).with_name("hook.py")
        hook = self.hooks / "update"
        hook.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "{script}" "$@"\n')
        hook.chmod(0o755)
        self._server = await asyncio.start_unix_server(self._answer, self.socket)

    async def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            asked = json.loads(await reader.readline())
            answer = await self._decide(asked)
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _decide(self, asked: dict[str, str]) -> dict[str, str]:
        push = self.pushes.get(asked["push"])
        if push is None:
            return {"refused": "unknown push"}
        objects = {k: v for k, v in asked.items() if k.startswith("GIT_")}
        objections = await _objections(self._world, push, asked, objects)
        if objections is None:
            return {}
        kind, words = objections
        self.words[asked["push"]][asked["ref"]] = kind
        return {"refused": words}


async def _objections(
    world: World, push: Push, asked: Mapping[str, str], objects: Mapping[str, str]
) -> tuple[str, str] | None:
    """The kind of refusal and the words shown to whoever pushes, or None."""
    ref = asked["ref"]
    old, new = _sha(asked["old"]), _sha(asked["new"])
    if ref.startswith("refs/pull/"):
        return "deny updating a hidden ref", ""
    if not ref.startswith("refs/heads/"):
        return None
    branch = ref.removeprefix("refs/heads/")
    if new is None and branch == push.repository.default_branch:
        return "refusing to delete the current branch: " + ref, ""
    update = WantedUpdate(push.repository, branch, old, new, objects)
    workflow = await _forbidden_workflow(push, update)
    if workflow:
        return workflow, ""
    found = await protection.objections_to_update(world, push.actor, update)
    if found is None:
        return None
    if found.kind.startswith("protected"):
        lines = [f"error: GH006: Protected branch update failed for {ref}."]
        lines += [f"error: {line}" for line in found.lines]
    else:
        lines = [f"error: GH013: Repository rule violations found for {ref}.", ""]
        lines += [f"- {line}\n" for line in found.lines]
    return found.kind, "\n".join(lines)


async def _forbidden_workflow(push: Push, update: WantedUpdate) -> str | None:
    """GitHub lets no App change workflows without the permission of that name."""
    token = push.actor.token
    if push.actor.installation is None or token is None or update.new is None:
        return None
    if (token.permissions or {}).get("workflows") == "write":
        return None
    git = push.repository.git
    start = update.old or await git.branch(push.repository.default_branch)
    if start is None:
        return None
    base = await _merge_base(push, start, update)
    for path in await git.changed_paths(base, update.new, env=update.objects):
        if path.startswith(_WORKFLOWS):
            return (
                f"refusing to allow a GitHub App to create or update workflow `{path}` "
                "without `workflows` permission"
            )
    return None


async def _merge_base(push: Push, start: str, update: WantedUpdate) -> str:
    code, out = await push.repository.git.run(
        "merge-base", start, update.new or start, env=update.objects, ok=(0, 1)
    )
    return out.decode().strip() if code == 0 else start


def _sha(text: str) -> str | None:
    return None if text == ZERO else text
