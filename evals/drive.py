"""One whole story on any local repository: `python -m evals.drive --repo PATH --script FILE …`.

In: a Git repository, what the model says, and the suite's command. Out: progress on standard error,
and with `--json` one object as the last line of standard output. The repository itself is never
touched: a clone plays the part of GitHub's.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from evals.stage import Stage, stage
from evals.story import Story, StoryResult, Tell

POLICY = Path(".github/ultracode.yml")


def main(
    repo: Annotated[Path, typer.Option(help="A Git repository; it is cloned, not changed.")],
    script: Annotated[Path, typer.Option(help="What the model says (YAML).")],
    suite_command: Annotated[
        str | None, typer.Option(help="The suite, where the repository has no policy.")
    ] = None,
    setup_command: Annotated[
        str | None, typer.Option(help="What prepares dependencies, if anything.")
    ] = None,
    request: Annotated[str, typer.Option(help="What is asked for.")] = "Make the suite pass.",
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Approve as a second writer.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one object at the end.")] = False,
) -> None:
    """Live through one run on a local repository."""
    with tempfile.TemporaryDirectory(prefix="ultracode-drive-") as folder:
        clone = Path(folder) / "repository"
        prepare_repository(repo, clone, suite_command, setup_command)
        result = asyncio.run(
            drive(clone, script.resolve(), request, yes=yes, tell=say, repository="someone/project")
        )
    print(result.as_json() if as_json else f"{result.outcome}: {result.sentence}")
    raise typer.Exit(0 if result.outcome in {"promoted", "reported"} else 1)


async def drive(  # noqa: PLR0913 - each is a different thing to say
    clone: Path,
    script: Path,
    request: str,
    *,
    yes: bool,
    tell: Tell,
    repository: str,
    provider: dict[str, str] | None = None,
    extra: dict[str, str] | None = None,
    title: str = "A request",
    body: str = "",
) -> StoryResult:
    """Open a stage on `clone`, live the story, close the stage."""
    async with stage({repository: clone}, script, provider=provider, extra=extra) as world:
        branch = git(clone, "symbolic-ref", "--short", "HEAD")
        story = Story(world, branch=branch, tell=tell)
        decide = approve_at_once if yes else approve_when_told
        return await story.live(title, request, decide, body=body)


async def approve_at_once(story: Story, pull: int) -> None:
    """Approve as a second writer."""
    reviewer = story.stage.person("second_writer")
    await reviewer.review(pull, "APPROVE", body="Looks right.")
    story.tell(f"approved by   {reviewer.login}")


async def approve_when_told(story: Story, pull: int) -> None:
    """Wait for Enter, or for somebody to approve in the browser."""
    story.tell("Approve in the browser, or press Enter to approve as a second writer.")
    reviewer = story.stage.person("second_writer")
    enter = asyncio.create_task(asyncio.to_thread(sys.stdin.readline))
    while not enter.done():
        if any(r["state"] == "APPROVED" for r in await reviewer.reviews(pull)):
            return
        await asyncio.wait({enter}, timeout=0.5)
    await approve_at_once(story, pull)


def prepare_repository(
    source: Path, clone: Path, suite_command: str | None, setup_command: str | None
) -> None:
    """Clone `source`; give the clone a policy where commands are named."""
    cloned = subprocess.run(["git", "clone", "-q", str(source), str(clone)], check=False)
    if cloned.returncode:
        raise typer.BadParameter(f"{source} is no Git repository that can be cloned")
    if suite_command is None:
        if not (clone / POLICY).is_file():
            raise typer.BadParameter(f"{source} has no {POLICY}: name a --suite-command")
        return
    policy: dict[str, Any] = {
        "version": 1,
        "bases": [git(clone, "symbolic-ref", "--short", "HEAD")],
        "suites": {"suite": {"run": suite_command, "required": True}},
    }
    if setup_command:
        policy["setup"] = {"run": setup_command, "network": ["python", "npm"]}
    (clone / POLICY).parent.mkdir(exist_ok=True)
    (clone / POLICY).write_text(yaml.safe_dump(policy, sort_keys=False))
    commit_all(clone, "Say how candidates are judged")


def commit_all(repository: Path, message: str) -> None:
    """Commit everything in a work tree, as nobody in particular."""
    git(repository, "add", "-A", "-f")
    git(repository, "commit", "-q", "-m", message)


def git(repository: Path, *words: str) -> str:
    """Run git on the stage's own repositories; return what it prints."""
    identity = ["-c", "user.name=Stage", "-c", "user.email=stage@example.invalid"]
    done = subprocess.run(
        ["git", "-C", str(repository), *identity, *words],
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def say(line: str) -> None:
    """Tell progress on standard error, so that standard output keeps the object."""
    print(line, file=sys.stderr, flush=True)


__all__ = ["Stage", "drive", "main", "prepare_repository"]

if __name__ == "__main__":
    typer.run(main)
