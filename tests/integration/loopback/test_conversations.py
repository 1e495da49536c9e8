"""Issues, comments, labels, reactions, reviews and checks, over REST and as webhooks."""

import math
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from evals.loopback import LineComment, LoopbackGitHub
from evals.loopback.errors import GitHubError
from evals.loopback.state import PullRequest

from .conftest import Receiver

AsPerson = Callable[[str], httpx.AsyncClient]
REPO = "/repos/acme/sums"


async def proposed(github: LoopbackGitHub, body: str = "", branch: str = "fix") -> PullRequest:
    await github.push(
        {"sums.py": "def add(a, b):\n    return a + b\n"}, as_user="writer", branch=branch
    )
    return await github.open_pull(as_user="writer", head=branch, body=body)


# --- issues ---


async def test_issue_life(github: LoopbackGitHub, as_person: AsPerson, receiver: Receiver) -> None:
    """Opening, editing, labelling, locking, closing and reopening are events of their own."""
    writer = as_person("writer")
    made = await writer.post(f"{REPO}/issues", json={"title": "A", "body": "b", "labels": ["x"]})
    where = f"{REPO}/issues/{made.json()['number']}"
    await writer.patch(where, json={"title": "B"})
    await writer.post(f"{where}/labels", json={"labels": ["ultracode", "y"]})
    await writer.delete(f"{where}/labels/y")
    await writer.put(f"{where}/lock", json={"lock_reason": "resolved"})
    await writer.patch(where, json={"state": "closed", "state_reason": "not_planned"})
    await writer.patch(where, json={"state": "open"})
    shown = (await writer.get(where)).json()
    assert [label["name"] for label in shown["labels"]] == ["x", "ultracode"]
    await github.settle()
    acts = "opened labeled edited labeled labeled unlabeled locked closed reopened"
    assert receiver.actions("issues") == acts.split()
    edited = [b for n, b in receiver.received if n == "issues" and b["action"] == "edited"]
    assert edited[0]["changes"]["title"]["from"] == "A"


async def test_who_may_what(github: LoopbackGitHub, as_person: AsPerson) -> None:
    """Outsiders comment on public repositories; labels need triage; locks silence readers."""
    issue = await github.open_issue(as_user="outsider", title="Mine", labels=["ignored"])
    assert issue.labels == []
    where = f"{REPO}/issues/{issue.number}"
    outsider = as_person("outsider")
    assert (await outsider.post(f"{where}/comments", json={"body": "hi"})).status_code == 201
    assert (await outsider.post(f"{where}/labels", json=["x"])).status_code == 403
    assert (await outsider.patch(where, json={"title": "Still mine"})).status_code == 200
    assert (await as_person("reader").patch(where, json={"title": "No"})).status_code == 403
    assert (await as_person("triager").post(f"{where}/labels", json=["x"])).status_code == 200
    await github.lock_issue(issue, as_user="writer")
    locked = await outsider.post(f"{where}/comments", json={"body": "hi"})
    assert "issue is locked" in locked.json()["message"]
    assert (await as_person("writer").post(f"{where}/comments", json={"body": "x"})).is_success
    github.repository().archived = True
    archived = await as_person("admin").post(f"{where}/comments", json={"body": "x"})
    assert "archived" in archived.json()["message"]


@pytest.mark.parametrize(
    ("who", "word", "push"),
    [
        ("admin", "admin", True),
        ("maintainer", "write", True),
        ("writer", "write", True),
        ("triager", "read", False),
        ("reader", "read", False),
        ("outsider", "read", False),
    ],
)
async def test_permissions(
    github: LoopbackGitHub, as_person: AsPerson, who: str, word: str, push: bool
) -> None:
    """The word `permission` folds maintain and triage; the booleans do not."""
    login = github.person(who).login
    shown = (await as_person("admin").get(f"{REPO}/collaborators/{login}/permission")).json()
    assert shown["permission"] == word
    assert shown["user"]["permissions"]["push"] is push


async def test_permission_in_private(github: LoopbackGitHub, as_person: AsPerson) -> None:
    """In a private repository outsiders have none, and deleted accounts are not found."""
    github.repository().private = True
    admin = as_person("admin")
    assert (await admin.get(f"{REPO}/collaborators/otto/permission")).json()["permission"] == "none"
    github.delete_user("writer")
    assert (await admin.get(f"{REPO}/collaborators/wim/permission")).status_code == 404
    assert (await as_person("outsider").get(REPO)).status_code == 404


