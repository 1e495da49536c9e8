"""The glob dialect of scopes and policies, and what two globs have in common.

In: text such as `src/**/*.py`. Out: a `Glob` that matches paths, and answers about languages: can
two globs name one path (`common_path`), does a glob name one outside a list (`path_outside`)?
Why: two agents must not be able to write one file, so overlap is decided on the patterns
themselves, files that do not exist yet included, never guessed from those that do.

The dialect: literals, `?` and `*` within one folder, `**` as a whole component, at most twice.
Dots, brackets and braces are literals. Each pattern is a small automaton over characters.
"""

import functools
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import product

MOST_CHARACTERS = 300
MOST_GLOBSTARS = 2
_MOST_STATES = 2_000

#: Stands for any character that no pattern in question names; shown as a plain letter.
_OTHER = "\0"


class GlobError(ValueError):
    """Text that is no glob of this dialect; the sentence says what to write instead."""


class _Step(Enum):
    ONE = "one character, not a slash"
    STAR = "any characters, no slash"
    FOLDERS = "any number of whole folders"
    REST = "one or more characters, slashes too"


_Token = str | _Step
_Move = tuple[int, ...]
_Pair = tuple[int, int, bool]


@dataclass(frozen=True, slots=True)
class Glob:
    """One pattern. `text` is as it was written."""

    text: str
    tokens: tuple[_Token, ...]

    def matches(self, path: str) -> bool:
        """Whether a path (relative, plain components) is one the pattern names."""
        return _regex(self.tokens).fullmatch(path) is not None

    @property
    def literal(self) -> bool:
        """Whether it names exactly one path."""
        return all(isinstance(token, str) for token in self.tokens)


def parse_glob(text: str) -> Glob:
    """Read one glob.

    Raises:
        GlobError: it is none of the dialect.
    """
    return Glob(text, _tokens(text))


@functools.lru_cache(maxsize=4096)
def _tokens(text: str) -> tuple[_Token, ...]:
    _refuse_odd(text)
    parts = text.split("/")
    tokens: list[_Token] = []
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        if part == "**":
            tokens.append(_Step.REST if last else _Step.FOLDERS)
            continue
        tokens += _component(part)
        if not last:
            tokens.append("/")
    return tuple(tokens)


def _refuse_odd(text: str) -> None:
    parts = text.split("/")
    if not text or len(text) > MOST_CHARACTERS:
        raise GlobError(f"A glob has 1 to {MOST_CHARACTERS} characters.")
    if not text.isprintable() or "\\" in text:
        raise GlobError(f"{text!r}: a glob holds no backslash and nothing invisible.")
    if text.endswith("/"):
        raise GlobError(f"{text!r} names a folder: write {text}** for what is in it.")
    if any(part in {"", ".", ".."} for part in parts):
        raise GlobError(f"{text!r}: a glob is relative to the repository, without empty parts.")
    if any("**" in part and part != "**" for part in parts):
        raise GlobError(f"{text!r}: `**` stands alone between slashes.")
    if parts.count("**") > MOST_GLOBSTARS:
        raise GlobError(f"{text!r}: at most {MOST_GLOBSTARS} `**` in one glob.")
    if re.search(r"\{[^/{}]*,[^/{}]*\}", text):
        raise GlobError(f"{text!r}: alternatives in braces are not known; write one glob for each.")


def _component(part: str) -> list[_Token]:
    if part == "*":
        return [_Step.ONE, _Step.STAR]
    steps: dict[str, _Token] = {"*": _Step.STAR, "?": _Step.ONE}
    return [steps.get(character, character) for character in part]


@functools.lru_cache(maxsize=4096)
def _regex(tokens: tuple[_Token, ...]) -> re.Pattern[str]:
    translated = {
        _Step.ONE: "[^/]",
        _Step.STAR: "[^/]*",
        _Step.FOLDERS: "(?:[^/]+/)*",
        _Step.REST: ".+",
    }
    return re.compile(
        "".join(
            re.escape(token) if isinstance(token, str) else translated[token] for token in tokens
        ),
        re.DOTALL,
    )


# --- what patterns have in common ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Automaton:
    """States `2 i` (before token i) and `2 i + 1` (inside it); `end` accepts."""

    tokens: tuple[_Token, ...]

    @property
    def end(self) -> int:
        return 2 * len(self.tokens)

    def start(self) -> frozenset[int]:
        return self.closure({0})

    def step(self, states: Iterable[int], character: str) -> frozenset[int]:
        """All states that a character leads to."""
        moved: set[int] = set()
        for state in states:
            moved.update(self.moves(state, character))
        return self.closure(moved)

    def moves(self, state: int, character: str) -> _Move:
        """The states that a character leads to from one, before what comes free."""
        number, inside = divmod(state, 2)
        if number >= len(self.tokens):
            return ()
        token = self.tokens[number]
        if isinstance(token, str):
            return (state + 2,) if token == character else ()
        return _STEPS[token](state, character, bool(inside))

    def closure(self, states: set[int]) -> frozenset[int]:
        """The states with all that are reached from them without a character."""
        waiting = list(states)
        while waiting:
            number, inside = divmod(waiting.pop(), 2)
            token = self.tokens[number] if number < len(self.tokens) else None
            skips = token in {_Step.STAR, _Step.FOLDERS} and not inside
            ends = token is _Step.REST and inside
            after = 2 * (number + 1)
            if (skips or ends) and after not in states:
                states.add(after)
                waiting.append(after)
        return frozenset(states)

    def letter(self, state: int) -> str | None:
        """The one character that a state can take, or None when it can take several."""
        number = state // 2
        token = self.tokens[number] if number < len(self.tokens) else "/"
        return token if isinstance(token, str) else None


