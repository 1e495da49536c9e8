"""Which lines of a comment are commands? In: the comment's source. Out: where those lines are.

A line counts when it begins with the word as typed *and* a reader of the rendered page sees it
begin a line of ordinary text. To ask Markdown about a place in the source, the word there gets a
mark, and the parsed text tells where that mark ended up.
"""

import enum
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from markdown_it.token import Token

from webhooks.markdown import Document, line_starts, parse_document, unused_mark
from webhooks.raw_html import RawHtml
from webhooks.word import WORD

SPACE = " \t\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
"""For a character class: blanks that end a token, also those of other keyboards. Invisible and
control characters do not."""

_LINE = re.compile(rf"^([ \t]*)({WORD})(?=[{SPACE}]|$)", re.IGNORECASE | re.ASCII | re.MULTILINE)
_CONTAINERS = frozenset({"blockquote", "bullet_list", "ordered_list", "table"})
_FOOTNOTE = re.compile(r" {0,3}\[\^[^\]\s]+\]:")
_TABLE_RULE = re.compile(r"(?=.*-)(?=.*[|:])[-|: \t]+$")
_FOLDER = re.compile(
    rf" {{0,3}}(?:>|[-+*](?:\s|$)|[0-9]{{1,9}}[.)](?:\s|$))"
    rf"| {{0,3}}\[[^\]]+\]:|{_TABLE_RULE.pattern}"
)
"""The beginning of a quote, a list, a footnote or a link definition, or a table's second line."""