async def test_deleted_people(github: LoopbackGitHub, as_person: AsPerson) -> None:
    """A deleted account's comments are the ghost's, its reviews nobody's, its token dead."""
    issue = await github.open_issue(as_user="reader", title="One")
    pull = await proposed(github)
    await github.comment(issue, as_user="second_writer", body="soon gone")
    await github.review(pull, as_user="second_writer")
    client = as_person("second_writer")
    github.delete_user("second_writer")
    assert (await client.get("/user")).status_code == 401
    reader = as_person("reader")
    [comment] = (await reader.get(f"{REPO}/issues/{issue.number}/comments")).json()
    assert comment["user"]["login"] == "ghost"
    [review] = (await reader.get(f"{REPO}/pulls/{pull.number}/reviews")).json()
    assert review["user"] is None


async def test_comments_page_by_page(github: LoopbackGitHub, as_person: AsPerson) -> None:
    """Lists come in pages whose links lead through all of them, each item once."""
    issue = await github.open_issue(as_user="writer", title="Long")
    for number in range(7):
        await github.comment(issue, as_user="writer", body=str(number))
    where: str = f"{REPO}/issues/{issue.number}/comments?per_page=3"
    seen, reader = [], as_person("reader")
    while where:
        answer = await reader.get(where)
        seen += [comment["body"] for comment in answer.json()]
        where = answer.links.get("next", {}).get("url", "")
    assert seen == [str(number) for number in range(7)]
    assert answer.links["first"]["url"].endswith("page=1")
    assert answer.links["prev"]["url"].endswith("page=2")


async def test_comment_limits(github: LoopbackGitHub, as_person: AsPerson) -> None:
    """An empty comment and one over 65,536 characters are refused with 422."""
    issue = await github.open_issue(as_user="writer", title="One")
    where, writer = f"{REPO}/issues/{issue.number}/comments", as_person("writer")
    for body in ("", "x" * 65_537):
        answer = await writer.post(where, json={"body": body})
        assert (answer.status_code, answer.json()["message"]) == (422, "Validation Failed")
    assert (await writer.post(where, json={"body": "é" * 65_536})).status_code == 201
    assert (await writer.post(where, json={})).status_code == 422
    assert (await writer.post(where, content=b"{")).status_code == 400


async def test_comments_change(
    github: LoopbackGitHub, as_person: AsPerson, receiver: Receiver
) -> None:
    """Authors and writers edit and delete comments; others do not."""
    issue = await github.open_issue(as_user="writer", title="One")
    comment = await github.comment(issue, as_user="reader", body="first")
    where = f"{REPO}/issues/comments/{comment.id}"
    assert (await as_person("outsider").patch(where, json={"body": "x"})).status_code == 403
    assert (await as_person("reader").patch(where, json={"body": "second"})).status_code == 200
    assert (await as_person("writer").delete(where)).status_code == 204
    assert (await as_person("writer").get(where)).status_code == 404
    await github.settle()
    assert receiver.actions("issue_comment") == ["created", "edited", "deleted"]


@pytest.mark.parametrize("kind", ["issues", "issues/comments", "pulls/comments"])
async def test_reactions(github: LoopbackGitHub, as_person: AsPerson, kind: str) -> None:
    """One reaction of a kind per person; asking again gives the same one, and it can go again."""
    if kind == "pulls/comments":
        pull = await proposed(github)
        said = [LineComment("sums.py", "Hm", 2)]
        await github.review(pull, as_user="reader", event="COMMENT", comments=said)
        number = pull.review_comments()[0].id
    else:
        issue = await github.open_issue(as_user="writer", title="One")
        comment = await github.comment(issue, as_user="writer", body="x")
        number = issue.number if kind == "issues" else comment.id
    where, reader = f"{REPO}/{kind}/{number}/reactions", as_person("reader")
    first = await reader.post(where, json={"content": "eyes"})
    again = await reader.post(where, json={"content": "eyes"})
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    assert (await reader.post(where, json={"content": "pizza"})).status_code == 422
    gone = f"{where}/{first.json()['id']}"
    assert (await as_person("writer").delete(gone)).status_code == 404
    assert (await reader.delete(gone)).status_code == 204
    assert (await reader.get(where)).json() == []


