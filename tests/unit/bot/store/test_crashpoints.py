import subprocess
import sys

import pytest

from bot.errors import SettingsError
from bot.store.crashpoints import arm, crashpoint
from bot.store.effects import EffectKind, crash_points

PROGRAM = """
import sys
from bot.store.crashpoints import arm, crashpoint
arm(sys.argv[1])
for name in sys.argv[2:]:
    print(name, flush=True)
    crashpoint(name)
print("end", flush=True)
"""


def pass_points(armed: str, *names: str) -> tuple[list[str], int]:
    """Pass these points in a process of its own; say how far it came and how it ended."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, armed, *names],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.split(), done.returncode


def test_the_armed_point_kills_at_the_passage_asked_for() -> None:
    """The process dies by SIGKILL at the second passage of its point, and passes all others."""
    came, code = pass_points("pieces.before_save:plan#2", *["pieces.before_save:plan", "other"] * 3)
    assert came == ["pieces.before_save:plan", "other", "pieces.before_save:plan"]
    assert code == -9


def test_nothing_happens_where_nothing_is_armed() -> None:
    """In production every point is passed."""
    arm(None)
    crashpoint("effects.before_act:comment")


@pytest.mark.parametrize("wrong", ["", " ", "x@y", "name#0", "die@name", "NAME"])
def test_a_malformed_point_is_refused(wrong: str) -> None:
    """A test that names no point would otherwise pass without killing anything."""
    if not wrong:
        arm(wrong)  # unset
        return
    with pytest.raises(SettingsError, match="ULTRACODE_CRASHPOINT"):
        arm(wrong)


def test_every_effect_has_its_four_points() -> None:
    """What the fault matrix enumerates: each kind, before and after each step."""
    points = crash_points()
    assert len(points) == len(set(points)) == 4 * len(EffectKind)
    assert "effects.after_act:promotion" in points
