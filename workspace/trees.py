"""Trees, blobs and commits, read and written through Git's plumbing, names as raw bytes.

In: a `Place` and object ids. Out: entries, contents, diffs, packs. Why: whatever is said
about files is read from here, from NUL-separated output, so that no name can pretend to be two.
"""

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from workspace.contracts import ChangedFile, ChangeKind, CommitSha, CommitTemplate, git_path
from workspace.errors import MirrorDamaged
from workspace.git import Git, Place

ABSENT_MODE = "000000"
LINK_MODE = "120000"
SUBMODULE_MODE = "160000"
ABSENT_OBJECT = "0" * 40
_FORMAT_BITS = 2  # the leading digits of a mode that name the type


@dataclass(frozen=True, slots=True)
class Entry:
    """One path of a tree."""

    path: bytes
    mode: str
    object: str


@dataclass(frozen=True, slots=True)
class Change:
    """One path of a diff, raw."""

    path: bytes
    old_mode: str
    new_mode: str
    old_object: str
    new_object: str

    @property
    def kind(self) -> ChangeKind:
        """How the path differs."""
        if self.old_mode == ABSENT_MODE:
            return ChangeKind.ADDED
        if self.new_mode == ABSENT_MODE:
            return ChangeKind.DELETED
        if self.old_mode[:_FORMAT_BITS] != self.new_mode[:_FORMAT_BITS]:
            return ChangeKind.TYPE
        if self.old_object == self.new_object:
            return ChangeKind.MODE
        return ChangeKind.MODIFIED

    def as_changed_file(self) -> ChangedFile:
        """Return the form that is recorded."""
        return ChangedFile(
            path=git_path(self.path),
            kind=self.kind,
            old_mode=self.old_mode,
            new_mode=self.new_mode,
            new_object=self.new_object,
        )