async def test_transfer_and_deletion(
    github: LoopbackGitHub, as_person: AsPerson, receiver: Receiver
) -> None:
    """An issue moves to another repository under a new number, or is gone for good."""
    other = await github.add_repository("acme/other", github.repository().git.path)
    issue = await github.open_issue(as_user="writer", title="Wanders")
    await github.comment(issue, as_user="writer", body="with me")
    moved = await github.transfer_issue(issue, other, as_user="writer")
    assert (moved.repository, len(moved.comments)) == (other, 1)
    assert (await as_person("reader").get(f"{REPO}/issues/{issue.number}")).status_code == 404
    await github.delete_issue(moved)
    await github.settle()
    assert receiver.actions("issues")[-2:] == ["transferred", "deleted"]


# --- pull requests ---


async def test_what_cannot_be_proposed(github: LoopbackGitHub, as_person: AsPerson) -> None:
    """No second pull request for a branch, none without commits, none from nowhere."""
    await proposed(github)
    writer = as_person("writer")
    for head, words in (
        ("fix", "A pull request already exists for acme:fix."),
        ("main", "No commits between main and main"),
        ("none", "invalid"),
    ):
        wanted = {"title": "T", "head": head, "base": "main"}
        answer = await writer.post(f"{REPO}/pulls", json=wanted)
        assert answer.status_code == 422
        assert words in answer.text
    github.repository().drafts_allowed = False
    await github.push({"a": "1"}, as_user="writer", branch="more")
    draft = {"title": "T", "head": "more", "base": "main", "draft": True}
    refused = await writer.post(f"{REPO}/pulls", json=draft)
    assert "Draft pull requests are not supported" in refused.text


async def test_facts_of_a_pull_request(github: LoopbackGitHub, as_person: AsPerson) -> None:
    """Sizes, files, commits and mergeability are Git's."""
    pull = await proposed(github)
    reader, where = as_person("reader"), f"{REPO}/pulls/{pull.number}"
    shown = (await reader.get(where)).json()
    assert (shown["commits"], shown["additions"], shown["deletions"]) == (1, 1, 1)
    assert shown["mergeable_state"] == "clean"
    [file] = (await reader.get(f"{where}/files")).json()
    assert (file["filename"], file["status"]) == ("sums.py", "modified")
    assert file["patch"].startswith("@@ -1,2 +1,2 @@")
    [commit] = (await reader.get(f"{where}/commits")).json()
    assert commit["sha"] == pull.head_sha
    diff = await reader.get(where, headers={"Accept": "application/vnd.github.diff"})
    assert diff.text.startswith("diff --git a/sums.py")
    await github.push({"sums.py": "def add(a, b):\n    return b - a\n"}, as_user="admin")
    assert (await reader.get(where)).json()["mergeable_state"] == "dirty"
    listed = (await reader.get(f"{REPO}/pulls", params={"head": "acme:fix"})).json()
    assert [one["number"] for one in listed] == [pull.number]
    assert (await reader.get(f"{REPO}/pulls", params={"head": "acme:none"})).json() == []


async def test_head_follows_its_branch(
    github: LoopbackGitHub, as_person: AsPerson, receiver: Receiver
) -> None:
    """The pull request shows a push after the lag, the ref at once."""
    pull = await proposed(github)
    github.world.pull_head_lag_seconds = math.inf
    new = await github.push({"more": "1"}, as_user="writer", branch="fix")
    reader = as_person("reader")
    shown = (await reader.get(f"{REPO}/pulls/{pull.number}")).json()
    ref = (await reader.get(f"{REPO}/git/ref/heads/fix")).json()
    assert (shown["head"]["sha"] == new, ref["object"]["sha"] == new) == (False, True)
    github.world.release()
    await github.settle()
    assert pull.head_sha == new
    assert receiver.last("pull_request")["after"] == new


