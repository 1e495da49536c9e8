"""The words agents are instructed with, one Markdown file each, and the digest of all of them.

Comes in: the name of a prompt. Goes out: its text. `prompts_digest` is stored with every run, so
that a reader of its evidence can tell which words produced it.
"""

from __future__ import annotations

import hashlib
import json
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
def prompts_document() -> bytes:
    """All prompts by name, as JSON: what evidence keeps of the words agents were given."""
    texts: dict[str, str] = {name: load_prompt(name) for name in NAMES}
    return json.dumps(texts, ensure_ascii=False, sort_keys=True).encode()


@cache
def prompts_digest() -> str:
    """SHA-256 of that document, in hexadecimal."""
    return hashlib.sha256(prompts_document()).hexdigest()
