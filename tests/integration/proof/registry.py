"""Package registries on loopback, over TLS, as pip and npm know them."""

import base64
import hashlib
import io
import json
import ssl
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from workspace.certificates import Authority
from workspace.registry_proxy import Upstream

WHEEL = "tiny_package-1.0-py3-none-any.whl"


def wheel() -> bytes:
    """Return a wheel with one module and one program."""
    files = {
        "tiny_module.py": "def main():\n    print('tiny')\n",
        "tiny_package-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny-package\n"
        "Version: 1.0\n",
        "tiny_package-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
        "tiny_package-1.0.dist-info/entry_points.txt": "[console_scripts]\n"
        "tiny-program = tiny_module:main\n",
    }
    record = "".join(f"{name},,\n" for name in files)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in {**files, "tiny_package-1.0.dist-info/RECORD": record}.items():
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), text)
    return content.getvalue()


def npm_package() -> bytes:
    """Return an npm tarball with one module."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name, text in {
            "package/package.json": '{"name": "tiny", "version": "1.0.0", "main": "index.js"}',
            "package/index.js": "module.exports = 'tiny';",
        }.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return content.getvalue()


def _pages() -> dict[tuple[str, str], tuple[str, bytes]]:
    tarball = npm_package()
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(tarball).digest()).decode()
    packument = {
        "name": "tiny",
        "dist-tags": {"latest": "1.0.0"},
        "versions": {
            "1.0.0": {
                "name": "tiny",
                "version": "1.0.0",
                "dist": {
                    "tarball": "https://registry.npmjs.org/tiny/-/tiny-1.0.0.tgz",
                    "integrity": integrity,
                },
            }
        },
    }
    link = f'<a href="https://files.pythonhosted.org/packages/{WHEEL}">{WHEEL}</a>'
    return {
        ("pypi.org", "/simple/tiny-package/"): ("text/html", link.encode()),
        ("files.pythonhosted.org", f"/packages/{WHEEL}"): ("application/zip", wheel()),
        ("registry.npmjs.org", "/tiny"): ("application/json", json.dumps(packument).encode()),
        ("registry.npmjs.org", "/tiny/-/tiny-1.0.0.tgz"): ("application/gzip", tarball),
    }


class LoopbackRegistries:
    """What runs, how it is reached, and what it was asked."""

    def __init__(self, upstream: Upstream) -> None:
        self.upstream = upstream
        self.requests: list[tuple[str, str, str]] = []


@contextmanager
def run_registries() -> Iterator[LoopbackRegistries]:
    """Serve python and npm packages on loopback as long as the context lasts."""
    authority, pages = Authority(), _pages()
    requests: list[tuple[str, str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            host = self.headers["host"]
            requests.append((self.command, host, self.path))
            kind, body = pages.get((host, self.path), ("text/plain", b""))
            self.send_response(200 if body else 404)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None:
            pass

    context = authority.context_for("localhost")

    def choose(connection: ssl.SSLSocket, name: str | None, _: ssl.SSLContext) -> None:
        connection.context = authority.context_for(name or "localhost")

    context.sni_callback = choose  # type: ignore[assignment]
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    address = ("127.0.0.1", server.server_port)
    registries = LoopbackRegistries(
        Upstream(
            trust=ssl.create_default_context(cadata=authority.certificate.decode()),
            mirrors=dict.fromkeys(
                ("pypi.org", "files.pythonhosted.org", "registry.npmjs.org"), address
            ),
        )
    )
    registries.requests = requests
    try:
        yield registries
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
