from pathlib import Path
from typing import Any

import pytest
import yaml

from webhooks.command_options import BadOption
from webhooks.commands import (
    Cancel,
    Command,
    Go,
    Help,
    ParsedComment,
    Refresh,
    Retry,
    Revise,
    Start,
    Status,
    Unknown,
    Verify,
    parse_command,
)
from webhooks.word import may_hold_command

CASES = yaml.safe_load((Path(__file__).parents[2] / "cases" / "commands.yaml").read_text("utf-8"))


def _body(case: dict[str, Any]) -> str:
    if "body" in case:
        return str(case["body"])
    prefix, unit, count = case["body_repeat"]
    return str(prefix) + str(unit) * int(count)


def _in_words(command: Command | None) -> object:
    """The command as the case files write it."""
    match command:
        case None:
            return "none"
        case Start(request=request, base=None):
            return {"start": request}
        case Start(request=request, base=base):
            return {"start": request, "base": base}
        case Unknown(word=word, did_you_mean=nearest):
            return {"unknown": word, "did_you_mean": nearest}
        case BadOption(option=option, did_you_mean=nearest):
            return {"error": option, "did_you_mean": nearest}
        case _:
            return type(command).__name__.lower()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_case(case: dict[str, Any]) -> None:
    """Every comment of the case file means what the file says, and is answered where it says so."""
    parsed = parse_command(_body(case))
    note = case.get("note", "")
    if case["expect"] == "start":
        assert isinstance(parsed.command, Start)
        assert parsed.command.request == _body(case).removeprefix("/ultracode ").rstrip()
    else:
        assert _in_words(parsed.command) == case["expect"]
    assert parsed.hint == ("hint" in note)
    assert parsed.ignored_second_command == ("second was ignored" in note)


INERT = {
    "escaped": "\\/ultracode fix it",
    "entity for the slash": "&#47;ultracode fix it",
    "entity in the word": "/ultra&#99;ode fix it",
    "entity for the blank": "/ultracode&nbsp;fix it",
    "zero-width space behind the word": "/ultracode\u200b fix it",
    "zero-width space before the word": "\u200b/ultracode fix it",
    "byte-order mark before the word": "\ufeff/ultracode fix it",
    "no-break space before the word": "\u00a0/ultracode fix it",
    "null behind the word": "/ultracode\x00 fix it",
    "vertical tab behind the word": "/ultracode\x0bfix it",
    "colon behind the word": "/ultracode: fix it",
    "path": "/ultracode/src is where it lives",
    "heading": "# /ultracode fix it",
    "bold": "**/ultracode fix it**",
    "numbered item": "1. /ultracode fix it",
    "task": "- [ ] /ultracode fix it",
    "second line of an item": "- point\n  /ultracode fix it",
    "second paragraph of an item": "- point\n\n  /ultracode fix it",
    "second line of a numbered item": "1. point\n   /ultracode fix it",
    "nested quote": "> > /ultracode fix it",
    "alert": "> [!NOTE]\n> /ultracode fix it",
    "tilde fence": "~~~\n/ultracode fix it\n~~~",
    "fence left open": "```\n/ultracode fix it",
    "tab-indented code": "\t/ultracode fix it",
    "code span over lines": "see `a\n/ultracode cancel\nb`",
    "link text over lines": "[see\n/ultracode cancel\nthere](https://example.org)",
    "link target on its own line": "[see](\n/ultracode )",
    "image text over lines": "![see\n/ultracode cancel\nthere](x.png)",
    "definition's target": "[a]:\n/ultracode",
    "definition's title over lines": "[a]: /u 'title\n/ultracode cancel\nend'\n\n[a]",
    "struck out": "~~no\n/ultracode cancel\nno~~",
    "comment inside a line": "nice <!--\n/ultracode cancel\n--> work",
    "comment left open": "<!-- note\n\n/ultracode fix it",
    "comment left open in an item": "- <!-- note\n\n/ultracode fix it",
    "attribute left open": '<div title="\n\n/ultracode fix it\n\n">',
    "processing instruction": "<?\n/ultracode fix it\n?>",
    "declaration": "<!X\n/ultracode fix it\n>",
    "preformatted HTML": "<pre>\n/ultracode fix it\n</pre>",
    "code in HTML": "text <code>\n/ultracode fix it\n</code>",
    "code left open in HTML": "text <code>x\n\n/ultracode fix it",
    "script": "<script>\n/ultracode fix it\n</script>",
    "in the middle of a line": "please /ultracode fix it",
}


@pytest.mark.parametrize("body", INERT.values(), ids=INERT.keys())
def test_inert(body: str) -> None:
    """What is quoted, code, linked, listed, misspelt or invisible is met with silence."""
    assert parse_command(body) == ParsedComment()