async def test_updating_a_branch(github: LoopbackGitHub, as_person: AsPerson) -> None:
    """Writers merge the base into a pull request's branch; its head is then another commit."""
    pull = await proposed(github)
    first = pull.head_sha
    await github.push({"b": "1"}, as_user="admin")
    where, writer = f"{REPO}/pulls/{pull.number}/update-branch", as_person("second_writer")
    assert (await writer.put(where, json={"expected_head_sha": "0" * 40})).status_code == 422
    assert (await as_person("reader").put(where, json={})).status_code == 403
    assert (await writer.put(where, json={"expected_head_sha": first})).status_code == 202
    await github.settle()
    parents = (await github.repository().git.commit(pull.head_sha)).parents
    assert parents == (first, await github.tip())
    [found] = (await writer.get(f"{REPO}/commits/{first}/pulls")).json()
    assert found["number"] == pull.number


async def test_only_the_default_branch_marks_merged(github: LoopbackGitHub) -> None:
    """A fast-forward of another base leaves its pull request open."""
    await github.push({"a": "1"}, as_user="writer", branch="release")
    await github.push({"b": "2"}, as_user="writer", branch="fix", start=await github.tip("release"))
    pull = await github.open_pull(as_user="writer", head="fix", base="release")
    await github.move_branch("release", pull.head_sha, as_user="writer")
    await github.settle()
    assert (pull.open, pull.merged_at) == (True, None)
    on_main = await proposed(github, branch="other")
    await github.move_branch("main", on_main.head_sha, as_user="writer")
    assert on_main.merged_at is not None
    assert on_main.merged_by is github.person("writer").account


async def test_deleted_branch_closes(github: LoopbackGitHub, receiver: Receiver) -> None:
    """Deleting the head branch closes its pull request unmerged; it cannot be reopened then."""
    pull = await proposed(github)
    await github.move_branch("fix", None, as_user="writer")
    await github.settle()
    assert not pull.open
    assert receiver.last("pull_request")["pull_request"]["merged"] is False
    with pytest.raises(GitHubError):
        await github.reopen_pull(pull, as_user="writer")


async def test_merging_closes_issues(github: LoopbackGitHub) -> None:
    """`Closes #N` in the body, and in commits on the default branch, closes that issue."""
    one = await github.open_issue(as_user="reader", title="One")
    two = await github.open_issue(as_user="reader", title="Two")
    pull = await proposed(github, body=f"Closes #{one.number}, not other/repo#{two.number}")
    await github.merge_pull(pull, as_user="second_writer")
    assert (one.state, two.state) == ("closed", "open")
    await github.push({"c": "3"}, as_user="writer", message=f"Work\n\nFixes #{two.number}")
    assert two.state == "closed"


async def test_drafts_over_graphql(
    github: LoopbackGitHub, as_person: AsPerson, receiver: Receiver
) -> None:
    """Drafts become ready and back over GraphQL only, for authors and writers."""
    await github.push({"a": "1"}, as_user="writer", branch="fix")
    pull = await github.open_pull(as_user="writer", head="fix", draft=True)
    shown = (await as_person("reader").get(f"{REPO}/pulls/{pull.number}")).json()
    query = "mutation($id: ID!) { %s(input: {pullRequestId: $id}) { pullRequest { isDraft } } }"
    variables = {"id": shown["node_id"]}

    async def run(who: str, name: str) -> Any:
        body = {"query": query % name, "variables": variables}
        return (await as_person(who).post("/graphql", json=body)).json()

    refused = await run("reader", "markPullRequestReadyForReview")
    assert refused["errors"][0]["type"] == "FORBIDDEN"
    assert pull.draft
    await run("writer", "markPullRequestReadyForReview")
    await run("second_writer", "convertPullRequestToDraft")
    await github.settle()
    assert receiver.actions("pull_request")[-2:] == ["ready_for_review", "converted_to_draft"]
    wrong = await as_person("reader").post("/graphql", json={"query": "{ viewer { nope } }"})
    assert "Cannot query field 'nope'" in wrong.json()["errors"][0]["message"]


async def test_pending_reviews(github: LoopbackGitHub, as_person: AsPerson) -> None:
    """A review without an event is seen by its author only, until it is submitted."""
    pull = await proposed(github)
    where, second = f"{REPO}/pulls/{pull.number}/reviews", as_person("second_writer")
    pending = (await second.post(where, json={"body": "wait"})).json()
    assert pending["state"] == "PENDING"
    assert (await as_person("reader").get(where)).json() == []
    assert len((await second.get(where)).json()) == 1
    done = await second.post(f"{where}/{pending['id']}/events", json={"event": "APPROVE"})
    assert done.json()["state"] == "APPROVED"
    dismissal = {"message": "Stale"}
    gone = f"{where}/{pending['id']}/dismissals"
    assert (await as_person("reader").put(gone, json=dismissal)).status_code == 403
    assert (await as_person("writer").put(gone, json=dismissal)).json()["state"] == "DISMISSED"


