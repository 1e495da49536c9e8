"""The sandbox's side of the way to package registries.

In: a running proxy and a job. Out: the same job, with the proxy's socket mounted, a listener on the
sandbox's own loopback that leads to it, and the clients of the registries told to use that. The
sandbox itself opens no network: the socket is all there is.
"""

from dataclasses import replace
from pathlib import PurePosixPath
from typing import Final

from workspace.registry_proxy import RunningProxy
from workspace.sandbox.backend import Job, ReadOnlyMount

_SOCKET: Final = PurePosixPath("/registries.sock")
_AUTHORITY: Final = PurePosixPath("/registries.pem")
_PROXY_PORT: Final = 3128
#: Runs a command beside a listener on its own loopback, which leads to the proxy's socket.
_BRIDGE: Final = f"""
import asyncio, contextlib, sys

async def copy(reader, writer):
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()

async def welcome(reader, writer):
    with contextlib.suppress(OSError), contextlib.closing(writer):
        to, out = await asyncio.open_unix_connection("{_SOCKET}")
        with contextlib.closing(out):
            await asyncio.gather(copy(reader, out), copy(to, writer))

async def main():
    async with await asyncio.start_server(welcome, "127.0.0.1", {_PROXY_PORT}):
        process = await asyncio.create_subprocess_exec(*sys.argv[1:])
        return await process.wait()

sys.exit(asyncio.run(main()))
"""


def through_proxy(proxy: RunningProxy, job: Job) -> Job:
    """Return the job with a way to the proxy, and clients told to take it."""
    address = f"http://127.0.0.1:{_PROXY_PORT}"
    mounts = (
        ReadOnlyMount(source=proxy.socket, target=_SOCKET),
        ReadOnlyMount(source=proxy.authority, target=_AUTHORITY),
    )
    proxies = ("HTTPS_PROXY", "https_proxy", "npm_config_https_proxy")
    trust = (
        *("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
        *("NODE_EXTRA_CA_CERTS", "npm_config_cafile", "CARGO_HTTP_CAINFO"),
    )
    return replace(
        job,
        command=("python3", "-I", "-c", _BRIDGE, *job.command),
        read_only_mounts=(*job.read_only_mounts, *mounts),
        env={
            **job.env,
            **dict.fromkeys(proxies, address),
            **dict.fromkeys(trust, str(_AUTHORITY)),
        },
    )
