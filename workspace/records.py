"""Frozen records kept until their run has surely stored them itself.

In: a record. Out: the same record, for whoever asks again. Why: a workspace is given back as soon
as it is frozen; if the process dies before the record is in the database, it can still be had.
"""

import contextlib
import time
from pathlib import Path

from workspace.contracts import CommitSha, RepositoryId, WorkerRecord, WorkKey
from workspace.pool import workspace_id


class Records:
    """Records of all repositories below one folder."""

    def __init__(self, root: Path) -> None:
        """Keep records below `root`."""
        self._root = root

    def load(
        self, repository: RepositoryId, key: WorkKey, parent: CommitSha
    ) -> WorkerRecord | None:
        """Return the record of a key that started from `parent`, if there is one."""
        with contextlib.suppress(OSError, ValueError):
            text = self._path(repository, workspace_id(key)).read_text()
            record = WorkerRecord.model_validate_json(text)
            return record if record.base_sha == parent else None
        return None

    def store(self, repository: RepositoryId, record: WorkerRecord) -> None:
        """Keep a record, whole or not at all."""
        path = self._path(repository, record.workspace_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        written = path.with_suffix(".new")
        written.write_text(record.model_dump_json())
        written.replace(path)

    def forget(self, repository: RepositoryId, key: WorkKey) -> None:
        """Drop a key's record: its work begins anew."""
        self._path(repository, workspace_id(key)).unlink(missing_ok=True)

    def tidy(self, *, older_than_seconds: float) -> None:
        """Drop records nobody will ask for any more."""
        for path in self._root.glob("*/*.json"):
            with contextlib.suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > older_than_seconds:
                    path.unlink()

    def _path(self, repository: RepositoryId, workspace: str) -> Path:
        return self._root / str(int(repository)) / f"{workspace}.json"
