"""A child for the supervisor's tests: says its pid in a file, then behaves as told.

`python -m tests.integration.supervisor.child FILE HOW`: `exit` ends at once with code 0, `refuse`
with code 2, `drain` ends half a second after SIGTERM, `stubborn` ignores it.
"""

import signal
import sys
import time
from pathlib import Path
from types import FrameType


def drain(_number: int, _frame: FrameType | None) -> None:
    time.sleep(0.5)
    with file.open("a") as log:
        log.write("drained\n")
    sys.exit(0)


if __name__ == "__main__":
    file, how = Path(sys.argv[1]), sys.argv[2]
    signal.signal(signal.SIGTERM, drain if how == "drain" else signal.SIG_IGN)
    import os

    with file.open("a") as log:
        log.write(f"{os.getpid()}\n")
    if how in {"exit", "refuse"}:
        sys.exit(0 if how == "exit" else 2)
    while True:
        signal.pause()
