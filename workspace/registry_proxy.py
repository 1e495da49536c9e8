"""The only way out for set-up: a proxy that reads named package registries, and nothing else.

In: rules (`registries`), and connections from the sandbox through a UNIX socket. Out: GET and HEAD
requests to allowed hosts and paths; anything else is refused with a sentence. Why: installing runs
code of strangers, which must neither reach this network nor send anything anywhere.

It ends the TLS of the sandbox with certificates of an authority that lives as long as the proxy, so
that methods and paths can be judged; it makes its own TLS connection to the registry. Names are
resolved here, and an address that is not public is refused. Framing is h11's, the other side
httpcore's. (mitmproxy would do the same; its releases cannot be installed beside Agno's h11.)
"""

import asyncio
import ipaddress
import os
import socket
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import h11
import httpcore

from workspace.certificates import Authority
from workspace.registries import Rule

MAX_BYTES: Final = 8 * 1024**3
MAX_CONNECTIONS: Final = 32
_HEAD_BYTES: Final = 16 * 1024
_CHUNK: Final = 64 * 1024
_TIMEOUTS: Final = {"connect": 20.0, "read": 120.0, "write": 20.0, "pool": 120.0}
#: Of a request these alone go on: no cookie, no credential, nothing that could carry data out.
_PASSED_ON: Final = frozenset(
    {b"accept", b"accept-encoding", b"if-none-match", b"if-modified-since", b"range"}
)
_BETWEEN_NEIGHBOURS: Final = frozenset(
    {b"connection", b"keep-alive", b"proxy-authenticate", b"transfer-encoding", b"upgrade"}
)


class _Refused(Exception):
    """Why a request is not passed on."""


