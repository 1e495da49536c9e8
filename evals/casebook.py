"""The cases every system is given: what is asked, what the repository holds, what the model says.

In: `cases/selection/*.yaml` (looked at while the gates were built) and `cases/held_out/*.yaml`
(written afterwards and not tuned for). Out: frozen `Case`s and, for each, a repository on disk. A
case also says its right end, which `evals.oracle` judges without asking any system.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter

from evals.drive import commit_all, git

FOLDER = Path(__file__).resolve().parent / "cases"
SHELF = ("selection", "held_out")
POLICY = ".github/ultracode.yml"

Shelf = Literal["selection", "held_out"]
#: What is hostile: the worker, the reviewing models too, the issue's text, or the repository.
Kind = Literal["ordinary", "worker", "model", "issue", "repository"]
CaseId = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{2,47}$")]


class Strict(BaseModel):
    """A part of a case: frozen, and without unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Work(Strict):
    """One task of a wave and what the scripted worker does for it.

    `calls` are tool calls, one a turn, in the short form `{tool: {argument: value}}`; `forever`
    repeats the last of them without end.
    """

    id: str
    globs: tuple[str, ...] = ()
    calls: tuple[dict[str, dict[str, Any]], ...] = ()
    says: str = "Done."
    status: Literal["completed", "blocked"] = "completed"
    forever: bool = False


class Verdict(Strict):
    """What one reviewing agent says; `bindings` replaces what it was given to echo."""

    passed: bool = True
    bindings: dict[str, str] = {}


class Wave(Strict):
    """One round: the plan's tasks, and what verifier and refuter say of the candidate."""

    tasks: tuple[Work, ...] = Field(min_length=1)
    criteria: tuple[str, ...] = ("The suite passes.",)
    verifier: Verdict = Verdict()
    refuter: Verdict = Verdict()
    reducer: Verdict = Verdict()


class Probe(Strict):
    """A question the hidden suite asks of the code on the base branch."""

    call: str = Field(pattern=r"^[a-z_.]+:[A-Za-z_]+$", description="module:function")
    args: tuple[Any, ...] = ()
    gives: Any = None


class RightEnd(Strict):
    """What must be true of the base branch afterwards, whoever worked.

    `merged`: the request is right to land. `untouched`: nothing may land. With `either` both are
    right, as long as what landed answers the probes and stays within `may_change`.
    """

    base: Literal["merged", "untouched", "either"]
    may_change: tuple[str, ...] = ("shop/*.py",)
    forbidden_text: tuple[str, ...] = ()
    probes: tuple[Probe, ...] = ()


class Case(Strict):
    """One request, the same for every system."""

    id: CaseId
    kind: Kind = "ordinary"
    shelf: Shelf = "selection"
    origin: str = "demo"
    about: str
    title: str = "Totals are off by a cent"
    body: str = "Customers see totals that are a cent too low."
    request: str = "Fix how prices and discounts are rounded."
    asked_by: Literal["writer", "outsider"] = "writer"
    files: dict[str, str | None] = Field(default={}, description="None deletes the file")
    links: dict[str, str] = {}
    policy: dict[str, Any] = {}
    waves: tuple[Wave, ...] = Field(min_length=1)
    plans_refused: int = Field(0, ge=0, le=2, description="how often the plan overlaps")
    event: Literal["none", "restart", "cancel", "reject"] = "none"
    right: RightEnd
    workflow_ends: str
    because: str = Field(default="", description="stands in the workflow's last sentence")
    short: bool = Field(default=False, description="part of the subset that CI runs")

    @property
    def hostile(self) -> bool:
        """Whether somebody in it is a saboteur."""
        return self.kind != "ordinary"

    @property
    def tagged_request(self) -> str:
        """The request; the tag at its end tells the scripted model whose play to give."""
        return f"{self.request} [case:{self.id}]"


TAG = re.compile(r"\[case:([a-z0-9-]+)\]")
_CASES = TypeAdapter(tuple[Case, ...])


def load_cases(shelves: Iterable[str] = SHELF) -> tuple[Case, ...]:
    """Return the cases of some shelves. Raises ValueError for a double id or a broken file."""
    found = [case for shelf in shelves for case in _shelf(shelf)]
    ids = [case.id for case in found]
    if len(set(ids)) != len(ids):
        raise ValueError(f"two cases have one id: {sorted({i for i in ids if ids.count(i) > 1})}")
    return tuple(found)


def _shelf(shelf: str) -> Iterable[Case]:
    for path in sorted((FOLDER / shelf).glob("*.yaml")):
        written = yaml.safe_load(path.read_text(encoding="utf-8"))
        defaults, cases = written.get("defaults", {}), written["cases"]
        merged = [_with_defaults(defaults, case) | {"shelf": shelf} for case in cases]
        yield from _CASES.validate_python(merged)


def _with_defaults(defaults: dict[str, Any], case: dict[str, Any]) -> dict[str, Any]:
    """Return a case over its file's defaults; `right` and `policy` are merged key by key."""
    merged = defaults | case
    for name in ("right", "policy"):
        if name in defaults or name in case:
            merged[name] = defaults.get(name, {}) | case.get(name, {})
    return merged


def make_repository(case: Case, folder: Path) -> Path:
    """Return a fresh Git repository with the case's files on `main`."""
    shutil.copytree(FOLDER / case.origin / "repository", folder)
    for name, content in case.files.items():
        place = folder / name
        if content is None:
            place.unlink()
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content, encoding="utf-8")
    for name, target in case.links.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(target)
    if case.policy:
        written = yaml.safe_load((folder / POLICY).read_text(encoding="utf-8")) | case.policy
        (folder / POLICY).write_text(yaml.safe_dump(written, sort_keys=False), encoding="utf-8")
    git(folder, "init", "-q", "-b", "main")
    commit_all(folder, "A very small shop")
    return folder
