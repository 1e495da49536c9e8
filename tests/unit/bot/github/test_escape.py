import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from bot.github.escape import code, code_cell, cut_bytes, fence, plain, quote, visible, words
from tests.unit.bot.github.corpus import CORPUS
from tests.unit.bot.github.rendered import assert_harmless, assert_plain, text_of

HARMLESS_JOINERS = {"emoji", "persian"}  # a joiner inside a word or an emoji stays
PIECES = [
    *"@#`|\\*_<>[]()!&;:$~-+= \n\t.0123456789aZ",
    *("@octo-dev", "#12", "GH-7", "a/b#3", "https://x.example", "www.x.example", "fixes ", "```"),
    *("<!--", "-->", "<img src=x>", "![", "](", "&#64;", "&num;", "[skip ci]", "Key: "),
    *("\u202e", "\u200b", "\u2060", "\x1b[31m", "\x00", "\U000e0041", "\udcff", "\r\n"),
]
hostile = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)


@pytest.mark.parametrize("name", [n for n in CORPUS if n not in HARMLESS_JOINERS])
def test_the_corpus_is_harmless_in_markdown(name: str) -> None:
    """Each hostile text stays words, on one line, in a quote, in code and in a block."""
    text = CORPUS[name]
    for markdown in (words(text), quote(text), code(text), fence(text), f"| {words(text)} |"):
        assert_harmless(markdown)


@pytest.mark.parametrize("name", [n for n in CORPUS if n not in HARMLESS_JOINERS])
def test_the_corpus_is_harmless_in_titles(name: str) -> None:
    """Each hostile text is a plain line as a title or a commit's subject."""
    assert_plain(plain(CORPUS[name]))


@given(hostile)
@example("`@a")
@example("\\`@a`")
def test_no_mixture_escapes(text: str) -> None:
    """However dangerous pieces are put together, they stay words."""
    for markdown in (words(text), quote(text), code(text), fence(text)):
        assert_harmless(markdown)


@given(hostile)
def test_no_mixture_escapes_a_title(text: str) -> None:
    """Removing one trigger never makes another."""
    assert_plain(plain(text))


@given(hostile)
def test_a_table_keeps_its_cells(text: str) -> None:
    """Foreign words in a cell neither end it nor the row."""
    row = f"| a | b |\n|---|---|\n| {words(text)} | {code_cell(text)} |\n\nafter"
    assert text_of(row).rstrip().endswith("after")
    assert "\n" not in words(text) + code_cell(text)


@given(st.text(alphabet=st.sampled_from("ab *_<>[]#!|~$&-+=.1)\\"), max_size=60))
def test_readers_see_the_words_as_they_were_typed(text: str) -> None:
    """Escaping changes what text does, not what it says."""
    expected = " ".join(text.split())
    assert text_of(words(text)).strip() == expected


def test_examples() -> None:
    """Escaped text, as it stands in the source."""
    assert words("Fixes #12 for @octo-dev, *see* https://x.example/a|b") == snapshot(
        "Fixes `#12` for `@octo-dev`, \\*see\\* `https://x.example/a`\\|b"
    )
    assert quote("- one\n\n1. two\n# three") == snapshot("> \\- one\n>\n> 1\\. two\n> \\# three")
    assert code("a`b|c\nd\u202e\udcff") == snapshot("``a`b|c\\nd\\u{202e}\\xff``")
    assert code_cell("a|b") == snapshot("`a\\x7cb`")
    assert fence("a\n```\nb\x1b[0m") == snapshot("````text\na\n```\nb\\x1b[0m\n````")
    assert plain("[skip ci] Fixes #12: let @octo-dev log in, see a/b#3") == snapshot(
        ": let octo-dev log in, see a/b 3"
    )
    assert plain("Signed-off-by: Eve") == snapshot("Signed-off-by - Eve")
    assert plain("Fix the login (again)") == "Fix the login (again)"


def test_paths_are_shown_exactly() -> None:
    """Bytes that are no text and invisible characters in names are visible, never dropped."""
    assert visible("caf\udce9/\u202ex\t", keep="") == snapshot("caf\\xe9/\\u{202e}x\\t")


def test_joiners_inside_words_and_emoji_stay() -> None:
    """Persian and families read as they were written."""
    assert words(CORPUS["persian"]) == CORPUS["persian"]
    assert words(CORPUS["emoji"]) == CORPUS["emoji"]


def test_cutting_says_so_and_counts_bytes() -> None:
    """What is left out is counted in bytes, at the end or at the beginning."""
    assert cut_bytes("äöü", 4) == snapshot("äö\n[… 2 bytes more …]")
    assert cut_bytes("äöü", 4, tail=True) == snapshot("[… 2 bytes more …]\nöü")
    assert cut_bytes("äöü", 6) == "äöü"
    assert len(words("word " * 10_000, 100)) <= 100
