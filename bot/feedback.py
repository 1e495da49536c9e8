"""What a review says, as feedback for a revision: its own words and those on lines of the diff.

In: a review of the bot's pull request, read from GitHub. Out: one bounded text in which each remark
names its file and line. What a reader of the page cannot see is removed before a model reads it.
"""

from __future__ import annotations

import asyncio
from typing import Final

from bot.github.port import GitHubRepository, Review
from webhooks.hidden_text import sanitize_text

#: What a `FollowUp` takes; whole remarks are left out beyond it, and that is said.
FEEDBACK_CHARACTERS: Final = 8_000
_LEFT_OUT: Final = "(… further remarks stand on the pull request.)"


async def load_feedback(repository: GitHubRepository, pull_number: int, review: Review) -> str:
    """Return what a review asks for; empty when it says nothing. Raises GitHubError."""
    said = await repository.line_comments(pull_number)
    mine = [comment for comment in said if comment.review_id == review.id]
    parts = [await seen(review.body)]
    parts += [f"{place(c.path, c.line)}: {await seen(c.body)}" for c in mine]
    return cut([part for part in parts if part])


def place(path: str, line: int | None) -> str:
    """Name a file and a line, as far as they are known."""
    return f"On `{path}`, line {line}" if line else f"On `{path}`"


async def seen(text: str) -> str:
    """Return what a reader sees of a text; hostile text takes seconds, so not on the loop."""
    return (await asyncio.to_thread(sanitize_text, text)).text.strip()


def cut(parts: list[str]) -> str:
    """Put remarks together, whole ones, as far as a revision takes them."""
    kept: list[str] = []
    room = FEEDBACK_CHARACTERS - len(_LEFT_OUT) - 2
    for part in parts:
        if len(part) + 2 > room:
            kept.append(part[:room] if not kept else _LEFT_OUT)
            break
        kept.append(part)
        room -= len(part) + 2
    return "\n\n".join(kept)
