"""Clone, fetch and push: `git http-backend` behind GitHub's token checks.

In: Git's smart HTTP requests for `/{owner}/{repo}[.git]/…`. Out: whatever git itself answers.
Before a push is accepted, git's `update` hook asks us ref by ref (`hook.py`, over a socket in our
own folder); afterwards the refs are compared and everything that hangs on them follows.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response, StreamingResponse

from evals.loopback import pushes
from evals.loopback.auth import Actor, actor_from, can_see, may
from evals.loopback.errors import GitHubError
from evals.loopback.push_hook import Push
from evals.loopback.state import (
    Repository,
)
from evals.loopback.story import story_of
from evals.loopback.world import World

router = APIRouter()
_CHUNK = 65_536
_SIDEBAND_DATA = 1


# --- the HTTP face ---


@router.get("/{owner}/{name}/info/refs")
async def info_refs(request: Request, owner: str, name: str) -> Response:
    """What a client asks first: the refs, for fetching or for pushing."""
    service = request.query_params.get("service", "")
    if service not in ("git-upload-pack", "git-receive-pack"):
        return PlainTextResponse("Please upgrade your git client.", 403)
    return await _serve(request, owner, name, "info/refs", service)


@router.post("/{owner}/{name}/git-upload-pack")
async def upload_pack(request: Request, owner: str, name: str) -> Response:
    """Clone and fetch."""
    return await _serve(request, owner, name, "git-upload-pack", "git-upload-pack")


@router.post("/{owner}/{name}/git-receive-pack")
async def receive_pack(request: Request, owner: str, name: str) -> Response:
    """Push."""
    return await _serve(request, owner, name, "git-receive-pack", "git-receive-pack")


async def _serve(request: Request, owner: str, name: str, path: str, service: str) -> Response:
    world = story_of(request).world
    try:
        actor = actor_from(world, request.headers.get("authorization"))
    except GitHubError as problem:
        return _refusal(problem.status, "Invalid username or token.")
    repository = world.repository(owner, name.removesuffix(".git"))
    if repository is None:
        moved = world.formerly(owner, name.removesuffix(".git"))
        if moved is not None and can_see(world, actor, moved):
            return _moved(request, moved, path)
    if repository is None or not can_see(world, actor, repository):
        return _unknown(actor)
    refusal = _access(world, actor, repository, service)
    if refusal is not None:
        return refusal
    if path == "git-receive-pack":
        return await _push(request, world, repository, actor)
    process = await _backend(request, repository, actor, path)
    feeding = asyncio.create_task(_feed(request, process))
    head, headers = await _cgi_head(process)
    return StreamingResponse(_rest(process, feeding), head, headers)


def _unknown(actor: Actor) -> Response:
    """Strangers are asked who they are before they learn that there is nothing."""
    if actor.account is None:
        return _refusal(401, "Authentication required.")
    return _refusal(404, "Repository not found.")


def _access(world: World, actor: Actor, repository: Repository, service: str) -> Response | None:
    """Whether reading, or pushing, is refused to somebody who may know the repository."""
    if service == "git-upload-pack":
        readable = may(world, actor, repository, "contents", "read", "read")
        return None if readable else _refusal(403, "Access to repository not granted.")
    if actor.account is None:
        return _refusal(401, "Authentication required.")
    if repository.archived:
        return _refusal(403, "This repository was archived so it is read-only.")
    if not may(world, actor, repository, "contents", "write", "write"):
        if actor.installation is not None:
            return _refusal(403, "Write access to repository not granted.")
        who = actor.account.login
        return _refusal(403, f"Permission to {repository.full_name}.git denied to {who}.")
    return None


def _refusal(status: int, words: str) -> Response:
    headers = {"WWW-Authenticate": 'Basic realm="GitHub"'} if status == 401 else {}  # noqa: PLR2004
    return PlainTextResponse(words, status, headers)


def _moved(request: Request, repository: Repository, path: str) -> Response:
    world = story_of(request).world
    where = f"{world.url}/{repository.full_name}.git/{path}"
    query = f"?{request.url.query}" if request.url.query else ""
    return Response(status_code=301, headers={"Location": where + query})


# --- the processes ---


async def _backend(
    request: Request,
    repository: Repository,
    actor: Actor,
    path: str,
    more: Mapping[str, str] | None = None,
) -> asyncio.subprocess.Process:
    git = repository.git
    env = git.environment(
        {
            "GIT_PROJECT_ROOT": str(git.path.parent),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": f"/{git.path.name}/{path}",
            "QUERY_STRING": request.url.query,
            "REQUEST_METHOD": request.method,
            "CONTENT_TYPE": request.headers.get("content-type", ""),
            "HTTP_CONTENT_ENCODING": request.headers.get("content-encoding", ""),
            "GIT_PROTOCOL": request.headers.get("git-protocol", ""),
            "REMOTE_USER": actor.account.login if actor.account else "",
            "REMOTE_ADDR": "127.0.0.1",
            **(more or {}),
        }
    )
    return await asyncio.create_subprocess_exec(
        "git",
        "http-backend",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=env,
    )


async def _feed(request: Request, process: asyncio.subprocess.Process) -> None:
    assert process.stdin is not None
    with suppress(ConnectionError):
        async for chunk in request.stream():
            process.stdin.write(chunk)
            await process.stdin.drain()
    process.stdin.close()


async def _cgi_head(process: asyncio.subprocess.Process) -> tuple[int, dict[str, str]]:
    """The CGI header block: an HTTP status and headers."""
    assert process.stdout is not None
    status, headers = 200, {}
    while line := (await process.stdout.readline()).decode().strip():
        key, _, value = line.partition(":")
        if key.lower() == "status":
            status = int(value.split()[0])
        else:
            headers[key] = value.strip()
    return status, headers


async def _rest(
    process: asyncio.subprocess.Process, feeding: asyncio.Task[None]
) -> AsyncIterator[bytes]:
    assert process.stdout is not None
    ended = False
    try:
        while chunk := await process.stdout.read(_CHUNK):
            yield chunk
        ended = True
    finally:
        feeding.cancel()
        if not ended and process.returncode is None:
            with suppress(ProcessLookupError):
                # process.kill() would reap the child first and lose its exit code
                os.kill(process.pid, signal.SIGKILL)
        await process.wait()


async def _push(request: Request, world: World, repository: Repository, actor: Actor) -> Response:
    hooks = story_of(request).hooks
    name = secrets.token_hex(8)
    hooks.pushes[name], hooks.words[name] = Push(repository, actor), {}
    more = {"LOOPBACK_PUSH": name, "LOOPBACK_SOCKET": str(hooks.socket)}
    try:
        async with repository.git.writing:
            before = await repository.git.refs()
            process = await _backend(request, repository, actor, "git-receive-pack", more)
            feeding = asyncio.create_task(_feed(request, process))
            status, headers = await _cgi_head(process)
            body = b"".join([chunk async for chunk in _rest(process, feeding)])
            changes = pushes.difference(before, await repository.git.refs())
        await pushes.after_push(world, repository, actor, changes)
        return Response(_in_githubs_words(body, hooks.words[name]), status, headers)
    finally:
        del hooks.pushes[name], hooks.words[name]


# --- the report a client reads ---


def _in_githubs_words(body: bytes, words: Mapping[str, str]) -> bytes:
    """Git reports every refusal as `hook declined`; GitHub says which rule it was."""
    if not words:
        return body
    rewritten = b""
    report = b""
    for packet in _packets(body):
        if packet and packet[0] == _SIDEBAND_DATA:
            report += packet[1:]
        elif packet is not None:
            rewritten += _packet(packet)
    renamed = b"".join(_packet(_renamed(line, words)) for line in _packets(report) if line)
    return rewritten + _packet(bytes([_SIDEBAND_DATA]) + renamed + b"0000") + b"0000"


def _renamed(line: bytes, words: Mapping[str, str]) -> bytes:
    match = re.match(rb"ng (\S+) ", line)
    kind = words.get(match[1].decode()) if match else None
    return b"ng %b %b\n" % (match[1], kind.encode()) if match and kind else line


def _packets(data: bytes) -> list[bytes]:
    """The pkt-lines of a stream; flush packets are left out."""
    packets, position = [], 0
    while position + 4 <= len(data):
        length = int(data[position : position + 4], 16)
        if length > 4:  # noqa: PLR2004 - the length counts its own four digits
            packets.append(data[position + 4 : position + length])
        position += max(length, 4)
    return packets


def _packet(content: bytes) -> bytes:
    return b"%04x" % (len(content) + 4) + content
