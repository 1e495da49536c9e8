from __future__ import annotations

import pytest

from bot.agents.guidance import MOST_PLACES, guidance_paths


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["parser.py"], ()),
        (["src/a/parser.py"], ("src/a/AGENTS.md", "src/AGENTS.md")),
        (["src/a/**"], ("src/a/AGENTS.md", "src/AGENTS.md")),
        (["src/*/x/y.py"], ("src/AGENTS.md",)),
        (["src/a/x.py", "src/b/y.py"], ("src/a/AGENTS.md", "src/b/AGENTS.md", "src/AGENTS.md")),
        (["/etc/passwd", "../up/x"], ()),
    ],
)
def test_guidance_is_looked_for_above_the_paths(
    paths: list[str], expected: tuple[str, ...]
) -> None:
    """The nearest folders come first, a glob counts up to its wildcard, the root is left out."""
    assert guidance_paths(paths) == expected


def test_not_every_folder_of_a_huge_change_is_asked() -> None:
    """A change all over the repository costs a bounded number of look-ups."""
    assert len(guidance_paths(f"folder{n}/file" for n in range(1_000))) == MOST_PLACES
