"""What one worker changed, said by Git and by nobody else.

In: a workspace whose processes are gone, its scope, the commit it started from. Out: a tree and its
changes as raw entries, or the reasons why they may not be used, path by path. Why: a worker's own
words count for nothing; what counts is what stands in the files, and only inside its scope.

New objects go to a store of their own first: what is refused never enters the mirror.
"""

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from workspace.contents import Content, name_reason, reasons_to_refuse, windows_warning
from workspace.contracts import RefusedPath, Scope, git_path
from workspace.errors import GitFailed
from workspace.files import FileRefused, Folder, beginnings
from workspace.git import Git, Place
from workspace.links import escaping_links
from workspace.paths import decode_path, fold_path
from workspace.pool import Workspace
from workspace.scope import Denials, inside, outside_reason
from workspace.secret_scan import mask_secrets
from workspace.survey import Survey, survey
from workspace.trees import ABSENT_MODE, LINK_MODE, SUBMODULE_MODE, Change, Entry, Trees

MOST_FILE_BYTES = 10 * 1024 * 1024
MOST_TOTAL_BYTES = 100 * 1024 * 1024
MOST_CHANGES = 5000
_MOST_LISTED = 200
_BLOB_MODES = frozenset({"100644", "100755", LINK_MODE})
_INVALID_PATH = re.compile(r"invalid path '(.+)'", re.DOTALL)


@dataclass(slots=True)
class Refusals:
    """Refused paths with their reasons, in order, each once."""

    _by_path: dict[bytes, str] = field(default_factory=dict)

    def add(self, path: bytes, reason: str) -> None:
        """Refuse a path, unless it has been already."""
        self._by_path.setdefault(path, reason)

    def listed(self) -> tuple[RefusedPath, ...]:
        """Return at most 200 of them; a last one counts those that were left out."""
        refused = [
            RefusedPath(path=mask_secrets(git_path(path)), reason=reason)
            for path, reason in sorted(self._by_path.items())
        ]
        left_out = len(refused) - _MOST_LISTED
        if left_out <= 0:
            return tuple(refused)
        rest = RefusedPath(path="…", reason=f"and {left_out} more refused paths")
        return (*refused[:_MOST_LISTED], rest)

    def __bool__(self) -> bool:
        return bool(self._by_path)


@dataclass(frozen=True, slots=True)
class Frozen:
    """What stands in a workspace. With any refusal, `tree` and `changes` are not to be used."""

    tree: str
    changes: tuple[Change, ...]
    refused: tuple[RefusedPath, ...]
    ignored: tuple[str, ...]
    warnings: tuple[str, ...]
    pack: bytes
    """The new trees and blobs; empty when there are none or the record is refused."""
    spoiled: bool = False
    """Whether resetting cannot be trusted to bring the files back: do not use them again."""