def _step_one(state: int, character: str, _: bool) -> _Move:  # noqa: FBT001 - a table entry
    return () if character == "/" else (state + 2,)


def _step_star(state: int, character: str, _: bool) -> _Move:  # noqa: FBT001 - a table entry
    return () if character == "/" else (state,)


def _step_folders(state: int, character: str, inside: bool) -> _Move:  # noqa: FBT001 - a table entry
    if character == "/":
        return (state - 1,) if inside else ()
    return (state if inside else state + 1,)


def _step_rest(state: int, _: str, inside: bool) -> _Move:  # noqa: FBT001 - a table entry
    return (state if inside else state + 1,)


_STEPS: dict[_Step, Callable[[int, str, bool], _Move]] = {
    _Step.ONE: _step_one,
    _Step.STAR: _step_star,
    _Step.FOLDERS: _step_folders,
    _Step.REST: _step_rest,
}


@functools.lru_cache(maxsize=8192)
def common_path(one: Glob, other: Glob) -> str | None:
    """Return a shortest path that both globs name, or None when there is none.

    Both are walked together, one pair of states at a time: as many steps as the product of their
    lengths, whatever they look like.
    """
    first, second = _Automaton(one.tokens), _Automaton(other.tokens)
    came_from: dict[_Pair, tuple[_Pair, str] | None] = dict.fromkeys(
        product(first.start(), second.start(), (True,))
    )
    queue = deque(came_from)
    while queue:
        pair = queue.popleft()
        here, there, after_slash = pair
        if (here, there) == (first.end, second.end) and not after_slash:
            return _spell(came_from, pair)
        for character in _possible(first.letter(here), second.letter(there)):
            if character == "/" and after_slash:
                continue
            ours = first.closure(set(first.moves(here, character)))
            theirs = second.closure(set(second.moves(there, character)))
            for following in product(ours, theirs, (character == "/",)):
                if following not in came_from:
                    came_from[following] = (pair, character)
                    queue.append(following)
    return None


def _possible(one: str | None, other: str | None) -> tuple[str, ...]:
    """The characters worth trying where two states can take these."""
    if one is None and other is None:
        return (_OTHER, "/")
    if one is None or other is None or one == other:
        return (one or other or "",)
    return ()


def _spell(came_from: Mapping[_Pair, tuple[_Pair, str] | None], pair: _Pair) -> str:
    letters = []
    step = came_from[pair]
    while step is not None:
        pair, character = step
        letters.append("x" if character == _OTHER else character)
        step = came_from[pair]
    return "".join(reversed(letters))


def path_outside(glob: Glob, denied: Sequence[Glob]) -> str | None:
    """Return a path that `glob` names and none of `denied` does, or None.

    When the patterns are too entangled to decide in bounded time, the glob itself is returned: what
    is asked here is asked again of every file.
    """
    sample = common_path(glob, glob) or ""
    covering = [one for one in denied if one.matches(sample)]
    if not covering:
        return sample
    try:
        if any(_search_outside(glob, [one]) is None for one in covering):
            return None
        near = [one for one in denied if common_path(glob, one) is not None]
        return _search_outside(glob, near)
    except OverflowError:
        return glob.text


def _search_outside(glob: Glob, denied: Sequence[Glob]) -> str | None:
    """Walk all automata together, breadth first, over paths without empty components."""
    automata = [_Automaton(one.tokens) for one in (glob, *denied)]
    letters = {t for one in (glob, *denied) for t in one.tokens if isinstance(t, str)}
    alphabet = [_OTHER, *sorted(letters - {"/"}), "/"]
    start = (tuple(automaton.start() for automaton in automata), True)
    seen = {start}
    queue = deque([(start, "")])
    while queue:
        (states, after_slash), path = queue.popleft()
        accepted = [a.end in s for a, s in zip(automata, states, strict=True)]
        if not after_slash and accepted[0] and not any(accepted[1:]):
            return path.replace(_OTHER, "x")
        for character in alphabet:
            if character == "/" and after_slash:
                continue
            following = tuple(a.step(s, character) for a, s in zip(automata, states, strict=True))
            state = (following, character == "/")
            if following[0] and state not in seen:
                seen.add(state)
                queue.append((state, path + character))
        if len(seen) > _MOST_STATES:
            raise OverflowError
    return None