@dataclass(slots=True, kw_only=True)
class Upstream:
    """How the proxy reaches registries."""

    trust: ssl.SSLContext = field(default_factory=ssl.create_default_context)
    mirrors: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """Host → address and port of a mirror the operator keeps for it, private or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningProxy:
    """Where a running proxy is found, and what it refused."""

    socket: Path
    authority: Path
    """The certificate to trust, PEM."""
    refused: list[str]


@asynccontextmanager
async def run_registry_proxy(
    rules: Iterable[Rule], folder: Path, upstream: Upstream | None = None
) -> AsyncIterator[RunningProxy]:
    """Run a proxy as long as the context lasts.

    Args:
        rules: What may be read.
        folder: Where its socket and certificate are put.
        upstream: How registries are reached.
    """
    authority, upstream = Authority(), upstream or Upstream()
    running = RunningProxy(
        socket=folder / "registries.sock", authority=folder / "registries.pem", refused=[]
    )
    running.authority.write_bytes(authority.certificate)
    async with httpcore.AsyncConnectionPool(
        ssl_context=upstream.trust,
        network_backend=_Resolver(upstream.mirrors),
        max_connections=MAX_CONNECTIONS,
    ) as pool:
        door = _Door({rule.host: rule.prefixes for rule in rules}, authority, pool, running.refused)
        server = await asyncio.start_unix_server(
            door.welcome, sock=_bind(running.socket), limit=_HEAD_BYTES
        )
        try:
            yield running
        finally:
            server.close()
            await door.close()


def _bind(path: Path) -> socket.socket:
    """Return a socket at a path of any length, though an address holds 108 bytes (unix(7))."""
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        bound.bind(f"/proc/self/fd/{folder}/{path.name}")
    except OSError:
        bound.close()
        raise
    finally:
        os.close(folder)
    path.chmod(0o666)
    return bound


class _Resolver(httpcore.AsyncNetworkBackend):
    """Connects to public addresses only, whatever a name resolves to."""

    def __init__(self, mirrors: Mapping[str, tuple[str, int]]) -> None:
        self._mirrors = mirrors
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's own signature
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        if host in self._mirrors:
            address, port = self._mirrors[host]
        else:
            address = await _public_address(host, port)
        return await self._network.connect_tcp(
            address, port, timeout, local_address, socket_options
        )


async def _public_address(host: str, port: int) -> str:
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        raise _Refused(f"{host} cannot be resolved") from None
    addresses = [str(entry[4][0]) for entry in found]
    for address in addresses:
        if not ipaddress.ip_address(address).is_global:
            raise _Refused(f"{host} resolves to {address}, which is not public")
    return addresses[0]


class _Door:
    """Takes connections, judges requests, passes them on."""

    def __init__(
        self,
        allowed: Mapping[str, tuple[str, ...]],
        authority: Authority,
        pool: httpcore.AsyncConnectionPool,
        refused: list[str],
    ) -> None:
        self._allowed = allowed
        self._authority = authority
        self._pool = pool
        self._refused = refused
        self._bytes_left = MAX_BYTES
        self._guests: set[asyncio.Task[None]] = set()

    async def welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection to its end."""
        task = asyncio.current_task()
        assert task
        self._guests.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, ssl.SSLError, EOFError, asyncio.LimitOverrunError, h11.ProtocolError):
            pass  # the sandbox hung up, or does not speak HTTP
        finally:
            self._guests.discard(task)
            writer.close()

    async def close(self) -> None:
        """Hang up on everybody."""
        guests = list(self._guests)
        for guest in guests:
            guest.cancel()
        await asyncio.gather(*guests, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        try:
            host = self._decide_host(head.split(b"\r\n", 1)[0])
        except _Refused as refusal:
            self._refused.append(str(refusal))
            writer.write(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")
            await writer.drain()
            return
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await writer.start_tls(self._authority.context_for(host))
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_HEAD_BYTES)
        while await self._answer(host, connection, reader, writer):
            connection.start_next_cycle()

    def _decide_host(self, line: bytes) -> str:
        words = line.decode("ascii", "replace").split(" ")
        if len(words) != 3 or words[0] != "CONNECT":  # noqa: PLR2004 - method, target, version
            raise _Refused(f"{words[0][:20]} without TLS is not passed on")
        host, _, port = words[1].rpartition(":")
        if host not in self._allowed or port != "443":
            raise _Refused(f"{words[1][:200]} is no registry that policy names")
        return host

    async def _answer(
        self,
        host: str,
        connection: h11.Connection,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        """Answer one request; says whether another may follow."""
        request = await _next_event(connection, reader)
        if not isinstance(request, h11.Request):
            return False
        try:
            has_body = not isinstance(await _next_event(connection, reader), h11.EndOfMessage)
            target = self._decide_target(host, request, has_body=has_body)
            await self._pass_on(host, target, request, connection, writer)
        except (_Refused, httpcore.NetworkError, httpcore.TimeoutException) as error:
            await self._decline(error, connection, writer)
            return False
        return connection.our_state is h11.DONE and connection.their_state is h11.DONE

    async def _pass_on(
        self,
        host: str,
        target: str,
        request: h11.Request,
        connection: h11.Connection,
        writer: asyncio.StreamWriter,
    ) -> None:
        async with self._pool.stream(
            request.method,
            f"https://{host}{target}",
            headers=[
                (b"host", host.encode()),
                (b"user-agent", b"ultracode-setup"),
                *(pair for pair in request.headers if pair[0] in _PASSED_ON),
            ],
            extensions={"timeout": _TIMEOUTS},
        ) as answer:
            head = h11.Response(
                status_code=answer.status,
                headers=[
                    (name, value)
                    for name, value in answer.headers
                    if name.lower() not in _BETWEEN_NEIGHBOURS
                ],
            )
            writer.write(connection.send(head) or b"")
            async for chunk in answer.aiter_stream():
                self._bytes_left -= len(chunk)
                if self._bytes_left < 0:
                    raise OSError("set-up has read more than it may")
                writer.write(connection.send(h11.Data(data=chunk)) or b"")
                await writer.drain()
            writer.write(connection.send(h11.EndOfMessage()) or b"")
            await writer.drain()

    def _decide_target(self, host: str, request: h11.Request, *, has_body: bool) -> str:
        method, target = request.method.decode(), request.target.decode("ascii", "replace")
        if method not in ("GET", "HEAD") or has_body:
            raise _Refused(f"{method[:20]} to {host} is not passed on")
        path = target.split("?", 1)[0]
        plain = ".." not in path and "%2e" not in path.lower() and "\\" not in path
        if not plain or not path.startswith(self._allowed[host]):
            raise _Refused(f"{host}{path[:200]} is not a path that may be read")
        return target

    async def _decline(
        self, error: Exception, connection: h11.Connection, writer: asyncio.StreamWriter
    ) -> None:
        words = str(error) or type(error).__name__
        self._refused.append(words)
        if connection.our_state is not h11.SEND_RESPONSE and connection.our_state is not h11.IDLE:
            return
        body = words.encode()
        status = 403 if isinstance(error, _Refused) else 502
        for event in (
            h11.Response(
                status_code=status,
                headers=[("content-length", str(len(body))), ("connection", "close")],
            ),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            writer.write(connection.send(event) or b"")
        await writer.drain()


async def _next_event(connection: h11.Connection, reader: asyncio.StreamReader) -> h11.Event | None:
    """Return the next event of a request; None when the other side is done."""
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(_CHUNK))
        elif isinstance(event, h11.ConnectionClosed) or event is h11.PAUSED:
            return None
        else:
            assert isinstance(event, h11.Event)
            return event
