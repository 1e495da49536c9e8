"""A load of HTTP requests over a few kept-alive connections. In: raw requests. Out: latencies.

Written on bare streams, so that the side that asks takes as little as it can of the two cores that
the side that answers needs. It says which statuses came back: a fast error is no answer.
"""

from __future__ import annotations

import asyncio
import re
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)


@dataclass
class Load:
    """What came of a load; latencies in seconds."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)

    @property
    def rate(self) -> float:
        """Answers a second."""
        return len(self.latencies) / self.seconds

    def percentile(self, percent: int) -> float:
        """Return the latency that so many percent of the answers stayed below."""
        return statistics.quantiles(self.latencies, n=100)[percent - 1]


async def fire(port: int, requests: Sequence[bytes], *, connections: int = 8) -> Load:
    """Send every request once, over so many connections, and wait for every answer."""
    load = Load()
    waiting = iter(requests)
    started = time.perf_counter()
    await asyncio.gather(*(_one_connection(port, waiting, load) for _ in range(connections)))
    load.seconds = time.perf_counter() - started
    return load


async def _one_connection(port: int, waiting: Iterator[bytes], load: Load) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for request in waiting:
            started = time.perf_counter()
            writer.write(request)
            status = await _read_answer(reader)
            load.latencies.append(time.perf_counter() - started)
            load.statuses[status] += 1
    finally:
        writer.close()


async def _read_answer(reader: asyncio.StreamReader) -> int:
    head = await reader.readuntil(b"\r\n\r\n")
    if length := _LENGTH.search(head):
        await reader.readexactly(int(length[1]))
    elif _CHUNKED.search(head):
        await reader.readuntil(b"0\r\n\r\n")
    return int(head[9:12])
