"""The only place that starts Git: what it may read, reach and keep is decided here.

In: arguments, a `Place` (which Git directory, index, folder) and, for the network, a `Remote` with
its token. Out: bytes, or an error that says in a sentence what happened. Why: Git runs programs
named by configuration, hooks, attributes and URLs. The child's environment is built from nothing,
so that only what stands in this file applies; the token is in that environment and nowhere else.

Facts on Git: git-config(1), git(1) "Environment Variables"; 2.38 brought `merge-tree --write-tree`.
"""

import asyncio
import base64
import contextlib
import os
import re
import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import SecretStr

from workspace.errors import (
    GitDenied,
    GitFailed,
    GitUnreachable,
    MirrorDamaged,
    WorkspaceRefusal,
)

MIB = 1024 * 1024
OLDEST_GIT = (2, 38)
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})

_CONFIG = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.untrackedCache": "false",
    "core.attributesFile": "/dev/null",
    "core.excludesFile": "/dev/null",
    "core.autocrlf": "false",
    "core.safecrlf": "false",
    "core.symlinks": "true",
    "core.fileMode": "true",
    "core.ignoreCase": "false",
    "core.precomposeUnicode": "false",
    "core.protectHFS": "true",
    "core.protectNTFS": "true",
    "core.trustctime": "true",
    "core.checkStat": "default",
    "core.quotePath": "false",
    "core.logAllRefUpdates": "false",
    "core.sparseCheckout": "false",
    "core.askPass": "",
    "core.sshCommand": "false",
    "credential.helper": "",
    "protocol.allow": "never",
    "http.followRedirects": "false",
    "http.sslVerify": "true",
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "60",
    "transfer.fsckObjects": "true",
    "transfer.credentialsInUrl": "die",
    "transfer.bundleURI": "false",
    # Old and harmless: well-known projects carry such commits, and GitHub serves them.
    "fetch.fsck.zeroPaddedFilemode": "warn",
    "fetch.fsck.badTimezone": "warn",
    "fetch.fsck.missingSpaceBeforeDate": "warn",
    "fetch.fsck.missingSpaceBeforeEmail": "warn",
    "fetch.fsck.missingNameBeforeEmail": "warn",
    "fetch.fsck.badEmail": "warn",
    "fetch.fsck.badDate": "warn",
    "fetch.fsck.badDateOverflow": "warn",
    "fetch.fsck.multipleAuthors": "warn",
    "fetch.unpackLimit": "1",
    "fetch.recurseSubmodules": "false",
    "push.recurseSubmodules": "no",
    "push.followTags": "false",
    "push.gpgSign": "false",
    "push.negotiate": "false",
    "submodule.recurse": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "commit.gpgSign": "false",
    "user.useConfigOnly": "true",
    "color.ui": "false",
    "diff.algorithm": "myers",
    "diff.context": "3",
    "diff.interHunkContext": "0",
    "diff.renames": "false",
    "diff.noprefix": "false",
    "diff.mnemonicPrefix": "false",
    "diff.suppressBlankEmpty": "false",
    "merge.conflictStyle": "merge",
    "merge.directoryRenames": "false",
    "pack.threads": "2",
}

_ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/nonexistent",
    "LC_ALL": "C",
    "TZ": "UTC",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_ADVICE": "0",
}