class Freezer:
    """Freezes workspaces with one `Git`."""

    def __init__(self, git: Git, trees: Trees) -> None:
        """Use `git` for the work tree and `trees` for objects."""
        self._git = git
        self._trees = trees

    async def freeze(
        self, mirror: Place, workspace: Workspace, scope: Scope, denials: Denials
    ) -> Frozen:
        """Look at a workspace, let Git add what is in it, and judge every change.

        Raises:
            GitFailed: Git could not read it.
        """
        place = Place(
            git_dir=mirror.git_dir,
            work_tree=workspace.files,
            index=workspace.index,
            objects=workspace.slot / "objects",
        )
        (workspace.slot / "objects").mkdir(exist_ok=True)
        parent = await self._trees.entries(mirror, workspace.parent)
        refusals = Refusals()
        try:
            found = await asyncio.to_thread(_survey, workspace.files, parent)
        except FileRefused as error:
            refusals.add(b".", str(error))
            return Frozen(workspace.parent, (), refusals.listed(), (), (), b"", spoiled=True)
        for path in {entry.path for entry in parent}.intersection(found.specials):
            refusals.add(path, "is no regular file any more")
        try:
            tree = await self._add(place, found.unreadable)
        except GitFailed as error:
            named = _INVALID_PATH.search(error.stderr)
            if named is None:
                raise
            refusals.add(named[1].encode(), "a name that Git does not take")
            return Frozen(workspace.parent, (), refusals.listed(), (), (), b"", spoiled=True)
        changes = await self._trees.changes(place, workspace.parent, tree)
        ignored = await self._ignored(place, found)
        await self._refuse_surveyed(place, found, refusals)
        attributes = any(entry.path.endswith(b".gitattributes") for entry in parent)
        judge = _Judge(self._trees, place, scope, denials, refusals, attributes)
        warnings = await judge.judge(parent, changes)
        usable = bool(changes) and not refusals
        return Frozen(
            tree=tree,
            changes=tuple(changes if len(changes) <= MOST_CHANGES else changes[:_MOST_LISTED]),
            refused=refusals.listed(),
            ignored=ignored,
            warnings=warnings,
            pack=await self._pack(place, workspace.parent, tree) if usable else b"",
            spoiled=bool(found.hard_linked),
        )

    async def _pack(self, place: Place, parent: str, tree: str) -> bytes:
        return await self._trees.pack_between(place, await self._trees.tree_of(place, parent), tree)

    async def _add(self, place: Place, unreadable: Sequence[bytes]) -> str:
        """Let Git take in everything it tracks or does not ignore, but for the unreadable."""
        excluded = [b":(top,exclude,literal)" + path for path in unreadable]
        await self._git.run(
            "add", "--all", "--pathspec-from-file=-", "--pathspec-file-nul",
            place=place, stdin=b"\0".join([b":(top)", *excluded]),
        )  # fmt: skip
        return (await self._git.output("write-tree", place=place)).decode().strip()

    async def _ignored(self, place: Place, found: Survey) -> tuple[str, ...]:
        """What stays behind because the repository ignores it, or Git knows no such thing."""
        out = await self._git.output(
            "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory",
            place=place,
        )  # fmt: skip
        paths = [path for path in out.split(b"\0") if path]
        paths += [b".git"] * found.own_git + found.specials
        left_out = len(paths) - _MOST_LISTED
        listed = [git_path(path) for path in sorted(paths)[:_MOST_LISTED]]
        return (*listed, *([f"… and {left_out} more"] if left_out > 0 else []))

    async def _refuse_surveyed(self, place: Place, found: Survey, refusals: Refusals) -> None:
        """Refuse what Git was kept away from, unless the repository ignores it anyway."""
        for path in found.lookalikes:
            refusals.add(path, "a name that some systems read as Git's own folder")
        for path in found.in_submodules:
            refusals.add(path, "inside a submodule")
        reasons = dict.fromkeys(found.repositories, "embedded repository")
        reasons |= dict.fromkeys(
            found.hard_linked, "has more than one hard link: whose file is it?"
        )
        reasons |= {
            path: f"over the size limit: {size} bytes, at most {MOST_FILE_BYTES} are taken"
            for path, size in found.too_large.items()
        }
        unchanged = await self._unchanged(place, found.unreadable)
        ignored = await self._which_ignored(place, list(reasons))
        for path, reason in reasons.items():
            if path not in ignored and path not in unchanged:
                refusals.add(path, reason)

    async def _which_ignored(self, place: Place, paths: Sequence[bytes]) -> set[bytes]:
        if not paths:
            return set()
        out = await self._git.run(
            "check-ignore", "-z", "--stdin",
            place=place, stdin=b"".join(path + b"\0" for path in paths), ok=(0, 1),
        )  # fmt: skip
        return set(out.stdout.split(b"\0")) - {b""}

    async def _unchanged(self, place: Place, paths: Sequence[bytes]) -> set[bytes]:
        """Those of the paths whose files are still what the index says."""
        if not paths:
            return set()
        await self._git.run("update-index", "-q", "--refresh", place=place, ok=(0, 1))
        out = await self._git.output("diff-files", "-z", "--name-only", place=place)
        tracked = await self._git.output("ls-files", "-z", place=place)
        return set(paths) & (set(tracked.split(b"\0")) - set(out.split(b"\0")))


