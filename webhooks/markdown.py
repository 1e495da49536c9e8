"""Markdown as GitHub reads it, in two steps. In: a comment's source. Out: markdown-it tokens.

Blocks are parsed for the whole source; the text inside a block only where somebody asks, which
keeps a hostile comment cheap. `markdown-it-py` bounds nesting and is close to linear; GitHub's
comment limit bounds the rest. The worst found for 64 kB takes some three seconds: call it in a job.

Differences to GitHub that matter here are handled by the callers: footnotes, and emphasis, which is
left out because it changes nothing that this package decides.
"""

import secrets
from dataclasses import dataclass, field
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

MAX_CHARACTERS = 65_536
"""GitHub's limit for the body of a comment, an issue or a review; what is longer is cut here."""

_OPTIONS = {
    "html": True,
    "inline_definitions": True,  # link definitions become tokens
    "store_labels": True,  # links tell which definition they use
}
_PARSER = (
    MarkdownIt("commonmark", _OPTIONS)
    .enable(["table", "strikethrough"])
    .disable(["emphasis", "inline", "text_join"])
)


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed source. `tokens` are its blocks; `inlines()` parses the text of one of them."""

    source: str
    """As `normalize` returns it."""
    tokens: list[Token]
    _environment: dict[str, Any] = field(repr=False)

    def inlines(self, block: Token) -> list[Token]:
        """The text, links, code spans, … of a block of type `inline`."""
        if not block.children:
            block.children = []
            _PARSER.inline.parse(block.content, _PARSER, self._environment, block.children)
        return block.children


def normalize(text: str) -> str:
    """The text with line feeds for line ends, cut to `MAX_CHARACTERS`."""
    return text.replace("\r\n", "\n").replace("\r", "\n")[:MAX_CHARACTERS]


def parse_document(source: str) -> Document:
    """Parse the blocks of a source that went through `normalize`."""
    environment: dict[str, Any] = {}
    return Document(source, _PARSER.parse(source, environment), environment)


def line_starts(source: str) -> list[int]:
    """The offset at which each line begins, and one more: the end of the source."""
    starts = [0]
    for line in source.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    starts[-1] = len(source)
    return starts


def unused_mark() -> str:
    """Letters and digits that no text holds, as nobody can guess them.

    Put behind a place in the source, they tell where Markdown took that place.
    """
    return f"zq{secrets.token_hex(8)}qz"
