"""What Markdown means on GitHub: safe HTML for pages, and whom a text would notify.

In: Markdown that people, models or repositories wrote. Out: HTML with nothing active in it, and the
logins, issues and closing keywords that GitHub would act on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import nh3
from markdown_it import MarkdownIt
from markupsafe import Markup

_MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
_TAGS = {
    *("a", "b", "blockquote", "br", "code", "dd", "del", "details", "div", "dl", "dt", "em"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "ins", "kbd", "li", "ol", "p", "pre", "q"),
    *("s", "samp", "span", "strong", "sub", "summary", "sup", "table", "tbody", "td", "tfoot"),
    *("th", "thead", "tr", "ul", "var"),
}
_LOGIN = r"[a-z\d](?:[a-z\d-]*[a-z\d])?"
_MENTION = re.compile(rf"(?<![\w`/@.-])@({_LOGIN}(?:/[\w-]+)?)(?![\w/-])", re.IGNORECASE)
_INVISIBLE = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]")


def html_of(text: str | None) -> Markup:
    """Markdown as HTML that cannot run, load or submit anything; headings begin at level 2."""
    rendered = _MARKDOWN.render(text or "")
    cleaned = nh3.clean(
        rendered,
        tags=_TAGS,
        attributes={"a": {"href", "title"}, "ol": {"start"}, "td": {"align"}, "th": {"align"}},
        url_schemes={"http", "https", "mailto"},
        link_rel="nofollow noopener noreferrer",
    )
    return Markup(_demoted(cleaned))  # noqa: S704 - nh3 has just cleaned it


def _demoted(html: str) -> str:
    """Headings of a text begin one level below the page's own, whatever its author began with."""
    levels = [int(level) for level in re.findall(r"<h([1-6])\b", html)]
    shift = 2 - min(levels, default=2)
    return re.sub(r"(</?h)([1-6])\b", lambda m: f"{m[1]}{min(6, int(m[2]) + shift)}", html)


def mentioned(text: str | None) -> list[str]:
    """The logins and teams that a text would notify; code and HTML comments notify nobody."""
    found = (name for part in _spoken(text) for name in _MENTION.findall(part))
    return list(dict.fromkeys(name.lower() for name in found))


def _spoken(text: str | None) -> Iterator[str]:
    for token in _MARKDOWN.parse(text or ""):
        for child in token.children or []:
            if child.type == "text":
                yield child.content


def visible(text: str) -> str:
    """Text whose invisible characters show as escapes, as diffs must show them."""
    return _INVISIBLE.sub(lambda m: f"\\u{{{ord(m[0]):x}}}", text)
