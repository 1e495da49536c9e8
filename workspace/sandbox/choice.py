"""Which sandbox runs here: the strongest that passes its self-test, or none.

In: the operator's setting and trust. Out: a sandbox, or `SandboxUnavailable` naming what is
missing and how to get it. Nothing falls back silently to something weaker.
"""

import tempfile
from pathlib import Path

from workspace.sandbox.backend import (
    Job,
    Sandbox,
    SandboxError,
    SandboxUnavailable,
    Setting,
    Trust,
)
from workspace.sandbox.bubblewrap import BubblewrapSandbox
from workspace.sandbox.local import LocalSandbox


async def choose_sandbox(setting: Setting = "auto", trust: Trust = "untrusted") -> Sandbox:
    """The sandbox to use for every job of this process.

    Raises:
        SandboxUnavailable: none may be used; the message says what is missing and how to get it.
    """
    if setting == "local" and trust != "trusted":
        raise SandboxUnavailable(
            "ULTRACODE_SANDBOX=local isolates nothing: it needs ULTRACODE_TRUST=trusted"
        )
    if setting == "local":
        return LocalSandbox()
    if setting == "container":
        raise SandboxUnavailable("the container sandbox is not built yet")
    try:
        return await _bubblewrap()
    except SandboxError as error:
        if setting == "auto" and trust == "trusted":
            return LocalSandbox()
        raise SandboxUnavailable(str(error)) from error


async def _bubblewrap() -> Sandbox:
    sandbox = BubblewrapSandbox()
    with tempfile.TemporaryDirectory(prefix="ultracode-selftest-") as folder:
        try:
            await sandbox.run(Job(command=("true",), workspace=Path(folder)))
        except BaseException:
            await sandbox.close()
            raise
    return sandbox