FOLDED = {
    "lazy line of a quote": "> quoted\n/ultracode fix it",
    "lazy line of a nested quote": "> > quoted\n/ultracode fix it",
    "lazy line of a quoted list": "> - quoted\n/ultracode fix it",
    "lazy line of an item": "* point\n/ultracode fix it",
    "lazy line of a numbered item": "1) point\n  /ultracode fix it",
    "lazy line of a nested item": "- a\n  - b\n  /ultracode fix it",
    "lazy, several lines down": "> quoted\nand more\n/ultracode fix it",
    "row of a table": "| a | b |\n|---|---|\n| 1 | 2 |\n/ultracode fix it",
    "head of a table": "/ultracode fix | it\n--- | ---\n1 | 2",
    "HTML block": "<div>\n/ultracode fix it\n</div>",
    "below a pasted picture": '<img width="300" src="https://a.example/a.png">\n/ultracode fix it',
    "below a line break": "<br>\n/ultracode fix it",
    "collapsed": "<details>\n<summary>more</summary>\n\n/ultracode fix it\n\n</details>",
    "quote in HTML": "<blockquote>\n\n/ultracode fix it\n\n</blockquote>",
    "list in HTML": "<ul><li>a<li>\n\n/ultracode fix it\n\n</ul>",
    "cell in HTML": "<table><tr><td>\n\n/ultracode fix it\n\n</td></tr></table>",
    "element left open": "<details>\n\n</summary>\n\n/ultracode fix it",
    "end tag that reaches nothing": "<details>\n\ntext\n\n> </details>\n\n/ultracode fix it",
    "below a link definition": "[a]: /u 'title\n/ultracode fix it\n10) x\nend'",
    "footnote": "see [^1]\n\n[^1]: a note\n/ultracode fix it",
    "footnote of one word": "see [^1]\n\n[^1]: note\n/ultracode fix it",
    "footnote's second paragraph": "see [^1]\n\n[^1]: a note\n\n    more\n/ultracode fix it",
}


@pytest.mark.parametrize("body", FOLDED.values(), ids=FOLDED.keys())
def test_folded(body: str) -> None:
    """A line its writer took for a command, folded by Markdown into something else, gets a hint."""
    assert parse_command(body) == ParsedComment(hint=True)