class Standing(enum.Enum):
    """What a line that begins with the word is to a reader."""

    COMMAND = "a line of ordinary text"
    FOLDED = "a line that Markdown made part of something else, against what its writer sees"
    INERT = "quoted, code, in a list, or not visible at all"


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A line that begins with the word."""

    start: int
    """Offset of the line."""
    word_end: int
    """Offset behind the word."""
    line: int
    """Number of the line, from 0."""
    indent: int
    """Columns before the word, a tab counted as four."""


@dataclass(frozen=True, slots=True)
class CommandLines:
    """The lines of a comment that begin with the word, and what bounds a request."""

    commands: tuple[CommandLine, ...] = ()
    """Those that count, in order."""
    has_folded: bool = False
    verbatim_lines: frozenset[int] = frozenset()
    """Numbers of the lines in code and HTML blocks: none of them is a signature."""


def find_command_lines(source: str) -> CommandLines:
    """Read a source that went through `markdown.normalize`; never raises.

    Free of cost where no line begins with the word; else up to some seconds for hostile text.
    """
    lines = _candidates(source)
    if not lines:
        return CommandLines()
    mark, numbers = unused_mark(), itertools.count()
    marked = _LINE.sub(lambda match: f"{match[0]}{mark}{next(numbers)}{mark}", source)
    document = parse_document(marked)
    standings = _Reader(document, lines, mark).standings()
    return CommandLines(
        tuple(line for line, at in zip(lines, standings, strict=True) if at is Standing.COMMAND),
        Standing.FOLDED in standings,
        _lines_of(document, "fence", "code_block", "html_block"),
    )


def _lines_of(document: Document, *types: str) -> frozenset[int]:
    """The numbers of the lines in blocks of these types."""
    maps = (token.map for token in document.tokens if token.map and token.type in types)
    return frozenset(itertools.chain.from_iterable(range(*lines) for lines in maps))


def _candidates(source: str) -> list[CommandLine]:
    numbers = {start: number for number, start in enumerate(line_starts(source))}
    return [
        CommandLine(match.start(), match.end(), numbers[match.start()], len(match[1].expandtabs(4)))
        for match in _LINE.finditer(source)
    ]


class _Reader:
    """Walks the blocks of a marked document, keeping what surrounds the current place."""

    def __init__(self, document: Document, lines: list[CommandLine], mark: str) -> None:
        self._document = document
        self._lines = lines
        self._mark = re.compile(f"{WORD}{mark}([0-9]+){mark}", re.IGNORECASE)
        self._standings = [Standing.INERT] * len(lines)
        self._html = RawHtml()
        self._containers: list[str] = []
        """Tag of each open container, from the outermost."""
        self._foldable = frozenset(_foldable_lines(document))

    def standings(self) -> list[Standing]:
        """The standing of each line, in order."""
        for token in self._document.tokens:
            if token.type.removesuffix("_open").removesuffix("_close") in _CONTAINERS:
                self._enter_or_leave(token)
            elif token.type == "html_block":
                self._read_html_block(token)
            elif token.type == "code_block":
                self._read_code(token)
            elif token.type == "inline":
                self._read_text(token)
        return self._standings

    def _enter_or_leave(self, token: Token) -> None:
        if token.nesting > 0:
            self._containers.append(token.tag)
            self._html.enter()
        else:
            self._containers.pop()
            self._html.leave()

    def _read_html_block(self, token: Token) -> None:
        """The first marked line speaks for all: an HTML block is folded into one thing."""
        if match := self._mark.search(token.content):
            before = self._html.copy()
            before.feed(token.content[: match.start()])
            if before.is_readable and not self._containers:
                self._standings[int(match[1])] = Standing.FOLDED
        self._html.feed(token.content)

    def _read_code(self, token: Token) -> None:
        """Indented code right below a table's rule may be ordinary text: parsers disagree there."""
        if token.map and token.map[0] in self._foldable and self._html.is_readable:
            for number in self._mark.findall(token.content):
                self._standings[int(number)] = Standing.FOLDED

    def _read_text(self, token: Token) -> None:
        marks = self._mark.findall(token.content)
        first = self._mark.match(token.content)
        if first and len(marks) == 1 and "<" not in token.content:
            self._judge(int(first[1]))  # nothing of this block can stand before its start
        elif marks or "<" in token.content:
            self._read_inlines(token)

    def _read_inlines(self, token: Token) -> None:
        """Judge the lines that begin with text outside links and struck-out words."""
        self._html.enter()
        depth = 0
        at_line_start = True
        for inline in self._document.inlines(token):
            if inline.type == "html_inline":
                self._html.feed(inline.content)
            elif inline.type == "text" and at_line_start and not depth:
                self._judge_text(inline.content)
            depth += inline.nesting
            at_line_start = inline.type in ("softbreak", "hardbreak")
        self._html.leave()

    def _judge_text(self, text: str) -> None:
        if match := self._mark.match(text):
            self._judge(int(match[1]))

    def _judge(self, number: int) -> None:
        line = self._lines[number]
        inside = self._containers
        if not self._html.is_readable or (inside and not _is_lazy(line.indent, inside)):
            return
        plain = not inside and self._html.is_ordinary and line.line not in self._foldable
        self._standings[number] = Standing.COMMAND if plain else Standing.FOLDED


def _foldable_lines(document: Document) -> Iterator[int]:
    """The lines below the beginning of a quote, a list and the like, up to a blank line.

    Parsers disagree about some of them, and this one knows no footnotes: none of them is a command.
    A footnote goes on after a blank line as long as the lines are indented.
    """
    fenced = _lines_of(document, "fence")
    folding = footnote = False
    for number, line in enumerate(document.source.split("\n")):
        indented = line.startswith(("    ", "\t"))
        if not line.strip(" \t"):
            folding = False
        elif number in fenced and not (footnote and indented):
            folding = footnote = False
        elif _FOLDER.match(line):
            folding, footnote = True, bool(_FOOTNOTE.match(line))
        else:
            footnote = footnote and (folding or indented)
            folding = folding or footnote
        if folding:
            yield number


def _is_lazy(indent: int, containers: list[str]) -> bool:
    """Whether a line is in these containers only for want of a blank line before it.

    A quote's own lines begin with its sign, so the word begins none of them. A list's are indented
    by the width of its marker.
    """
    if "blockquote" in containers or "table" in containers:
        return True
    return indent < sum(3 if kind == "ol" else 2 for kind in containers)
