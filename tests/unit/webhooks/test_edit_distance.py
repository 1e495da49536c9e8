import pytest

from webhooks.edit_distance import nearest

WORDS = ("status", "help", "go", "cancel", "retry")


@pytest.mark.parametrize(
    ("word", "command"),
    [
        ("cancel", "cancel"),
        ("cancle", "cancel"),
        ("cacnle", "cancel"),
        ("cancell", "cancel"),
        ("ancel", "cancel"),
        ("cncl", "cancel"),
        ("hlep", "help"),
        ("retyr", "retry"),
        ("og", "go"),
        ("cnc", None),
        ("restart", None),
        ("xx", None),
        ("", None),
    ],
)
def test_nearest(word: str, command: str | None) -> None:
    """A word within two edits of a command is taken for a misspelling of the nearest one."""
    assert nearest(word, WORDS) == command
