"""The options right after the word. In: the line's tokens. Out: their values, or a mistake."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from webhooks.edit_distance import nearest
from webhooks.invisible_characters import holds_invisible_characters, remove_invisible_characters

OptionProblem: TypeAlias = Literal["unknown", "no_value", "bad_value", "twice", "not_with_command"]


@dataclass(frozen=True, slots=True)
class BadOption:
    """An option that cannot be followed: answered, never started."""

    option: str
    problem: OptionProblem = "unknown"
    did_you_mean: str | None = None
    """The nearest option, where `problem` is `unknown` and one is near."""
    value: str | None = None
    """What was given: the bad value, or the command that takes no options."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a start."""

    base: str | None = None
    suites: tuple[str, ...] = ()
    length: int = 0
    """How many tokens they took."""
    closed: bool = False
    """Whether `--` ended them: what follows is a request, even if it looks like a command."""


_NAMES = ("--base", "--suite")
_END_OF_OPTIONS = "--"
_OPTION = re.compile(r"--[A-Za-z]")
_DASHES = "-\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
"""What phones and word processors make of two hyphens."""
_MAX_SHOWN = 100


def parse_options(tokens: Sequence[str]) -> Options | BadOption:
    """Read `--base X` or `--base=X`, and `--suite X` as often as wanted.

    The first other token ends them, and so does `--`, which lets a request begin with anything.
    """
    options = Options()
    while options.length < len(tokens):
        token = tokens[options.length]
        if token == _END_OF_OPTIONS:
            return replace(options, length=options.length + 1, closed=True)
        if not _OPTION.match(token):
            return _unless_dashed(token) or options
        following = tokens[options.length + 1] if options.length + 1 < len(tokens) else ""
        step = _read_option(options, token, following)
        if isinstance(step, BadOption):
            return step
        options = step
    return options


def shown(text: str) -> str:
    """A token as an answer may repeat it: visible and short."""
    return remove_invisible_characters(text)[0][:_MAX_SHOWN]


def _unless_dashed(token: str) -> BadOption | None:
    """`-base` and `—base` are slips, other dashes are text."""
    name = "--" + token.lstrip(_DASHES).partition("=")[0].lower()
    if token[0] in _DASHES and name in _NAMES:
        return BadOption(shown(token), did_you_mean=name)
    return None


def _read_option(options: Options, token: str, following: str) -> Options | BadOption:
    name, equals, attached = token.partition("=")
    name = name.lower()
    if name not in _NAMES:
        return BadOption(shown(token.partition("=")[0]), did_you_mean=nearest(name, _NAMES))
    value = (attached if equals else following).strip("`")
    length = options.length + (1 if equals else 2)
    if not value or (_OPTION.match(value) and not equals):
        return BadOption(name, "no_value")
    if name == "--suite":
        return _with_suite(options, value, length)
    return _with_base(options, value.removeprefix("refs/heads/"), length)


def _with_suite(options: Options, suite: str, length: int) -> Options | BadOption:
    if holds_invisible_characters(suite) or len(suite) > _MAX_SHOWN:
        return BadOption("--suite", "bad_value", value=shown(suite))
    suites = tuple(dict.fromkeys((*options.suites, suite)))
    return replace(options, suites=suites, length=length)


def _with_base(options: Options, branch: str, length: int) -> Options | BadOption:
    if options.base is not None:
        return BadOption("--base", "twice")
    if not is_branch_name(branch):
        return BadOption("--base", "bad_value", value=shown(branch))
    return replace(options, base=branch, length=length)


_NOT_IN_BRANCH = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?=/|$)")
_MAX_BRANCH_BYTES = 244  # GitHub's limit for the name of a branch


def is_branch_name(name: str) -> bool:
    """Whether Git and GitHub take this as the name of a branch (git-check-ref-format(1))."""
    return (
        0 < len(name.encode(errors="replace")) <= _MAX_BRANCH_BYTES
        and not _NOT_IN_BRANCH.search(name)
        and not name.startswith(("-", ".", "/"))
        and not name.endswith((".", "/"))
        and name != "@"
        and not holds_invisible_characters(name)
    )
