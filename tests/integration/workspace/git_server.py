"""A Git server on loopback: `git http-backend` behind a few lines of HTTP, real repositories."""

import base64
import contextlib
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class GitServer:
    """Serves the bare repositories of one folder; demands a token when given one."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.token: str | None = None
        self.authorizations: list[str] = []
        self.requests: list[str] = []
        self.fail_next: list[str] = []
        """What to do instead of answering: `500`, or `lose` (apply it, then hang up)."""
        self.redirect_to: str | None = None
        self.deny_pushes: str | None = None
        self._open = threading.Event()
        self._open.set()
        self._server = ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Handler", (_Handler,), {"state": self})
        )
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    @property
    def url(self) -> str:
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def hold(self) -> None:
        """Let requests wait until `release`."""
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    def wait_while_held(self) -> None:
        self._open.wait(60)

    def close(self) -> None:
        self.release()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    state: GitServer

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def log_message(self, *_: object) -> None:
        """Be quiet."""

    def _serve(self) -> None:
        body = self._body()
        authorization = self.headers.get("Authorization", "")
        self.state.authorizations.append(authorization)
        self.state.requests.append(f"{self.command} {self.path}")
        self.state.wait_while_held()
        if self.state.redirect_to is not None:
            self._answer(302, [("Location", self.state.redirect_to + self.path)], b"")
            return
        if self.state.token is not None and self.state.token not in _decoded(authorization):
            self._answer(401, [("WWW-Authenticate", 'Basic realm="git"')], b"")
            return
        if self.state.deny_pushes and "git-receive-pack" in self.path:
            self._answer(403, [("Content-Type", "text/plain")], self.state.deny_pushes.encode())
            return
        is_push = self.command == "POST" and self.path.endswith("git-receive-pack")
        plan = self.state.fail_next.pop(0) if is_push and self.state.fail_next else ""
        if plan == "500":
            self._answer(500, [], b"broken")
            return
        status, headers, content = self._backend(body)
        if plan == "lose":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            self.close_connection = True
            return
        self._answer(status, headers, content)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        chunks = []
        while size := int(self.rfile.readline(), 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def _backend(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        path, _, query = self.path.partition("?")
        environment = {
            "PATH": "/usr/bin:/bin",
            "GIT_PROJECT_ROOT": str(self.state.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_COUNT": "2",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
            "GIT_CONFIG_KEY_1": "http.receivepack",
            "GIT_CONFIG_VALUE_1": "true",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "REMOTE_ADDR": "127.0.0.1",
            "REMOTE_USER": "bot",
        }
        done = subprocess.run(
            ["git", "http-backend"],
            input=body,
            env=environment,
            capture_output=True,
            check=False,
        )
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = [
            (name, value.strip())
            for name, _, value in (line.partition(":") for line in head.decode().splitlines())
        ]
        status = next((int(v.split()[0]) for n, v in headers if n == "Status"), 200)
        return status, [pair for pair in headers if pair[0] != "Status"], content

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        with contextlib.suppress(ConnectionError):  # whoever asked may have been killed
            self._send(status, headers, content)

    def _send(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _decoded(authorization: str) -> str:
    return base64.b64decode(authorization.removeprefix("Basic ") or b"").decode(errors="replace")
