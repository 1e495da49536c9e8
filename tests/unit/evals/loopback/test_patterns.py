"""Patterns of code owners and of rulesets."""

import pytest

from evals.loopback.codeowners import _matcher
from evals.loopback.issues import closed_by_text
from evals.loopback.rulebook import _fits


@pytest.mark.parametrize(
    ("pattern", "path", "owned"),
    [
        ("*", "a/b.py", True),
        ("*.py", "a/b.py", True),
        ("*.py", "a/b.pyc", False),
        ("/docs/", "docs/a/b.md", True),
        ("/docs/", "a/docs/b.md", False),
        ("docs/", "a/docs/b.md", True),
        ("docs/*", "docs/a.md", True),
        ("apps/**/x.js", "apps/a/b/x.js", True),
        ("/Makefile", "a/Makefile", False),
    ],
)
def test_code_owner_patterns(pattern: str, path: str, owned: bool) -> None:
    """A pattern owns what a line of .gitignore like it would name."""
    assert bool(_matcher(pattern).search(path)) is owned


@pytest.mark.parametrize(
    ("name", "pattern", "fits"),
    [
        ("refs/heads/main", "refs/heads/main", True),
        ("refs/heads/ultracode/1", "refs/heads/ultracode/*", True),
        ("refs/heads/ultracode/1/2", "refs/heads/ultracode/*", False),
        ("refs/heads/ultracode/1/2", "refs/heads/ultracode/**/*", True),
        ("refs/heads/release/1", "refs/heads/*", False),
    ],
)
def test_branch_patterns(name: str, pattern: str, fits: bool) -> None:
    """A star stops at a slash, two do not."""
    assert _fits(name, pattern) is fits


class _Repository:
    full_name = "acme/sums"


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("Closes #1, fixes #2 and Resolved: #3", [1, 2, 3]),
        ("closes acme/sums#4 but closes other/repo#5", [4]),
        ("discloses #6, close 7, #8", []),
    ],
)
def test_closing_keywords(text: str, numbers: list[int]) -> None:
    """Keywords before a number close that issue, here and nowhere else."""
    assert closed_by_text(text, _Repository()) == numbers  # type: ignore[arg-type]
