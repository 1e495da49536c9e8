"""Named places where a test may stop this process. In: a point's name. Out: nothing, or its end.

Why: "nothing lost, nothing doubled" is shown by killing a worker before and after every effect and
every finished piece. In production no point is armed, and `crashpoint` compares two strings.

A point is armed by `arm("kill@effects.before_act:comment#2")`: the action (`kill`, the default, or
`stop`, which suspends the process until SIGCONT), the name, and at which passage it acts (the
first, unless told). `watch` tells every passage to somebody who decides by themselves.
"""

import os
import re
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bot.errors import SettingsError

_SYNTAX: Final = re.compile(r"(?:(kill|stop)@)?([a-z_.]+(?::[a-z_]+)?)(?:#([1-9]\d*))?")


@dataclass
class _Armed:
    """The one armed point of this process and how many passages are left before it acts."""

    name: str = ""
    action: signal.Signals = signal.SIGKILL
    passages_left: int = 0
    watcher: Callable[[str], None] | None = None


_armed = _Armed()


def arm(point: str | None) -> None:
    """Arm one point in this process, or none.

    Raises:
        SettingsError: The point does not have the form `[kill@|stop@]name[#n]`.
    """
    if not point:
        _armed.name = ""
        return
    parsed = _SYNTAX.fullmatch(point)
    if parsed is None:
        raise SettingsError(
            f"ULTRACODE_CRASHPOINT does not have the form [kill@|stop@]name[#n]: {point}"
        )
    action, name, passage = parsed.groups()
    _armed.name = name
    _armed.action = signal.SIGSTOP if action == "stop" else signal.SIGKILL
    _armed.passages_left = int(passage or 1)


def watch(watcher: Callable[[str], None]) -> None:
    """Have every passage of every point in this process told to `watcher`, which may stop it."""
    _armed.watcher = watcher


def crashpoint(name: str) -> None:
    """Stop this process here if `name` is armed and this is the passage that was asked for."""
    if _armed.watcher is not None:
        _armed.watcher(name)
    if name != _armed.name:
        return
    _armed.passages_left -= 1
    if _armed.passages_left == 0:
        os.kill(os.getpid(), _armed.action)
