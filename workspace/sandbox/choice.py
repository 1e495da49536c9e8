"""Which sandbox runs here: the strongest that passes its self-test, or none.

In: the operator's setting and trust. Out: a sandbox that knows which guarantees it was shown to
give, or `SandboxUnavailable` naming what is missing and how to get it. Nothing falls back silently.
"""

from collections.abc import Callable, Mapping

from workspace.sandbox.backend import Sandbox, SandboxUnavailable, Setting, Trust
from workspace.sandbox.bubblewrap import BubblewrapSandbox
from workspace.sandbox.container import DEFAULT_IMAGE, ContainerSandbox
from workspace.sandbox.leftovers import remove_leftovers
from workspace.sandbox.local import LocalSandbox
from workspace.sandbox.remedies import remedy_message
from workspace.sandbox.selftest import Result, selftest

Isolating = BubblewrapSandbox | ContainerSandbox


async def choose_sandbox(
    setting: Setting = "auto",
    trust: Trust = "untrusted",
    *,
    image: str = DEFAULT_IMAGE,
    runtime: str | None = None,
) -> Sandbox:
    """The sandbox to use for every job of this process.

    Takes about a second, for the self-test; longer for containers, which run `image` (it needs
    `sh`, `tar` and, for the self-test, `python3`) under the engine's OCI `runtime`.

    Raises:
        SandboxUnavailable: none may be used; the message says what is missing and how to get it.
    """
    remove_leftovers()
    if setting == "local" and trust != "trusted":
        raise SandboxUnavailable(
            "ULTRACODE_SANDBOX=local isolates nothing: it needs ULTRACODE_TRUST=trusted"
        )
    refusals = []
    strongest_first: dict[str, Callable[[], Isolating]] = {
        "bubblewrap": BubblewrapSandbox,
        "container": lambda: ContainerSandbox(image=image, runtime=runtime),
    }
    for name, make in strongest_first.items():
        if setting in (name, "auto"):
            try:
                return await _passed(make())
            except SandboxUnavailable as refusal:
                refusals.append(f"{name}: {refusal}")
    if trust == "trusted" and setting in ("auto", "local"):
        return LocalSandbox()
    raise SandboxUnavailable("\n".join(refusals))


async def _passed(sandbox: Isolating) -> Sandbox:
    try:
        sandbox.guarantees = await _tested(sandbox)
    except BaseException:
        await sandbox.close()
        raise
    return sandbox


async def _tested(sandbox: Isolating) -> dict[str, bool]:
    results = await selftest(sandbox)
    missing = {name: result for name, result in results.items() if not result.held}
    if missing:
        raise SandboxUnavailable(_missing_message(missing, await sandbox.missing()))
    return dict.fromkeys(results, True)


def _missing_message(missing: Mapping[str, Result], also: str) -> str:
    reasons = list(dict.fromkeys([*(result.why for result in missing.values()), also]))
    said = "; ".join(reason for reason in reasons if reason)
    return f"does not give {', '.join(missing)} here ({said}). {remedy_message(*reasons)}".strip()