class Trees:
    """Reads and writes objects through one `Git`."""

    def __init__(self, git: Git, scratch: Path) -> None:
        """Use `git` for every command, and make temporary indexes below `scratch`."""
        self._git = git
        self._scratch = scratch

    async def entries(self, place: Place, tree: str) -> list[Entry]:
        """Return every path below a tree or commit, submodules included."""
        out = await self._git.output("ls-tree", "-r", "-z", "--full-tree", tree, place=place)
        return [_parse_entry(record) for record in out.split(b"\0") if record]

    async def tree_of(self, place: Place, commit: CommitSha) -> str:
        """Return the id of a commit's tree."""
        out = await self._git.output("rev-parse", "--verify", f"{commit}^{{tree}}", place=place)
        return out.decode().strip()

    async def changes(self, place: Place, old: str, new: str) -> list[Change]:
        """Return what differs between two trees; a rename is a deletion and an addition."""
        out = await self._git.output(
            "diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev",
            "--ignore-submodules=none", old, new, place=place,
        )  # fmt: skip
        return _parse_changes(out)

    async def diff(self, place: Place, old: str, new: str) -> bytes:
        """Return the patch between two trees, binary content included, the same on any host."""
        return await self._git.output(
            "diff-tree", "-r", "-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff",
            "--no-textconv", "--no-color", "--src-prefix=a/", "--dst-prefix=b/",
            "--ignore-submodules=none", old, new, place=place,
        )  # fmt: skip

    async def blobs(self, place: Place, objects: Iterable[str]) -> dict[str, bytes]:
        """Return the contents of blobs by id."""
        wanted = list(dict.fromkeys(objects))
        if not wanted:
            return {}
        out = await self._git.output(
            "cat-file", "--batch", place=place, stdin="".join(f"{o}\n" for o in wanted).encode()
        )
        return _parse_batch(out)

    async def missing(self, place: Place, objects: Sequence[str]) -> list[str]:
        """Return those of the objects that are not here."""
        return [name for name, size in await self._look_up(place, objects) if size is None]

    async def sizes(self, place: Place, objects: Sequence[str]) -> list[int]:
        """Return the sizes of objects that are here, in bytes."""
        return [size for _, size in await self._look_up(place, objects) if size is not None]

    async def _look_up(self, place: Place, objects: Sequence[str]) -> list[tuple[str, int | None]]:
        if not objects:
            return []
        stdin = "".join(f"{name}\n" for name in objects).encode()
        out = await self._git.output("cat-file", "--batch-check", place=place, stdin=stdin)
        words = [line.split(" ") for line in out.decode().splitlines()]
        return [(word[0], None if word[1] == "missing" else int(word[2])) for word in words]

    async def pack(self, place: Place, objects: Sequence[str]) -> bytes:
        """Return a pack that holds these objects, whole; the same objects give the same bytes."""
        stdin = "".join(f"{o}\n" for o in objects).encode()
        return await self._git.output(
            "pack-objects", "-q", "--stdout", "--window=0", "--threads=1", "--no-reuse-object",
            place=place, stdin=stdin,
        )  # fmt: skip

    async def pack_between(self, place: Place, old: str, new: str) -> bytes:
        """Return a pack that brings whoever has `old` to `new`: two commits, or two trees."""
        listed = await self._git.output(
            "rev-list", "--objects", "--no-object-names", new, f"^{old}", place=place
        )
        return await self.pack(place, listed.decode().split())

    async def unpack(self, place: Place, pack: bytes) -> None:
        """Bring the objects of a pack into the store."""
        await self._git.output("unpack-objects", "-q", "--strict", place=place, stdin=pack)

    async def compose(
        self, place: Place, base: str, changes: Sequence[tuple[bytes, str, str]]
    ) -> str:
        """Return the tree that is `base` with each (path, mode, object) put in, mode 0 removing."""
        removed = [change for change in changes if change[1] == ABSENT_MODE]
        put = [change for change in changes if change[1] != ABSENT_MODE]
        lines = b"".join(
            f"{mode.lstrip('0') or '0'} {object_id}\t".encode() + path + b"\0"
            for path, mode, object_id in [*removed, *put]
        )
        with tempfile.TemporaryDirectory(prefix="compose-", dir=self._scratch) as folder:
            at = Place(git_dir=place.git_dir, objects=place.objects, index=Path(folder, "index"))
            await self._git.output("read-tree", base, place=at)
            await self._git.output("update-index", "-z", "--index-info", place=at, stdin=lines)
            return (await self._git.output("write-tree", place=at)).decode().strip()

    async def write_tree(self, place: Place, entries: Iterable[Entry]) -> str:
        """Store the tree that holds exactly these paths, and return its id."""
        lines = b"".join(
            f"{entry.mode} {entry.object}\t".encode() + entry.path + b"\0" for entry in entries
        )
        with tempfile.TemporaryDirectory(prefix="tree-", dir=self._scratch) as folder:
            at = Place(git_dir=place.git_dir, index=Path(folder, "index"))
            await self._git.output("update-index", "-z", "--index-info", place=at, stdin=lines)
            return (await self._git.output("write-tree", place=at)).decode().strip()

    async def write_blob(self, place: Place, content: bytes) -> str:
        """Store a blob and return its id."""
        out = await self._git.output("hash-object", "-w", "--stdin", place=place, stdin=content)
        return out.decode().strip()

    async def raw_commit(self, place: Place, commit: CommitSha) -> bytes:
        """Return a commit object as it is stored."""
        return await self._git.output("cat-file", "commit", commit, place=place)

    async def commit(
        self, place: Place, tree: str, parent: CommitSha, template: CommitTemplate
    ) -> CommitSha:
        """Return the one commit these values make: the same on every host and at any time."""
        date = f"@{template.committed_at} +0000"
        made = await self._git.run(
            "commit-tree", tree, "-p", parent, "-F", "-",
            place=place, stdin=template.message.encode(),
            env=_identity(template, date),
        )  # fmt: skip
        return made.stdout.decode().strip()

    async def checkout(self, place: Place, commit: str, destination: Path) -> None:
        """Fill an empty folder with the files of a commit, byte for byte, as this user."""
        with tempfile.TemporaryDirectory(prefix="checkout-", dir=self._scratch) as folder:
            at = Place(git_dir=place.git_dir, work_tree=destination, index=Path(folder, "index"))
            await self._git.output("read-tree", commit, place=at)
            await self._git.output("checkout-index", "-a", "-f", "-q", place=at)

    async def is_ancestor(self, place: Place, old: CommitSha, new: CommitSha) -> bool:
        """Whether `old` can be reached from `new`."""
        found = await self._git.run("merge-base", "--is-ancestor", old, new, place=place, ok=(0, 1))
        return found.exit_code == 0

    async def is_ref_name(self, place: Place, ref: str) -> bool:
        """Whether Git takes this as the full name of a ref (git-check-ref-format(1))."""
        found = await self._git.run("check-ref-format", ref, place=place, ok=(0, 1))
        return found.exit_code == 0

    async def merge(
        self, place: Place, ours: CommitSha, theirs: CommitSha
    ) -> tuple[str, tuple[bytes, ...]]:
        """Merge two commits that have a common ancestor, without a work tree.

        Returns:
            The merged tree and the paths in conflict; without those the tree is whole.
        """
        merged = await self._git.run(
            "merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", ours, theirs,
            place=place, ok=(0, 1),
        )  # fmt: skip
        tree, *paths = merged.stdout.split(b"\0")
        return tree.decode(), tuple(sorted({path for path in paths if path}))

    async def are_related(self, place: Place, one: CommitSha, other: CommitSha) -> bool:
        """Whether two commits have a common ancestor."""
        found = await self._git.run("merge-base", one, other, place=place, ok=(0, 1))
        return found.exit_code == 0

    async def filters(self, place: Place, paths: Sequence[bytes]) -> Mapping[bytes, str]:
        """Return the `filter` attribute that the .gitattributes in an index give each path."""
        if not paths:
            return {}
        out = await self._git.output(
            "check-attr", "-z", "--cached", "--stdin", "filter",
            place=place, stdin=b"".join(path + b"\0" for path in paths),
        )  # fmt: skip
        fields = out.split(b"\0")
        return {
            fields[number]: fields[number + 2].decode(errors="replace")
            for number in range(0, len(fields) - 2, 3)
        }


