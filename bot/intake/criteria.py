"""Success criteria: what must be true for a request to count as done.

In: the request's or the issue's Markdown. Out: the items of a list under a heading such as
"Acceptance criteria"; else its task-list items; else the request itself. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

MAX_CRITERIA = 30
MAX_CRITERION_CHARACTERS = 2_000
MAX_SOURCE_CHARACTERS = 70_000

_HEADING = re.compile(
    r"^\W*(acceptance criteria|success criteria|definition of done)\W*$", re.IGNORECASE
)
_TASK = re.compile(r"^\[[ xX]\](?:\s+|$)")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_MARKDOWN = MarkdownIt("commonmark", {"maxNesting": 20})


def parse_criteria(request: str, issue_body: str = "") -> tuple[str, ...]:
    """Return the success criteria, at least one.

    The request's own criteria win over the issue's; without any, the request is the criterion.
    """
    for text in (request, issue_body):
        root = SyntaxTreeNode(_MARKDOWN.parse(text[:MAX_SOURCE_CHARACTERS]))
        found = [item for item in _under_heading(root) if item]
        found = found or [item for item in _tasks(root) if item]
        if found:
            return tuple(found[:MAX_CRITERIA])
    whole = " ".join(request.split())
    return (_bounded(whole) or "Do what the issue asks for.",)


def _under_heading(root: SyntaxTreeNode) -> Iterator[str]:
    """Yield the items of the lists that follow a heading (or a line that reads like one)."""
    blocks: Sequence[SyntaxTreeNode] = root.children
    for heading, following in pairwise(blocks):
        if (
            heading.type in {"heading", "paragraph"}
            and _HEADING.match(_text(heading))
            and following.type in {"bullet_list", "ordered_list"}
        ):
            yield from (_bounded(_TASK.sub("", _item(item))) for item in following.children)


def _tasks(root: SyntaxTreeNode) -> Iterator[str]:
    """Yield the task-list items, ticked or not."""
    for item in root.walk():
        if item.type == "list_item" and _TASK.match(_item(item)):
            yield _bounded(_TASK.sub("", _item(item)))


def _item(item: SyntaxTreeNode) -> str:
    """Return a list item's own text, without the lists below it; else whatever text it holds."""
    own = " ".join(_text(child) for child in item.children if child.type == "paragraph")
    return own if own.strip() else " ".join(" ".join(_leaves(item)).split())


def _leaves(node: SyntaxTreeNode) -> Iterator[str]:
    """Yield the text of the quotes, code and lists within a block."""
    for child in node.children:
        if child.type in {"fence", "code_block", "inline"}:
            yield child.content
        else:
            yield from _leaves(child)


def _text(node: SyntaxTreeNode) -> str:
    """Return the source text of a block."""
    return " ".join(
        " ".join(inline.content.split()) for inline in node.children if inline.type == "inline"
    )


def _bounded(text: str) -> str:
    """Return a criterion as a reader sees it: what a template left as a comment is none."""
    return _COMMENT.sub("", text).strip()[:MAX_CRITERION_CHARACTERS].strip()
