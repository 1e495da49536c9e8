"""A policy file to copy. In: what files a repository holds. Out: YAML that `parse_policy` accepts.

Why: a repository without `.github/ultracode.yml` gets no run but this proposal, so that the next
step is one copy and one look. It guesses from file names (and the few files in `PROPOSAL_READS`)
only, runs nothing, and says what it could not know.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

#: Files whose content sharpens the proposal; all may be missing.
PROPOSAL_READS: Final = ("package.json", "Makefile", "pyproject.toml")

_PYTEST: Final = "python -m pytest -q --junitxml=$ULTRACODE_JUNIT"


@dataclass(frozen=True, slots=True)
class _Guess:
    """What one tool chain suggests: suites by id, and how dependencies are prepared."""

    required: tuple[tuple[str, str], ...]
    optional: tuple[tuple[str, str, str], ...] = ()
    setup: str = ""
    inputs: tuple[str, ...] = ()
    registry: str = ""


_Files = frozenset[str]
_Contents = Mapping[str, bytes]


def propose_policy(files: Sequence[str], contents: _Contents | None = None) -> str:
    """Return a policy file for a repository that has none.

    Args:
        files: Paths of the default branch, relative to its root.
        contents: Bytes of those of `PROPOSAL_READS` that exist.
    """
    names = frozenset(files)
    guesses = [guess for look in _LOOKS if (guess := look(names, contents or {}))]
    return _yaml(guesses[0]) if guesses else _yaml(_UNKNOWN, _UNKNOWN_NOTE)


# --- what tool chains look like -----------------------------------------------------------------


def _python(names: _Files, contents: _Contents) -> _Guess | None:
    roots = {"pyproject.toml", "setup.py", "setup.cfg", "tox.ini", "pytest.ini", "requirements.txt"}
    if not names & roots:
        return None
    inputs = tuple(path for path in ("requirements.txt", "requirements-dev.txt") if path in names)
    setup = " ".join(["pip install", *(f"-r {path}" for path in inputs)]) if inputs else ""
    ruff = b"[tool.ruff" in contents.get("pyproject.toml", b"") or names & {"ruff.toml"}
    return _Guess(
        required=(("unit", _PYTEST),),
        optional=(("lint", "ruff check .", "**/*.py"),) if ruff else (),
        setup=setup,
        inputs=inputs,
        registry="python",
    )


def _node(names: _Files, contents: _Contents) -> _Guess | None:
    if "package.json" not in names:
        return None
    scripts = _scripts(contents.get("package.json", b""))
    inputs = tuple(path for path in ("package.json", "package-lock.json") if path in names)
    return _Guess(
        required=(("unit", "npm test"),),
        optional=(("lint", "npm run lint", "**/*.js"),) if "lint" in scripts else (),
        setup="npm ci" if "package-lock.json" in names else "npm install",
        inputs=inputs,
        registry="npm",
    )


def _go(names: _Files, _contents: _Contents) -> _Guess | None:
    if "go.mod" not in names:
        return None
    return _Guess(
        required=(("unit", "go test ./..."),),
        optional=(("vet", "go vet ./...", "**/*.go"),),
        setup="go mod download",
        inputs=tuple(path for path in ("go.mod", "go.sum") if path in names),
        registry="go",
    )


def _rust(names: _Files, _contents: _Contents) -> _Guess | None:
    if "Cargo.toml" not in names:
        return None
    return _Guess(
        required=(("unit", "cargo test --offline"),),
        setup="cargo fetch",
        inputs=tuple(path for path in ("Cargo.toml", "Cargo.lock") if path in names),
        registry="rust",
    )


def _make(names: _Files, contents: _Contents) -> _Guess | None:
    target = re.search(rb"(?m)^(test|check)\s*:", contents.get("Makefile", b""))
    if "Makefile" not in names or target is None:
        return None
    return _Guess(required=(("unit", f"make {target[1].decode()}"),))


_LOOKS: Final[tuple[Callable[[_Files, _Contents], _Guess | None], ...]] = (
    _python,
    _node,
    _go,
    _rust,
    _make,
)
_UNKNOWN: Final = _Guess(required=(("unit", "make test"),))
_UNKNOWN_NOTE: Final = "  # how are the tests run here? put your command"


def _scripts(package: bytes) -> frozenset[str]:
    try:
        found = json.loads(package)["scripts"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return frozenset()
    return frozenset(found) if isinstance(found, dict) else frozenset()


# --- how it is written --------------------------------------------------------------------------


def _yaml(guess: _Guess, note: str = "") -> str:
    lines = ["version: 1", "suites:"]
    lines += [f'  {name}: {{run: "{run}", required: true}}{note}' for name, run in guess.required]
    lines += [
        f'  {name}: {{run: "{run}", required: false, paths: ["{paths}"]}}'
        for name, run, paths in guess.optional
    ]
    if guess.setup:
        inputs = ", ".join(guess.inputs)
        lines.append(
            f'setup: {{run: "{guess.setup}", inputs: [{inputs}], network: [{guess.registry}]}}'
        )
    lines.append("review: {approvals: 1, from: write}")
    return "\n".join(lines) + "\n"
