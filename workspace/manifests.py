"""Manifests that describe both the product and how its suites run.

In: a manifest of the base commit and of the candidate. Out: the candidate's manifest with the
runner's sections of the base. A candidate may add a dependency or an entry point; what it says
about test runners, linters and scripts is not used for the judged run.

A manifest that cannot be read strictly is `UnreadableManifest`, and whoever judges takes the base's
file whole: other readers are more lenient than Python's. **[ran]** Node runs the scripts of a
package.json with a byte that is no UTF-8, a number of 5,000 digits, 50,000 nested lists, or, with
`node --run`, the first of two `scripts`.
"""

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from typing import Any, Final

import tomli_w

#: Tables of pyproject.toml; a path of keys each.
_TOML_SECTIONS: Final = (
    *(("tool", name) for name in ("pytest", "coverage", "tox", "nox", "poe", "taskipy", "nose2")),
    *(("tool", name) for name in ("unittest", "ruff", "mypy", "pylint", "flake8", "pyright")),
    *(("tool", name) for name in ("basedpyright", "isort", "black", "bandit", "pydocstyle")),
    *(("tool", "hatch", name) for name in ("envs", "env")),
    *(("tool", name, "scripts") for name in ("pdm", "rye")),
    ("tool", "pixi", "tasks"),
)
#: Keys of package.json and composer.json; a path each.
_JSON_KEYS: Final = tuple(
    (name,)
    for name in (
        *("scripts", "jest", "vitest", "mocha", "ava", "tap", "nyc", "c8", "babel"),
        *("eslintConfig", "eslintIgnore", "prettier", "xo", "wireit", "config", "nx"),
        *("stylelint", "postcss", "ts-node", "jest-junit"),
    )
)
#: Sections of setup.cfg, by the beginning of their name.
_INI_SECTIONS: Final = re.compile(
    r"^(tool:pytest|pytest|coverage:|tox|nosetests|nose2|unittest|aliases|flake8|mypy|pylint|isort"
    r"|pycodestyle|pydocstyle|pep8|bandit)"
)
_INI_HEADER: Final = re.compile(r"\s*\[([^\]]*)\]")

_ABSENT: Final = object()


class UnreadableManifest(ValueError):
    """A manifest that some tool may read otherwise than this module would."""


def restore_sections(name: str, base: bytes, candidate: bytes) -> bytes:
    """Return the candidate's manifest with the runner's sections of the base.

    Args:
        name: The file's name, one of `MANIFESTS`.
        base: The base's bytes, empty when the base has none.
        candidate: The candidate's bytes, empty when the candidate has none.

    Returns:
        `candidate` itself when its sections already are the base's.

    Raises:
        UnreadableManifest: One of the two cannot be read strictly.
    """
    try:
        return MANIFESTS[name](base, candidate)
    except (ValueError, RecursionError) as error:  # also: UnicodeDecodeError, TOMLDecodeError
        raise UnreadableManifest(name) from error


def _restore_toml(base: bytes, candidate: bytes) -> bytes:
    before, after = tomllib.loads(base.decode()), tomllib.loads(candidate.decode())
    if not _take(_TOML_SECTIONS, before, after):
        return candidate
    return tomli_w.dumps(after).encode()


def _restore_json(base: bytes, candidate: bytes) -> bytes:
    before, after = _parse_json(base or b"{}"), _parse_json(candidate or b"{}")
    if not _take(_JSON_KEYS, before, after):
        return candidate
    return json.dumps(after, indent=2).encode() + b"\n"


def _parse_json(content: bytes) -> dict[str, Any]:
    """Return an object that every reader of JSON reads alike; a byte order mark is passed over."""
    parsed = json.loads(
        content.decode("utf-8-sig"),
        object_pairs_hook=_without_duplicates,
        parse_constant=_refuse_constant,
    )
    if not isinstance(parsed, dict):
        raise UnreadableManifest("not an object")
    return parsed


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise UnreadableManifest("a key stands there twice")
    return table


def _refuse_constant(name: str) -> None:
    raise UnreadableManifest(f"{name} is no JSON")


def _take(
    paths: tuple[tuple[str, ...], ...], base: Mapping[str, Any], into: dict[str, Any]
) -> bool:
    """Make `into` hold what `base` holds at each path of keys; say whether that changed it."""
    changed = False
    for path in paths:
        value = _at(base, path)
        if value != _at(into, path):
            _put(into, path, value)
            changed = True
    return changed


def _at(table: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        if not isinstance(table, Mapping) or key not in table:
            return _ABSENT
        table = table[key]
    return table


def _put(table: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for key in path[:-1]:
        inner = table.get(key)
        if not isinstance(inner, dict):
            inner = {}
            table[key] = inner
        table = inner
    if value is _ABSENT:
        table.pop(path[-1], None)
    else:
        table[path[-1]] = value


def _restore_ini(base: bytes, candidate: bytes) -> bytes:
    before, after = _ini_sections(base), _ini_sections(candidate)
    wanted = [text for name, text in before if _INI_SECTIONS.match(name)]
    found = [text for name, text in after if _INI_SECTIONS.match(name)]
    if [text.strip() for text in wanted] == [text.strip() for text in found]:
        return candidate
    kept = [text for name, text in after if not _INI_SECTIONS.match(name)]
    return "".join(_ended(text) for text in (*kept, *wanted)).encode()


def _ini_sections(content: bytes) -> list[tuple[str, str]]:
    """Return name and text of each section; what no reader takes for a header may be one here.

    Lines end wherever Python says so, and headers may be indented: iniconfig and configparser do
    not agree on either, and a section that one of them sees must not be missed.
    """
    sections = [("", "")]
    for line in content.decode("utf-8-sig").splitlines(keepends=True):
        header = _INI_HEADER.match(line)
        if header:
            sections.append((header.group(1).strip(), line))
        else:
            name, text = sections[-1]
            sections[-1] = (name, text + line)
    return sections


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"


MANIFESTS: Final[Mapping[str, Callable[[bytes, bytes], bytes]]] = {
    "pyproject.toml": _restore_toml,
    "package.json": _restore_json,
    "composer.json": _restore_json,
    "setup.cfg": _restore_ini,
}
