"""What counts as done is taken from the words people wrote."""

import pytest

from bot.intake.criteria import MAX_CRITERIA, parse_criteria


def test_list_under_a_heading_is_taken() -> None:
    """The list under "Acceptance criteria" is the criteria, and nothing else is."""
    text = "Fix it.\n\n- not this\n\n## Acceptance criteria:\n\n- a works\n- [ ] b works\n\nBye."
    assert parse_criteria(text) == ("a works", "b works")


def test_bold_line_counts_as_heading() -> None:
    """People write headings as bold lines, too."""
    assert parse_criteria("**Definition of Done**\n\n1. tests pass\n2. docs") == (
        "tests pass",
        "docs",
    )


def test_task_list_is_next() -> None:
    """Without such a heading the task list is taken."""
    assert parse_criteria("- [ ] one\n- [x] two\n- three") == ("one", "two")


def test_request_wins_over_issue() -> None:
    """Criteria in the request win over the issue's; the issue's win over the bare request."""
    issue = "### Success criteria\n* from the issue"
    assert parse_criteria("- [ ] mine", issue) == ("mine",)
    assert parse_criteria("just do it", issue) == ("from the issue",)


def test_request_itself_is_the_last_resort() -> None:
    """Without any list the request is the one criterion."""
    assert parse_criteria("fix\n the  bug") == ("fix the bug",)
    assert parse_criteria("") == ("Do what the issue asks for.",)


@pytest.mark.parametrize(
    ("items", "found"),
    [
        ("- <!-- describe -->\n- B", ("B",)),
        ("- \n- B", ("B",)),
        ("- [ ] \n- [ ]\n- [x] B", ("B",)),
        ("- ```\n  run it\n  ```\n- B", ("run it", "B")),
        ("- > quoted\n- B", ("quoted", "B")),
        ("- - inner\n- B", ("inner", "B")),
        ("- <!-- describe -->\n- ", ("fix it",)),
    ],
)
def test_empty_and_odd_items(items: str, found: tuple[str, ...]) -> None:
    """What a template left empty is no criterion; an item's quote, code or inner list is one."""
    assert parse_criteria("fix it", f"## Acceptance criteria\n\n{items}") == found


def test_criteria_are_bounded() -> None:
    """A flood of items is cut, not refused."""
    assert len(parse_criteria("".join(f"- [ ] {n}\n" for n in range(500)))) == MAX_CRITERIA
