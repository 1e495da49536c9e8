import json
from typing import Any, get_args

import orjson
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit.webhooks.payloads import issue_comment
from webhooks import commands
from webhooks.command_options import BadOption
from webhooks.commands import ParsedComment, Revise, Start, Unknown, parse_command
from webhooks.events import Event, IssueCommentCreated
from webhooks.hidden_text import sanitize_text
from webhooks.invisible_characters import remove_invisible_characters
from webhooks.parser import Ignored, Unparsed, parse_event, read_routing
from webhooks.word import may_hold_command

PIECES = [
    *("/ultracode", "/ULTRACODE", "fix it", "cancel", "verify", "revise", "--base", "--suite=x"),
    *("\n", "\r\n", "\r", "\n\n", " ", "    ", "\t", "--", "-- ", "---", "===", "> ", "- ", "1. "),
    *("`", "```", "~~~", "~~", "*", "[", "](", ")", "[a]: /u", "[^1]: x", "|-|-|", "\\"),
    *("<!--", "-->", "<?", "<!X", "<div>", "</div>", "<details>", "<b", '="', ">", "<T>", "&#47;"),
    *("\u200b", "\u200d", "\ufeff", "\u202e", "\U000e0041", "\x00", "\x1b", "\u2028", "é", "🚀"),
]
COMMENTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=25).map("".join)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
NAMES = st.sampled_from([*sorted({model.event_name for model in get_args(Event)}), "star"])


@settings(max_examples=100, deadline=None)
@given(COMMENTS)
@example("/ultracode \r\n\r")
@example("/ultracode --base")
def test_any_comment_is_understood_somehow(body: str) -> None:
    """No comment breaks the parser, and what comes out is free of what no reader sees."""
    parsed = parse_command(body)
    assert isinstance(parsed, ParsedComment)
    match parsed.command:
        case Start(request=text) | Revise(feedback=text) | Unknown(word=text):
            assert remove_invisible_characters(text)[0] == text
            assert text == text.rstrip()
        case BadOption(option=option, value=value):
            assert remove_invisible_characters(option)[0] == option
            assert value is None or remove_invisible_characters(value)[0] == value
        case _:
            pass


@settings(max_examples=100, deadline=None)
@given(COMMENTS)
def test_line_ends_do_not_matter(body: str) -> None:
    """A comment means the same however its lines end: as on Windows, Unix or old Macs."""
    unix = body.replace("\r\n", "\n").replace("\r", "\n")
    expected = parse_command(unix)
    assert parse_command(unix.replace("\n", "\r\n")) == expected
    assert parse_command(unix.replace("\n", "\r")) == expected


@settings(max_examples=100, deadline=None)
@given(COMMENTS)
def test_the_door_turns_no_command_away(body: str) -> None:
    """Whatever the job would take for a command passes the cheap search, however it is encoded."""
    if parse_command(body) != ParsedComment():
        assert may_hold_command(body.encode(errors="replace"))
        assert may_hold_command(orjson.dumps(body.encode(errors="replace").decode()))


@settings(max_examples=100, deadline=None)
@given(COMMENTS)
def test_command_stays_one_below_other_paragraphs(body: str) -> None:
    """An ordinary paragraph above a comment changes nothing about its commands."""
    assert parse_command("Thanks for this.\n\n" + body) == parse_command("\n\n" + body)


@settings(max_examples=100, deadline=None)
@given(COMMENTS)
def test_removing_hidden_text_adds_nothing(text: str) -> None:
    """What is left of a text is a subsequence of it, apart from its line ends."""
    rest = iter(text.translate({ord(each): "\n" for each in "\r\x0b\x0c\x85\u2028\u2029"}))
    assert all(letter in rest for letter in sanitize_text(text).text)


@settings(max_examples=150, deadline=None)
@given(NAMES, JSON | st.binary())
def test_any_body_is_parsed_somehow(name: str, payload: Any) -> None:
    """Whatever JSON or bytes arrive, the answer is an event, nothing, or a reason."""
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    assert isinstance(parse_event(name, body), (Ignored, Unparsed, *get_args(Event)))
    read_routing(body)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damaged_comment_is_parsed_somehow(data: st.DataObject) -> None:
    """A payload with anything in the place of any of its values never breaks the parser."""
    payload: dict[str, Any] = orjson.loads(orjson.dumps(issue_comment()))
    place = payload
    while True:
        key = data.draw(st.sampled_from(sorted(place)))
        if isinstance(place[key], dict) and data.draw(st.booleans()):
            place = place[key]
            continue
        place[key] = data.draw(JSON)
        break
    event = parse_event("issue_comment", json.dumps(payload).encode())
    assert isinstance(event, IssueCommentCreated | Ignored | Unparsed)


def test_commands_are_a_closed_union() -> None:
    """Every command can be matched exhaustively, and carries nothing that changes."""
    for command in get_args(commands.Command):
        assert command.__dataclass_params__.frozen
