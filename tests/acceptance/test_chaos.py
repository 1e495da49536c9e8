"""Many stories at once, while a seeded hand kills, freezes and disturbs.

`make chaos SEED=… RUNS=…`: two web and two worker processes. The seed decides what is broken and
when, and how each story ends; the machine's own timing is not repeatable. BENCHMARKS.md keeps the
table of the last long run.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from evals.facts import gather, settled
from evals.invariants import violations
from evals.scripted_model import parse_script, running
from evals.stage import ULTRACODE, Part, Stage, free_port
from tests.acceptance.conftest import Shop
from tests.acceptance.lane import small_stage
from tests.acceptance.plays import judged, play
from tests.acceptance.test_killed_in_a_story import one_change

SEED = int(os.environ.get("SEED", "1"))  # noqa: TID251 - no production code
RUNS = int(os.environ.get("RUNS", "12"))  # noqa: TID251 - no production code
AT_ONCE = 3
PATIENCE_SECONDS = 420
#: What goes wrong on GitHub, in calls that only the bot makes.
FAULTS = ("error", "error_after", "reset", "reset_after", "rate_limited", "secondary_limit")
CALLS = (
    ("POST", "*/check-runs"),
    ("PATCH", "*/check-runs/*"),
    ("POST", "*/pulls"),
    ("PATCH", "*/issues/comments/*"),
    ("POST", "*/reactions"),
)
HOOKS = ("issue_comment", "pull_request_review", "pull_request", "issues", "push")


@dataclass
class Chaos:
    """A stage with two of each role, and the hand that breaks it."""

    stage: Stage
    chance: random.Random
    webs: dict[str, int] = field(default_factory=dict)
    pids: list[int] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)

    async def open(self) -> None:
        """Start the second web and both workers."""
        # the people of many stories ask more often than one account may
        await self.switch("PATCH", "settings", {"requests_per_hour": 1_000_000})
        self.webs = {"web": self.stage.web_port, "web-2": free_port()}
        await self.web("web-2")
        for name in ("worker", "worker-2"):
            await self.worker(name)

    async def web(self, name: str) -> None:
        """Start a web process."""
        port = self.webs[name]
        serve = (*ULTRACODE, "serve", "--role", "web", "--port", str(port))
        await self.stage.start(name, *serve, ready=f"http://127.0.0.1:{port}/healthz")

    async def worker(self, name: str) -> None:
        """Start a worker process."""
        self.pids.append((await self.stage.start_worker(name)).process.pid)

    async def go_on(self) -> None:
        """Break one thing after the other until cancelled; what is broken is mended each time."""
        acts = (self.kill_worker, self.kill_worker, self.freeze_worker, self.kill_web)
        acts += (self.other_web, self.disturb_github, self.disturb_github, self.disturb_webhooks)
        while True:
            await asyncio.sleep(self.chance.uniform(2, 8))
            act = self.chance.choice(acts)
            self.done[act.__name__] += 1
            await act()

    def any_worker(self) -> Part:
        """Return one of the workers."""
        return self.stage.parts[self.chance.choice(("worker", "worker-2"))]

    async def kill_worker(self) -> None:
        """SIGKILL one, and start it again a moment later."""
        part = self.any_worker()
        await part.kill()
        await self.worker(part.name)

    async def freeze_worker(self) -> None:
        """Stop one for longer than its lease, and let it wake as a zombie."""
        part = self.any_worker()
        part.process.send_signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(self.chance.uniform(1, 10))
        finally:
            with suppress(ProcessLookupError):
                part.process.send_signal(signal.SIGCONT)

    async def kill_web(self) -> None:
        """SIGKILL a web process; what GitHub sends meanwhile must be fetched later."""
        name = self.chance.choice(tuple(self.webs))
        await self.stage.parts[name].kill()
        await self.web(name)

    async def other_web(self) -> None:
        """Let GitHub send its webhooks to one of the two."""
        port = self.chance.choice(tuple(self.webs.values()))
        await self.switch("PUT", "webhook", {"url": f"http://127.0.0.1:{port}/webhooks/github"})

    async def disturb_github(self) -> None:
        """Let the next calls of a kind go wrong, before or after they took effect."""
        method, path = self.chance.choice(CALLS)
        kind, times = self.chance.choice(FAULTS), self.chance.randint(1, 3)
        fault = {"kind": kind, "method": method, "path": path, "times": times}
        await self.switch("POST", "faults", fault)

    async def disturb_webhooks(self) -> None:
        """Let the next deliveries of an event come doubled, out of order or late."""
        kind = self.chance.choice(("duplicate", "reorder", "delay"))
        rule = {"fault": kind, "event": self.chance.choice(HOOKS), "times": 2, "seconds": 2.0}
        await self.switch("POST", "webhook-faults", rule)

    async def mend(self) -> None:
        """Let everything go right, and both workers be new: they look for what was missed."""
        await self.switch("DELETE", "faults", None)
        for name in ("worker", "worker-2"):
            await self.stage.parts[name].kill()
            await self.worker(name)

    async def switch(self, method: str, lever: str, values: dict[str, object] | None) -> None:
        """Pull one of the loopback GitHub's levers."""
        url = f"{self.stage.github['url']}/_loopback/{lever}"
        async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
            (await client.request(method, url, json=values)).raise_for_status()