async def test_line_comments(
    github: LoopbackGitHub, as_person: AsPerson, receiver: Receiver
) -> None:
    """A comment on a line starts a thread that is answered; lines outside the diff are refused."""
    pull = await proposed(github)
    where, reader = f"{REPO}/pulls/{pull.number}/comments", as_person("reader")
    wanted = {"path": "sums.py", "line": 2, "body": "Why?", "commit_id": pull.head_sha}
    made = await reader.post(where, json=wanted)
    assert made.status_code == 201
    assert made.json()["diff_hunk"].endswith("+    return a + b")
    answer = await as_person("writer").post(
        f"{where}/{made.json()['id']}/replies", json={"body": "Because"}
    )
    assert answer.json()["in_reply_to_id"] == made.json()["id"]
    assert len(pull.threads) == 1
    assert (await reader.post(where, json={**wanted, "line": 99})).status_code == 422
    assert (await reader.post(where, json={**wanted, "path": "no.py"})).status_code == 422
    await github.settle()
    assert receiver.actions("pull_request_review_comment") == ["created", "created"]


async def test_asking_for_reviews(
    github: LoopbackGitHub, as_person: AsPerson, receiver: Receiver
) -> None:
    """Collaborators and teams are asked; authors and strangers cannot be."""
    pull = await proposed(github)
    github.repository().teams["core"] = {github.person("admin").id}
    where, writer = f"{REPO}/pulls/{pull.number}/requested_reviewers", as_person("writer")
    for login in ("wim", "otto", "nobody"):
        assert (await writer.post(where, json={"reviewers": [login]})).status_code == 422
    await writer.post(where, json={"reviewers": ["rosa", "ada"], "team_reviewers": ["core"]})
    asked = (await writer.get(where)).json()
    assert [one["login"] for one in asked["users"]] == ["rosa", "ada"]
    assert [one["slug"] for one in asked["teams"]] == ["core"]
    await github.review(pull, as_user="second_writer")
    await writer.request("DELETE", where, json={"reviewers": ["ada"]})
    assert pull.requested_reviewers == []
    await github.settle()
    assert receiver.actions("pull_request").count("review_requested") == 3


async def test_forks(github: LoopbackGitHub, as_person: AsPerson) -> None:
    """An outsider proposes from a fork of their own; its head follows the fork's branch."""
    outsider = as_person("outsider")
    fork = (await outsider.post(f"{REPO}/forks")).json()
    assert fork["full_name"] == "otto/sums"
    there = github.repository("otto/sums")
    new = await github.push({"x": "1"}, as_user="outsider", branch="idea", repository=there)
    wanted = {"title": "Idea", "head": "otto:idea", "base": "main"}
    made = await outsider.post(f"{REPO}/pulls", json=wanted)
    assert (made.status_code, made.json()["head"]["repo"]["fork"]) == (201, True)
    pull = github.pull(made.json()["number"])
    assert pull.head_sha == new
    newer = await github.push({"y": "1"}, as_user="outsider", branch="idea", repository=there)
    await github.settle()
    assert pull.head_sha == newer
    assert (await as_person("writer").get(f"{REPO}/pulls/{pull.number}/files")).json()


# --- checks ---


@pytest.mark.parametrize(
    ("output", "actions", "words"),
    [
        ({"title": "t", "summary": "é" * 32_768}, [], "maximum bytesize of 65535"),
        ({"title": "t", "summary": "s", "text": "x" * 65_536}, [], "maximum bytesize of 65535"),
        ({"title": "t"}, [], "output.summary"),
        ({"title": "t", "summary": "s", "annotations": [{}] * 51}, [], "No more than 50"),
        ({"title": "t", "summary": "s", "annotations": [{"path": "a"}]}, [], "start_line"),
        (None, [{"label": "l", "description": "d", "identifier": "i"}] * 4, "No more than 3"),
        (None, [{"label": "l" * 21, "description": "d", "identifier": "i"}], "at most 20"),
        (None, [{"label": "l", "description": "d" * 41, "identifier": "i"}], "at most 40"),
    ],
)
async def test_check_run_limits(
    github: LoopbackGitHub,
    as_person: AsPerson,
    output: dict[str, Any] | None,
    actions: list[dict[str, str]],
    words: str,
) -> None:
    """What is over a limit of the Checks API is refused, naming it."""
    wanted = {"name": "c", "head_sha": await github.tip(), "actions": actions}
    client = as_app(github)
    body = {**wanted, "output": output} if output else wanted
    answer = await client.post(f"{github.api_url}{REPO}/check-runs", json=body)
    await client.aclose()
    assert answer.status_code == 422
    assert words in answer.text


