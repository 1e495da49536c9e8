"""Git facts of one bare repository, asked from git itself.

In: a path. Out: refs, commits, trees, diffs and merges. Nothing is remembered here except commits,
which cannot change. All processes are asynchronous and see no configuration but ours.
"""

from __future__ import annotations

import asyncio
import functools
import os
import re
import shutil
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from evals.loopback.git_output import (
    COMMIT_FORMAT,
    FileChange,
    GitCommit,
    GitPerson,
    TreeEntry,
    parse_changes,
    parse_commit,
    parse_entry,
)

ZERO = "0" * 40
P = ParamSpec("P")
T = TypeVar("T")
_FULL = re.compile(r"[0-9a-f]{40}$")
_GIT = shutil.which("git") or "git"


class GitFailedError(Exception):
    """A git command ended with another exit code than 0; carries what it said."""

    def __init__(self, args: Sequence[str], code: int, stderr: str) -> None:
        super().__init__(f"git {args[0]} ended {code}: {stderr.strip()}")
        self.code = code
        self.stderr = stderr


def _remembered(
    ask: Callable[P, Coroutine[Any, Any, T]],
) -> Callable[P, Coroutine[Any, Any, T]]:
    """Ask git once for what full SHAs alone decide: such answers never change."""

    @functools.wraps(ask)
    async def answer(*args: P.args, **kwargs: P.kwargs) -> T:
        repository, *named = args
        assert isinstance(repository, BareRepository)
        if kwargs.get("env") is not None or not all(_FULL.match(str(name)) for name in named):
            return await ask(*args, **kwargs)
        key = (ask.__name__, *named, *sorted(kwargs.items()))
        if key in repository.known:
            known: T = repository.known[key]
            return known
        found = await ask(*args, **kwargs)
        if found:  # "no" may only mean that an object has not arrived yet
            repository.known[key] = found
        return found

    return answer


