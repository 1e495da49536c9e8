"""The demo: a small repository with two real bugs, and the whole story of their repair.

`python -m evals.demo [--yes] [--json]`. With OPENAI_API_KEY and AGENT_MODEL_ID set the real
provider speaks; otherwise the model is scripted. Everything else is real: HTTP, Git, PostgreSQL,
sandboxes.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from evals.drive import commit_all, drive, git
from evals.story import StoryResult

HERE = Path(__file__).resolve().parent / "cases" / "demo"
REPOSITORY = "octo-shop/shop"
TITLE = "Totals are off by a cent"
BODY = """\
Customers see totals that are a cent too low.

## Acceptance criteria

- No cent is lost when prices are read.
- Half a cent rounds up.
"""
REQUEST = "Fix how prices and discounts are rounded."

screen = Console(stderr=True, highlight=False)


def main(
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Approve as a second writer.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one object at the end.")] = False,
    script: Annotated[Path, typer.Option(help="What the model says.")] = HERE / "script.yaml",
) -> None:
    """Live through the whole story on loopback."""
    with tempfile.TemporaryDirectory(prefix="ultracode-demo-") as folder:
        repository = make_repository(Path(folder) / "shop")
        result = asyncio.run(
            drive(
                repository,
                script.resolve(),
                REQUEST,
                yes=yes,
                tell=lambda line: screen.print(f"[dim]·[/] {line}", markup=True),
                repository=REPOSITORY,
                provider=real_provider(),
                title=TITLE,
                body=BODY,
            )
        )
    show_chain(result)
    if as_json:
        print(result.as_json())
    raise typer.Exit(0 if result.outcome == "promoted" else 1)


def make_repository(folder: Path) -> Path:
    """Return a fresh Git repository with the demo's files on `main`."""
    shutil.copytree(HERE / "repository", folder)
    git(folder, "init", "-q", "-b", "main")
    commit_all(folder, "A very small shop")
    return folder


def real_provider() -> dict[str, str] | None:
    """Return the real provider's variables when they are set."""
    names = ("OPENAI_API_KEY", "AGENT_MODEL_ID")
    given = {name: os.environ[name] for name in names if name in os.environ}  # noqa: TID251 - the stage is no production code
    return given if len(given) == len(names) else None


def show_chain(result: StoryResult) -> None:
    """Show the chain of SHAs and digests, one link a line."""
    links = {
        "base before": result.base_before,
        "candidate": result.candidate_sha,
        "tested": result.tested_sha,
        "reviewed": result.reviewed_sha,
        "base after": result.base_after,
        "test report": result.test_report_digest,
        "evidence": result.evidence_digest,
    }
    for name, value in links.items():
        screen.print(f"[dim]{name:<13}[/] {value or '-'}")
    colour = "green" if result.outcome == "promoted" else "red"
    screen.print(
        f"[{colour}]{result.outcome}[/] after {result.rounds} round(s), {result.workers} workers, "
        f"{result.commits_added} commit added, sandbox {result.sandbox}, {result.wall_seconds} s"
    )
    if result.sentence:
        screen.print(result.sentence, markup=False)


if __name__ == "__main__":
    typer.run(main)
