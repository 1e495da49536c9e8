"""The words agents are instructed with, one Markdown file each, and the digest of all of them.

Comes in: the name of a prompt. Goes out: its text. `prompts_digest` is stored with every run, so
that a reader of its evidence can tell which words produced it.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources
from typing import Final, Literal

PromptName = Literal[
    "common", "planner", "repair", "worker", "reducer", "verifier", "refuter", "correction"
]
NAMES: Final[tuple[PromptName, ...]] = (
    "common", "planner", "repair", "worker", "reducer", "verifier", "refuter", "correction",
)  # fmt: skip


@cache
def load_prompt(name: PromptName) -> str:
    """The text of one prompt, without white space around it."""
    return resources.files(__name__).joinpath(f"{name}.md").read_text(encoding="utf-8").strip()


@cache
def prompts_digest() -> str:
    """SHA-256 over the names and texts of all prompts, in hexadecimal."""
    digest = hashlib.sha256()
    for name in NAMES:
        text = load_prompt(name).encode()
        digest.update(f"{name}\0{len(text)}\0".encode() + text)
    return digest.hexdigest()
