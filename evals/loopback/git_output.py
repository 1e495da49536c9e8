"""What git prints, as records: commits, tree entries, the files of a diff.

In: the output of git with `-z` or a fixed format. Out: frozen values; paths that are not UTF-8 keep
a replacement character, as GitHub's JSON does.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

COMMIT_FORMAT = "%H%n%T%n%P%n%an%n%ae%n%aI%n%cn%n%ce%n%cI%n%G?%n%B"


@dataclass(frozen=True)
class GitPerson:
    """Author or committer of a commit."""

    name: str
    email: str
    at: datetime


@dataclass(frozen=True)
class GitCommit:
    """A commit as git shows it."""

    sha: str
    tree: str
    parents: tuple[str, ...]
    author: GitPerson
    committer: GitPerson
    signed: bool
    message: str


@dataclass(frozen=True)
class TreeEntry:
    """One entry of a tree: `type` is blob, tree or commit; `size` is None but for blobs."""

    mode: str
    type: str
    sha: str
    size: int | None
    path: str


@dataclass(frozen=True)
class FileChange:
    """One file of a diff; `status` is GitHub's word; `patch` is None for binary files."""

    path: str
    previous: str | None
    status: str
    sha: str
    additions: int
    deletions: int
    patch: str | None


def parse_commit(out: str) -> GitCommit:
    """What `git show --format=COMMIT_FORMAT` printed."""
    head, message = out.split("\n", 10)[:10], out.split("\n", 10)[10]
    sha, tree, parents, an, ae, at, cn, ce, ct, signature = head
    return GitCommit(
        sha=sha,
        tree=tree,
        parents=tuple(parents.split()),
        author=GitPerson(an, ae, datetime.fromisoformat(at)),
        committer=GitPerson(cn, ce, datetime.fromisoformat(ct)),
        signed=signature not in ("N", ""),
        message=message.rstrip("\n"),
    )


def parse_entry(raw: bytes) -> TreeEntry:
    """One record of `git ls-tree -l -z`."""
    facts, path = raw.split(b"\t", 1)
    mode, kind, sha, size = facts.decode().split()
    length = None if size == "-" else int(size)
    return TreeEntry(mode, kind, sha, length, path.decode(errors="replace"))


_STATUS = {
    "A": "added",
    "D": "removed",
    "M": "modified",
    "R": "renamed",
    "C": "copied",
    "T": "changed",
}


def parse_changes(out: bytes, patch: str) -> list[FileChange]:
    """Join `--raw -z` and `--numstat -z` records with the hunks of the patch, in git's order."""
    fields = [field.decode(errors="replace") for field in out.split(b"\0")][:-1]
    raws: list[tuple[str, str, str | None, str]] = []  # status, path, previous, sha
    counts: list[tuple[int, int]] = []
    position = 0
    while position < len(fields):
        field = fields[position]
        if field.startswith(":"):
            _, _, old, new, status = field.split(" ")
            renamed = status[0] in "RC"
            path = fields[position + (2 if renamed else 1)]
            previous = fields[position + 1] if renamed else None
            raws.append((status[0], path, previous, old if status[0] == "D" else new))
            position += 3 if renamed else 2
        else:
            added, removed, name = field.split("\t", 2)
            counts.append((_count(added), _count(removed)))
            position += 1 if name else 3
    hunks = iter(_split_patch(patch))
    changes = []
    for (status, path, previous, sha), (plus, minus) in zip(raws, counts, strict=True):
        shown = [
            next(hunks, None) for _ in range(2 if status == "T" else 1)
        ]  # T: removal, addition
        text = "\n".join(hunk for hunk in shown if hunk) or None
        changes.append(FileChange(path, previous, _STATUS[status], sha, plus, minus, text))
    return changes


def _count(text: str) -> int:
    return 0 if text == "-" else int(text)


def _split_patch(patch: str) -> list[str | None]:
    """The hunks of each file, without its headers; None where git showed no text."""
    parts: list[list[str]] = []
    inside = False
    for line in patch.split("\n"):
        if line.startswith("diff --git "):
            parts.append([])
            inside = False
        elif line.startswith("@@ "):
            inside = True
        if inside and parts:
            parts[-1].append(line)
    return ["\n".join(lines) or None for lines in parts]
