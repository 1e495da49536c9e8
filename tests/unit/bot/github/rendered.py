"""Markdown as GitHub would show it, held against what foreign words must never do there."""

import re
from html.parser import HTMLParser

from markdown_it import MarkdownIt

_MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
_TAGS = {
    *("a", "blockquote", "br", "code", "del", "details", "em", "h3", "hr", "li", "ol", "p", "pre"),
    *("strong", "sub", "summary", "table", "tbody", "td", "th", "thead", "tr", "ul"),
}
_MENTION = re.compile(r"(?<![\w`])@[a-z0-9][\w/-]*", re.IGNORECASE)
_REFERENCE = re.compile(r"[\w./-]*#\d+|\bGH-\d+", re.IGNORECASE)
_LINK = re.compile(r"\w+://|\bwww\.\w|\bmailto:", re.IGNORECASE)
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\U000e0000-\U000e0fff\ud800-\udfff]"
)


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.comments: list[str] = []
        self.prose: list[str] = []
        self.text: list[str] = []
        self._quiet = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        self._quiet += tag in ("code", "pre")

    def handle_endtag(self, tag: str) -> None:
        self._quiet -= tag in ("code", "pre")

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    def handle_data(self, data: str) -> None:
        self.text.append(data)
        if not self._quiet:
            self.prose.append(data)


def text_of(markdown: str) -> str:
    """What a reader sees."""
    page = _Page()
    page.feed(_MARKDOWN.render(markdown))
    return "".join(page.text)


def assert_harmless(
    markdown: str,
    *,
    mentions: tuple[str, ...] = (),
    references: tuple[str, ...] = (),
    links: tuple[str, ...] = (),
) -> None:
    """Nothing in it is an image, HTML of others, a ping, a reference, a link or hidden."""
    page = _Page()
    page.feed(_MARKDOWN.render(markdown))
    prose = "".join(page.prose)
    assert page.tags <= _TAGS, page.tags - _TAGS
    assert page.comments == []
    assert set(page.links) <= set(links), page.links
    assert set(_MENTION.findall(prose)) <= set(mentions), _MENTION.findall(prose)
    assert set(_REFERENCE.findall(prose)) <= set(references), _REFERENCE.findall(prose)
    assert _LINK.search(prose) is None, prose
    assert _HIDDEN.search(markdown) is None, ascii(_HIDDEN.search(markdown))


_SKIPS_CI = re.compile(r"\[[\w ]*(skip|no)[\w ]*\]|skip-checks:", re.IGNORECASE)
_CLOSES = re.compile(
    r"\b(close[sd]?|fix(e[sd])?|resolve[sd]?)\b\s*:?\s*([\w./-]*#\d|GH-\d|https?:)", re.IGNORECASE
)
_TRAILER = re.compile(r"^[A-Za-z][A-Za-z-]*:\s", re.MULTILINE)


def assert_plain(line: str) -> None:
    """As a title or in a commit, it pings, closes, references, skips and claims nothing."""
    assert "\n" not in line
    for pattern in (_MENTION, _REFERENCE, _HIDDEN, _SKIPS_CI, _CLOSES, _TRAILER, _LINK):
        assert pattern.search(line) is None, (pattern.pattern, line)
