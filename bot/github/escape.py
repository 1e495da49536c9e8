"""Foreign words inside our own text: shown as words, never as commands to GitHub or to a reader.

In: text of issues, repositories or models. Out: Markdown in which it can do nothing: no HTML, no
images, no links, no mentions, no closing keywords, no references, no control characters.
"""

from __future__ import annotations

import re

from webhooks.hidden_text import sanitize_text

_ZERO_WIDTH_JOINER = "\u2060"  # word joiner: breaks what GitHub would recognise, shows nothing
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>()#+!|~])")
_MENTION = re.compile(r"@(?=[A-Za-z0-9])")
_REFERENCE = re.compile(r"(?<![&\w])(#|GH-)(?=\d)", re.IGNORECASE)
_LINK = re.compile(r"\b(https?|ftp|www)(?=[:.])", re.IGNORECASE)
_SKIP_CI = re.compile(
    r"\[(skip ci|ci skip|no ci|skip actions|actions skip)\]|\bskip-checks\s*:", re.IGNORECASE
)
_CLOSING = re.compile(
    r"\b(close[sd]?|fix(?:e[sd])?|resolve[sd]?)(?=\s*:?\s*(#|GH-|[\w./-]+#))", re.IGNORECASE
)
_TRAILER = re.compile(r"^([A-Za-z][A-Za-z-]*)(:\s)", re.MULTILINE)


def escaped(text: str, *, limit: int = 2_000) -> str:
    """Return foreign text as inert Markdown on one line."""
    line = " ".join(sanitize_text(text[: limit * 2]).text.split())
    if len(line) > limit:
        line = line[: limit - 1] + "…"
    line = _MARKDOWN.sub(r"\\\1", line)
    line = _CLOSING.sub(lambda found: found[1] + _ZERO_WIDTH_JOINER, line)
    line = _MENTION.sub("@" + _ZERO_WIDTH_JOINER, line)
    line = _LINK.sub(lambda found: found[1] + _ZERO_WIDTH_JOINER, line)
    return _REFERENCE.sub(lambda found: found[1] + _ZERO_WIDTH_JOINER, line)


def quoted(text: str, *, limit: int = 20_000) -> str:
    """Return foreign text word for word in a code fence that it cannot close."""
    shown = sanitize_text(text[: limit * 2]).text[:limit]
    longest = max((len(ticks) for ticks in re.findall(r"`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{shown}\n{fence}"


def plain_words(text: str, *, limit: int) -> str:
    """Return foreign text for a commit message or title: one line, inert there too."""
    line = " ".join(sanitize_text(text[: limit * 4]).text.split())
    line = _SKIP_CI.sub("", line)
    line = _CLOSING.sub(lambda found: found[1] + " ", line)
    line = _REFERENCE.sub("", line)
    line = _MENTION.sub("", line)
    line = _TRAILER.sub(r"\1 -\2", line).replace("- :", "-")
    line = " ".join(line.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
