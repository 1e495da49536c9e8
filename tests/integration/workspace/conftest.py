"""Real repositories behind a real Git server on loopback, and a workshop over them."""

import contextlib
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pydantic import SecretStr

from tests.integration.workspace.git_server import GitServer
from workspace.artifacts import FolderArtifacts
from workspace.contracts import (
    CommitTemplate,
    RepoRef,
    RunPin,
    Scope,
    WorkerRecord,
    WorkKey,
    WriteRules,
)
from workspace.sandbox.local import LocalSandbox
from workspace.service import Workshop

TOKEN = "ghs_loopback-token-0123456789abcdef"
RUN = "run00000001"


class StoredToken:
    """Credentials that give the server's token."""

    def __init__(self, server: GitServer) -> None:
        self._server = server

    async def token(self, repo: RepoRef, *, write: bool) -> SecretStr | None:
        return SecretStr(self._server.token) if self._server.token else None


@dataclass
class Origin:
    """A repository on the server, and hands to change it with."""

    path: Path
    repo: RepoRef
    work: Path
    history: list[str] = field(default_factory=list)

    def git(self, *args: str, cwd: Path | None = None, stdin: bytes = b"") -> str:
        return git(*args, cwd=cwd or self.work, stdin=stdin)

    def commit(self, files: Mapping[str | bytes, bytes | None], message: str = "more") -> str:
        """Commit files (None deletes) onto main and push; returns the SHA."""
        for name, content in files.items():
            raw = name.encode() if isinstance(name, str) else name
            path = Path(self.work, raw.decode("utf-8", "surrogateescape"))
            if content is None:
                path.unlink()
                with contextlib.suppress(OSError):
                    path.parent.rmdir()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        self.git("add", "-A", "--force", ".")
        return self.commit_index(message)

    def commit_index(self, message: str = "more") -> str:
        self.git("commit", "-q", "--allow-empty", "-m", message)
        self.git("push", "-q", "--force", str(self.path), "HEAD:refs/heads/main")
        self.history.append(self.git("rev-parse", "HEAD").strip())
        return self.history[-1]

    def head(self, ref: str = "refs/heads/main") -> str:
        return git("rev-parse", "--verify", "-q", ref, cwd=self.path).strip()

    def tree(self, commit: str) -> dict[bytes, tuple[str, bytes]]:
        """Path → (mode, content) of a commit on the server."""
        return read_tree(self.path, commit)


def read_tree(repository: Path, commit: str) -> dict[bytes, tuple[str, bytes]]:
    listed = git_bytes("ls-tree", "-r", "-z", "--full-tree", commit, cwd=repository)
    found = {}
    for record in filter(None, listed.split(b"\0")):
        head, path = record.split(b"\t", 1)
        mode, kind, name = head.decode().split()
        content = b"" if kind == "commit" else git_bytes("cat-file", "blob", name, cwd=repository)
        found[path] = (mode, content)
    return found


def git(*args: str, cwd: Path, stdin: bytes = b"") -> str:
    return git_bytes(*args, cwd=cwd, stdin=stdin).decode("utf-8", "surrogateescape")


def git_bytes(*args: str, cwd: Path, stdin: bytes = b"") -> bytes:
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(cwd),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_AUTHOR_NAME": "A",
        "GIT_AUTHOR_EMAIL": "a@example.test",
        "GIT_AUTHOR_DATE": "@1700000000 +0000",
        "GIT_COMMITTER_NAME": "A",
        "GIT_COMMITTER_EMAIL": "a@example.test",
        "GIT_COMMITTER_DATE": "@1700000000 +0000",
    }
    done = subprocess.run(
        ["git", *args], cwd=cwd, env=environment, input=stdin, capture_output=True, check=False
    )
    assert done.returncode == 0, (args, done.stderr.decode(errors="replace"))
    return done.stdout


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    root = tmp_path / "served"
    root.mkdir()
    served = GitServer(root)
    yield served
    served.close()


@pytest.fixture
def origin(server: GitServer, tmp_path: Path) -> Origin:
    return make_origin(server, tmp_path, 4711)


def make_origin(server: GitServer, folder: Path, repository: int) -> Origin:
    path = server.root / f"{repository}.git"
    git("init", "-q", "--bare", "--initial-branch=main", str(path), cwd=folder)
    work = folder / f"work-{repository}"
    git("init", "-q", "--initial-branch=main", str(work), cwd=folder)
    repo = RepoRef(id=repository, url=f"{server.url}/{repository}.git")
    return Origin(path=path, repo=repo, work=work)


@pytest.fixture
async def workshop(server: GitServer, tmp_path: Path) -> AsyncIterator[Workshop]:
    opened = make_workshop(server, tmp_path / "data", tmp_path / "artifacts")
    yield opened
    await opened.close()


def make_workshop(server: GitServer, data: Path, artifacts: Path) -> Workshop:
    return Workshop(
        data,
        credentials=StoredToken(server),
        artifacts=FolderArtifacts(artifacts),
        sandbox=LocalSandbox(),
        allow_loopback_http=True,
    )


def make_pin(
    origin: Origin, base: str, *, run_id: str = RUN, writes: WriteRules | None = None
) -> RunPin:
    return RunPin(
        run_id=run_id,
        repo=origin.repo,
        base_ref="refs/heads/main",
        original_base_sha=base,
        commit=CommitTemplate(
            author_name="Ultracode",
            author_email="bot@example.test",
            committed_at=1_700_000_500,
            message="Fix it\n\nCloses #1\n",
        ),
        writes=writes or WriteRules(),
    )


def scope(*globs: str, task: str = "one") -> Scope:
    return Scope(task_id=task, read_only=not globs, write_globs=globs)


def key(task: str = "one", round: int = 0, run_id: str = RUN) -> WorkKey:
    return WorkKey(run_id=run_id, round=round, task_id=task)


def folder_of(data: Path, origin: Origin, work_key: WorkKey) -> Path:
    """The folder of a lent workspace, as a worker's processes would find it."""
    name = f"{work_key.run_id}-r{work_key.round}-{work_key.task_id}"
    return data / "workspaces" / str(origin.repo.id) / "leased" / name / "files"


def refused(record: WorkerRecord) -> dict[str, str]:
    return {entry.path: entry.reason for entry in record.refused}
