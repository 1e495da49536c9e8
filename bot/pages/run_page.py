"""One run as the values of its page. In: the database and the artifact store. Out: a `RunPage`.

Why apart from the routes: what is shown is read here from the same row, pieces and audit trail as
the status comment and `ultracode runs show`, and nothing is decided.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import func, select

from bot.contracts import CodingRequest
from bot.errors import RunNotFound
from bot.github.messages.evidence import digests, suite_log
from bot.github.messages.standing import state_title
from bot.run_pieces import RunPieces
from bot.store.database import Database
from bot.store.effects import Effect, EffectKind, Effects
from bot.store.pieces import Pieces
from bot.store.runs import AuditEvent, Run, RunStore
from bot.store.tables import FORGOTTEN, events, pieces, runs
from bot.view import RoundView, RunView, load_view
from workspace.artifacts import ArtifactMissing, parse_artifact_uri
from workspace.contracts import ArtifactStore, shown_path

DIFF_CHARACTERS: Final = 60_000


@dataclass(frozen=True, slots=True)
class FileLink:
    """Bytes that can be had from the page, by their digest."""

    name: str
    sha256: str
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Happening:
    """One line of the timeline."""

    at: datetime
    what: str
    who: str
    delivery_id: str | None


@dataclass(frozen=True, slots=True)
class FileDiff:
    """One file's part of the candidate's diff, and which workers of the round changed it."""

    path: str
    kind: str
    workers: Sequence[str]
    text: str


@dataclass(frozen=True, slots=True)
class RoundPage:
    """One round, with the digests a reader can recompute and the logs of its suites."""

    shown: RoundView
    diff: Sequence[FileDiff]
    digests: Sequence[tuple[str, str]]
    logs: Mapping[str, str]
    files: Sequence[FileLink]


@dataclass(frozen=True, slots=True)
class Approval:
    """Who approved, at which commit."""

    at: datetime
    who: str
    sha: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """Everything the page of one run shows."""

    run: Run
    view: RunView
    repository: str
    title: str
    version: str
    rounds: Sequence[RoundPage]
    timeline: Sequence[Happening]
    approvals: Sequence[Approval]
    published: Sequence[Effect]
    forgotten_at: datetime | None = None

    @property
    def live(self) -> bool:
        """Whether more may come."""
        return not self.run.ended


class RunPages:
    """Reads runs for their pages."""

    def __init__(self, database: Database, artifacts: ArtifactStore) -> None:
        self._database = database
        self._runs = RunStore(database)
        self._pieces = Pieces(database)
        self._effects = Effects(database)
        self._artifacts = artifacts

    async def find(self, run_id: str) -> Run | None:
        """Return a run, or None when there is none of this id."""
        try:
            return await self._runs.get(run_id)
        except RunNotFound:
            return None

    async def version(self, run_id: str) -> str:
        """Return a word that changes whenever the page would."""
        wanted = select(
            select(runs.c.updated_at).where(runs.c.run_id == run_id).scalar_subquery(),
            select(func.count()).where(pieces.c.run_id == run_id).scalar_subquery(),
            select(func.max(events.c.sequence)).where(events.c.run_id == run_id).scalar_subquery(),
        )
        async with self._database.begin() as tx:
            row = (await tx.execute(wanted)).one()
        return hashlib.sha256(repr(tuple(row)).encode()).hexdigest()[:16]

    async def load(self, run: Run) -> RunPage:
        """Return the page of a run as it stands."""
        version = await self.version(run.run_id)
        request = CodingRequest.model_validate(run.request["coding_request"])
        reading = RunPieces(self._pieces, run.run_id, run.epoch)  # it reads; nothing is written
        view = await load_view(run, request, reading, branch=run.branch or "", public_url=None)
        trail = await self._runs.trail(run.run_id)
        return RunPage(
            run=run,
            view=view,
            repository=str(run.request.get("repository") or f"repository {run.repository_id}"),
            title=state_title(str(run.state)),
            version=version,
            rounds=[round_page(shown) for shown in view.rounds],
            timeline=[happening(event) for event in trail],
            approvals=[approval(event) for event in trail if event.kind == "approval"],
            published=[
                effect
                for effect in await self._effects.of_scope(run.run_id)
                if effect.kind is not EffectKind.CHECK_RUN_EDIT and effect.external_id
            ],
            forgotten_at=next((event.at for event in trail if event.kind == FORGOTTEN), None),
        )

    async def artifact(self, run: Run, sha256: str) -> bytes | None:
        """Return bytes of this run and repository, or None for whatever else."""
        try:
            return await self._artifacts.get(run.repository_id, run.run_id, sha256)
        except ArtifactMissing:
            return None


def round_page(shown: RoundView) -> RoundPage:
    """Return one round with what a reader can recompute of it."""
    suites = shown.report.suites if shown.report else ()
    return RoundPage(
        shown=shown,
        diff=file_diffs(shown),
        digests=digests(shown),
        logs={suite.suite_id: suite_log(shown.evidence, suite.suite_id) for suite in suites},
        files=round_files(shown),
    )


def file_diffs(shown: RoundView) -> list[FileDiff]:
    """Return the evidence's diff by file; in one piece where its excerpt was cut between files."""
    candidate, evidence = shown.candidate, shown.evidence
    if candidate is None or not candidate.changed_files:
        return []
    text = evidence.diff_text[:DIFF_CHARACTERS] if evidence else ""
    parts = [f"diff --git {part}" for part in f"\n{text}".split("\ndiff --git ")[1:]]
    files = candidate.changed_files
    if len(parts) != len(files):
        return [FileDiff("all files", "", (), text)] if text else []
    return [
        FileDiff(shown_path(file.path), str(file.kind), workers_of(shown, file.path), part)
        for file, part in zip(files, parts, strict=True)
    ]


def workers_of(shown: RoundView, path: str) -> tuple[str, ...]:
    """Return the work items of a round that changed a path, as Git says."""
    return tuple(
        worker.record.task_id
        for worker in shown.workers
        if any(file.path == path for file in worker.record.changed_files)
    )


def round_files(shown: RoundView) -> list[FileLink]:
    """Return what a reader may fetch of a round: the whole diff, the report, the bundle."""
    named = [
        ("the whole diff", shown.candidate.diff_uri if shown.candidate else None),
        ("the test report", shown.report.artifact_uri if shown.report else None),
        ("the statement of the evidence", shown.evidence.statement_uri if shown.evidence else None),
    ]
    return [
        FileLink(name, parse_artifact_uri(uri)[2])
        for name, uri in named
        if uri and uri.startswith("artifact:")
    ]


def happening(event: AuditEvent) -> Happening:
    """Return a line of the audit trail in words."""
    detail = event.detail
    what = str(event.kind)
    if event.kind == "state":
        what = state_title(str(detail.get("to")))
        if reason := detail.get("reason"):
            what += f": {str(reason).replace('_', ' ')}"
    elif event.kind == "approval":
        what = f"Approved at {str(detail.get('candidate_sha'))[:12]}"
    elif event.kind == FORGOTTEN:
        what = "Rounds and evidence deleted: their retention ended"
    return Happening(event.at, what, who(event.actor, detail), event.delivery_id)


def approval(event: AuditEvent) -> Approval:
    """Return who approved, out of the audit trail."""
    detail = event.detail
    return Approval(event.at, who(event.actor, detail), str(detail.get("candidate_sha")))


def who(actor: str, detail: Mapping[str, Any]) -> str:
    """Return somebody by login where it is known, and by the id that never changes."""
    login = detail.get("login")
    return f"{login} ({actor})" if login else actor
