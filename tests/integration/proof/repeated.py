"""Judge the tiny candidate several times, as whoever runs this.

    python -m tests.integration.proof.repeated FOLDER TIMES AT_ONCE

Prints the report digests, one a line.
"""

import asyncio
import sys
from pathlib import Path

from tests.integration.proof.scenario import FIX, TINY, TINY_FILES, Proof
from workspace.sandbox.backend import Sandbox
from workspace.sandbox.bubblewrap import BubblewrapSandbox


async def digests(folder: Path, sandbox: Sandbox, *, times: int, at_once: int) -> list[str]:
    """Judge the same candidate `times` times, `at_once` of them side by side."""
    proof = Proof(folder, sandbox, folder)
    proof.compose(TINY_FILES, {"calc.py": FIX})
    places = asyncio.Semaphore(at_once)

    async def judge() -> str:
        async with places:
            report = await proof.runner.test(proof.pin, proof.candidate, [TINY])
            assert report.passed, report.suites[0].reason
            return report.digest

    return list(await asyncio.gather(*(judge() for _ in range(times))))


async def main(folder: str, times: str, at_once: str) -> None:
    sandbox = BubblewrapSandbox()  # what holds here differs by user: see the tests of the sandbox
    try:
        found = await digests(Path(folder), sandbox, times=int(times), at_once=int(at_once))
        sys.stdout.write("".join(f"{digest}\n" for digest in found))
    finally:
        await sandbox.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
