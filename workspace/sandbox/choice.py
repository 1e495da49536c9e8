"""Which sandbox runs here: the strongest that passes its self-test, or none.

In: the operator's setting and trust. Out: a sandbox, or `SandboxUnavailable` naming what is
missing and how to get it. Nothing falls back silently to something weaker.
"""

from workspace.sandbox.backend import Sandbox, SandboxUnavailable, Setting, Trust
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
    if trust == "trusted" and setting in ("auto", "local"):
        return LocalSandbox()
    raise SandboxUnavailable(f"no {setting} sandbox yet")
