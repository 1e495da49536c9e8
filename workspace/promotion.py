"""Moving refs on the other side, to one commit from one other commit and in no other case.

In: the commit a ref is expected at and the commit it shall be at. Out: `Pushed`, `Moved` or
`PushRefused` with the server's own words. Why: what lands must be what was reviewed, on the base
that was reviewed; a push whose answer got lost must neither be repeated blindly nor be forgotten.

A lease compares and sets on the server but would also rewind, so a promotion checks ancestry first
(git-push(1), `--force-with-lease`). After any unclear answer the ref itself is read.
"""

import asyncio
import re

from workspace.contracts import CommitSha, Moved, Pushed, PushRefused, RepoRef
from workspace.errors import GitDenied, GitFailed, GitUnreachable, MirrorDamaged, WorkspaceRefusal
from workspace.git import GitResult
from workspace.mirror import Mirrors
from workspace.trees import Trees

_ATTEMPTS = 3
_PAUSE_SECONDS = 1.0
_PUSHED_FLAGS = " +*="
_LONGEST_REASON = 2000
_RACE = re.compile(
    r"stale info|cannot lock ref|failed to update ref|incorrect old value|fetch first"
)


class Promoter:
    """Pushes from mirrors."""

    def __init__(self, mirrors: Mirrors, trees: Trees) -> None:
        """Push what stands in `mirrors`."""
        self._mirrors = mirrors
        self._trees = trees

    async def fast_forward(
        self, repo: RepoRef, ref: str, sha: CommitSha, *, expected: CommitSha
    ) -> Pushed | Moved | PushRefused:
        """Move `ref` from `expected` to its descendant `sha`.

        Raises:
            CommitMissing: one of the commits is not to be had.
            GitUnreachable: after several attempts it is still unknown, or undone.
        """
        await self._mirrors.fetch(repo, want=expected)
        await self._mirrors.fetch(repo, want=sha)
        descends = await self._mirrors.using(
            repo, lambda place: self._trees.is_ancestor(place, expected, sha)
        )
        if not descends:
            return PushRefused(reason=f"{sha} does not descend from {expected}: no fast-forward")
        return await self._push(repo, ref, sha, expected)

    async def place(
        self, repo: RepoRef, ref: str, sha: CommitSha, *, expected: CommitSha | None
    ) -> Pushed | Moved | PushRefused:
        """Move `ref` to `sha`, wherever that lies, if it is at `expected` (None: if it is new).

        Raises:
            WorkspaceRefusal: `ref` is no name for a branch.
            CommitMissing: the commit is not to be had.
            GitUnreachable: after several attempts it is still unknown, or undone.
        """
        if not await self._trees.is_ref_name(self._mirrors.place(repo.id), ref):
            raise WorkspaceRefusal(f"{ref!r} is no name Git takes for a branch.")
        await self._mirrors.fetch(repo, want=sha)
        return await self._push(repo, ref, sha, expected)

    async def read(self, repo: RepoRef, ref: str) -> CommitSha | None:
        """Return where a ref is on the other side, or None where it is not.

        Raises:
            GitUnreachable, GitDenied: the other side did not say.
        """
        answer = await self._mirrors.speak(repo, "ls-remote", "--refs", "--", "URL", ref)
        for line in answer.stdout.decode(errors="replace").splitlines():
            sha, _, name = line.partition("\t")
            if name == ref:
                return sha
        return None

    async def _push(
        self, repo: RepoRef, ref: str, sha: CommitSha, expected: CommitSha | None
    ) -> Pushed | Moved | PushRefused:
        return await self._mirrors.using(
            repo, lambda _: self._push_until_clear(repo, ref, sha, expected)
        )

    async def _push_until_clear(
        self, repo: RepoRef, ref: str, sha: CommitSha, expected: CommitSha | None
    ) -> Pushed | Moved | PushRefused:
        for attempt in range(_ATTEMPTS):
            refusal = await self._try(repo, ref, sha, expected)
            if refusal is None:
                return Pushed(sha=sha)
            actual = await self.read(repo, ref)
            if actual == sha:
                return Pushed(sha=sha)
            if actual != expected:
                return Moved(actual=actual)
            if refusal:
                return PushRefused(reason=refusal)
            await asyncio.sleep(_PAUSE_SECONDS * attempt)
        raise GitUnreachable(f"{ref} could not be pushed: the other side gives no clear answer")

    async def _try(
        self, repo: RepoRef, ref: str, sha: CommitSha, expected: CommitSha | None
    ) -> str | None:
        """Push once. None: it was accepted; words: it was refused; empty: nobody knows."""
        try:
            answer = await self._mirrors.speak(
                repo, "push", "--porcelain", "--no-verify",
                f"--force-with-lease={ref}:{expected or ''}", "--", "URL", f"{sha}:{ref}",
                write=True, ok=(0, 1),
            )  # fmt: skip
        except MirrorDamaged:
            raise
        except GitDenied as error:
            if words := _server_words(error.stderr):
                return words
            raise
        except GitFailed as error:
            return _server_words(error.stderr)
        return None if _accepted(answer, ref) else _refusal(answer, ref)


def _status(answer: GitResult, ref: str) -> tuple[str, str]:
    """The flag and the summary that `--porcelain` gives for a ref (git-push(1), "Output")."""
    for line in answer.stdout.decode(errors="replace").splitlines():
        flag, _, rest = line.partition("\t")
        refs, _, summary = rest.partition("\t")
        if refs.endswith(f":{ref}"):
            return flag or " ", summary
    return "", ""


def _accepted(answer: GitResult, ref: str) -> bool:
    flag, _ = _status(answer, ref)
    return answer.exit_code == 0 and flag != "" and flag in _PUSHED_FLAGS


def _refusal(answer: GitResult, ref: str) -> str:
    """Why the server refused; empty when it was the lease, another push, or nobody knows."""
    flag, summary = _status(answer, ref)
    if flag != "!" or _RACE.search(summary):
        return ""
    words = re.search(r"\((.*)\)\s*$", summary)
    said = [_server_words(answer.stderr), words[1] if words else summary]
    return "; ".join(filter(None, said))[:_LONGEST_REASON]


def _server_words(stderr: str) -> str:
    """What the server itself said on the side channel."""
    lines = [
        line.removeprefix("remote:").strip()
        for line in stderr.splitlines()
        if line.startswith("remote:")
    ]
    return " ".join(line for line in lines if line)[:_LONGEST_REASON]
