"""What raw HTML in a comment does to the text after it. In: its pieces in order. Out: a state.

Markdown passes HTML through, piece by piece, and the browser reads the pieces as one page: a
comment or a tag left open in one of them swallows what follows, an element left open contains it.
This is the HTML standard's tokenizer, as far as that question goes; in doubt the text counts as
contained.

Source: https://html.spec.whatwg.org/multipage/parsing.html#tokenization
"""

import re
from dataclasses import dataclass, field, replace
from typing import Self

_CODE_NAMES = (
    "code iframe kbd noembed noframes plaintext pre samp script style template textarea title tt"
    " xmp"
)
_CONTAINER_NAMES = (
    "a abbr address article aside blockquote body button canvas caption center cite dd del details"
    " dfn dialog div dl dt fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 head header"
    " html label legend li main map math menu nav noscript object ol optgroup option output picture"
    " q rp rt ruby s search section select strike summary svg table tbody td tfoot th thead tr ul"
    " var video"
)
_IMPLIED_END_NAMES = "dd dt li optgroup option rp rt tbody td tfoot th thead tr"

_CODE = frozenset(_CODE_NAMES.split())
_CONTAINERS = _CODE | frozenset(_CONTAINER_NAMES.split())
"""Elements that make their content something else than ordinary text. Emphasis does not, and an
unknown one (`<T>`, `<u8>` in prose) is dropped by GitHub's sanitizer, which keeps its content."""
_IMPLIED_END = frozenset(_IMPLIED_END_NAMES.split())
"""Elements that end by themselves where their parent ends."""

_OPENING = re.compile(r"<!--|<[!?]|</(?![A-Za-z])|<(/?)([A-Za-z][^\s/>]*)")
_COMMENT_END = re.compile(r"--!?>")
_TAG_REST = re.compile(r"""(?>[^\s=>]++|\s++|=\s*+(?:"[^"]*+"|'[^']*+'|(?!["'])))*+>""")


@dataclass(frozen=True, slots=True)
class HiddenPiece:
    """A comment, or what a browser takes for one."""

    text: str
    """From its `<` to its end, or to the end of the piece of HTML it began in."""
    closed: bool


@dataclass(slots=True)
class RawHtml:
    """The state of a page after the pieces of HTML fed so far."""

    swallowing: bool = False
    """Whether a comment or a tag was left open, so that nobody sees what follows. That is for good:
    the text between pieces is escaped, and a later `-->` has swallowed the markup up to it."""
    open_elements: list[str] = field(default_factory=list)
    _floors: list[int] = field(default_factory=lambda: [0])

    @property
    def is_ordinary(self) -> bool:
        """Whether text at this place stands in no HTML element."""
        return not self.swallowing and not self.open_elements

    @property
    def is_readable(self) -> bool:
        """Whether text at this place is prose that a reader can see, if perhaps only on a click."""
        return not self.swallowing and _CODE.isdisjoint(self.open_elements)

    def copy(self) -> Self:
        """The same state, to look ahead from."""
        return replace(self, open_elements=[*self.open_elements])

    def enter(self) -> None:
        """Markdown began a paragraph, quote or list: no end tag in it reaches out of it."""
        self._floors.append(len(self.open_elements))

    def leave(self) -> None:
        """Markdown ended what it began; what HTML left open stays open, to be safe."""
        self._floors.pop()

    def feed(self, html: str) -> list[HiddenPiece]:
        """Read one piece; returns the comments that begin in it."""
        comments: list[HiddenPiece] = []
        position = 0
        while not self.swallowing and (opening := _OPENING.search(html, position)):
            position = self._read(html, opening, comments)
        return comments

    def _read(self, html: str, opening: re.Match[str], comments: list[HiddenPiece]) -> int:
        """Read the construct that begins at `opening`; returns where it ends."""
        start = opening.start()
        if opening[2] is None:
            end = _comment_end(html, start)
            comments.append(HiddenPiece(html[start:end], closed=end is not None))
        else:
            rest = _TAG_REST.match(html, opening.end())
            end = rest.end() if rest else None
            if rest:
                self._enter_or_leave(opening[2].lower(), closing=bool(opening[1]))
        self.swallowing = end is None
        return len(html) if end is None else end

    def _enter_or_leave(self, name: str, *, closing: bool) -> None:
        if name not in _CONTAINERS:
            return
        if not closing:
            self.open_elements.append(name)
            return
        depth = len(self.open_elements)
        while depth and self.open_elements[depth - 1] in _IMPLIED_END - {name}:
            depth -= 1
        if depth > self._floors[-1] and self.open_elements[depth - 1] == name:
            del self.open_elements[depth - 1 :]


def _comment_end(html: str, start: int) -> int | None:
    """Where the comment that begins at `start` ends; None when this piece leaves it open."""
    if not html.startswith("<!--", start):
        end = html.find(">", start)
        return end + 1 if end >= 0 else None
    for empty in ("<!-->", "<!--->"):
        if html.startswith(empty, start):
            return start + len(empty)
    found = _COMMENT_END.search(html, start + 4)
    return found.end() if found else None