@dataclass(frozen=True, slots=True)
class _Judge:
    """Holds one worker's changes against its scope and against what no candidate may hold."""

    trees: Trees
    place: Place
    scope: Scope
    denials: Denials
    refusals: Refusals
    has_attributes: bool

    async def judge(self, parent: Sequence[Entry], changes: Sequence[Change]) -> tuple[str, ...]:
        """Refuse what has to be refused; return the warnings."""
        if len(changes) > MOST_CHANGES:
            self.refusals.add(
                b".", f"{len(changes)} files changed; at most {MOST_CHANGES} are taken"
            )
            return ()
        for change in changes:
            for reason in self._path_reasons(change):
                self.refusals.add(change.path, reason)
        entries = entries_after(parent, changes)
        added = [change.path for change in changes if change.old_mode == ABSENT_MODE]
        for path, reason in await asyncio.to_thread(collisions, entries, added):
            self.refusals.add(path, reason)
        await self._judge_links(parent, entries, changes)
        await self._judge_contents(changes)
        shown = ((git_path(path), windows_warning(path)) for path in added)
        return tuple(f"{path}: {warning}" for path, warning in shown if warning)[:_MOST_LISTED]

    def _path_reasons(self, change: Change) -> Iterator[str]:
        path = decode_path(change.path)
        if denied := self.denials.reason(path):
            yield denied
        if not inside(self.scope, path):
            yield outside_reason(self.scope)
        if SUBMODULE_MODE in {change.old_mode, change.new_mode}:
            yield "a submodule's entry may not change"
        if change.old_mode == ABSENT_MODE and (odd := name_reason(change.path)):
            yield odd

    async def _judge_links(
        self, parent: Sequence[Entry], entries: Sequence[Entry], changes: Sequence[Change]
    ) -> None:
        """Refuse links that lead out of the tree and did not before."""
        if not any(LINK_MODE in {change.old_mode, change.new_mode} for change in changes):
            return
        before = await load_links(self.trees, self.place, parent)
        after = await load_links(self.trees, self.place, entries)
        for path in escaping_links(after) - escaping_links(before):
            self.refusals.add(path, "a symbolic link that leads out of the repository")

    async def _judge_contents(self, changes: Sequence[Change]) -> None:
        """Judge the bytes of files and the targets of links."""
        files = [change for change in changes if change.new_mode in _BLOB_MODES]
        if await self._too_much(files):
            return
        wanted = [change.new_object for change in files]
        wanted += [change.old_object for change in files if change.old_mode in _BLOB_MODES]
        blobs = await self.trees.blobs(self.place, wanted)
        filters = await self._filters(files)
        contents = [
            Content(
                path=change.path,
                old=blobs.get(change.old_object, b""),
                new=blobs[change.new_object],
                demands_lfs=filters.get(change.path) == "lfs" and change.new_mode != LINK_MODE,
            )
            for change in files
        ]
        reasons = await asyncio.to_thread(_content_reasons, contents)
        for path, reason in reasons:
            self.refusals.add(path, reason)

    async def _too_much(self, files: Sequence[Change]) -> bool:
        sizes = await self.trees.sizes(self.place, [change.new_object for change in files])
        if sum(sizes) <= MOST_TOTAL_BYTES:
            return False
        self.refusals.add(b".", f"more than {MOST_TOTAL_BYTES} bytes in all")
        return True

    async def _filters(self, files: Sequence[Change]) -> Mapping[bytes, str]:
        """The filters that attributes demand; most repositories have no attributes at all."""
        if not self.has_attributes:
            return {}
        return await self.trees.filters(self.place, [change.path for change in files])


def _content_reasons(contents: Sequence[Content]) -> list[tuple[bytes, str]]:
    return [(content.path, reason) for content in contents for reason in reasons_to_refuse(content)]


def entries_after(parent: Sequence[Entry], changes: Sequence[Change]) -> list[Entry]:
    """Return the entries of a tree once changes are made to it."""
    entries = {entry.path: entry for entry in parent}
    for change in changes:
        entries.pop(change.path, None)
        if change.new_mode != ABSENT_MODE:
            entries[change.path] = Entry(change.path, change.new_mode, change.new_object)
    return list(entries.values())


def collisions(entries: Sequence[Entry], added: Sequence[bytes]) -> list[tuple[bytes, str]]:
    """Return the added paths that equal another, or a folder, where case or form is folded."""
    wanted = {fold_path(decode_path(name)) for path in added for name in _names(path)}
    if not wanted:
        return []
    known: dict[str, set[bytes]] = {}
    for name in {name for entry in entries for name in _names(entry.path)}:
        folded = fold_path(decode_path(name))
        if folded in wanted:
            known.setdefault(folded, set()).add(name)
    found = []
    for path in added:
        others = {o for n in _names(path) for o in known[fold_path(decode_path(n))] if o != n}
        if others:
            other = git_path(min(others))
            found.append((path, f"collides with {other} where case or Unicode form is folded"))
    return found


def _names(path: bytes) -> Sequence[bytes]:
    """A path and every folder it lies in."""
    return (*beginnings(path), path)


async def load_links(trees: Trees, place: Place, entries: Iterable[Entry]) -> Mapping[bytes, bytes]:
    """Return the symbolic links of a tree with their targets."""
    links = [entry for entry in entries if entry.mode == LINK_MODE]
    targets = await trees.blobs(place, [entry.object for entry in links])
    return {entry.path: targets[entry.object] for entry in links}


def _survey(files: Path, parent: Sequence[Entry]) -> Survey:
    submodules = {entry.path for entry in parent if entry.mode == SUBMODULE_MODE}
    with Folder(files) as folder:
        return survey(folder, most_file_bytes=MOST_FILE_BYTES, submodules=submodules)