STARTS = {
    "three blanks before": ("   /ultracode fix it", "fix it"),
    "indented line of a paragraph": ("Thanks.\n      /ultracode fix it", "fix it"),
    "tab behind": ("/ultracode\tfix it", "fix it"),
    "no-break space behind": ("/ultracode\u00a0fix it", "fix it"),
    "ideographic space behind": ("/ultracode\u3000直して", "直して"),
    "carriage returns": ("Hello\r/ultracode fix it\rplease", "fix it\nplease"),
    "mixed case": ("/UltraCode Fix It", "Fix It"),
    "setext heading with equals": ("/ultracode fix it\n===\nmore", "fix it\n===\nmore"),
    "second line of a setext heading": ("Hello\n/ultracode fix it\n-----", "fix it\n-----"),
    "after a heading": ("# Hello\n/ultracode fix it", "fix it"),
    "after a fence": ("```\n- a\n> b\n```\n/ultracode fix it", "fix it"),
    "after a rule": ("---\n/ultracode fix it", "fix it"),
    "after a quote and a blank line": ("> a\n\n/ultracode fix it", "fix it"),
    "after a list and a blank line": ("- a\n- b\n\n/ultracode fix it", "fix it"),
    "after a table and a blank line": ("|a|b|\n|-|-|\n\n/ultracode fix it", "fix it"),
    "after a comment": ("<!-- note -->\n\n/ultracode fix it", "fix it"),
    "after a comment on the line above": ("<!-- note -->\n/ultracode fix it", "fix it"),
    "after an empty comment": ("<!-->\n/ultracode fix it", "fix it"),
    "after closed details": ("<details>\n\nlog\n\n</details>\n\n/ultracode fix it", "fix it"),
    "after closed details of a quote": (
        "> <details>\n> <summary>log</summary>\n>\n> a\n>\n> </details>\n\n/ultracode fix it",
        "fix it",
    ),
    "after a comment that is text": ("a <!-- b\n\n/ultracode fix it", "fix it"),
    "after a comment in code": ("`<!--`\n\n/ultracode fix it", "fix it"),
    "after angle brackets in prose": ("Vec<u8> and <T> fail\n\n/ultracode fix it", "fix it"),
    "after a picture and a blank line": ('<img src="a.png">\n\n/ultracode fix it', "fix it"),
    "after emphasis left open": ("**note\n/ultracode fix it", "fix it"),
    "after a link definition and a blank line": ("[a]: /u\n\n/ultracode fix it", "fix it"),
    "heading sign in the request": ("/ultracode # fix it", "# fix it"),
    "empty first line": ("/ultracode\n\nfix it", "fix it"),
    "code as first line": ("/ultracode\n\n    fix()\n", "    fix()"),
    "last line blank": ("/ultracode fix it\n   \n\t\n", "fix it"),
    "signature with a blank": ("/ultracode fix it\r\n-- \r\nJo", "fix it"),
    "signature in a fence": (
        "/ultracode apply\n```sql\na\n--\nb\n```",
        "apply\n```sql\na\n--\nb\n```",
    ),
    "signature in a fence, then one": (
        "/ultracode apply\n```\n--\n```\n--\nJo",
        "apply\n```\n--\n```",
    ),
    "dashes with other blanks": ("/ultracode fix it\n--  \nJo", "fix it\n--  \nJo"),
    "longer rule": ("/ultracode fix it\n\n---\n\nmore", "fix it\n\n---\n\nmore"),
    "quoted command inside": (
        "/ultracode apply\n> /ultracode cancel",
        "apply\n> /ultracode cancel",
    ),
    "folded command inside": (
        "/ultracode apply\n\n> a\n/ultracode cancel",
        "apply\n\n> a\n/ultracode cancel",
    ),
    "verify in words": ("/ultracode verify the checksum", "verify the checksum"),
    "verify a word": ("/ultracode verify facade", "verify facade"),
    "go in words": ("/ultracode go faster", "go faster"),
    "help, then a full stop and more": ("/ultracode help me", "help me"),
    "single word far from commands": ("/ultracode refactor", "refactor"),
    "single word of two letters": ("/ultracode 修复", "修复"),
    "single emoji": ("/ultracode 🚀", "🚀"),
    "dash": ("/ultracode - fix it", "- fix it"),
    "negative number": ("/ultracode -5 is refused", "-5 is refused"),
    "rule of dashes": ("/ultracode --- fix it", "--- fix it"),
    "double dash": ("/ultracode -- --base is ignored", "--base is ignored"),
    "comment in the request": ("/ultracode fix <!-- not --> it", "fix  it"),
    "comment below the request": ("/ultracode fix it\n\n<!--\nhidden\n-->", "fix it"),
    "comment in the request's code": (
        "/ultracode add\n\n```html\n<!-- toc -->\n```",
        "add\n\n```html\n<!-- toc -->\n```",
    ),
    "fence signs on the command's line hide nothing": (
        "/ultracode ```\n\n<!-- hidden -->\nseen",
        "```\n\n\nseen",
    ),
    "unused link definition": ("/ultracode fix it\n\n[//]: # (hidden)", "fix it"),
    "used link definition": ("/ultracode fix [it]\n\n[it]: /u", "fix [it]\n\n[it]: /u"),
}


@pytest.mark.parametrize(("body", "request_text"), STARTS.values(), ids=STARTS.keys())
def test_start(body: str, request_text: str) -> None:
    """A line of ordinary text that begins with the word starts a run with the words that follow."""
    command = parse_command(body).command
    assert isinstance(command, Start)
    assert command.request == request_text


COMMANDS: dict[str, Command] = {
    "/ultracode status": Status(),
    "/ultracode HELP": Help(),
    "/ultracode   go\t ": Go(),
    "/ultracode Cancel\r\n\r\nsorry": Cancel(),
    "/ultracode retry\n/ultracode": Retry(),
    "/ultracode refresh\n--\nJo": Refresh(),
    "/ultracode verify": Verify(None),
    "/ultracode verify 1a2B": Verify("1a2b"),
    "/ultracode verify `DEADBEEF`": Verify("deadbeef"),
    f"/ultracode verify {'0' * 40}": Verify("0" * 40),
    "/ultracode revise the README\n\n> quote\n--\nJo": Revise("the README\n\n> quote"),
    "/ultracode Revise\nuse a set": Revise("use a set"),
    "/ultracode revise": Revise(""),
    "/ultracode revise --base is ignored": Revise("--base is ignored"),
    "/ultracode cnacel": Unknown("cnacel", "cancel"),
    "/ultracode stats": Unknown("stats", "status"),
    "/ultracode GOO": Unknown("goo", "go"),
    "/ultracode ok": Unknown("ok", "go"),
    "/ultracode cancel.": Unknown("cancel.", "cancel"),
    "/ultracode revize\n\nand more": Unknown("revize", "revise"),
    "/ultracode can\u200bcel": Unknown("cancel", "cancel"),
    "/ultracode cancel <!-- it -->": Unknown("cancel", "cancel"),
    "/ultracode --base main cancle": Unknown("cancle", "cancel"),
}


