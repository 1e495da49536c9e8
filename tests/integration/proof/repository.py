"""A real Git repository in a folder, as the store that judging reads and writes."""

import asyncio
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from workspace.contracts import Candidate, CommitSha, RepositoryId
from workspace.digest import sha256_hex
from workspace.tree_entries import Entries, TreeEntry

_IDENTITY = {
    f"GIT_{role}_{field}": value
    for role in ("AUTHOR", "COMMITTER")
    for field, value in (("NAME", "n"), ("EMAIL", "e@example.org"), ("DATE", "@0 +0000"))
}


class GitRepository:
    """A bare repository whose commits are made from dictionaries of files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.git("init", "-q", "--bare")

    def git(self, *arguments: str, stdin: bytes = b"", **extra: str) -> bytes:
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.folder,
            env={"PATH": os.defpath, "HOME": str(self.folder), **_IDENTITY, **extra},
            input=stdin,
            capture_output=True,
            check=True,
        )
        return done.stdout

    def commit(self, files: Mapping[str, bytes | str], parent: str | None = None) -> CommitSha:
        """Commit exactly these files; `link:TARGET` as content makes a link."""
        entries: Entries = {}
        for path, content in files.items():
            raw = content.encode() if isinstance(content, str) else content
            mode = "100755" if path.endswith(".sh") else "100644"
            if raw.startswith(b"link:"):
                mode, raw = "120000", raw.removeprefix(b"link:")
            entries[path] = TreeEntry(mode, self._blob(raw))
        tree = self._tree(entries)
        parents = ["-p", parent] if parent else []
        return self.git("commit-tree", tree, *parents, "-m", "m").decode().strip()

    def tree_of(self, commit: str) -> str:
        return self.git("rev-parse", f"{commit}^{{tree}}").decode().strip()

    def diff(self, base: str, commit: str) -> bytes:
        return self.git("diff-tree", "-p", "--binary", base, commit)

    def candidate(self, base: CommitSha, sha: CommitSha) -> Candidate:
        digest = sha256_hex(self.diff(base, sha))
        return Candidate(
            id="candidate-0",
            sha=sha,
            tree=self.tree_of(sha),
            base_sha=base,
            original_base_sha=base,
            round=0,
            changed_files=(),
            diff_uri=f"artifact:{digest}",
            diff_digest=digest,
        )

    # --- the TreeStore protocol -------------------------------------------------------------------

    async def entries(self, repository: RepositoryId, treeish: str) -> Entries:
        out = self.git("ls-tree", "-r", "-z", "--full-tree", treeish)
        entries = {}
        for record in filter(None, out.split(b"\0")):
            head, path = record.split(b"\t", 1)
            mode, _, object_id = head.decode().split(" ")
            entries[path.decode("utf-8", "surrogateescape")] = TreeEntry(mode, object_id)
        return entries

    async def read_blob(self, repository: RepositoryId, object_id: str) -> bytes:
        return self.git("cat-file", "blob", object_id)

    async def write_blob(self, repository: RepositoryId, content: bytes) -> str:
        return self._blob(content)

    async def write_tree(self, repository: RepositoryId, entries: Mapping[str, TreeEntry]) -> str:
        return self._tree(entries)

    async def read_commit(self, repository: RepositoryId, commit: str) -> bytes:
        return self.git("cat-file", "commit", commit)

    async def checkout(self, repository: RepositoryId, treeish: str, into: Path) -> None:
        index = f"{into}.index"
        await asyncio.to_thread(self.git, "read-tree", treeish, GIT_INDEX_FILE=index)
        await asyncio.to_thread(
            self.git,
            f"--work-tree={into}",
            "checkout-index",
            "-a",
            "-f",
            "-q",
            GIT_INDEX_FILE=index,
            GIT_DIR=str(self.folder),
        )
        Path(index).unlink()

    def _blob(self, content: bytes) -> str:
        return self.git("hash-object", "-w", "--stdin", stdin=content).decode().strip()

    def _tree(self, entries: Mapping[str, TreeEntry]) -> str:
        lines = b"".join(
            f"{entry.mode} {entry.object_id}\t".encode()
            + path.encode("utf-8", "surrogateescape")
            + b"\0"
            for path, entry in entries.items()
        )
        index = str(self.folder / f"index-{os.urandom(6).hex()}")
        self.git("update-index", "-z", "--index-info", stdin=lines, GIT_INDEX_FILE=index)
        tree = self.git("write-tree", GIT_INDEX_FILE=index).decode().strip()
        Path(index).unlink(missing_ok=True)
        return tree
