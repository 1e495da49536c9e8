"""A whole stage whose workers are killed where a test says, one story lived on it after the other.

In: a story and where its workers shall die. Out: that it came out right all the same, asserted from
GitHub's side and this machine's (`evals.invariants`), and how many died.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evals.drive import commit_all, git
from evals.facts import gather, settled
from evals.invariants import repeated_questions, violations
from evals.scripted_model import ScriptedModel, parse_script, running
from evals.stage import Stage, stage
from tests.acceptance.conftest import Shop

DEATHS_PER_STORY = 5  # a job that loses its worker eight times is given up, rightly
IN_FLIGHT = 2  # verifier and refuter are asked side by side

POLICY = """\
version: 1
bases: [main]
suites:
  unit: {run: "grep -qx good state.txt", required: true, timeout: 1m}
"""

Tale = Callable[[Shop], Awaitable[None]]


@dataclass
class Lane:
    """One whole stage, lived on by one story after the other, with one worker at a time."""

    stage: Stage
    model: ScriptedModel
    host: asyncio.subprocess.Process
    pids: list[int] = field(default_factory=list)
    killed: set[str] = field(default_factory=set)
    passed: set[str] = field(default_factory=set)

    async def live(self, tale: Tale, repository: str, **deaths: Any) -> int:
        """Live through a story while workers die; return how many did. Asserts all invariants."""
        self.model.bodies.clear()
        living = asyncio.create_task(self._live(tale, repository))
        died = 0
        while True:
            points = deaths if died < DEATHS_PER_STORY else {"points": []}
            code = await self._work_until_dead(living, **points)
            if code is None:
                break
            assert code == -9, (self.stage.folder / "workers.log").read_text()[-3000:]
            died += 1
        await living
        repeated = repeated_questions(list(self.model.bodies), allowed=died * IN_FLIGHT)
        assert list(repeated) == []
        return died

    async def _live(self, tale: Tale, repository: str) -> None:
        await tale(Shop(self.stage, self.model, repository))
        await settled(self.stage)
        facts = await gather(self.stage, pids=self.pids)
        assert violations(facts) == []

    async def _work_until_dead(self, living: asyncio.Task[None], **deaths: Any) -> int | None:
        """Let a worker work until it dies; None, and it is gone, when the story has ended."""
        notes = self.stage.folder / "passed"
        notes.unlink(missing_ok=True)
        wanted = {"passed": str(notes), "spare": sorted(self.killed)} | deaths
        assert self.host.stdin
        self.host.stdin.write(json.dumps(wanted).encode() + b"\n")
        pid = (await self._said())["pid"]
        self.pids.append(pid)
        ended = asyncio.create_task(self._said())
        await asyncio.wait({ended, living}, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        code = int((await ended)["ended"])
        self._read(notes)
        return None if living.done() else code

    def _read(self, notes: Path) -> None:
        for line in notes.read_text().splitlines() if notes.exists() else ():
            what, _, name = line.partition(" ")
            self.passed.add(name)
            if what == "killed":
                self.killed.add(name)

    async def _said(self) -> dict[str, Any]:
        assert self.host.stdout
        said: dict[str, Any] = json.loads(await self.host.stdout.readline())
        return said


@asynccontextmanager
async def small_stage(
    folder: Path,
    repositories: Sequence[str],
    model: ScriptedModel,
    *,
    extra: Mapping[str, str] | None = None,
) -> AsyncIterator[Stage]:
    """Open a stage with very small repositories and without a worker.

    `extra` are the bot's variables where they differ from running commands without a sandbox.
    """
    source = folder / "state"
    (source / ".github").mkdir(parents=True)
    (source / ".github" / "ultracode.yml").write_text(POLICY)
    (source / "state.txt").write_text("bad\n")
    git(source, "init", "-q", "-b", "main")
    commit_all(source, "A very small state")
    provider = {
        "AGENT_MODEL_ID": "gpt-5.4-mini",
        "OPENAI_API_KEY": model.api_key,
        "OPENAI_BASE_URL": model.base_url,
    }
    async with stage(
        dict.fromkeys(repositories, source),
        Path("unused"),
        folder=folder,
        provider=provider,
        extra={"ULTRACODE_SANDBOX": "local", "ULTRACODE_TRUST": "trusted", **(extra or {})},
        worker=False,
    ) as opened:
        yield opened


@asynccontextmanager
async def lane(folder: Path, repositories: Sequence[str]) -> AsyncIterator[Lane]:
    """Open a stage of its own, with repositories and somebody who makes workers."""
    async with (
        running(parse_script("entries: []")) as model,
        small_stage(folder, repositories, model) as opened,
    ):
        with (folder / "workers.log").open("ab") as log:
            host = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "evals.crash_worker",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=opened.environment,
            )
        try:
            yield Lane(opened, model, host)
        finally:
            with contextlib.suppress(ProcessLookupError):
                host.kill()  # the kernel kills its worker with it
            await host.wait()
