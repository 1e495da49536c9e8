"""Text that a reader of the rendered page cannot see. In: Markdown. Out: the rest, and what went.

Hidden text in an issue or a comment is how strangers speak to a model behind a maintainer's back.
Removed are HTML comments and link definitions nobody refers to (code keeps both: there they are
seen), and everywhere tag characters, bidirectional controls, zero-width and control characters.
Joiners inside words and emoji stay, because Persian, Hindi and families need them.
"""

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from webhooks.invisible_characters import CharacterKind, remove_invisible_characters
from webhooks.markdown import Document, line_starts, normalize, parse_document, unused_mark
from webhooks.raw_html import RawHtml

HiddenKind: TypeAlias = Literal["html_comment", "link_definition"] | CharacterKind


@dataclass(frozen=True, slots=True)
class Removed:
    """How many stretches (comments, definitions) or characters of one kind were removed."""

    kind: HiddenKind
    count: int


@dataclass(frozen=True, slots=True)
class VisibleText:
    """What a reader sees of a text, as Markdown with line feeds for line ends."""

    text: str
    removed: tuple[Removed, ...] = ()
    """What was taken out, by kind, for the note on the run; empty when nothing was hidden."""


@dataclass(frozen=True, slots=True, order=True)
class HiddenSpan:
    """A stretch of Markdown source that is not rendered."""

    start: int
    end: int
    kind: HiddenKind


def sanitize_text(markdown: str) -> VisibleText:
    """Remove what a reader cannot see from a text of up to 65,536 characters (the rest is cut).

    Costs up to some seconds for hostile text: call it in a job.
    """
    source = normalize(markdown)
    return visible_part(source, hidden_spans(source), 0, len(source))


def visible_part(source: str, spans: Iterable[HiddenSpan], start: int, end: int) -> VisibleText:
    """The visible part of `source[start:end]`, where `spans` are the hidden ones of the whole."""
    counts: Counter[HiddenKind] = Counter()
    kept: list[str] = []
    position = start
    for span in sorted(spans):
        if span.end <= position or span.start >= end:
            continue
        counts[span.kind] += 1
        kept.append(source[position : max(position, span.start)])
        position = span.end
    kept.append(source[position:end])
    text, characters = remove_invisible_characters("".join(kept))
    counts.update(characters)
    return VisibleText(text, tuple(Removed(kind, count) for kind, count in counts.items()))


# --- Stretches that Markdown and HTML do not render ------------------------------------------

_OPENING = re.compile(r"<!--(?!-?>)|<!\[CDATA\[|<!(?=[A-Za-z])|<\?|</[^A-Za-z>\n]")
_HTML = re.compile(r"<[!?/A-Za-z]")


def hidden_spans(source: str) -> list[HiddenSpan]:
    """The HTML comments and unused link definitions of a normalized source."""
    comments = _comment_spans(source) if _HTML.search(source) else ()
    definitions = _definition_spans(parse_document(source)) if "]:" in source else ()
    return [*comments, *definitions]


def _comment_spans(source: str) -> Iterator[HiddenSpan]:
    """Number every opening, and see which ones Markdown passes through as HTML."""
    source = source.replace("\0", "\ufffd")  # as the parser does
    openings = [match.start() for match in _OPENING.finditer(source)]
    mark, numbers = unused_mark(), itertools.count()
    marked = _OPENING.sub(lambda match: f"{match[0]}{mark}{next(numbers)}{mark}", source)
    numbered = re.compile(f"{mark}([0-9]+){mark}")
    html = RawHtml()
    for piece, next_line in _html_pieces(parse_document(marked)):
        for comment in html.feed(piece):
            if number := numbered.search(comment.text):
                start = openings[int(number[1])]
                text = numbered.sub("", comment.text)
                end = _end_in_source(source, start, text) if comment.closed else len(source)
                yield HiddenSpan(start, end, "html_comment")
        if html.swallowing:
            yield HiddenSpan(line_starts(source)[next_line], len(source), "html_comment")
            return


def _html_pieces(document: Document) -> Iterator[tuple[str, int]]:
    """The raw HTML of a document in order, each with the number of the line after its block."""
    for block in document.tokens:
        next_line = block.map[1] if block.map else 0
        if block.type == "html_block":
            yield block.content, next_line
        elif block.type == "inline" and "<" in block.content:
            for token in document.inlines(block):
                if token.type == "html_inline":
                    yield token.content, next_line


def _end_in_source(source: str, start: int, text: str) -> int:
    """Where a comment ends whose later lines may stand behind quote or list markers."""
    *earlier, last = text.split("\n")
    for _ in earlier:
        start = source.index("\n", start) + 1
    last = last.lstrip(" \t")  # where the parser turns tabs into blanks
    return source.index(last, start) + len(last)


def _definition_spans(document: Document) -> Iterator[HiddenSpan]:
    """The lines of link definitions (and footnotes of one word) that no link of the text uses."""
    definitions = [token for token in document.tokens if token.type == "definition"]
    if not definitions:
        return
    used = _used_labels(document)
    starts = line_starts(document.source)
    for definition in definitions:
        if definition.meta["id"] in used:
            used.remove(definition.meta["id"])  # a second definition is never used
        elif definition.map:
            first, last = definition.map
            yield HiddenSpan(starts[first], starts[last], "link_definition")


def _used_labels(document: Document) -> set[str]:
    blocks = (token for token in document.tokens if token.type == "inline" and "[" in token.content)
    tokens = itertools.chain.from_iterable(document.inlines(block) for block in blocks)
    return {token.meta["label"] for token in tokens if "label" in token.meta}
