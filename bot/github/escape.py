"""Other people's words, made harmless. In: foreign text. Out: Markdown or plain text of ours.

Why: whatever we publish carries this App's authority. Words of issues, repositories, models and
tools must not show an image or HTML, ping a person, close or reference an issue, link elsewhere,
hide something, start a trailer, skip somebody's CI or reorder what is read. A backslash stops
Markdown but not GitHub's mentions and references, which GitHub looks for in the rendered text; it
leaves code alone, so such tokens become inline code. Cut foreign text here, before it is escaped:
cutting Markdown later may open what was closed.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from webhooks.invisible_characters import remove_invisible_characters

_CUT: Final = "…"
#: Bytes that are no UTF-8, as `surrogateescape` carries them.
_STRAY_BYTES: Final = range(0xDC80, 0xDD00)

#: Code, and what GitHub turns into a mention, a reference, a link or an address anywhere in text.
_TOKEN: Final = re.compile(
    r"""
      `[^`|]+`                                    # code stays code
    | [A-Za-z][A-Za-z0-9+.-]*:/{1,3}[^\s|`]*      # https://…, and whatever else has a scheme
    | (?:www\.|mailto:|xmpp:)[^\s|`]*
    | [\w.+/-]*@[\w.+/@-]*                        # @user, @org/team, a@b.example, o/r@sha
    | [\w./-]*\#\d+                               # #12, owner/repository#12
    | GH-\d+
    """,
    re.VERBOSE | re.IGNORECASE,
)
_MARKDOWN: Final = re.compile(r"[\\`*_\[\]<>#|~&$@]")
_BLOCK_START: Final = re.compile(r"^([-+=]|\d+(?=[.)]))")

_REFERENCE: Final = r"(?:https?://\S+|[\w./-]*\#\d+|GH-\d+)"
_CLOSING: Final = re.compile(
    rf"\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?)\b\s*:?\s*{_REFERENCE}", re.IGNORECASE
)
_SKIP_CI: Final = re.compile(
    r"\[[\w\s-]*\b(?:skip|no)\b[\w\s-]*\]|\*{3}\s*no_ci\s*\*{3}|skip-checks\s*:\s*\w*",
    re.IGNORECASE,
)
_UNUSUAL: Final = re.compile(r"[^ -~]")
_TRIGGERS: Final = re.compile(r"@(?=\w)|\#(?=\d)|:/+")
_WORDS_BEFORE: Final = re.compile(r"(GH)-(?=\d)|(www)\.(?=\w)|(mailto|xmpp):", re.IGNORECASE)
_TRAILER: Final = re.compile(r"^([A-Za-z][A-Za-z0-9-]*)\s*:(?=\s|$)")


# --- in Markdown --------------------------------------------------------------------------------


def words(text: str, limit: int = 2_000) -> str:
    """One line of foreign words inside our Markdown: all white space becomes single spaces."""
    return _escaped_line(_cut(_one_line(text), limit))


def quote(text: str, limit: int = 4_000) -> str:
    """Foreign words over several lines, as a block quote of ours."""
    visible, _ = remove_invisible_characters(_line_feeds(text))
    lines = _cut(visible.strip(), limit).split("\n")
    return "\n".join(f"> {_escaped_line(' '.join(line.split()))}".rstrip() for line in lines)


def code(text: str, limit: int = 300) -> str:
    """A foreign name (a path, a ref, a test) as inline code, invisible characters shown escaped."""
    shown = _cut(visible(text, keep=""), limit) or " "
    ticks = "`" * (_longest_run(shown) + 1)
    pad = " " if shown[0] == "`" or shown[-1] == "`" else ""
    return f"{ticks}{pad}{shown}{pad}{ticks}"


def code_cell(text: str, limit: int = 300) -> str:
    """`code` for a table cell, where a bare `|` would end the cell."""
    return code(text.replace("|", r"\x7c"), limit)


def fence(text: str, limit_bytes: int = 20_000, *, tail: bool = False) -> str:
    """Foreign lines as a code block, word for word, invisible characters shown escaped.

    Args:
        text: The lines.
        limit_bytes: How much of them to show, in bytes of UTF-8.
        tail: Show the end instead of the beginning, where only a part fits.
    """
    shown = cut_bytes(visible(_line_feeds(text), keep="\n\t"), limit_bytes, tail=tail).strip("\n")
    ticks = "`" * max(3, _longest_run(shown) + 1)
    return f"{ticks}text\n{shown}\n{ticks}"


# --- outside Markdown ---------------------------------------------------------------------------


def plain(text: str, limit: int = 200) -> str:
    """Foreign words for a title, a commit subject or a trailer: one line that triggers nothing."""
    line = _one_line(text)
    line = _until_stable(_CLOSING, line)
    line = _until_stable(_SKIP_CI, line)
    line = _TRIGGERS.sub(" ", line)
    line = _WORDS_BEFORE.sub(r"\1\2\3 ", line)
    line = _TRAILER.sub(r"\1 -", " ".join(line.split()))
    return _cut(line, limit)


def visible(text: str, *, keep: str = "\n\t") -> str:
    """Show control, format and invisible characters, and bytes that are no text, as escapes."""

    def shown(found: re.Match[str]) -> str:
        char = found[0]
        return char if char in keep or _is_shown(char) else _escape(char)

    return _UNUSUAL.sub(shown, text)


def cut_bytes(text: str, limit: int, *, tail: bool = False) -> str:
    """Cut text that holds no Markdown of ours to a number of UTF-8 bytes, saying so."""
    raw = text.encode("utf-8", "backslashreplace")
    if len(raw) <= limit:
        return text
    note = f"[… {len(raw) - limit} bytes more …]"
    if tail:
        return f"{note}\n{raw[-limit:].decode('utf-8', 'ignore')}" if limit else note
    return f"{raw[:limit].decode('utf-8', 'ignore')}\n{note}"


# --- how ----------------------------------------------------------------------------------------


def _one_line(text: str) -> str:
    visible_text, _ = remove_invisible_characters(_line_feeds(text))
    return " ".join(visible_text.split())


def _line_feeds(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _escaped_line(line: str) -> str:
    parts: list[str] = []
    position = 0
    for token in _TOKEN.finditer(line):
        name = token[0].strip("`") if token[0].startswith("`") else token[0]
        parts += [_escaped(line[position : token.start()]), code(name, len(name))]
        position = token.end()
    parts.append(_escaped(line[position:]))
    return _BLOCK_START.sub(
        lambda m: m[0] + "\\" if m[0].isdigit() else "\\" + m[0], "".join(parts)
    )


def _escaped(text: str) -> str:
    return _MARKDOWN.sub(r"\\\g<0>", text)


def _until_stable(pattern: re.Pattern[str], text: str) -> str:
    """Remove a pattern, and what its removal brings together."""
    while (shorter := pattern.sub(" ", text)) != text:
        text = " ".join(shorter.split())
    return text


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1].rstrip() + _CUT


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


def _is_shown(char: str) -> bool:
    if unicodedata.category(char) in {"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"}:
        return False
    return not remove_invisible_characters(char)[1]


def _escape(char: str) -> str:
    number = ord(char)
    if number in _STRAY_BYTES:
        return f"\\x{number - 0xDC00:02x}"
    short = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
    return short.get(char) or (f"\\x{number:02x}" if number < 0x100 else f"\\u{{{number:04x}}}")  # noqa: PLR2004 - one byte
