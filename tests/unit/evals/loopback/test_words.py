"""What Markdown means on GitHub."""

import pytest

from evals.loopback.words import html_of, mentioned, visible


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("@ada and @Wim-2, (@rosa)", ["ada", "wim-2", "rosa"]),
        ("@acme/core", ["acme/core"]),
        ("`@ada` and\n\n```\n@ada\n```\n\n    @ada", []),
        ("<!-- @ada -->", []),
        ("mail@ada.example, a@b, @@ada, @-ada", []),
        ("> @ada in a quote", ["ada"]),
        ("@\u200bada", []),
        ("&#64;ada", ["ada"]),
        ("", []),
    ],
)
def test_whom_a_text_notifies(text: str, names: list[str]) -> None:
    """People are notified by what readers see as a mention, and by nothing else."""
    assert mentioned(text) == names


def test_headings_stay_below_the_page() -> None:
    """A text's headings begin at level two and keep their order."""
    assert "<h2>A</h2>" in html_of("# A\n\n### B")
    assert "<h4>B</h4>" in html_of("# A\n\n### B")
    assert "<h2>C</h2>" in html_of("### C")


def test_invisible_characters_become_escapes() -> None:
    """Bidirectional controls, zero-width and tag characters are shown."""
    assert visible("a\u202eb\u200bc\U000e0041") == "a\\u{202e}b\\u{200b}c\\u{e0041}"
