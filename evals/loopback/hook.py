"""Git's `update` hook: asks the loopback GitHub whether a ref may change, and repeats its answer.

In: ref, old and new object as arguments, the socket in the environment. Out: exit code 0 or 1, with
words on standard error. Runs alone, in a fraction of the time the package takes to import.
"""

import json
import os
import socket
import sys

with socket.socket(socket.AF_UNIX) as line:
    environment = os.environ  # noqa: TID251 - git hands a hook its facts this way
    line.connect(environment["LOOPBACK_SOCKET"])
    asked = {
        name: value
        for name, value in environment.items()
        if name.startswith("GIT_") and "OBJECT" in name
    }
    asked |= {"push": environment["LOOPBACK_PUSH"]}
    asked |= dict(zip(("ref", "old", "new"), sys.argv[1:], strict=True))
    line.sendall(json.dumps(asked).encode() + b"\n")
    answer = json.loads(line.makefile().readline())
if "refused" in answer:
    sys.stderr.write(answer["refused"] + "\n" if answer["refused"] else "")
    sys.exit(1)
