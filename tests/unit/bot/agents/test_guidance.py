from __future__ import annotations

import pytest

from bot.agents.guidance import guidance_paths


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["parser.py"], ()),
        (["src/a/parser.py"], ("src/a/AGENTS.md", "src/AGENTS.md")),
        (["src/a/**"], ("src/a/AGENTS.md", "src/AGENTS.md")),
        (["src/*/x/y.py"], ("src/AGENTS.md",)),
        (["src/a/x.py", "src/b/y.py"], ("src/a/AGENTS.md", "src/b/AGENTS.md", "src/AGENTS.md")),
        (
            ["a/b/c/d/e/f.py"],
            tuple(f"{p}/AGENTS.md" for p in ("a/b/c/d/e", "a/b/c/d", "a/b/c", "a/b")),
        ),
        (["/etc/passwd", "../up/x"], ()),
    ],
)
def test_guidance_is_looked_for_above_the_paths(
    paths: list[str], expected: tuple[str, ...]
) -> None:
    """The nearest folders come first, a glob counts up to its wildcard, the root is left out."""
    assert guidance_paths(paths) == expected
