"""A supervisor for tests: `python -m tests.integration.supervisor.parent FILE HOW SECONDS`."""

import asyncio
import os
import sys

from bot.supervisor import Child, supervise

if __name__ == "__main__":
    file, how, drain_seconds = sys.argv[1:]
    command = (sys.executable, "-m", "tests.integration.supervisor.child", file, how)
    child = Child("child", command, {"PATH": os.defpath})
    sys.exit(asyncio.run(supervise([child], drain_seconds=float(drain_seconds))))
