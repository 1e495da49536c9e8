"""Clients nobody here wrote, unpatched: GitHub's own for JavaScript, and PyGithub."""

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import github as pygithub
import pytest

from evals.loopback import LoopbackGitHub

from .conftest import Receiver

HERE = Path(__file__).with_name("octokit")
CACHE = Path(__file__).parents[3] / ".ultracode" / "npm" / "octokit"


@pytest.fixture(scope="session")
def octokit() -> Path:
    """The locked packages, installed once beside the project."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm (Node 20.18 or newer) is not installed")
    CACHE.mkdir(parents=True, exist_ok=True)
    lock = (HERE / "package-lock.json").read_bytes()
    done = CACHE / "installed.lock"
    if not done.exists() or done.read_bytes() != lock:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, CACHE / name)
        command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        subprocess.run(command, cwd=CACHE, check=True, stdout=sys.stderr)
        done.write_bytes(lock)
    shutil.copy(HERE / "story.mjs", CACHE / "story.mjs")
    return CACHE


async def test_octokit(github: LoopbackGitHub, receiver: Receiver, octokit: Path) -> None:
    """Octokit finds the App, talks, pages, reviews, fast-forwards, and verifies a webhook."""
    await github.open_issue(as_user="writer", title="For a webhook")
    await github.settle()
    sent = github.deliveries[-1]
    proof = {
        "payload": sent.body.decode(),
        "signature": sent.request_headers["X-Hub-Signature-256"],
    }
    process = await asyncio.create_subprocess_exec(
        "node",
        "story.mjs",
        cwd=octokit,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = await process.communicate(json.dumps({**github.card(), **proof}).encode())
    assert process.returncode == 0, err.decode()
    assert json.loads(out) == {
        "app": "ultracode",
        "installations": [github.installation.id],
        "repositories": ["acme/sums"],
        "comments": [str(number) for number in range(7)],
        "check": "success",
        "draft": False,
        "review": "APPROVED",
        "refused": {"status": 422, "errors": ["Can not approve your own pull request"]},
        "merged": True,
        "signature": True,
        "forged": False,
    }
    assert github.issue(2).state == "closed"


async def test_pygithub(github: LoopbackGitHub) -> None:
    """PyGithub finds the App, talks, pages, reviews and merges."""
    seen = await asyncio.to_thread(walk_with_pygithub, github.card())
    assert seen == {
        "comments": [str(number) for number in range(7)],
        "permission": "write",
        "checks": ["pygithub"],
        "review": "APPROVED",
        "merged": True,
        "file": b"hi",
    }
    assert github.issue(1).state == "closed"


def walk_with_pygithub(card: dict[str, Any]) -> dict[str, Any]:
    """The bot's line, in PyGithub's words."""
    key = Path(card["private_key_path"]).read_text()
    auth = pygithub.Auth.AppAuth(card["app_id"], key)
    options: dict[str, Any] = {
        "base_url": card["api_url"],
        "per_page": 5,
        "seconds_between_requests": None,  # by default it waits a second after every write
        "seconds_between_writes": None,
    }
    integration = pygithub.GithubIntegration(auth=auth, **options)
    bot = integration.get_github_for_installation(card["installation_id"])
    repository = bot.get_repo("acme/sums")
    token = card["users"]["second_writer"]["token"]
    person = pygithub.Github(auth=pygithub.Auth.Token(token), **options)
    theirs = person.get_repo("acme/sums")

    issue = theirs.create_issue("By PyGithub")
    for number in range(7):
        repository.get_issue(issue.number).create_comment(str(number))
    issue.add_to_labels("ultracode")
    comments = [comment.body for comment in issue.get_comments()]
    main = repository.get_branch("main")
    repository.create_git_ref("refs/heads/by-pygithub", main.commit.sha)
    repository.create_file("a.txt", "Write", "hi", branch="by-pygithub")
    body = f"Closes #{issue.number}"
    pull = repository.create_pull("main", "by-pygithub", title="T", body=body)
    repository.create_check_run("pygithub", pull.head.sha, conclusion="success")
    runs = repository.get_commit(pull.head.sha).get_check_runs()
    review = theirs.get_pull(pull.number).create_review(event="APPROVE")
    theirs.get_pull(pull.number).merge(merge_method="squash")
    content = repository.get_contents("a.txt", ref="main")
    assert not isinstance(content, list)
    return {
        "comments": comments,
        "permission": repository.get_collaborator_permission(card["users"]["writer"]["login"]),
        "checks": [run.name for run in runs],
        "review": review.state,
        "merged": theirs.get_pull(pull.number).merged,
        "file": content.decoded_content,
    }
