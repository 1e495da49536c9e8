from xml.sax.saxutils import escape

import pytest

from workspace.junit import MAX_DEPTH, MAX_TESTS, JUnitUnreadable, parse_junit


def outcomes(xml: str) -> list[tuple[str, str, str]]:
    return [(test.class_name, test.name, test.outcome) for test in parse_junit(xml.encode())]


def test_every_outcome_is_read_once_from_nested_suites() -> None:
    """Each test is there once with its outcome, however suites nest."""
    assert outcomes("""\
        <testsuites><testsuite name="outer">
          <testcase classname="a" name="good"/>
          <testcase classname="a" name="bad"><failure message="m">text</failure></testcase>
          <testsuite name="inner">
            <testcase classname="b" name="broken"><error/></testcase>
            <testcase classname="b" name="left out"><skipped/></testcase>
          </testsuite>
        </testsuite></testsuites>""") == [
        ("a", "good", "passed"),
        ("a", "bad", "failed"),
        ("b", "broken", "error"),
        ("b", "left out", "skipped"),
    ]


def test_a_test_that_failed_and_was_skipped_failed() -> None:
    """Of several results of one test the worst counts."""
    xml = '<testsuite><testcase name="t"><skipped/><failure/></testcase></testsuite>'
    assert outcomes(xml) == [("", "t", "failed")]


@pytest.mark.parametrize(
    ("suite", "found"),
    [
        ('<testsuite name="s"><error message="m"/>{}</testsuite>', ("s", "(suite)", "error")),
        ('<testsuite name="s"><failure/>{}</testsuite>', ("s", "(suite)", "failed")),
        ('<testsuite name="s" failures="3">{}</testsuite>', ("s", "(counted)", "failed")),
        ('<testsuites errors="1"><testsuite>{}</testsuite></testsuites>',
         ("", "(counted)", "failed")),
    ],
)  # fmt: skip
def test_a_suite_that_failed_as_a_whole_counts(suite: str, found: tuple[str, str, str]) -> None:
    """A failure beside the tests, or counted and not shown, is a failed outcome of its own."""
    assert outcomes(suite.format('<testcase name="t"/>')) == [("", "t", "passed"), found]


def test_counts_that_agree_or_say_nothing_add_nothing() -> None:
    """Counts that the tests explain, and text that is no number, change no outcome."""
    xml = """<testsuites failures="1"><testsuite failures="1" errors="²">
        <testcase name="t"><failure/></testcase></testsuite></testsuites>"""
    assert outcomes(xml) == [("", "t", "failed")]


def test_where_and_why_a_test_failed_is_kept() -> None:
    """Message, file and line of a failure are there for annotations."""
    (test,) = parse_junit(
        b'<testsuite><testcase name="t" file="a.py" line="3"><failure message="no"/></testcase>'
        b"</testsuite>"
    )
    assert (test.message, test.file, test.line) == ("no", "a.py", 3)


@pytest.mark.parametrize(
    ("trace", "place"),
    [
        (">   assert 0\nE   assert 0\n\ntests/test_a.py:7: AssertionError", ("tests/test_a.py", 7)),
        ('File "/usr/lib/unittest/case.py", line 1\nFile "/ws/t/test_a.py", line 12, in f',
         ("t/test_a.py", 12)),
        ("Error: no\n    at Object.toBe (/ws/test/a.test.js:5:31)", ("test/a.test.js", 5)),
        ("AssertionError: no\n \u276f test/a.test.ts:4:41", ("test/a.test.ts", 4)),
        ("/etc/passwd:1: Error", (None, None)),
        ("../../x.py:1: Error", (None, None)),
        ("nothing", (None, None)),
    ],
)  # fmt: skip
def test_the_place_of_a_failure_is_found_in_its_trace(
    trace: str, place: tuple[str | None, int | None]
) -> None:
    """Where a runner names no file, its trace does; places outside the tree are none."""
    case = f"<testcase name='t'><failure>{escape(trace)}</failure></testcase>"
    (test,) = parse_junit(f"<testsuite>{case}</testsuite>".encode())
    assert (test.file, test.line) == place


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not xml",
        b"<testsuite>",
        b"<html/>",
        b'<?xml version="1.0" encoding="no-such"?><testsuite/>',
        b"\xff\xfe\x00",
        b'<!DOCTYPE t [<!ENTITY a "b">]><testsuite/>',
        '<?xml version="1.0" encoding="utf-16"?><!DOCTYPE t []><testsuite/>'.encode("utf-16"),
        b"<testsuite>" * (MAX_DEPTH + 1) + b"</testsuite>" * (MAX_DEPTH + 1),
        b"<testsuite>" + b'<testcase name="t"/>' * (MAX_TESTS + 1) + b"</testsuite>",
        b'<testsuite><testcase name="\x00"/></testsuite>',
    ],
    ids=lambda content: content[:30].decode("latin-1"),
)
def test_what_is_no_plain_report_is_refused(content: bytes) -> None:
    """Damaged, foreign, entity-laden, endless or too deep files are not read."""
    with pytest.raises(JUnitUnreadable):
        parse_junit(content)
