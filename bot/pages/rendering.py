"""Templates. In: values. Out: HTML in which every foreign character is text.

Why: what is shown comes from issues, repositories and models. Jinja escapes everything, and what
cannot be seen (control, bidirectional, tag characters) is shown as an escape on top of that.
"""

from __future__ import annotations

from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from bot.github.escape import visible
from bot.github.messages.parts import duration, moment
from bot.github.messages.standing import state_words
from workspace.contracts import shown_path


def shown(value: object) -> object:
    """Return a value for a template's output: text with what cannot be seen made visible."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def diff_lines(text: str) -> list[tuple[str, str]]:
    """Return a diff's lines, each with the class it is shown in."""
    kinds = {"+": "added", "-": "removed", "@": "place"}
    return [(kinds.get(line[:1], ""), line) for line in text.splitlines()]


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("bot.pages"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "moment": moment,
        "duration": duration,
        "state_words": state_words,
        "path": shown_path,
        "diff_lines": diff_lines,
    }
    return environment


_ENVIRONMENT: Final = _environment()


def render(template: str, **values: Any) -> str:
    """Return a page."""
    return _ENVIRONMENT.get_template(template).render(**values)
