"""One whole story, told as a person lives it: from the comment to the fast-forwarded branch.

In: an open stage, a request and who approves. Out: one flat object with what happened, read from
GitHub's side wherever GitHub knows it, so that it can be held against what the bot says of itself.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from bot.shown import shown_run, shown_runs
from bot.store.database import Database
from evals.people import NeverHappened, Person
from evals.stage import Stage

Tell = Callable[[str], None]
RUN_SECONDS = 900.0
LOOK_SECONDS = 0.3
ENDED = frozenset(
    {
        "promoted",
        "reported",
        "failed",
        "rejected",
        "revised",
        "merged_elsewhere",
        "cancelled",
        "expired",
        "refused",
        "conflicted",
    }
)


@dataclass(frozen=True)
class StoryResult:
    """What happened. SHAs are full; digests are SHA-256 in hexadecimal."""

    outcome: str
    sentence: str
    run_id: str | None
    rounds: int
    workers: int
    base_before: str | None
    base_after: str | None
    candidate_sha: str | None
    reviewed_sha: str | None
    tested_sha: str | None
    commits_added: int
    test_report_digest: str | None
    evidence_digest: str | None
    sandbox: str | None
    pull_request_state: str | None
    check_runs: list[dict[str, Any]]
    wall_seconds: float

    def as_json(self) -> str:
        """Return the object on one line."""
        return json.dumps(asdict(self), sort_keys=False)


@dataclass
class Story:
    """Lives through one run on an open stage."""

    stage: Stage
    branch: str = "main"
    tell: Tell = field(default=lambda _line: None)
    _told: int = 0
    """Rounds whose outcome was told."""

    async def live(
        self,
        title: str,
        request: str,
        approve: Callable[[Story, int], Awaitable[None]],
        *,
        body: str = "",
    ) -> StoryResult:
        """Open the issue, comment, let `approve` decide when it is time, and see the end."""
        started = time.monotonic()
        requester = self.stage.person("writer")
        before = await requester.branch(self.branch)
        issue = await requester.open_issue(title, body)
        self.tell(f"issue         {self.page(requester, f'issues/{issue}')}")
        await requester.comment(issue, f"/ultracode {request}")
        run = await self.run_of(issue, requester.repository)
        run = await self.follow(run["run_id"], until=ENDED | {"awaiting_review"})
        if run["state"] == "awaiting_review":
            pull = run["pull_number"]
            self.tell(f"pull request  {self.page(requester, f'pull/{pull}')}")
            self.tell(f"checks        {self.page(requester, f'pull/{pull}/checks')}")
            await approve(self, pull)
            run = await self.follow(run["run_id"], until=ENDED)
        return await self.tally(run, requester, before, time.monotonic() - started)

    # --- looking ---------------------------------------------------------------------------------

    async def run_of(self, issue: int, repository: str) -> dict[str, Any]:
        """Return the issue's newest run, as `ultracode runs` shows it, once there is one."""

        async def look() -> dict[str, Any] | None:
            async with self._database() as database:
                runs = await shown_runs(database, None)
            place = (repository, issue)
            return next((r for r in runs if (r["repository"], r["issue_number"]) == place), None)

        found: dict[str, Any] = await self.stage.person("writer").until(
            look, what=f"a run for issue {issue}", pause=LOOK_SECONDS
        )
        return found

    async def follow(self, run_id: str, *, until: frozenset[str]) -> dict[str, Any]:
        """Tell every change of state until one of `until` is reached; return the run then."""
        deadline = time.monotonic() + RUN_SECONDS
        last = ""
        while time.monotonic() < deadline:
            async with self._database() as database:
                run: dict[str, Any] = await shown_run(database, run_id)
            line = f"{run['state']:<17}round {run['round']}"
            if line != last:
                self.tell(line)
                last = line
                self._tell_rounds(run, run["round"])
            if run["state"] in until:
                self._tell_rounds(run, run["round"] + 1)
                return run
            await asyncio.sleep(LOOK_SECONDS)
        raise NeverHappened(f"run {run_id} did not reach {sorted(until)}; it is {last}")

    def _tell_rounds(self, run: dict[str, Any], ended: int) -> None:
        for number in range(self._told, ended):
            self.tell(f"round {number + 1}: {run['rounds'][number]}")
        self._told = max(self._told, ended)

    def _database(self) -> Database:
        return Database(self.stage.environment["DATABASE_URL"], pool_size=1)

    def page(self, person: Person, path: str) -> str:
        """Return the address of a page a person can open."""
        return f"{self.stage.github['url']}/{person.repository}/{path}"

    async def tally(
        self, run: dict[str, Any], person: Person, before: str | None, seconds: float
    ) -> StoryResult:
        """Collect the chain, from GitHub where GitHub knows it."""
        after = await person.branch(self.branch)
        pull = await person.pull(run["pull_number"]) if run["pull_number"] else None
        candidate = run["candidate_sha"] if pull else None
        checks = await person.checks(candidate) if candidate else []
        suites = [c for c in checks if c["name"].startswith("ultracode/suite/")]
        reviews = await person.reviews(run["pull_number"]) if pull else []
        approved = [r["commit_id"] for r in reviews if r["state"] == "APPROVED"]
        return StoryResult(
            outcome=run["state"],
            sentence=run["sentence"] or "",
            run_id=run["run_id"],
            rounds=run["round"] + 1,
            workers=run["workers"],
            base_before=before,
            base_after=after,
            candidate_sha=candidate,
            reviewed_sha=approved[-1] if approved else None,
            tested_sha=suites[-1]["head_sha"] if suites else None,
            commits_added=await added(person, self.branch, before),
            test_report_digest=run["test_report_digest"],
            evidence_digest=run["evidence_digest"],
            sandbox=run["sandbox"],
            pull_request_state=state_of(pull),
            check_runs=[
                {key: check[key] for key in ("name", "conclusion", "external_id")}
                for check in checks
            ],
            wall_seconds=round(seconds, 2),
        )


async def added(person: Person, branch: str, before: str | None) -> int:
    """Return how many commits stand on the branch above `before`."""
    history = [commit["sha"] for commit in await person.commits(branch)]
    return history.index(before) if before in history else len(history)


def state_of(pull: dict[str, Any] | None) -> str | None:
    """Return `merged`, `open` or `closed`; None without a pull request."""
    if pull is None:
        return None
    return "merged" if pull["merged"] else str(pull["state"])
