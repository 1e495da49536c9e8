"""Real projects: two released versions of real packages, and the change between them as the work.

`python -m evals.real [--json]`. In: source distributions from the package registry. Out: for each
project one run that makes the newer version's actual change and is promoted, and one with a hunk
left out, which must end `failed` with nothing merged. The package's own tests are the suite.
"""

from __future__ import annotations

import asyncio
import difflib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from evals.drive import commit_all, drive, git, say
from evals.story import StoryResult

BINDINGS = ("candidate_id", "candidate_sha", "test_report_digest", "evidence_digest")


@dataclass(frozen=True)
class Project:
    """Two consecutive versions of a package, and how its tests are run.

    The run that must fail leaves out the hunk of the file `without` that brings `needle`.
    """

    name: str
    old: str
    new: str
    suite: str
    without: str
    needle: str


PROJECTS = (
    Project(
        name="cachetools",
        old="5.3.3",
        new="5.4.0",
        suite="PYTHONPATH=src python3 -m unittest discover -s tests -t .",
        without="src/cachetools/keys.py",
        needle="def typedmethodkey",
    ),
    Project(
        name="xmltodict",
        old="0.13.0",
        new="0.14.0",
        suite="python3 -m unittest discover -s tests -t .",
        without="xmltodict.py",
        needle="isinstance(indent, int)",
    ),
)


def main(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one object at the end.")] = False,
    only: Annotated[str | None, typer.Option(help="One project's name.")] = None,
) -> None:
    """Drive every project twice: whole, and with a hunk left out."""
    results = {}
    with tempfile.TemporaryDirectory(prefix="ultracode-real-") as folder:
        for project in PROJECTS:
            if only in (None, project.name):
                results[project.name] = asyncio.run(drive_project(project, Path(folder)))
    if as_json:
        print(json.dumps({n: {k: asdict(r) for k, r in v.items()} for n, v in results.items()}))
    good = all(
        found["whole"].outcome == "promoted" and found["without_a_hunk"].outcome == "failed"
        for found in results.values()
    )
    raise typer.Exit(0 if good else 1)


async def drive_project(project: Project, folder: Path) -> dict[str, StoryResult]:
    """Return how the whole change ended, and how the change without one hunk ended."""
    old = load_release(project.name, project.old, folder)
    new = load_release(project.name, project.new, folder)
    repository = make_repository(project, old, folder / f"{project.name}-repository")
    changes = changed_files(old, new)
    results = {}
    for kind, files in (
        ("whole", changes),
        ("without_a_hunk", without_hunk(changes, old, project)),
    ):
        script = folder / f"{project.name}-{kind}.yaml"
        script.write_text(yaml.safe_dump(script_of(files), allow_unicode=True))
        say(f"{project.name} {project.old} -> {project.new}: {kind}, {len(files)} files")
        results[kind] = await drive(
            repository,
            script,
            f"Make the changes of {project.name} {project.new}.",
            yes=True,
            tell=say,
            repository=f"someone/{project.name}",
        )
        say(f"{project.name}: {kind} ended {results[kind].outcome}")
    return results


# --- releases -----------------------------------------------------------------------------------


