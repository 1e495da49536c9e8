"""The line the bot walks, with the client the bot uses, from a comment to a merged pull request."""

import base64
from pathlib import Path
from typing import Any

from githubkit import AppInstallationAuthStrategy, GitHub

from evals.loopback import LoopbackGitHub

from .commands import app_client, git, installation_client
from .conftest import Receiver

OWNER, REPO, BRANCH = "acme", "sums", "ultracode/1-abc"


async def test_from_comment_to_merged_pull_request(
    github: LoopbackGitHub, receiver: Receiver, tmp_path: Path
) -> None:
    """A comment leads over a draft, checks and an approval to a fast-forwarded, merged branch."""
    issue = await github.open_issue(as_user="reader", title="Sums are wrong", body="1+1=0")
    await github.comment(issue, as_user="writer", body="/ultracode fix it")
    await github.settle()
    event = receiver.last("issue_comment")
    assert event["comment"]["body"] == "/ultracode fix it"
    assert event["installation"]["id"] == github.installation.id

    client = installation_client(github)
    await answer(client, event)
    work, base, sha = await push_candidate(github, tmp_path)
    pull = await publish(client, issue.number, sha)
    await github.review(github.pull(pull), as_user="second_writer", body="Fine")
    await github.settle()
    review = receiver.last("pull_request_review")
    assert review["review"]["state"] == "approved"
    assert review["review"]["commit_id"] == sha

    ref = await client.rest.git.async_get_ref(OWNER, REPO, f"heads/{BRANCH}")
    assert ref.parsed_data.object_.sha == sha
    token, lease = github.token_of(github.app), f"--force-with-lease=refs/heads/main:{base}"
    where = f"{github.url}/{OWNER}/{REPO}.git"
    await git("push", "--porcelain", lease, where, f"{sha}:refs/heads/main", cwd=work, token=token)
    await github.settle()
    merged = (await client.rest.pulls.async_get(OWNER, REPO, pull)).json()
    assert merged["merged"] is True
    assert merged["merge_commit_sha"] == sha
    closed = receiver.last("pull_request")
    assert (closed["action"], closed["pull_request"]["merged"]) == ("closed", True)
    assert github.issue(issue.number).state == "closed"
    assert await github.tip() == sha

    await client.rest.git.async_delete_ref(OWNER, REPO, f"heads/{BRANCH}")
    await github.settle()
    assert receiver.last("push")["deleted"] is True


async def answer(client: GitHub[AppInstallationAuthStrategy], event: dict[str, Any]) -> None:
    """The permission is read, a reaction and a status comment appear, the policy is read."""
    login = event["comment"]["user"]["login"]
    level = await client.rest.repos.async_get_collaborator_permission_level(OWNER, REPO, login)
    assert level.json()["user"]["permissions"]["push"] is True
    comment, number = event["comment"]["id"], event["issue"]["number"]
    await client.rest.reactions.async_create_for_issue_comment(OWNER, REPO, comment, content="eyes")
    made = await client.rest.issues.async_create_comment(OWNER, REPO, number, body="working")
    await client.rest.issues.async_update_comment(OWNER, REPO, made.parsed_data.id, body="tested")
    readme = await client.rest.repos.async_get_content(OWNER, REPO, "README.md")
    assert base64.b64decode(readme.json()["content"]) == b"# Sums\n"


async def push_candidate(github: LoopbackGitHub, folder: Path) -> tuple[Path, str, str]:
    """Clone and push with a minted token; the work tree, its base and the candidate."""
    apps = app_client(github)
    minted = await apps.rest.apps.async_create_installation_access_token(
        github.installation.id, repositories=[REPO], permissions={"contents": "write"}
    )
    token, url = minted.parsed_data.token, f"{github.url}/{OWNER}/{REPO}.git"
    await git("clone", "-q", url, "work", cwd=folder, token=token)
    work = folder / "work"
    (work / "sums.py").write_text("def add(a, b):\n    return a + b\n")
    await git("commit", "-qam", "Add, not subtract", cwd=work)
    await git("push", url, f"HEAD:refs/heads/{BRANCH}", cwd=work, token=token)
    base, sha = (await git("rev-parse", "HEAD^", "HEAD", cwd=work)).split()
    return work, base, sha


async def publish(client: GitHub[AppInstallationAuthStrategy], issue: int, sha: str) -> int:
    """A draft with a check run, made ready for review; its number."""
    body = f"Closes #{issue}"
    opened = await client.rest.pulls.async_create(
        OWNER, REPO, title="Fix sums", body=body, head=BRANCH, base="main", draft=True
    )
    pull = opened.parsed_data
    assert (pull.head.sha, pull.draft) == (sha, True)
    run = await client.rest.checks.async_create(
        OWNER, REPO, name="ultracode/review", head_sha=sha, status="in_progress"
    )
    await client.rest.checks.async_update(
        OWNER,
        REPO,
        run.parsed_data.id,
        conclusion="action_required",
        output={"title": "Waiting", "summary": "for a review"},
    )
    mutation = (
        "mutation($id: ID!) { markPullRequestReadyForReview(input: {pullRequestId: $id})"
        " { pullRequest { isDraft headRefOid reviewDecision } } }"
    )
    ready = await client.async_graphql(mutation, {"id": pull.node_id})
    shown = ready["markPullRequestReadyForReview"]["pullRequest"]
    assert shown == {"isDraft": False, "headRefOid": sha, "reviewDecision": None}
    return pull.number


async def test_label_is_taken_off(github: LoopbackGitHub, receiver: Receiver) -> None:
    """A label set by a person arrives as an event, and the App can take it off again."""
    issue = await github.open_issue(as_user="writer", title="Do it", body="")
    await github.label(issue, "ultracode", as_user="writer")
    await github.settle()
    assert receiver.last("issues")["label"]["name"] == "ultracode"
    client = installation_client(github)
    await client.rest.issues.async_remove_label(OWNER, REPO, issue.number, "ultracode")
    assert issue.labels == []
