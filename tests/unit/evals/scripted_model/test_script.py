from __future__ import annotations

from pathlib import Path

import pytest

from evals.scripted_model import ScriptError, load_script, parse_script


def test_the_first_entry_that_answers_is_taken() -> None:
    """An entry without task or round answers any; order decides between two that answer."""
    script = parse_script(
        """
        entries:
          - {role: worker, task: a, round: 1, turns: [{text: special}]}
          - {role: worker, turns: [{text: general}]}
        """
    )
    special = script.entry("worker", "a", 1)
    general = script.entry("worker", "a", 0)
    assert special is not None
    assert special.turns[0].text == "special"
    assert general is not None
    assert general.turns[0].text == "general"
    assert script.entry("planner", None, 0) is None


def test_only_a_repeating_turn_goes_on() -> None:
    """After its last turn a script has no answer, unless that turn repeats."""
    ends = parse_script("entries: [{role: w, turns: [{text: a}]}]").entries[0]
    goes_on = parse_script("entries: [{role: w, turns: [{text: a, repeat: true}]}]").entries[0]
    assert ends.turn(1) is None
    assert goes_on.turn(99) is goes_on.turns[0]


@pytest.mark.parametrize(
    "text",
    [
        "entries: [",
        "entries: 3",
        "entries: [{role: w, turns: []}]",
        "entries: [{role: w, turns: [{}]}]",
        "entries: [{role: w, turns: [{text: a, output: 1}]}]",
        "entries: [{role: w, turns: [{text: a, repeat: true}, {text: b}]}]",
        "entries: [{role: w, turns: [{text: a, mood: good}]}]",
        "entries: [{role: w, turns: [{text: a, faults: [{kind: 418}]}]}]",
    ],
)
def test_a_script_that_makes_no_sense_is_refused(text: str) -> None:
    """A wrong script is refused when it is read, not when a request comes."""
    with pytest.raises(ScriptError):
        parse_script(text)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """The error for a missing script names the file."""
    with pytest.raises(ScriptError, match=r"gone\.yaml"):
        load_script(tmp_path / "gone.yaml")
