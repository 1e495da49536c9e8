"""One bare mirror per repository id: what the host keeps of a repository, and nobody else touches.

In: a `RepoRef` and the wish for a commit. Out: a `Place` where Git finds it. Why: every workspace,
candidate and push starts from these objects, so the mirror is fetched incrementally under a lock,
checked before it is first used, and fetched anew, not mended, when it cannot be read.

Files come out of Git byte for byte: `info/attributes` overrides every attribute that would make Git
rewrite content (line ends, `ident`, encodings), so what a worker did not touch never changes.
"""

import asyncio
import contextlib
import hashlib
import re
import shutil
import time
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from workspace.contracts import CommitSha, Credentials, RepoRef, RepositoryId
from workspace.errors import CommitMissing, GitDenied, GitFailed, MirrorDamaged, WorkspaceRefusal
from workspace.git import Git, GitResult, Place, Remote
from workspace.locks import exclusive

T = TypeVar("T")

CANDIDATES = "refs/candidates"
_HEADS = "+refs/heads/*:refs/heads/*"
_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n"
_ATTRIBUTES = "* -text !eol -ident !working-tree-encoding !diff !merge !export-subst\n"
_HEAD = "ref: refs/heads/main\n"
_OWN_FILES = {"config": _CONFIG, "info/attributes": _ATTRIBUTES, "HEAD": _HEAD}
_MANY_PACKS = 20
_NETWORK_SECONDS = 1800.0
_BROKEN = re.compile(
    r"missing|corrupt|broken link|mismatch|unable to|invalid sha1 pointer|bad object"
)