def as_app(github: LoopbackGitHub, *, other: bool = False) -> httpx.AsyncClient:
    token = github.token_of(github.other_app if other else github.app)
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.AsyncClient(base_url=github.api_url, headers=headers, trust_env=False)


async def test_check_run_life(
    github: LoopbackGitHub, as_person: AsPerson, receiver: Receiver
) -> None:
    """Only its App changes a check run; people press its buttons; annotations add up."""
    sha = await github.tip()
    mine, other = as_app(github), as_app(github, other=True)
    async with mine, other:
        wanted: dict[str, Any] = {"name": "c", "head_sha": sha, "external_id": "e1"}
        assert (await as_person("admin").post(f"{REPO}/check-runs", json=wanted)).status_code == 403
        unknown = {**wanted, "head_sha": "0" * 40}
        assert (await mine.post(f"{REPO}/check-runs", json=unknown)).status_code == 422
        made = (await mine.post(f"{REPO}/check-runs", json=wanted)).json()
        assert (made["status"], made["external_id"]) == ("queued", "e1")
        where = f"{REPO}/check-runs/{made['id']}"
        assert (await other.patch(where, json={"status": "in_progress"})).status_code == 403
        note = {
            "path": "sums.py",
            "start_line": 1,
            "end_line": 1,
            "annotation_level": "failure",
            "message": "wrong",
        }
        output = {"title": "t", "summary": "s", "annotations": [note] * 50}
        await mine.patch(where, json={"output": output})
        button = {"label": "Cancel", "description": "Stop", "identifier": "cancel"}
        done = {"conclusion": "failure", "output": output, "actions": [button]}
        completed = (await mine.patch(where, json=done)).json()
        assert (completed["status"], completed["output"]["annotations_count"]) == ("completed", 100)
        notes = await mine.get(f"{where}/annotations", params={"per_page": 100})
        assert len(notes.json()) == 100
        run = github.repository().check_runs()[0]
        await github.press(run, "cancel", as_user="writer")
        await as_person("writer").post(f"{where}/rerequest")
        assert (await as_person("reader").post(f"{where}/rerequest")).status_code == 403
    await github.settle()
    acts = ["created", "completed", "requested_action", "rerequested"]
    assert receiver.actions("check_run") == acts
    pressed = [b for n, b in receiver.received if n == "check_run"][2]
    assert pressed["requested_action"] == {"identifier": "cancel"}
    assert pressed["sender"]["login"] == "wim"


async def test_checks_and_statuses_of_a_commit(
    github: LoopbackGitHub, as_person: AsPerson, receiver: Receiver
) -> None:
    """A commit shows the newest run of every name and App, and the newest status of a context."""
    sha = await github.tip()
    await github.check(sha, "unit", "failure", as_app=github.app)
    await github.check(sha, "unit", "success", as_app=github.app)
    await github.check(sha, "unit", "success", as_app=github.other_app)
    reader, where = as_person("reader"), f"{REPO}/commits/{sha}"
    latest = (await reader.get(f"{where}/check-runs")).json()
    assert (latest["total_count"], {run["conclusion"] for run in latest["check_runs"]}) == (
        2,
        {"success"},
    )
    every = (await reader.get(f"{where}/check-runs", params={"filter": "all"})).json()
    assert every["total_count"] == 3
    own = {"app_id": github.other_app.id, "check_name": "unit"}
    assert (await reader.get(f"{where}/check-runs", params=own)).json()["total_count"] == 1
    suites = (await reader.get(f"{where}/check-suites")).json()
    assert suites["total_count"] == 2
    await github.status(sha, "ci", "pending", as_user="writer")
    await github.status(sha, "ci", "success", as_user=github.other_app)
    combined = (await reader.get(f"{where}/status")).json()
    assert (combined["state"], combined["total_count"]) == ("success", 1)
    assert len((await reader.get(f"{where}/statuses")).json()) == 2
    refused = await reader.post(f"{REPO}/statuses/{sha}", json={"state": "success"})
    assert refused.status_code == 403
    await github.settle()
    assert [b["state"] for n, b in receiver.received if n == "status"] == ["pending", "success"]