def _identity(template: CommitTemplate, date: str) -> dict[str, str]:
    return {
        f"GIT_{role}_{field}": value
        for role in ("AUTHOR", "COMMITTER")
        for field, value in (
            ("NAME", template.author_name),
            ("EMAIL", template.author_email),
            ("DATE", date),
        )
    }


def _parse_entry(record: bytes) -> Entry:
    head, path = record.split(b"\t", 1)
    mode, _, object_id = head.split(b" ")
    return Entry(path=path, mode=mode.decode(), object=object_id.decode())


def _parse_changes(out: bytes) -> list[Change]:
    fields = out.split(b"\0")
    changes = []
    for head, path in zip(fields[0::2], fields[1::2], strict=False):
        old_mode, new_mode, old_object, new_object, _ = head.decode().lstrip(":").split(" ")
        changes.append(Change(path, old_mode, new_mode, old_object, new_object))
    return changes


def _parse_batch(out: bytes) -> dict[str, bytes]:
    contents = {}
    at = 0
    while at < len(out):
        end = out.index(b"\n", at)
        words = out[at:end].decode().split(" ")
        if words[1] == "missing":
            raise MirrorDamaged(f"object {words[0]} is missing")
        size = int(words[2])
        contents[words[0]] = out[end + 1 : end + 1 + size]
        at = end + 1 + size + 1
    return contents