class Mirrors:
    """All mirrors below one folder."""

    def __init__(self, root: Path, git: Git, credentials: Credentials) -> None:
        """Keep mirrors below `root`; ask `credentials` for a token at each use of the network."""
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._root = root
        self._git = git
        self._credentials = credentials
        self._known: dict[RepositoryId, RepoRef] = {}
        self._seen: set[tuple[RepositoryId, CommitSha]] = set()

    def place(self, repository: RepositoryId) -> Place:
        """Return where the mirror is (or will be)."""
        return Place(git_dir=self._root / f"{int(repository)}.git")

    async def fetch(self, repo: RepoRef, *, want: CommitSha | None = None) -> Place:
        """Bring the mirror up to date; with `want` only as far as that commit needs.

        Raises:
            CommitMissing: `want` is not reachable from any branch.
            WorkspaceRefusal: the repository is of a kind that is not supported.
            GitDenied, GitUnreachable: the other side.
        """
        place = await self._healthy(repo)
        if want is not None and await self.has(repo.id, want):
            return place
        async with exclusive(self._lock(repo.id)) as lock:
            if want is None or not await self.has(repo.id, want):
                await self._fetch_or_rebuild(repo, place, lock)
        if want is not None and not await self.has(repo.id, want):
            raise CommitMissing(
                f"Commit {want} is not on any branch of the repository; it may have been removed."
            )
        return place

    async def has(self, repository: RepositoryId, commit: CommitSha) -> bool:
        """Whether the mirror holds this commit; what was seen once is not looked for again."""
        if (repository, commit) in self._seen:
            return True
        found = await self._git.run(
            "cat-file", "-e", f"{commit}^{{commit}}", place=self.place(repository), ok=(0, 1, 128)
        )
        if found.exit_code == 0:
            self._seen.add((repository, commit))
        return found.exit_code == 0

    async def using(self, repo: RepoRef, work: Callable[[Place], Awaitable[T]]) -> T:
        """Do work that reads the mirror; if that is damaged, fetch it anew and do the work again.

        What Git says may quote names that a worker or a repository chose. So its word that
        something is damaged only makes us look: thrown away is only what cannot be read.
        """
        place = await self._healthy(repo)
        try:
            return await work(place)
        except MirrorDamaged:
            async with exclusive(self._lock(repo.id)) as lock:
                if not await self._sound(place):
                    await self._rebuild(repo, lock)
            return await work(place)

    async def using_id(self, repository: RepositoryId, work: Callable[[Place], Awaitable[T]]) -> T:
        """Do as `using` does, for a repository whose mirror this process has used before."""
        repo = self._known.get(repository)
        if repo is None:
            return await work(self.place(repository))
        return await self.using(repo, work)

    async def remote(self, repo: RepoRef, *, write: bool) -> Remote:
        """Return the other side with a token of this moment."""
        return Remote(repo.url, await self._credentials.token(repo, write=write))

    async def speak(
        self, repo: RepoRef, *args: str, write: bool = False, ok: tuple[int, ...] = (0,)
    ) -> GitResult:
        """Run a Git command that uses the network, in the mirror.

        The word `URL` among the arguments is replaced by the repository's.
        """
        words = [repo.url if word == "URL" else word for word in args]

        async def call(remote: Remote) -> GitResult:
            return await self._git.run(
                *words, place=self.place(repo.id), remote=remote, ok=ok,
                timeout_seconds=_NETWORK_SECONDS,
            )  # fmt: skip

        return await self._with_token(repo, call, write=write)

    async def _with_token(
        self, repo: RepoRef, call: Callable[[Remote], Awaitable[T]], *, write: bool
    ) -> T:
        """Use the network; once more if the token had just expired."""
        remote = await self.remote(repo, write=write)
        try:
            return await call(remote)
        except GitDenied:
            fresh = await self.remote(repo, write=write)
            if fresh == remote:
                raise
            return await call(fresh)

    async def keep(self, repository: RepositoryId, run_id: str, round: int, sha: CommitSha) -> None:
        """Name a candidate in the mirror, so that tidying never loses it."""
        ref = f"{CANDIDATES}/{run_id}/r{round}"
        await self._git.output("update-ref", ref, sha, place=self.place(repository))

    async def tidy(self, repository: RepositoryId, *, older_than_seconds: float) -> None:
        """Drop candidates of old runs and repack; call it only while no workspace is in use."""
        place = self.place(repository)
        if not place.git_dir.is_dir():
            return
        async with exclusive(self._lock(repository)):
            listed = await self._git.output(
                "for-each-ref", "--format=%(committerdate:unix) %(refname)", CANDIDATES, place=place
            )
            oldest = time.time() - older_than_seconds
            dated = [line.split(" ", 1) for line in listed.decode().splitlines()]
            gone = "".join(f"delete {ref}\n" for date, ref in dated if int(date or 0) < oldest)
            await self._git.run("update-ref", "--stdin", place=place, stdin=gone.encode())
            packs = list((place.git_dir / "objects/pack").glob("*.pack"))
            if len(packs) > _MANY_PACKS:
                await self._git.run(
                    "repack", "-a", "-d", "-k", "-q", place=place, timeout_seconds=_NETWORK_SECONDS
                )
                await self._git.run(
                    "prune", "--expire=2.weeks.ago", place=place, timeout_seconds=_NETWORK_SECONDS
                )

    def repositories(self) -> list[RepositoryId]:
        """Return the ids of all mirrors here."""
        return [int(path.stem) for path in self._root.glob("*.git") if path.stem.isdigit()]

    def _lock(self, repository: RepositoryId) -> Path:
        return self._root / f"{int(repository)}.lock"

    async def _healthy(self, repo: RepoRef) -> Place:
        """The mirror's place, made or rebuilt when it is missing or damaged."""
        place = self.place(repo.id)
        if self._known.get(repo.id) == repo and _own_files_stand(place.git_dir):
            return place
        async with exclusive(self._lock(repo.id)) as lock:
            if not await self._intact(place):
                await self._rebuild(repo, lock)
        self._known[repo.id] = repo
        return place

    async def _intact(self, place: Place) -> bool:
        """Whether everything that can be checked cheaply is as it was written."""
        if not _own_files_stand(place.git_dir):
            return False
        if not await asyncio.to_thread(_packs_intact, place.git_dir / "objects/pack"):
            return False
        try:
            await self._git.output("for-each-ref", "--format=%(objecttype)", place=place)
        except GitFailed:
            return False
        return True

    async def _sound(self, place: Place) -> bool:
        """Whether every object that is reachable can be read: slow, and only asked on suspicion."""
        if not await self._intact(place):
            return False
        checked = await self._git.run(
            "fsck", "--full", "--no-dangling", "--no-progress",
            place=place, ok=range(256), timeout_seconds=_NETWORK_SECONDS,
        )  # fmt: skip
        return not _BROKEN.search(checked.stdout.decode(errors="replace") + checked.stderr)

    async def _fetch_or_rebuild(self, repo: RepoRef, place: Place, lock: int) -> None:
        _remove_stale_locks(place.git_dir)
        try:
            await self._fetch_into(repo, place, lock)
        except MirrorDamaged:
            if await self._sound(place):
                raise
            await self._rebuild(repo, lock)

    async def _rebuild(self, repo: RepoRef, lock: int) -> None:
        """Put a newly fetched mirror where the old one was."""
        final = self.place(repo.id).git_dir
        fresh = self._root / f"{int(repo.id)}.new-{uuid.uuid4().hex}"
        try:
            await asyncio.to_thread(_lay_out, fresh)
            await self._fetch_into(repo, Place(git_dir=fresh), lock)
            await asyncio.to_thread(_swap, fresh, final)
            self._seen = {seen for seen in self._seen if seen[0] != repo.id}
        finally:
            await asyncio.to_thread(shutil.rmtree, fresh, ignore_errors=True)

    async def _fetch_into(self, repo: RepoRef, place: Place, lock: int) -> None:
        async def call(remote: Remote) -> GitResult:
            return await self._git.run(
                "fetch", "--quiet", "--prune", "--force", "--no-tags", "--no-write-fetch-head",
                "--no-recurse-submodules", "--", repo.url, _HEADS,
                place=place, remote=remote, timeout_seconds=_NETWORK_SECONDS, pass_fds=(lock,),
            )  # fmt: skip

        try:
            fetched = await self._with_token(repo, call, write=False)
        except GitFailed as error:
            raise _as_refusal(error) from error
        if "shallow" in fetched.stderr:  # said as a warning, with exit code 0
            raise _as_refusal(GitFailed("shallow", stderr=fetched.stderr))