class BareRepository:
    """One bare repository on disk."""

    def __init__(self, path: Path, config: Path) -> None:
        self.path = path
        self._config = config
        self._commits: dict[str, GitCommit] = {}
        self.known: dict[tuple[Any, ...], Any] = {}
        self.writing = asyncio.Lock()  # held while refs change, so that before and after are true

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """What git's processes see: our configuration and nothing of the machine's."""
        return {
            "PATH": os.defpath,
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "HOME": str(self._config.parent),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": str(self._config),
            "GIT_TERMINAL_PROMPT": "0",
            **(more or {}),
        }

    async def run(
        self,
        *args: str,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        ok: Sequence[int] = (0,),
    ) -> tuple[int, bytes]:
        """Run git here; raise GitFailedError unless the exit code is one of `ok`."""
        process = await asyncio.create_subprocess_exec(
            _GIT,
            "--git-dir",
            str(self.path),
            *args,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self.environment(env),
        )
        out, err = await process.communicate(stdin)
        code = process.returncode or 0
        if code not in ok:
            raise GitFailedError(args, code, err.decode(errors="replace"))
        return code, out

    async def text(
        self, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None
    ) -> str:
        """The output of a git command that must succeed, without its last line end."""
        _, out = await self.run(*args, stdin=stdin, env=env)
        return out.decode(errors="replace").rstrip("\n")

    # --- refs ---

    async def refs(self, prefix: str = "refs/") -> dict[str, str]:
        """Every ref under the prefix with the object it points to."""
        out = await self.text("for-each-ref", "--format=%(refname) %(objectname)", prefix)
        return dict(line.split(" ", 1) for line in out.splitlines())

    async def ref(self, name: str) -> str | None:
        """The object a full ref name points to, or None."""
        code, out = await self.run("show-ref", "--verify", "--hash", name, ok=(0, 1, 128))
        return out.decode().strip() or None if code == 0 else None

    async def branch(self, name: str) -> str | None:
        """The commit at the tip of a branch, or None."""
        return await self.ref(f"refs/heads/{name}")

    async def default_branch(self) -> str:
        """The branch HEAD names, whether or not it exists yet."""
        return (await self.text("symbolic-ref", "HEAD")).removeprefix("refs/heads/")

    async def update_ref(self, name: str, new: str, old: str | None) -> bool:
        """Compare-and-set a ref; `old` None means it must not exist. False when it had moved."""
        code, _ = await self.run("update-ref", name, new, old or ZERO, ok=(0, 1, 128))
        return code == 0

    async def delete_ref(self, name: str, old: str) -> bool:
        """Delete a ref if it still points to `old`."""
        code, _ = await self.run("update-ref", "-d", name, old, ok=(0, 1, 128))
        return code == 0

    # --- commits ---

    async def resolve(self, revision: str, env: Mapping[str, str] | None = None) -> str | None:
        """The commit a branch, tag, SHA or ref stands for, as GitHub resolves it."""
        for candidate in (f"refs/heads/{revision}", f"refs/tags/{revision}", revision):
            spec = f"{candidate}^{{commit}}"
            args = ("rev-parse", "--verify", "--quiet", "--end-of-options", spec)
            code, out = await self.run(*args, env=env, ok=(0, 1, 128))
            if code == 0:
                return out.decode().strip()
        return None

    async def commit(self, sha: str, env: Mapping[str, str] | None = None) -> GitCommit:
        """The commit of that full SHA."""
        if sha not in self._commits:
            out = await self.text("show", "-s", f"--format={COMMIT_FORMAT}", sha, "--", env=env)
            self._commits[sha] = parse_commit(out)
        return self._commits[sha]

    @_remembered
    async def is_ancestor(
        self, ancestor: str, of: str, *, env: Mapping[str, str] | None = None
    ) -> bool:
        """Whether `of` contains `ancestor` (a commit contains itself)."""
        args = ("merge-base", "--is-ancestor", ancestor, of)
        code, _ = await self.run(*args, env=env, ok=(0, 1, 128))
        return code == 0

    @_remembered
    async def merge_base(self, one: str, other: str) -> str | None:
        """The best common ancestor."""
        code, out = await self.run("merge-base", one, other, ok=(0, 1))
        return out.decode().strip() if code == 0 else None

    @_remembered
    async def between(
        self, old: str | None, new: str, *, limit: int = 250, env: Mapping[str, str] | None = None
    ) -> list[str]:
        """Commits in `new` and not in `old`, oldest first."""
        span = [new, f"^{old}"] if old else [new]
        out = await self.text("rev-list", "--reverse", f"--max-count={limit}", *span, "--", env=env)
        return out.split()

    async def history(self, tip: str, path: str | None = None, *, limit: int = 1000) -> list[str]:
        """Commits from a tip backwards, newest first."""
        where = [path] if path else []
        return (await self.text("rev-list", f"--max-count={limit}", tip, "--", *where)).split()

    # --- content ---

    async def tree(self, treeish: str, *, recursive: bool = False) -> list[TreeEntry]:
        """The entries of a tree."""
        flags = ["-r", "-t"] if recursive else []
        _, out = await self.run("ls-tree", "-l", "-z", *flags, treeish)
        return [parse_entry(raw) for raw in out.split(b"\0") if raw]

    async def entry(
        self, commit: str, path: str, *, env: Mapping[str, str] | None = None
    ) -> TreeEntry | None:
        """The tree entry at a path, or None."""
        code, out = await self.run("ls-tree", "-l", "-z", commit, "--", path, env=env, ok=(0, 128))
        entries = [parse_entry(raw) for raw in out.split(b"\0") if raw]
        return entries[0] if code == 0 and entries else None

    async def object(self, sha: str) -> bytes:
        """The raw bytes of a blob, tree or commit."""
        kind = await self.text("cat-file", "-t", sha)
        return (await self.run("cat-file", kind, sha))[1]

    @_remembered
    async def changes(
        self, old: str, new: str, *, env: Mapping[str, str] | None = None
    ) -> list[FileChange]:
        """What differs between two commits or trees, renames found, with patches."""
        args = ("diff-tree", "-r", "-z", "-M", "--raw", "--numstat", "--no-commit-id", old, new)
        _, out = await self.run(*args, env=env)
        _, patch = await self.run(
            "diff-tree", "-r", "-p", "-M", "--no-commit-id", old, new, env=env
        )
        return parse_changes(out, patch.decode(errors="replace"))

    @_remembered
    async def changed_paths(
        self, old: str, new: str, *, env: Mapping[str, str] | None = None
    ) -> list[str]:
        """Paths that differ, both ends of a rename."""
        args = ("diff-tree", "-r", "-z", "--no-renames", "--name-only", "--no-commit-id", old, new)
        _, out = await self.run(*args, env=env)
        return [raw.decode(errors="replace") for raw in out.split(b"\0") if raw]

    # --- writing objects ---

    @_remembered
    async def merge_tree(self, ours: str, theirs: str) -> str | None:
        """The tree of a merge, or None when it conflicts."""
        args = ("merge-tree", "--write-tree", "--no-messages", ours, theirs)
        code, out = await self.run(*args, ok=(0, 1))
        return out.decode().splitlines()[0] if code == 0 else None

    async def write_blob(self, content: bytes) -> str:
        """Store a blob."""
        return await self.text("hash-object", "-w", "--stdin", stdin=content)

    async def write_tree(self, base: str | None, files: Mapping[str, bytes | None]) -> str:
        """The tree `base` with files written (bytes) or removed (None)."""
        index = self.path / f"loopback-index-{os.urandom(8).hex()}"
        env = {"GIT_INDEX_FILE": str(index)}
        try:
            await self.run("read-tree", *([base] if base else ["--empty"]), env=env)
            lines = [
                f"0 {ZERO}\t{path}"
                if data is None
                else f"100644 {await self.write_blob(data)}\t{path}"
                for path, data in files.items()
            ]
            stdin = "".join(f"{line}\0" for line in lines).encode()
            await self.run("update-index", "-z", "--index-info", stdin=stdin, env=env)
            return await self.text("write-tree", env=env)
        finally:
            index.unlink(missing_ok=True)

    async def write_commit(
        self, tree: str, parents: Sequence[str], message: str, author: GitPerson
    ) -> str:
        """Store a commit whose author and committer are the same person."""
        env = {
            "GIT_AUTHOR_NAME": author.name,
            "GIT_AUTHOR_EMAIL": author.email,
            "GIT_AUTHOR_DATE": author.at.isoformat(),
            "GIT_COMMITTER_NAME": author.name,
            "GIT_COMMITTER_EMAIL": author.email,
            "GIT_COMMITTER_DATE": author.at.isoformat(),
        }
        flags = [flag for parent in parents for flag in ("-p", parent)]
        return await self.text("commit-tree", tree, *flags, stdin=message.encode(), env=env)


async def clone_bare(source: Path, target: Path, config: Path) -> BareRepository:
    """A bare copy of any repository on disk, whose default branch is the source's HEAD."""
    repository = BareRepository(target, config)
    process = await asyncio.create_subprocess_exec(
        _GIT,
        "clone",
        "--quiet",
        "--bare",
        "--no-hardlinks",
        "--",
        str(source),
        str(target),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env=repository.environment(),
    )
    _, err = await process.communicate()
    if process.returncode:
        raise GitFailedError(["clone"], process.returncode, err.decode(errors="replace"))
    await repository.run("config", "--remove-section", "remote.origin", ok=(0, 128))
    return repository
