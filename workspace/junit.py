"""JUnit XML, as written by code nobody trusts.

In: the bytes of a report. Out: test outcomes with bounded texts. The file was made inside the
sandbox by the code under test, so documents with a DTD (entity bombs, external entities), too many
tests or too deep a nesting are refused rather than read.
"""

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import PurePosixPath
from typing import Final, Literal
from xml.etree import ElementTree as ET
from xml.parsers import expat

from junitparser import Error, Failure, Skipped, TestCase

from workspace.contracts import TestOutcome
from workspace.errors import WorkspaceError

MAX_BYTES: Final = 32 * 1024 * 1024
MAX_TESTS: Final = 100_000
MAX_DEPTH: Final = 64
MAX_NAME: Final = 1000
MAX_MESSAGE: Final = 2000

_SUITES: Final = ("testsuites", "testsuite")
_KINDS: Final[tuple[tuple[str, Literal["error", "failed"]], ...]] = (
    ("error", "error"),
    ("failure", "failed"),
)
_WORKSPACE: Final = "/ws/"  # where a suite finds the tree it runs on
_LINE: Final = re.compile(r"[0-9]{1,9}")
#: How traces name a place: pytest's `file:line: Error`, Python's, and Node's.
_PLACES: Final = (
    re.compile(r"^(?P<file>[^\s:()]{1,500}):(?P<line>[0-9]{1,9}): ", re.MULTILINE),
    re.compile(r'File "(?P<file>/ws/[^"\n]{1,500})", line (?P<line>[0-9]{1,9})'),
    re.compile(
        r"[(\s](?P<file>/ws/[^\s:()]{1,500}|[\w./-]{1,500}\.[cm]?[jt]sx?):(?P<line>[0-9]{1,9}):"
    ),
)


class JUnitUnreadable(WorkspaceError):
    """The JUnit file is not a report this bot reads."""


def parse_junit(content: bytes) -> tuple[TestOutcome, ...]:
    """Return every test of a JUnit report in the order of the file, then what its suites say.

    A suite that failed as a whole (set-up, collection), or that counts more failures than it shows,
    is a failed outcome of its own.

    Raises:
        JUnitUnreadable: Not XML, not JUnit, a DTD, or beyond the limits above.
    """
    try:
        root = _parse_xml(content)
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise JUnitUnreadable(f"the JUnit file cannot be read: {error}") from error
    if root.tag not in _SUITES:
        raise JUnitUnreadable(f"the JUnit file begins with <{root.tag[:40]}>")
    cases = list(islice(root.iter("testcase"), MAX_TESTS + 1))
    if len(cases) > MAX_TESTS:
        raise JUnitUnreadable(f"the JUnit file holds more than {MAX_TESTS} tests")
    outcomes = [_outcome(TestCase.fromelem(case)) for case in cases]  # type: ignore[no-untyped-call]
    suites = (element for element in root.iter() if element.tag in _SUITES)
    return (*outcomes, *(outcome for suite in suites for outcome in _of_suite(suite)))


def _parse_xml(content: bytes) -> ET.Element:
    if len(content) > MAX_BYTES:
        raise JUnitUnreadable(f"the JUnit file is larger than {MAX_BYTES} bytes")
    builder = ET.TreeBuilder()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    depth = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > MAX_DEPTH:
            raise JUnitUnreadable(f"the JUnit file nests deeper than {MAX_DEPTH}")
        builder.start(name, attributes)

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(name)

    def refuse_doctype(*_: object) -> None:
        raise JUnitUnreadable("the JUnit file declares a document type")

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = refuse_doctype
    parser.Parse(content, True)  # noqa: FBT003 - expat's own signature
    return builder.close()


def _of_suite(suite: ET.Element) -> Iterator[TestOutcome]:
    """What a suite says beside its tests."""
    name = _bounded(suite.get("name"), MAX_NAME)
    for kind, outcome in _KINDS:
        for result in suite.findall(kind)[:1]:
            words = _bounded(result.get("message") or result.text, MAX_MESSAGE)
            yield TestOutcome(class_name=name, name="(suite)", outcome=outcome, message=words)
    counted = sum(_count(suite.get(attribute)) for attribute in ("failures", "errors"))
    shown = sum(1 for element in suite.iter() if element.tag in ("failure", "error"))
    if counted > shown:
        words = f"the suite counts {counted} failures and errors and shows {shown}"
        yield TestOutcome(class_name=name, name="(counted)", outcome="failed", message=words)


def _count(text: str | None) -> int:
    return int(text) if text and _LINE.fullmatch(text.strip()) else 0


def _outcome(case: TestCase) -> TestOutcome:
    results = list(case.result)
    kinds = {type(result) for result in results}
    outcome = (
        "error"
        if Error in kinds
        else "failed"
        if Failure in kinds
        else "skipped"
        if Skipped in kinds
        else "passed"
    )
    words = next((result.message or result.text for result in results), None) or ""
    file, line = _place(case, "\n".join(result.text or "" for result in results))
    return TestOutcome(
        class_name=_bounded(case.classname, MAX_NAME),
        name=_bounded(case.name, MAX_NAME),
        outcome=outcome,
        message=_bounded(words, MAX_MESSAGE),
        file=file,
        line=line,
    )


def _bounded(text: str | None, limit: int) -> str:
    return (text or "").strip()[:limit]


def _place(case: TestCase, text: str) -> tuple[str | None, int | None]:
    """Return where a test failed, from its attributes or from the last place its trace names."""
    attributes = case._elem.attrib  # noqa: SLF001 - pytest's file and line have no accessor
    places = [(attributes.get("file"), attributes.get("line"))] if "file" in attributes else []
    places += [
        (match["file"], match["line"]) for pattern in _PLACES for match in pattern.finditer(text)
    ][::-1]
    for file, line in places:
        path = PurePosixPath((file or "").removeprefix(_WORKSPACE))
        if not path.is_absolute() and ".." not in path.parts and len(str(path)) <= MAX_NAME:
            return str(path), int(line) if line and _LINE.fullmatch(line) else None
    return None, None
