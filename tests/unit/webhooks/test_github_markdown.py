"""Our reading of a comment, held against the Markdown renderer GitHub publishes (cmark-gfm)."""

import re
from html.parser import HTMLParser

import cmarkgfm
from cmarkgfm.cmark import Options
from hypothesis import example, given, settings
from hypothesis import strategies as st

from webhooks.command_lines import find_command_lines

COMMANDS = st.sampled_from(
    [
        *("/ultracode a", "/ultracode", "/ULTRACODE b", "  /ultracode c", "    /ultracode d"),
        *("\t/ultracode e", "/ultracode `f", "/ultracode | g", "/ultracode [h", "/ultracode ~~ i"),
    ]
)
OTHERS = st.sampled_from(
    [
        *("", "", "", "text", "> q", "> ", "> - a", "- p", "- ", "1. p", "10) x", "  - n", "# h"),
        *("```", "~~~", "*em", "`code", "code`", "``x", "|a|b|", "|-|-|", "a|b", "-|-", "---"),
        *("    code", "    more", "see [^1]", "see [a", "x](http://u)", "[l](", "![i", "- [ ] t"),
        *("===", "--", "-", "~~s", "e~~", "\\", "* * *", "**", "&lt;"),
    ]
)
DEFINITIONS = st.sampled_from(
    ["[a]: /u", "[a]:", "[a]: /u 'title", "end'", "[^1]: foot", "[^1]: foot note"]
)
SOURCES = st.lists(OTHERS | COMMANDS, max_size=14).map("\n".join)
WITH_DEFINITIONS = st.lists(OTHERS | COMMANDS | DEFINITIONS, max_size=14).map("\n".join)

_LINE = re.compile(r"^([ \t]*/ultracode)(?=[ \t]|$)", re.IGNORECASE | re.MULTILINE)
_MARK = re.compile(r"/ultracodeqz([0-9]+)zq", re.IGNORECASE)
_FORMATTING = {"em", "strong"}
_VOID = {"br", "hr", "img", "input"}


class _Page(HTMLParser):
    """Collects the numbers of the marks that begin a line of a paragraph or of a heading."""

    def __init__(self) -> None:
        super().__init__()
        self.ordinary: set[int] = set()
        self._open: list[str] = []
        self._at_line_start = False

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._at_line_start = tag in ("p", "h1", "h2", "br")
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        while self._open.pop() != tag:
            pass
        self._at_line_start = False

    def handle_data(self, data: str) -> None:
        blocks = [tag for tag in self._open if tag not in _FORMATTING]
        mark = _MARK.match(data.lstrip("\n"))
        if mark and self._at_line_start and blocks in (["p"], ["h1"], ["h2"]):
            self.ordinary.add(int(mark[1]))
        if data.strip():
            self._at_line_start = False


def _seen_on_github(source: str) -> set[int]:
    """Which lines with the word, by number, GitHub shows as lines of ordinary text."""
    numbers = iter(range(len(source)))
    marked = _LINE.sub(lambda match: f"{match[1]}qz{next(numbers)}zq", source)
    options = Options.CMARK_OPT_FOOTNOTES | Options.CMARK_OPT_HARDBREAKS
    page = _Page()
    page.feed(cmarkgfm.github_flavored_markdown_to_html(marked, options))
    return page.ordinary


def _found(source: str) -> set[int]:
    starts = [match.start() for match in _LINE.finditer(source)]
    return {starts.index(line.start) for line in find_command_lines(source).commands}


@settings(max_examples=400, deadline=None)
@given(WITH_DEFINITIONS)
@example("[^1]: note\n/ultracode a")
@example("[^1]: foot\n /ultracode x\n-\n    /ultracode c\n/ultracode `a")
@example("[a]: /u 'title\n/ultracode a\n10) x\nend'")
@example("> q\n- \n/ultracode a")
def test_no_command_that_github_does_not_show_as_one(source: str) -> None:
    """Whatever starts something is, on GitHub's page, the beginning of a line of ordinary text."""
    assert _found(source) <= _seen_on_github(source)


@settings(max_examples=400, deadline=None)
@given(SOURCES)
@example("/ultracode a\n--\n/ultracode b")
@example("*em\n    /ultracode d")
@example("/ultracode a\n|-|-|\n|-|-|\n    /ultracode d")
def test_no_silence_about_what_github_shows_as_one(source: str) -> None:
    """A line that GitHub shows as ordinary text is a command, or at least gets a hint."""
    lines = find_command_lines(source)
    assert lines.has_folded or _seen_on_github(source) <= _found(source)
