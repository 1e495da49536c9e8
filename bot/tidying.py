"""Tidies one run's traces on GitHub: what is doubled, what is open, what nobody owns any more.

In: a run. Out: one comment of each kind, one concluded check run of each kind, and no branch that
its end should have taken along. Why: GitHub makes neither comments nor check runs unique, and a
worker that is stopped between its last check and its POST doubles one when it wakes. Whatever the
ledger confirmed stays, else the lowest id. What a live run has not confirmed yet is left alone: its
worker may be at it. Safe on every replica at once: each change may be made twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import structlog

from bot.contracts import MAX_ROUNDS
from bot.github import messages
from bot.github.port import CheckRun, GitHubRepository
from bot.live_run import work_branch
from bot.run_pieces import RunPieces
from bot.services import Services
from bot.store.effects import Effect, EffectKind, Effects
from bot.store.pieces import Pieces
from bot.store.runs import Run, RunStore
from bot.store.tables import END_STATES, LIVE_STATES, RunState
from workspace.contracts import Candidate

log = structlog.get_logger()

#: Ends that take the work branch along; the others keep it aside for whoever wants to look.
BRANCH_GOES: Final = frozenset(
    {RunState.PROMOTED, RunState.MERGED_ELSEWHERE, RunState.REJECTED, RunState.CANCELLED}
)
_COMMENTS: Final = frozenset({EffectKind.COMMENT, EffectKind.STATUS_COMMENT})


async def tidy(services: Services, run: Run) -> None:
    """Tidy a run that waits or has ended. Raises GitHubError; it is safe to repeat."""
    effects = await services.effects.of_scope(run.run_id)
    tidying = Tidying(
        services=services,
        run=run,
        ledger={effect.key: effect for effect in effects},
        commits=await commits_of(services.pieces, run),
        repository=services.github.repository(run.installation_id, run.repository_id),
    )
    await tidying.doubled_comments()
    await tidying.check_runs()
    await tidying.branch()


@dataclass(frozen=True, kw_only=True)
class Tidying:
    """One look at one run. `ledger` has its effects by key, `commits` its candidates' SHAs."""

    services: Services
    run: Run
    ledger: Mapping[str, Effect]
    commits: tuple[str, ...]
    repository: GitHubRepository

    # --- comments --------------------------------------------------------------------------------

    async def doubled_comments(self) -> None:
        """Delete all but one of the comments that bear the same mark."""
        keys = [e.key for e in self.ledger.values() if e.kind in _COMMENTS]
        numbers = {self.run.issue_number, self.run.pull_number or self.run.issue_number}
        for number in sorted(numbers):
            own = await self.repository.own_comments(number)
            for key in keys:
                mark = self.services.marks.mark(self.run.run_id, key.removeprefix("comment:"))
                found = [comment.id for comment in own if mark in comment.body]
                for doubled in self._doubled(key, found):
                    await self._delete_comment(doubled)

    async def _delete_comment(self, comment_id: int) -> None:
        async def act() -> str:
            await self.repository.delete_comment(comment_id)
            return str(comment_id)

        await self._perform(f"comment:{comment_id}", EffectKind.COMMENT_DELETION, act)

    # --- check runs ------------------------------------------------------------------------------

    async def check_runs(self) -> None:
        """Rename all but one of each check run; conclude those that an ended run left open."""
        for sha in self.commits:
            alike: dict[str, list[CheckRun]] = defaultdict(list)
            for check in await self.repository.own_check_runs(sha):
                if check.external_id.startswith(f"{self.run.run_id}:"):
                    alike[f"{check.external_id}\n{check.name}"].append(check)
            for found in alike.values():
                await self._tidy_alike(found)

    async def _tidy_alike(self, found: list[CheckRun]) -> None:
        key = "check:" + found[0].external_id.partition(":")[2]
        doubled = set(self._doubled(key, [check.id for check in found]))
        for check in found:
            if check.id in doubled and check.name != messages.DOUBLED_CHECK:
                await self._rewrite(check, messages.DOUBLED_CHECK)
            elif check.status != "completed" and self.run.state in END_STATES:
                await self._rewrite(check, check.name)

    async def _rewrite(self, check: CheckRun, name: str) -> None:
        left = messages.left_check(check, name=name)

        async def act() -> str:
            await self.repository.update_check_run(check.id, left)
            return str(check.id)

        await self._perform(f"check:{check.id}", EffectKind.CHECK_RUN_EDIT, act)

    # --- the branch ------------------------------------------------------------------------------

    async def branch(self) -> None:
        """Delete the branch of an ended run that takes it along, where it holds our own commit."""
        if self.run.state in BRANCH_GOES:
            services = self.services
            await remove_branch(
                services.runs, services.effects, self.repository, self.run, self.commits
            )

    # --- the ledger ------------------------------------------------------------------------------

    def _doubled(self, key: str, found: Iterable[int]) -> list[int]:
        """Which of these ids go: all but the confirmed one, else all but the lowest."""
        ids = sorted(set(found))
        effect = self.ledger.get(key)
        confirmed = effect.external_id if effect else None
        if confirmed is None and self.run.state in LIVE_STATES:
            return []
        kept = int(confirmed) if confirmed and int(confirmed) in ids else next(iter(ids), None)
        return [each for each in ids if each != kept]

    async def _perform(self, key: str, kind: EffectKind, act: Callable[[], Awaitable[str]]) -> None:
        await _perform(self.services.effects, self.run, key, kind, act)


async def commits_of(pieces: Pieces, run: Run) -> tuple[str, ...]:
    """Return the SHAs of a run's candidates, oldest first; those that were published, at least."""
    stored = RunPieces(pieces, run.run_id, run.epoch).for_show()
    made = [await stored.load(f"candidate:{round}", Candidate) for round in range(MAX_ROUNDS)]
    known = [candidate.sha for candidate in made if candidate and candidate.changed]
    return tuple(dict.fromkeys([*known, *([run.candidate_sha] if run.candidate_sha else [])]))


async def remove_branch(
    runs: RunStore,
    effects: Effects,
    repository: GitHubRepository,
    run: Run,
    commits: Collection[str],
) -> None:
    """Delete an ended run's work branch where it holds one of its commits and no live run is on it.

    Raises:
        GitHubError: GitHub is away, or refuses.
    """
    name = work_branch(run)
    sharing = await runs.of_branch(run.repository_id, name)
    if any(each.state in LIVE_STATES for each in sharing):
        return
    if await repository.branch_sha(name) not in commits:
        return

    async def act() -> str:
        await repository.delete_branch(name)
        return name

    await _perform(effects, run, "branch", EffectKind.BRANCH_DELETION, act)


async def _perform(
    effects: Effects, run: Run, key: str, kind: EffectKind, act: Callable[[], Awaitable[str]]
) -> None:
    log.info("tidying up after a run", run_id=run.run_id, kind=str(kind), what=key)
    await effects.perform(
        f"tidy:{run.run_id}",
        key,
        epoch=None,
        kind=kind,
        intent={"run_id": run.run_id},
        act=act,
    )