_DAMAGE = re.compile(
    r"corrupt|unable to read|bad object|missing (blob|tree|commit|object)|inflate|"
    r"not a git repository|is empty|does not match index|bad (signature|sha1)|garbage at end|"
    r"invalid sha1 pointer|could not read [0-9a-f]{40}|unable to (find|parse) [0-9a-f]{40}|"
    r"index file .* is too small|did not send all necessary objects|missing necessary objects|"
    r"not a tree object|failed to unpack|unknown repository extension|bad tree object|"
    r"bad config line|not a valid (commit|object) name",
    re.IGNORECASE,
)
_DENIED = re.compile(
    r"Authentication failed|could not read (Username|Password)|error: 40[13]|"
    r"[Rr]epository( '.*')? not found|Invalid username or|Write access to repository not granted",
)
_UNREACHABLE = re.compile(
    r"unable to access|Could not resolve|Failed to connect|Connection (reset|timed out|refused)|"
    r"RPC failed|early EOF|remote end hung up|unexpected disconnect|error: 5\d\d|error: 429|"
    r"Operation too slow|transfer closed|Empty reply|unable to rewind",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where Git works: all of it chosen by us, none of it found by looking around.

    `objects` receives new objects in place of the Git directory's own store, which stays readable.
    """

    git_dir: Path
    work_tree: Path | None = None
    index: Path | None = None
    objects: Path | None = None

    def environment(self) -> dict[str, str]:
        """Return the variables that say so to Git."""
        variables = {"GIT_DIR": str(self.git_dir)}
        if self.work_tree:
            variables["GIT_WORK_TREE"] = str(self.work_tree)
        if self.index:
            variables["GIT_INDEX_FILE"] = str(self.index)
        if self.objects:
            variables["GIT_OBJECT_DIRECTORY"] = str(self.objects)
            variables["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = str(self.git_dir / "objects")
        return variables


@dataclass(frozen=True, slots=True)
class Remote:
    """The other side, and the token that opens it (None: it needs none)."""

    url: str
    token: SecretStr | None = None


@dataclass(frozen=True, slots=True)
class GitResult:
    """How Git ended. `stderr` is bounded: its tail is kept."""

    exit_code: int
    stdout: bytes
    stderr: str


class Git:
    """Runs Git commands, one process each, in a process group of its own that dies on cancel."""

    def __init__(self, *, allow_loopback_http: bool = False, binary: str | None = None) -> None:
        """Use the `git` found on this host.

        Args:
            allow_loopback_http: The stage's server speaks plain HTTP on this machine; nothing else
                ever may.
            binary: Path of another Git.
        """
        self._binary = binary or shutil.which("git")
        self._allow_loopback_http = allow_loopback_http
        self._checked = False

    async def run(
        self,
        *args: str,
        place: Place,
        stdin: bytes = b"",
        ok: Sequence[int] = (0,),
        remote: Remote | None = None,
        env: Mapping[str, str] | None = None,
        timeout_seconds: float = 300,
        most_bytes: int = 256 * MIB,
        pass_fds: Sequence[int] = (),
    ) -> GitResult:
        """Run one Git command to its end.

        Args:
            args: The command and its arguments; never a token.
            place: Where Git works.
            stdin: What it reads.
            ok: Exit codes that are answers.
            remote: Opens the network to this URL's host, with its token, and to nothing else.
            env: Further variables (an identity, a date).
            timeout_seconds: After so long the process group is killed.
            most_bytes: More output than this is an error.
            pass_fds: Locks the child holds for as long as it lives.

        Raises:
            MirrorDamaged: Git could not read its own files.
            GitDenied: The credential was not accepted.
            GitUnreachable: The network failed, or it took too long over the network.
            GitFailed: Anything else.
            WorkspaceRefusal: No usable Git is installed, or the URL may not be spoken to.
        """
        await self._require_git()
        variables = self._environment(place, remote) | dict(env or {})
        result = await self._spawn(
            args,
            variables,
            stdin,
            timeout_seconds=timeout_seconds,
            most_bytes=most_bytes,
            pass_fds=pass_fds,
            networked=remote is not None,
        )
        stderr = _without_secrets(result.stderr, remote)
        if result.exit_code not in ok:
            raise _failure(args[0], result.exit_code, stderr, networked=remote is not None)
        return GitResult(result.exit_code, result.stdout, stderr)

    async def output(self, *args: str, place: Place, stdin: bytes = b"") -> bytes:
        """Run a local Git command and return what it printed."""
        return (await self.run(*args, place=place, stdin=stdin)).stdout

    async def _require_git(self) -> None:
        if self._checked:
            return
        if self._binary is None:
            raise WorkspaceRefusal("Git is not installed on this host; install git 2.38 or newer.")
        result = await self._spawn(
            ("version",),
            _ENVIRONMENT,
            b"",
            timeout_seconds=30,
            most_bytes=MIB,
            pass_fds=(),
            networked=False,
        )
        found = re.search(rb"(\d+)\.(\d+)", result.stdout)
        if found is None or (int(found[1]), int(found[2])) < OLDEST_GIT:
            version = result.stdout.decode(errors="replace").strip()
            raise WorkspaceRefusal(f"Git here is {version!r}; 2.38 or newer is needed.")
        self._checked = True

    def _environment(self, place: Place, remote: Remote | None) -> dict[str, str]:
        config = dict(_CONFIG)
        allowed = "none"
        if remote is not None:
            scheme, origin = self._origin(remote.url)
            allowed = scheme
            config[f"protocol.{scheme}.allow"] = "always"
            if remote.token is not None:
                pair = f"x-access-token:{remote.token.get_secret_value()}".encode()
                header = f"Authorization: Basic {base64.b64encode(pair).decode()}"
                config[f"http.{origin}.extraHeader"] = header
        variables = _ENVIRONMENT | place.environment() | {"GIT_ALLOW_PROTOCOL": allowed}
        variables["GIT_CONFIG_COUNT"] = str(len(config))
        for number, (key, value) in enumerate(config.items()):
            variables[f"GIT_CONFIG_KEY_{number}"] = key
            variables[f"GIT_CONFIG_VALUE_{number}"] = value
        return variables

    def _origin(self, url: str) -> tuple[str, str]:
        """Scheme and origin of a URL that may be spoken to."""
        parts = urlsplit(url)
        host = (parts.hostname or "").lower()
        http = parts.scheme == "http" and self._allow_loopback_http and host in LOOPBACK
        if not host or parts.username or parts.password or not (parts.scheme == "https" or http):
            raise WorkspaceRefusal(f"Git may not speak to {parts.scheme}://{host}: https only.")
        return parts.scheme, f"{parts.scheme}://{parts.netloc}/"

    async def _spawn(
        self,
        args: Sequence[str],
        variables: Mapping[str, str],
        stdin: bytes,
        *,
        timeout_seconds: float,
        most_bytes: int,
        pass_fds: Sequence[int],
        networked: bool,
    ) -> GitResult:
        process = await asyncio.create_subprocess_exec(
            self._binary or "git",
            *args,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=dict(variables),
            cwd="/",
            start_new_session=True,
            umask=0o022,
            pass_fds=tuple(pass_fds),
        )
        talk = [
            asyncio.ensure_future(_feed(process.stdin, stdin)),
            asyncio.ensure_future(_collect(process.stdout, most_bytes)),
            asyncio.ensure_future(_tail(process.stderr, 64 * 1024)),
        ]
        try:
            async with asyncio.timeout(timeout_seconds):
                await asyncio.gather(*talk)
                code = await process.wait()
        except TimeoutError:
            kind = GitUnreachable if networked else GitFailed
            sentence = f"git {args[0]} took more than {timeout_seconds:g} seconds"
            raise kind(sentence) from None
        finally:
            await _put_away(process, talk)
        _, out, err = (part.result() for part in talk)
        return GitResult(code, out or b"", (err or b"").decode(errors="replace"))


async def _feed(pipe: asyncio.StreamWriter | None, content: bytes) -> None:
    assert pipe is not None
    try:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            pipe.write(content)
            await pipe.drain()
    finally:
        pipe.close()


async def _collect(pipe: asyncio.StreamReader | None, most: int) -> bytes:
    assert pipe is not None
    chunks = bytearray()
    while chunk := await pipe.read(MIB):
        chunks += chunk
        if len(chunks) > most:
            raise WorkspaceRefusal(f"Git printed more than {most // MIB} MiB: this is too large.")
    return bytes(chunks)


async def _tail(pipe: asyncio.StreamReader | None, most: int) -> bytes:
    assert pipe is not None
    kept = b""
    while chunk := await pipe.read(64 * 1024):
        kept = (kept + chunk)[-most:]
    return kept


async def _put_away(
    process: asyncio.subprocess.Process, talk: Sequence[asyncio.Future[bytes | None]]
) -> None:
    """Leave nothing of the process group behind, whatever happened and whoever cancels."""
    if process.returncode is not None and all(part.done() for part in talk):
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    ending = asyncio.ensure_future(_end(process, talk))
    cancelled = False
    while not ending.done():
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError


async def _end(
    process: asyncio.subprocess.Process, talk: Sequence[asyncio.Future[bytes | None]]
) -> None:
    """Wait for a killed process; its pipes are read empty, or asyncio would wait for ever."""
    for part in talk:
        part.cancel()
    await asyncio.gather(*talk, return_exceptions=True)
    for pipe in (process.stdout, process.stderr):
        while pipe is not None and await pipe.read(MIB):
            pass
    await process.wait()


def _without_secrets(text: str, remote: Remote | None) -> str:
    if remote is None or remote.token is None:
        return text
    token = remote.token.get_secret_value()
    encoded = base64.b64encode(f"x-access-token:{token}".encode()).decode()
    return text.replace(encoded, "***").replace(token, "***")


def _failure(command: str, exit_code: int, stderr: str, *, networked: bool) -> GitFailed:
    """The error for an exit code that is no answer, by what Git said."""
    said = [line for line in stderr.strip().splitlines() if line.strip()]
    words = next((line for line in said if line.startswith(("fatal:", "error:"))), "")
    words = (words or (said[-1] if said else f"exit code {exit_code}")).removeprefix("fatal: ")
    kind = GitFailed
    if networked and _DENIED.search(stderr):
        kind = GitDenied
    elif networked and _UNREACHABLE.search(stderr):
        kind = GitUnreachable
    elif _DAMAGE.search(stderr):
        kind = MirrorDamaged
    return kind(f"git {command} failed: {words[:500]}", exit_code=exit_code, stderr=stderr)
