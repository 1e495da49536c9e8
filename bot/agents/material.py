"""Makes foreign text safe to show to a model: visible, bounded and marked as data.

Comes in: repository files, issue text, logs, words of other agents, all of them hostile. Goes out:
text in which nothing is hidden, cut to a size with head and tail kept, inside a block whose end it
cannot write. It exists so that no prompt is ever put together from bare foreign text.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Final

_HEAD_SHARE: Final = 0.6
_LINE_WHITESPACE: Final = frozenset("\n\t")
# Variation selectors 17 to 256 count as printable, yet nobody sees them.
_UNSEEN_SELECTORS: Final = range(0xE0100, 0xE01F0)
_SOURCE: Final = re.compile(r"[^A-Za-z0-9 ._/@:+-]")


def show_hidden(text: str) -> str:
    r"""The text with every character a reader would not see written as an escape.

    Line ends (CRLF included) and tabs stay; a lone CR, zero-width and tag characters, bidirectional
    controls and other controls become `\u202e` and the like. Nothing is dropped.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        c if _is_seen(c) else _escape(c, text[i + 1 : i + 2]) for i, c in enumerate(text)
    )


def clip(text: str, limit: int) -> str:
    """The text cut to about `limit` characters: its head and its tail, and how much is left out."""
    if len(text) <= limit:
        return text
    head = int(limit * _HEAD_SHARE)
    tail = limit - head
    left_out = len(text) - limit
    return f"{text[:head]}\n[… {left_out} characters left out …]\n{text[len(text) - tail :]}"


@dataclass(frozen=True)
class DataBlocks:
    """Wraps foreign text of one run in blocks that it cannot close.

    The mark is a function of the run, so that all prompts of a run begin alike and the provider can
    cache them; where foreign text contains the mark, in any case, it is taken out.
    """

    run_id: str

    @property
    def mark(self) -> str:
        """The run's mark: 80 bits in hexadecimal."""
        return hashlib.sha256(f"data block of run {self.run_id}".encode()).hexdigest()[:20]

    def block(self, source: str, text: str, *, limit: int) -> str:
        """A data block holding the text.

        Args:
            source: what the text is, in a few words; a path may be part of it.
            text: anything.
            limit: at most so many characters of it are shown.
        """
        unmarked = re.sub(re.escape(self.mark), "[mark removed]", text, flags=re.IGNORECASE)
        shown = clip(show_hidden(unmarked), limit)
        name = _SOURCE.sub("?", source)[:200]
        return f'<data-{self.mark} source="{name}">\n{shown}\n</data-{self.mark}>'


def _is_seen(character: str) -> bool:
    if character in _LINE_WHITESPACE:
        return True
    return character.isprintable() and ord(character) not in _UNSEEN_SELECTORS


def _escape(character: str, following: str) -> str:
    if character == "\r" and following == "\n":
        return character
    return character.encode("unicode_escape").decode("ascii")
