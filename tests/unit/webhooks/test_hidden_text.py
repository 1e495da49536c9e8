import sys
import unicodedata

import pytest

from webhooks.hidden_text import sanitize_text
from webhooks.invisible_characters import holds_invisible_characters, remove_invisible_characters

KEPT = {
    "persian": "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    "hindi": "क्\u200dष",
    "family": "👨\u200d👩\u200d👧",
    "heart on fire": "❤\ufe0f\u200d🔥",
    "skin tone": "👩🏽\u200d💻",
    "keycap": "1\ufe0f\u20e3",
    "flag": "🏳\ufe0f\u200d🌈",
    "variant of an ideograph": "葛\U000e0100",
    "tab and lines": "a\tb\n\n    c\n",
    "arabic number sign": "\u0600\u0661",
    "comment in a fence": "```html\n<!-- toc -->\n```",
    "comment in indented code": "a\n\n    <!-- toc -->",
    "comment in a code span": "use `<!-- toc -->` there",
    "escaped comment": "\\<!-- seen -->",
    "comment without an end in a line": "a <!-- b",
    "empty comments": "<!--> and <!--->",
    "definition in use": "[it]\n\n[It]: https://a.example 'title'",
    "definition of a picture in use": "![a][it]\n\n[it]: a.png",
    "definition in code": "```\n[//]: # (x)\n```",
    "angle brackets": "a < b, Vec<u8>, <T>, 1 << 2",
    "replacement character": "\ufffd",
}


@pytest.mark.parametrize("text", KEPT.values(), ids=KEPT.keys())
def test_what_a_reader_sees_is_kept(text: str) -> None:
    """Joiners in words and emoji, code and everything visible stay as they are."""
    visible = sanitize_text(text)
    assert (visible.text, visible.removed) == (text, ())


REMOVED = {
    "zero-width space": ("pass\u200bword", "password", {"zero_width": 1}),
    "soft hyphen and word joiner": ("a\u00adb\u2060c\ufeff", "abc", {"zero_width": 3}),
    "fillers": ("a\u3164\u115f\uffa0b", "ab", {"zero_width": 3}),
    "tags": ("ok\U000e0068\U000e0069", "ok", {"tag": 2}),
    "bidi": ("a\u202eb\u2066c\u200e", "abc", {"bidi": 3}),
    "joiner between words": ("a \u200d b", "a  b", {"joiner": 1}),
    "joiners in a row": ("می\u200c\u200cخ", "میخ", {"joiner": 2}),
    "joiner at the end": ("a\u200d", "a", {"joiner": 1}),
    "joiner at the start": ("\u200da", "a", {"joiner": 1}),
    "sentence in variation selectors": ("😀\U000e0158\U000e0159", "😀", {"variation": 2}),
    "selectors in a row": ("❤\ufe0f\ufe0f\ufe0e", "❤\ufe0f", {"variation": 2}),
    "selectors on letters": ("a\ufe0fb\ufe01", "ab", {"variation": 2}),
    "controls": ("a\x00b\x1b[31mc\x7f\x9b", "ab[31mc", {"control": 4}),
    "surrogate": ("a\ud800b", "ab", {"control": 1}),
    "other line ends": ("a\r\nb\rc\u2028d\x0be\x85f", "a\nb\nc\nd\ne\nf", {"control": 3}),
    "comment in a line": ("a <!-- x --> b", "a  b", {"html_comment": 1}),
    "comment over lines": ("a <!-- x\ny --> b", "a  b", {"html_comment": 1}),
    "comment block": ("a\n\n<!--\nx\n\ny\n-->\n\nb", "a\n\n\n\nb", {"html_comment": 1}),
    "comment in a quote": ("> a\n> <!-- x\n> y --> b", "> a\n>  b", {"html_comment": 1}),
    "comment in a list": ("- <!-- x\n  y -->\n- b", "- \n- b", {"html_comment": 1}),
    "comment in HTML": ("<div>\n<!-- x -->\n</div>", "<div>\n\n</div>", {"html_comment": 1}),
    "comment with odd end": (
        "<div>\n<!-- x --!>a\n</div>",
        "<div>\na\n</div>",
        {"html_comment": 1},
    ),
    "two comments": ("<!-- x --> a <!-- y -->", " a ", {"html_comment": 2}),
    "comment in a comment": ("<!-- <!-- x --> a", " a", {"html_comment": 1}),
    "comment left open": ("a\n\n<!-- x\n\ny", "a\n\n", {"html_comment": 1}),
    "comment left open in a quote": ("> <!--\n\nx\n\n-->", "> ", {"html_comment": 1}),
    "tag left open": ('a\n\n<div title="\n\nx', 'a\n\n<div title="\n', {"html_comment": 1}),
    "processing instruction": ("a <?x?> b", "a  b", {"html_comment": 1}),
    "instruction over quoted lines": ("> <? x\n> y ?> b", ">  b", {"html_comment": 1}),
    "comment with a null": ("<!-- \x00 --> a\x00", " a", {"html_comment": 1, "control": 1}),
    "comment behind a tab": ("- a\n\n\t<!-- x\n\ty --> b", "- a\n\n\t b", {"html_comment": 1}),
    "declaration": ("a <!X y> b", "a  b", {"html_comment": 1}),
    "character data": ("a <![CDATA[x]]> b", "a  b", {"html_comment": 1}),
    "end tag that is none": ("<div>\n</ x>\n</div>", "<div>\n\n</div>", {"html_comment": 1}),
    "definition as a comment": ("a\n\n[//]: # (x)\n\nb", "a\n\n\nb", {"link_definition": 1}),
    "second definition": ("[a]\n\n[a]: /u\n[a]: /x", "[a]\n\n[a]: /u\n", {"link_definition": 1}),
    "definition over lines": ("b\n\n[a]: /u '\nx'\n", "b\n\n", {"link_definition": 1}),
}


@pytest.mark.parametrize(("text", "rest", "counts"), REMOVED.values(), ids=REMOVED.keys())
def test_what_no_reader_sees_is_removed_and_counted(
    text: str, rest: str, counts: dict[str, int]
) -> None:
    """Comments, unused definitions and invisible characters go, and are counted by kind."""
    visible = sanitize_text(text)
    assert visible.text == rest
    assert {removed.kind: removed.count for removed in visible.removed} == counts


def test_every_format_character_of_unicode_is_known() -> None:
    """No character that Unicode calls control, format, separator or surrogate slips through."""
    seen = set("\t\n") | set("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2")
    seen |= set("\U000110bd\U000110cd") | {chr(code) for code in range(0x13430, 0x13460)}
    missed = [
        hex(code)
        for code in range(sys.maxunicode + 1)
        if unicodedata.category(chr(code)) in ("Cc", "Cf", "Cs", "Zl", "Zp")
        and chr(code) not in seen
        and not holds_invisible_characters(chr(code))
    ]
    assert missed == []


def test_removal_takes_one_pass_over_hostile_text() -> None:
    """A comment of nothing but invisible characters is empty afterwards."""
    text, removed = remove_invisible_characters("\u200d" * 65_536)
    assert (text, removed["joiner"]) == ("", 65_536)


def test_text_is_cut_at_github_s_limit() -> None:
    """Nobody pays for more than GitHub lets a person write."""
    assert len(sanitize_text("x" * 100_000).text) == 65_536