@pytest.mark.parametrize(("body", "command"), COMMANDS.items(), ids=COMMANDS.keys())
def test_command(body: str, command: Command) -> None:
    """A command alone on its line is that command, and nearly one is told the right one."""
    assert parse_command(body).command == command


OPTIONS: dict[str, Command] = {
    "/ultracode --base=main fix it": Start("fix it", base="main"),
    "/ultracode --BASE `main` fix it": Start("fix it", base="main"),
    "/ultracode --base refs/heads/a/b": Start("", base="a/b"),
    "/ultracode --base main\nfix it": Start("fix it", base="main"),
    "/ultracode --suite unit --suite=lint --suite unit fix": Start("fix", suites=("unit", "lint")),
    "/ultracode --suite unit --base main -- --x": Start("--x", base="main", suites=("unit",)),
    "/ultracode -- cancel": Start("cancel"),
    "/ultracode --base main -- revise x": Start("revise x", base="main"),
    "/ultracode --BASE=main cancel": BadOption("--base", "not_with_command", value="cancel"),
    "/ultracode fix it --base main": Start("fix it --base main"),
    "/ultracode --base": BadOption("--base", "no_value"),
    "/ultracode --base= fix it": BadOption("--base", "no_value"),
    "/ultracode --base --suite unit": BadOption("--base", "no_value"),
    "/ultracode --base a --base b x": BadOption("--base", "twice"),
    "/ultracode --base a..b fix it": BadOption("--base", "bad_value", value="a..b"),
    "/ultracode --base fork:main x": BadOption("--base", "bad_value", value="fork:main"),
    "/ultracode --base ma\u200bin x": BadOption("--base", "bad_value", value="main"),
    "/ultracode --suite u\u202enit x": BadOption("--suite", "bad_value", value="unit"),
    "/ultracode --suits=unit fix": BadOption("--suits", did_you_mean="--suite"),
    "/ultracode --verbose fix": BadOption("--verbose"),
    "/ultracode \u2014base main fix": BadOption("\u2014base", did_you_mean="--base"),
    "/ultracode -suite unit fix": BadOption("-suite", did_you_mean="--suite"),
    "/ultracode --base main cancel": BadOption("--base", "not_with_command", value="cancel"),
    "/ultracode --suite x revise y": BadOption("--suite", "not_with_command", value="revise"),
}


@pytest.mark.parametrize(("body", "command"), OPTIONS.items(), ids=OPTIONS.keys())
def test_options(body: str, command: Command) -> None:
    """Options right after the word are followed, or answered with what is wrong with them."""
    assert parse_command(body).command == command


def test_second_command_is_noted_whatever_the_first_was() -> None:
    """The first command counts and the next one is noted, also below a signature."""
    cancel = parse_command("/ultracode cancel\n\n/ultracode fix it")
    assert cancel == ParsedComment(Cancel(), ignored_second_command=True)
    signed = parse_command("/ultracode fix it\n--\n/ultracode cancel")
    assert signed == ParsedComment(Start("fix it"), ignored_second_command=True)


def test_folded_line_beside_a_command_needs_no_hint() -> None:
    """Somebody whose command was understood is not lectured about another line."""
    assert parse_command("> a\n/ultracode b\n\n/ultracode c") == ParsedComment(Start("c"))


def test_hidden_characters_are_counted_by_kind() -> None:
    """What was hidden in a request is gone and told, for the note on the run."""
    command = parse_command("/ultracode fix\u200b\u202e it\U000e0041 <!-- x -->").command
    assert isinstance(command, Start)
    assert command.request == "fix it"
    assert {removed.kind: removed.count for removed in command.removed} == {
        "zero_width": 1,
        "bidi": 1,
        "tag": 1,
        "html_comment": 1,
    }


@pytest.mark.parametrize(
    "raw",
    [
        b'{"body":"/ultracode fix"}',
        b'{"body":"\\/UltraCode fix"}',
        b'{"body":"\\u002fultracode"}',
        b'{"body":"\\u002F\\u0055\\u006Ctracod\\u0065"}',
    ],
)
def test_word_is_found_however_json_spells_it(raw: bytes) -> None:
    """The cheap search never turns a command away."""
    assert may_hold_command(raw)


@pytest.mark.parametrize(
    "raw", [b"", b'{"body":"ultracode"}', b"/ultra code", b"/ultr\xc3\xa4code"]
)
def test_comment_without_the_word_is_known_cheaply(raw: bytes) -> None:
    """Most comments are recognised as none of the bot's business without parsing Markdown."""
    assert not may_hold_command(raw)
