"""What a command printed: bounded, with head and tail kept.

In: the reading end of a pipe. Out: at most `kept_bytes`, the first half and the last half, with a
note of how much lies between, and a signal when more was printed than may be. A command that floods
costs neither memory nor the end of its own log.
"""

import asyncio
import os
from collections import deque
from typing import Self

from workspace.sandbox.backend import OnOutput

_CHUNK = 64 * 1024


class Capture:
    """Collects output up to a bound."""

    def __init__(self, kept_bytes: int) -> None:
        self._head_room = kept_bytes - kept_bytes // 2
        self._tail_room = kept_bytes // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self.size = 0
        """Bytes printed so far, kept or not."""

    def add(self, chunk: bytes) -> None:
        """Take the next chunk."""
        self.size += len(chunk)
        taken = min(len(chunk), self._head_room - len(self._head))
        self._head += chunk[:taken]
        rest = chunk[taken:][-self._tail_room :] if self._tail_room else b""
        if rest:
            self._tail.append(rest)
            self._tail_size += len(rest)
        while self._tail and self._tail_size - len(self._tail[0]) >= self._tail_room:
            self._tail_size -= len(self._tail.popleft())

    def text(self) -> bytes:
        """What is kept: everything, or head, note and tail."""
        tail = b"".join(self._tail)[-self._tail_room :] if self._tail_room else b""
        left_out = self.size - len(self._head) - len(tail)
        if not left_out:
            return bytes(self._head) + tail
        return bytes(self._head) + b"\n[... %d bytes left out ...]\n" % left_out + tail


class OutputPipe:
    """Reads a pipe on the running event loop; a context manager that owns the reading end.

    `done` becomes True when every writer has gone, False when more than `most` bytes have come (the
    pipe is then left unread, so that whoever floods it stops until killed).
    """

    def __init__(self, *, kept_bytes: int, most: int, on_output: OnOutput | None) -> None:
        self.capture = Capture(kept_bytes)
        self._most = most
        self._on_output = on_output
        self._loop = asyncio.get_running_loop()
        self.done: asyncio.Future[bool] = self._loop.create_future()
        self._read_end, self.write_end = os.pipe()

    def __enter__(self) -> Self:
        os.set_blocking(self._read_end, False)
        self._loop.add_reader(self._read_end, self._read)
        return self

    def __exit__(self, *_: object) -> None:
        self.close_write_end()
        self._stop(whole=True)
        os.close(self._read_end)

    def close_write_end(self) -> None:
        """Let go of our copy of the writing end, once whoever writes has theirs."""
        if self.write_end >= 0:
            os.close(self.write_end)
            self.write_end = -1

    def drain(self) -> None:
        """Take what is in the pipe right now, up to the cap."""
        while not self.done.done() and self._read():
            pass

    def _read(self) -> bool:
        try:
            chunk = os.read(self._read_end, _CHUNK)
        except BlockingIOError:
            return False
        if not chunk:
            self._stop(whole=True)
            return False
        self.capture.add(chunk)
        if self._on_output:
            self._on_output(chunk)
        if self.capture.size > self._most:
            self._stop(whole=False)
        return True

    def _stop(self, *, whole: bool) -> None:
        self._loop.remove_reader(self._read_end)
        if not self.done.done():
            self.done.set_result(whole)