async def one_story(shop: Shop, ending: str, delay: float) -> str:
    """Live through a run to the end that a person chooses; return how it ended."""
    issue = await shop.writer.open_issue("The state is bad", "It should be good.")
    await shop.writer.comment(issue, "/ultracode Make the state good.")
    async with asyncio.timeout(PATIENCE_SECONDS):
        if ending == "cancelled":
            await shop.run_of(issue)  # a cancel that overtakes its start is answered, not kept
            await asyncio.sleep(delay)
            await shop.writer.comment(issue, "/ultracode cancel")
        else:
            pull = await shop.ready(seconds=PATIENCE_SECONDS)
            if ending == "promoted":
                await shop.reviewer.review(pull["number"])
            else:
                await shop.reviewer.close(pull["number"])
        while True:
            with suppress(Exception):  # the run may not be there yet
                run = await shop.ended(issue)
                return str(run["state"])
            await asyncio.sleep(1)


@asynccontextmanager
async def broken_all_the_time(chaos: Chaos) -> AsyncIterator[None]:
    """Break things for as long as the block runs, then mend them."""
    hand = asyncio.create_task(chaos.go_on())
    try:
        yield
        assert not hand.done(), hand
    finally:
        hand.cancel()
        with suppress(asyncio.CancelledError):
            await hand
        await chaos.mend()


@pytest.mark.chaos
async def test_chaos(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever breaks when, every story ends as its person decided, and every invariant holds."""
    chance = random.Random(SEED)
    endings = [
        chance.choice(("promoted", "promoted", "rejected", "cancelled")) for _ in range(RUNS)
    ]
    delays = [chance.uniform(0, 12) for _ in range(RUNS)]
    names = [f"octo-state/state-{number}" for number in range(RUNS)]
    async with running(parse_script("entries: []")) as model:
        model.play(
            play(one_change("wrong\n"), judged(), one_change("good\n", round=1), judged(round=1))
        )
        async with small_stage(tmp_path, names, model) as opened:
            chaos = Chaos(opened, chance)
            await chaos.open()
            turns = asyncio.Semaphore(AT_ONCE)

            async def story(number: int) -> str:
                async with turns:
                    shop = Shop(opened, model, names[number])
                    return await one_story(shop, endings[number], delays[number])

            async with broken_all_the_time(chaos):
                ended = await asyncio.gather(*map(story, range(RUNS)))
            await settled(opened, seconds=300)
            found = violations(await gather(opened, pids=chaos.pids))
    with capsys.disabled():
        sys.stdout.write("\n" + table(chaos.done, Counter(ended), found) + "\n")
    assert found == []
    assert ended == endings


def table(done: Counter[str], ended: Counter[str], found: list[str]) -> str:
    """What was broken how often, how stories ended, and what did not hold."""
    rows = [("seed", SEED), ("runs", RUNS)]
    rows += [(name.replace("_", " "), times) for name, times in sorted(done.items())]
    rows += [(f"ended {state}", times) for state, times in sorted(ended.items())]
    rows += [("violations", len(found))]
    return "\n".join(f"| {name} | {value} |" for name, value in rows)
