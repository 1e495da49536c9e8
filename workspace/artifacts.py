"""Bytes by content, owned by a repository and a run.

In: bytes of a diff, a log, a JUnit file, a report, a bundle. Out: an `Artifact` that names them by
SHA-256, and the bytes again for whoever asks with the right repository and run. Why: evidence must
stay what it was, and one repository's evidence must not be readable through another's run. What is
unknown, foreign or damaged looks the same: missing.
"""

import asyncio
import contextlib
import os
import re
import secrets
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

from obstore.exceptions import NotFoundError

from workspace.contracts import Artifact, RepositoryId, RunId, Sha256
from workspace.digest import sha256_hex
from workspace.errors import WorkspaceError

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_SCHEME: Final = "artifact:"
_URI: Final = re.compile(_SCHEME + r"(?P<repository>[0-9]{1,19})/(?P<run>[^/]+)/(?P<sha256>[^/]+)")


class ArtifactMissing(WorkspaceError):
    """There is no such artifact."""


def artifact_uri(repository: RepositoryId, run: RunId, sha256: Sha256) -> str:
    """Return the name of an artifact; it says nothing about where the bytes are kept."""
    return f"{_SCHEME}{repository}/{run}/{sha256}"


def parse_artifact_uri(uri: str) -> tuple[RepositoryId, RunId, Sha256]:
    """Return repository, run and digest of a URI made by `artifact_uri`.

    Raises:
        ArtifactMissing: The URI was not made by `artifact_uri`.
    """
    match = _URI.fullmatch(uri)
    if match is None:
        raise ArtifactMissing
    repository, run, sha256 = int(match["repository"]), match["run"], match["sha256"]
    _require_name(run)
    _require_digest(sha256)
    return repository, run, sha256


class FolderArtifacts:
    """Artifacts in a folder: `<root>/<repository>/<run>/<first two>/<sha256>`, never rewritten.

    The same bytes of two runs are two files, so that deleting a run's folder is all its retention
    needs. A write goes to a temporary name, is flushed, and is renamed: a reader sees all or none.
    """

    def __init__(self, root: Path) -> None:
        """Keep artifacts below `root`, which is made with mode 0700 when it is missing."""
        self._root = root

    async def put(
        self, repository: RepositoryId, run: RunId, content: bytes, media_type: str
    ) -> Artifact:
        """Store bytes under their SHA-256 and return how to name them."""
        sha256 = sha256_hex(content)
        path = self._path(repository, run, sha256)
        await asyncio.to_thread(self._write_once, path, content)
        return Artifact(
            uri=artifact_uri(repository, run, sha256),
            sha256=sha256,
            size=len(content),
            media_type=media_type,
        )

    async def get(self, repository: RepositoryId, run: RunId, sha256: Sha256) -> bytes:
        """Return the bytes.

        Raises:
            ArtifactMissing: Unknown, another run's or repository's, or no longer what it was.
        """
        path = self._path(repository, run, sha256)
        try:
            content = await asyncio.to_thread(path.read_bytes)
        except (FileNotFoundError, NotADirectoryError):
            raise ArtifactMissing from None
        return _intact(content, sha256)

    async def forget_run(self, repository: RepositoryId, run: RunId) -> None:
        """Delete everything a run has stored; for when its retention has ended."""
        _require_name(run)
        await asyncio.to_thread(
            shutil.rmtree, self._root / str(int(repository)) / run, ignore_errors=True
        )

    def _path(self, repository: RepositoryId, run: RunId, sha256: Sha256) -> Path:
        _require_name(run)
        _require_digest(sha256)
        return self._root / str(int(repository)) / run / sha256[:2] / sha256

    def _write_once(self, path: Path, content: bytes) -> None:
        """Write a file whose name is its content's digest, unless it is there and intact."""
        with contextlib.suppress(OSError):
            if path.read_bytes() == content:
                return
        self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        try:
            with temporary.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


class ObjectArtifacts:
    """Artifacts in an object store (S3, GCS, Azure) through obstore, with the folder's layout."""

    def __init__(self, store: "ObjectStore") -> None:
        """Keep artifacts in `store`, for example `obstore.store.from_url("s3://bucket/prefix")`."""
        self._store = store

    async def put(
        self, repository: RepositoryId, run: RunId, content: bytes, media_type: str
    ) -> Artifact:
        """Store bytes under their SHA-256 and return how to name them."""
        sha256 = sha256_hex(content)
        await self._store.put_async(self._key(repository, run, sha256), content)
        return Artifact(
            uri=artifact_uri(repository, run, sha256),
            sha256=sha256,
            size=len(content),
            media_type=media_type,
        )

    async def get(self, repository: RepositoryId, run: RunId, sha256: Sha256) -> bytes:
        """Return the bytes.

        Raises:
            ArtifactMissing: Unknown, another run's or repository's, or no longer what it was.
        """
        try:
            found = await self._store.get_async(self._key(repository, run, sha256))
            content = bytes(await found.bytes_async())
        except (NotFoundError, FileNotFoundError):
            raise ArtifactMissing from None
        return _intact(content, sha256)

    async def forget_run(self, repository: RepositoryId, run: RunId) -> None:
        """Delete everything a run has stored; for when its retention has ended."""
        _require_name(run)
        prefix = f"{int(repository)}/{run}/"
        async for batch in self._store.list(prefix):
            await self._store.delete_async([entry["path"] for entry in batch])

    def _key(self, repository: RepositoryId, run: RunId, sha256: Sha256) -> str:
        _require_name(run)
        _require_digest(sha256)
        return f"{int(repository)}/{run}/{sha256[:2]}/{sha256}"


def _require_name(run: RunId) -> None:
    if not (run.isascii() and run.isalnum()):
        raise ArtifactMissing


def _require_digest(sha256: Sha256) -> None:
    if len(sha256) != 64 or not set(sha256) <= set("0123456789abcdef"):  # noqa: PLR2004
        raise ArtifactMissing


def _intact(content: bytes, sha256: Sha256) -> bytes:
    if sha256_hex(content) != sha256:
        raise ArtifactMissing
    return content
