"""An embedded PostgreSQL for the stage: `python -m evals.database FOLDER` prints its URL as JSON.

It runs until it is told to stop, then stops the server and removes the folder.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path

from bot.store import embedded


async def main(folder: Path) -> None:
    """Start the server, say where it is, stop it when told."""
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    url = await asyncio.to_thread(embedded.start, folder)
    print(json.dumps({"url": url}), flush=True)
    await stopped.wait()
    await asyncio.to_thread(embedded.remove, folder)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