def _as_refusal(error: GitFailed) -> Exception:
    """Name the kinds of repository that are not supported."""
    said = error.stderr
    if "shallow" in said:
        return WorkspaceRefusal(
            "The repository is shallow where it is kept; a full one is needed to prove ancestry."
        )
    if "promisor remote" in said:
        return WorkspaceRefusal(
            "The repository is a partial clone where it is kept and lacks contents; a full one is "
            "needed."
        )
    if "object-format" in said or "mismatched algorithms" in said:
        return WorkspaceRefusal(
            "The repository uses SHA-256 object names, which are not supported."
        )
    if "fsck error" in said or "fsckObjects" in said:
        return WorkspaceRefusal(f"The repository holds objects Git calls broken: {error}")
    return error


def _own_files_stand(git_dir: Path) -> bool:
    """Whether the files only we write are as we wrote them, and nothing leads elsewhere."""
    try:
        same = all((git_dir / name).read_text() == text for name, text in _OWN_FILES.items())
    except (OSError, UnicodeDecodeError):
        return False
    foreign = (
        "objects/info/alternates", "objects/info/http-alternates", "commondir", "shallow",
        "info/exclude", "info/grafts",
    )  # fmt: skip
    return (
        same
        and (git_dir / "objects/pack").is_dir()
        and (git_dir / "refs").is_dir()
        and not any((git_dir / name).exists() for name in foreign)
    )


def _lay_out(git_dir: Path) -> None:
    """Write an empty bare repository; no template, hook or default of the host takes part."""
    for folder in ("objects/pack", "objects/info", "refs/heads", "info"):
        (git_dir / folder).mkdir(parents=True, exist_ok=True)
    for name, text in _OWN_FILES.items():
        (git_dir / name).write_text(text)


def _swap(fresh: Path, final: Path) -> None:
    old = final.with_name(f"{final.name}.old-{uuid.uuid4().hex}")
    with contextlib.suppress(FileNotFoundError):
        final.rename(old)
    fresh.rename(final)
    shutil.rmtree(old, ignore_errors=True)


def _packs_intact(folder: Path) -> bool:
    """Whether every pack and index still has the checksum it ends with (gitformat-pack(5))."""
    try:
        indexes = {path.stem for path in folder.glob("*.idx")}
        return all(
            _checksum_holds(folder / f"{stem}.pack") and _checksum_holds(folder / f"{stem}.idx")
            for stem in indexes
        )
    except OSError:
        return False


def _checksum_holds(path: Path) -> bool:
    size = path.stat().st_size - 20
    if size < 0:
        return False
    digest = hashlib.sha1(usedforsecurity=False)
    with path.open("rb") as file:
        left = size
        while left > 0:
            chunk = file.read(min(left, 1 << 20))
            if not chunk:
                return False
            digest.update(chunk)
            left -= len(chunk)
        return file.read() == digest.digest()


def _remove_stale_locks(git_dir: Path) -> None:
    """Remove lock files of fetches that died: whoever holds the mirror's lock fetches alone."""
    for path in [git_dir / "packed-refs.lock", *(git_dir / "refs/heads").rglob("*.lock")]:
        path.unlink(missing_ok=True)