async def test_pushes_ask_for_checks(github: LoopbackGitHub, receiver: Receiver) -> None:
    """A push makes a check suite for each App that writes checks, and asks only its own App."""
    new = await github.push({"a": "1"}, as_user="writer", branch="fix")
    await github.settle()
    asked = receiver.last("check_suite")
    assert (asked["action"], asked["check_suite"]["head_sha"]) == ("requested", new)
    assert receiver.actions("check_suite") == ["requested"]


# --- repositories ---


async def test_renames_keep_ids(
    github: LoopbackGitHub, as_person: AsPerson, receiver: Receiver
) -> None:
    """Old names lead to the id, ids to the repository, and the App hears of it."""
    number, reader = github.repository().id, as_person("reader")
    await github.edit_repository(name="totals")
    moved = await reader.get(f"{REPO}/issues?state=all")
    assert moved.status_code == 301
    assert moved.headers["location"].endswith(f"/repositories/{number}/issues?state=all")
    followed = await reader.get(REPO, follow_redirects=True)
    assert followed.json()["full_name"] == "acme/totals"
    await github.edit_repository(archived=True)
    await github.settle()
    assert receiver.actions("repository") == ["renamed", "archived"]
    assert receiver.last("repository")["repository"]["id"] == number


async def test_chosen_repositories(github: LoopbackGitHub, receiver: Receiver) -> None:
    """An App that loses a repository hears that, and nothing from it afterwards."""
    here = github.repository()
    github.take_repository(github.app, here)
    await github.open_issue(as_user="writer", title="Unheard")
    github.give_repository(github.app, here)
    await github.open_issue(as_user="writer", title="Heard")
    await github.settle()
    assert receiver.actions("installation_repositories") == ["removed", "added"]
    assert [b["issue"]["title"] for n, b in receiver.received if n == "issues"] == ["Heard"]


async def test_contents(github: LoopbackGitHub, as_person: AsPerson) -> None:
    """Files come as JSON or raw, folders as lists, absent paths and refs as 404."""
    reader = as_person("reader")
    files = {"docs/a.md": "A", "docs/b.md": "B" * 1_000_001}
    await github.push(files, as_user="writer", branch="docs/long/name")
    at = {"ref": "docs/long/name"}
    listed = (await reader.get(f"{REPO}/contents/docs", params=at)).json()
    assert [one["path"] for one in listed] == ["docs/a.md", "docs/b.md"]
    raw = await reader.get(
        f"{REPO}/contents/docs/a.md", params=at, headers={"Accept": "application/vnd.github.raw"}
    )
    assert raw.text == "A"
    large = (await reader.get(f"{REPO}/contents/docs/b.md", params=at)).json()
    assert (large["content"], large["encoding"]) == ("", "none")
    assert (await reader.get(f"{REPO}/contents/none.md")).status_code == 404
    assert (await reader.get(f"{REPO}/contents/", params={"ref": "none"})).status_code == 404
    tree = (await reader.get(f"{REPO}/git/trees/main", params={"recursive": "1"})).json()
    assert {entry["path"] for entry in tree["tree"]} == {"README.md", "sums.py"}


async def test_comparing(github: LoopbackGitHub, as_person: AsPerson) -> None:
    """A comparison says what is ahead and behind, and which files differ."""
    reader = as_person("reader")
    await github.push({"a": "1"}, as_user="writer", branch="fix")
    ahead = (await reader.get(f"{REPO}/compare/main...fix")).json()
    assert (ahead["status"], ahead["ahead_by"], ahead["behind_by"]) == ("ahead", 1, 0)
    assert [file["filename"] for file in ahead["files"]] == ["a"]
    await github.push({"b": "1"}, as_user="admin")
    assert (await reader.get(f"{REPO}/compare/main...fix")).json()["status"] == "diverged"
    assert (await reader.get(f"{REPO}/compare/main...none")).status_code == 404