def load_release(name: str, version: str, folder: Path) -> Path:
    """Download and unpack a source distribution; return its folder."""
    uv = shutil.which("uv") or str(Path(".tools/bin/uv").resolve())
    target = folder / f"{name}-{version}"
    if target.is_dir():
        return target
    python = [sys.executable, "-m", "pip"]
    if subprocess.run([*python, "--version"], capture_output=True, check=False).returncode:
        python = [
            uv,
            "run",
            "--no-project",
            "--with",
            "pip,setuptools,wheel",
            "python",
            "-m",
            "pip",
        ]
    subprocess.run(
        [
            *python,
            "download",
            "-q",
            "--no-deps",
            "--no-build-isolation",
            "--no-binary",
            ":all:",
            "-d",
            str(folder),
            f"{name}=={version}",
        ],
        check=True,
    )
    with tarfile.open(next(folder.glob(f"{name}-{version}.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    return target


def make_repository(project: Project, release: Path, folder: Path) -> Path:
    """Return a Git repository with the older version and a policy."""
    shutil.copytree(release, folder, ignore=shutil.ignore_patterns(*GENERATED))
    policy = {
        "version": 1,
        "bases": ["main"],
        "suites": {"unit": {"run": project.suite, "required": True, "timeout": "5m"}},
        "writes": {"allow": ["tox.ini", "setup.cfg", "setup.py", "pyproject.toml"]},
    }
    (folder / ".github").mkdir(exist_ok=True)
    (folder / ".github" / "ultracode.yml").write_text(yaml.safe_dump(policy, sort_keys=False))
    git(folder.parent, "init", "-q", "-b", "main", str(folder))
    commit_all(folder, f"{project.name} {project.old}")
    return folder


GENERATED = ("*.egg-info", "__pycache__", "PKG-INFO")


def changed_files(old: Path, new: Path) -> dict[str, str | None]:
    """Return what the newer version changed: a path to its new text, or None where it is gone."""
    before, after = text_files(old), text_files(new)
    return {
        path: after.get(path)
        for path in sorted(before.keys() | after.keys())
        if before.get(path) != after.get(path)
    }


def text_files(folder: Path) -> dict[str, str]:
    """Return the text files of a release, without what its build generated."""
    return {str(path.relative_to(folder)): path.read_text() for path in sources(folder)}


def sources(folder: Path) -> Iterator[Path]:
    """Yield the files of a release that people wrote."""
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if path.is_file() and not any(
            part in GENERATED or part.endswith(".egg-info") for part in parts
        ):
            yield path


def without_hunk(
    changes: dict[str, str | None], release: Path, project: Project
) -> dict[str, str | None]:
    """Return the changes with the hunk that brings `project.needle` left as it was."""
    path = project.without
    before = (release / path).read_text().splitlines(keepends=True)
    after = (changes[path] or "").splitlines(keepends=True)
    kept: list[str] = []
    for kind, a1, a2, b1, b2 in difflib.SequenceMatcher(
        a=before, b=after, autojunk=False
    ).get_opcodes():
        left_out = kind != "equal" and project.needle in "".join(after[b1:b2])
        kept += before[a1:a2] if left_out else after[b1:b2]
    return changes | {path: "".join(kept)}


# --- the model's part ---------------------------------------------------------------------------


def script_of(files: dict[str, str | None]) -> dict[str, Any]:
    """Return a script in which two workers share the files between them."""
    halves = [sorted(files)[::2], sorted(files)[1::2]]
    items = {f"part-{n}": paths for n, paths in enumerate(halves) if paths}
    entries: list[dict[str, Any]] = [
        {"role": "planner", "round": 0, "turns": [{"output": plan_of(items)}]}
    ]
    entries += [worker_entry(name, paths, files) for name, paths in items.items()]
    verdict = {name: "${" + name + "}" for name in BINDINGS}
    for role in ("verifier", "refuter"):
        output = verdict | {"candidate_passed": True, "blocking_issues": [], "evidence": ["Read."]}
        entries.append({"role": role, "turns": [{"output": output}]})
    summary = verdict | {
        "summary": "As released.",
        "acceptance_evidence": [],
        "unresolved_risks": [],
    }
    entries.append({"role": "reducer", "turns": [{"output": summary}]})
    gives_up = plan_of({"nothing-more": []})
    entries.append({"role": "planner", "turns": [{"output": gives_up}]})
    entries.append({"role": "worker", "turns": [{"output": said("blocked")}]})
    return {"entries": entries}


def plan_of(items: dict[str, list[str]]) -> dict[str, Any]:
    """Return a plan with these items."""
    return {
        "substantive": len(items) > 1,
        "reason": "The files are independent.",
        "success_criteria": ["The package's tests pass."],
        "tasks": [
            {
                "id": name,
                "objective": "Bring these files to the newer version.",
                "read_only": not paths,
                "write_globs": paths,
                "additional_suite_ids": [],
            }
            for name, paths in items.items()
        ],
    }


def worker_entry(name: str, paths: list[str], files: dict[str, str | None]) -> dict[str, Any]:
    """Return a worker that writes its files, one call each."""
    calls = [
        {"tool": "delete_file", "arguments": {"path": path}}
        if (content := files[path]) is None
        else {"tool": "write_file", "arguments": {"path": path, "content": content}}
        for path in paths
    ]
    turns = [{"calls": [call]} for call in calls]
    return {"role": "worker", "task": name, "turns": [*turns, {"output": said("completed")}]}


def said(status: str) -> dict[str, Any]:
    """Return a worker's own words."""
    return {"status": status, "summary": "As released.", "unresolved_risks": []}


if __name__ == "__main__":
    typer.run(main)
