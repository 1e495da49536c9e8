"""The script of a scripted model: YAML in, typed entries out.

An entry says which requests it answers (role, and if wanted task and round) and with which turns:
tool calls, text, or a final output. A turn may first misbehave in the ways of a real provider.
The format is small on purpose, so that a story in a test or in the demo can be read like a play::

    models: [gpt-5.4-mini]        # ids the server knows; this is the default
    entries:
      - role: worker
        task: fix-parser          # absent: any task
        round: 0                  # absent: any round
        turns:
          - calls:
              - {tool: read_file, arguments: {path: parser.py}}
          - calls:
              - {tool: edit_file, arguments: {path: parser.py, old: "a", new: "b"}}
            faults: [{kind: 429, times: 2}, {kind: timeout}]
            delay_seconds: 0.2
            usage: {input: 900, cached: 512, output: 40}
          - output: {status: completed, summary: Fixed it., unresolved_risks: []}

``repeat: true`` on the last turn answers every later request with it: an endless loop. In
``output`` and ``text``, ``${name}`` stands for the value of a line ``name: value`` in the
request's own instructions, so a reviewer can echo the bindings it was given; anything else is
sent as it is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

DEFAULT_MODEL = "gpt-5.4-mini"

FaultKind = Literal[429, 500, 502, 503, "timeout", "truncated", "garbage", "failed"]


class ScriptError(Exception):
    """The script cannot be read; the message says where and why."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Call(_Strict):
    """One tool call; ``arguments`` as an object, or as text to send broken JSON."""

    tool: str
    arguments: dict[str, Any] | str = Field(default_factory=dict)


class Fault(_Strict):
    """How the provider misbehaves before it answers the turn.

    A number is an HTTP status; ``timeout`` never answers; ``truncated`` cuts the connection in
    the middle of the body; ``garbage`` is a 200 that is no JSON; ``failed`` is a 200 whose
    response says it failed.
    """

    kind: FaultKind
    times: Annotated[int, Field(ge=1)] | Literal["always"] = 1
    retry_after_seconds: float | None = None


class TurnUsage(_Strict):
    """Token counts to report; what is not given is counted from request and answer."""

    input: int | None = None
    cached: int = 0
    output: int | None = None
    reasoning: int = 0


class Turn(_Strict):
    """One answer of the model."""

    calls: tuple[Call, ...] = ()
    text: str | None = None
    output: Any = None
    refusal: str | None = None
    incomplete: bool = False  # stops half-way with status "incomplete", as at max_output_tokens
    faults: tuple[Fault, ...] = ()
    delay_seconds: float = 0.0
    usage: TurnUsage = TurnUsage()
    repeat: bool = False
    stubborn: bool = False  # calls tools even where the request forbids it, as some servers do

    @model_validator(mode="after")
    def _says_something(self) -> Turn:
        said = [self.calls != (), self.text is not None, self.refusal is not None]
        if not any(said) and "output" not in self.model_fields_set:
            raise ValueError("a turn needs calls, text, output or refusal")
        if "output" in self.model_fields_set and self.text is not None:
            raise ValueError("a turn has text or output, not both")
        return self


class Entry(_Strict):
    """The turns for requests of one role, and if given one task and one round."""

    role: str
    task: str | None = None
    round: int | None = None
    turns: tuple[Turn, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _only_the_last_repeats(self) -> Entry:
        if any(turn.repeat for turn in self.turns[:-1]):
            raise ValueError("only the last turn can repeat")
        return self

    def answers(self, role: str, task: str | None, round_: int | None) -> bool:
        """Whether this entry is for such a request."""
        return (
            self.role == role
            and self.task in (None, task)
            and (self.round is None or self.round == round_)
        )

    def turn(self, index: int) -> Turn | None:
        """The turn for the index-th answer (from 0), or None when the script ends before it."""
        if index < len(self.turns):
            return self.turns[index]
        return self.turns[-1] if self.turns[-1].repeat else None


class Script(_Strict):
    """All entries; the first that answers a request is taken."""

    models: tuple[str, ...] = (DEFAULT_MODEL,)
    entries: tuple[Entry, ...]

    def entry(self, role: str, task: str | None, round_: int | None) -> Entry | None:
        """The first entry that answers such a request."""
        return next((e for e in self.entries if e.answers(role, task, round_)), None)


def parse_script(text: str) -> Script:
    """Read a script from YAML text.

    Raises:
        ScriptError: the text is no YAML or does not fit the format.
    """
    try:
        return Script.model_validate(yaml.safe_load(text))
    except (yaml.YAMLError, ValueError) as error:
        raise ScriptError(f"This script cannot be used: {error}") from error


def load_script(path: Path) -> Script:
    """Read a script from a file.

    Raises:
        ScriptError: the file cannot be read, or parse_script refuses it.
    """
    try:
        return parse_script(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ScriptError(f"{path} cannot be read: {error.strerror}") from error
