"""What messages are made of. In: facts. Out: small pieces of Markdown that several messages share.

Foreign words enter only through `bot.github.escape`. A list or table is cut by entries, with the
number left out said: Markdown that is cut in its middle may open what was closed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from bot.contracts import UserRef
from bot.github.escape import code, words
from bot.github.port import Account

_LOGIN: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,99})(?:\[bot\])?")
_SAFE_URL: Final = re.compile(r"https?://[A-Za-z0-9._~:/?#@!$&*+,;=%-]+")


def mention(user: UserRef) -> str:
    """The one mention a message makes: of the requester."""
    return f"@{user.login}" if _LOGIN.fullmatch(user.login) else code(user.login)


def person(account: Account | UserRef | None) -> str:
    """Somebody by name, without a mention."""
    return code(account.login) if account else "a deleted account"


def people(accounts: Sequence[Account]) -> str:
    """Several people by name."""
    return joined([person(account) for account in accounts])


def joined(items: Sequence[str], last: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    if len(items) <= 1:
        return "".join(items)
    return f"{', '.join(items[:-1])} {last} {items[-1]}"


def sha(value: str | None, length: int = 12) -> str:
    """A SHA or digest, short."""
    return code(value[:length]) if value else "nothing"


def link(text: str, url: str | None) -> str:
    """A link to a place of ours or GitHub's; the text alone where the address is odd."""
    return f"[{text}]({url})" if url and _SAFE_URL.fullmatch(url) else text


def plural(number: int, noun: str, nouns: str = "") -> str:
    """`1 file`, `2 files`."""
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"


def duration(seconds: float) -> str:
    """A time for people, in two units at most."""
    if seconds < 10:  # noqa: PLR2004 - tenths matter below
        return f"{seconds:.1f} s"
    whole = round(seconds)
    units = [
        (whole // 86400, "d"),
        (whole // 3600 % 24, "h"),
        (whole // 60 % 60, "min"),
        (whole % 60, "s"),
    ]
    first = next(index for index, (amount, _) in enumerate(units) if amount)
    return " ".join(f"{amount} {unit}" for amount, unit in units[first : first + 2] if amount)


def moment(at: datetime) -> str:
    """A moment for people, in UTC."""
    return f"{at:%-d %b %Y, %H:%M} UTC"


def bullets(lines: Iterable[str], limit: int = 50) -> str:
    """Lines that are Markdown already, as a list."""
    every = list(lines)
    shown = [f"- {line}" for line in every[:limit]]
    if len(every) > limit:
        shown.append(f"- … and {plural(len(every) - limit, 'more', 'more')}")
    return "\n".join(shown)


def word_list(lines: Iterable[str], limit: int = 50) -> str:
    """Foreign lines, as a list."""
    return bullets((words(line, 500) for line in lines), limit)


def code_list(names: Sequence[str], limit: int = 20) -> str:
    """Foreign names, in one sentence."""
    shown = ", ".join(code(name, 200) for name in names[:limit])
    more = len(names) - limit
    return f"{shown} and {more:,} more" if more > 0 else shown


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells are Markdown without `|` and line breaks."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def details(summary: str, body: str) -> str:
    """A part that is folded until somebody opens it."""
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"


def section(title: str, body: str) -> str:
    """A titled part, or nothing when there is nothing in it."""
    return f"### {title}\n\n{body}" if body else ""


def paragraphs(*parts: str) -> str:
    """Parts with an empty line between them; empty ones are left out."""
    return "\n\n".join(part for part in parts if part)


def fit(parts: Sequence[str], limit_bytes: int, note: str) -> str:
    """Put parts together until the limit; whole parts are left out, and that is said."""
    kept: list[str] = []
    room = limit_bytes - len(note.encode()) - 2
    for part in (part for part in parts if part):
        size = len(part.encode()) + 2
        if size > room:
            return paragraphs(*kept, note)
        kept.append(part)
        room -= size
    return paragraphs(*kept)
