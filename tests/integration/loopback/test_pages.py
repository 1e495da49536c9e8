"""A person lives through the story on the pages, without any other client."""

import re
from collections.abc import AsyncIterator

import httpx
import pytest
from markupsafe import escape

from evals.loopback import LoopbackGitHub
from evals.loopback.state import PullRequest

HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(1)><details><summary>Log</summary>fine"
    "</details> [link](javascript:alert(1)) <form action='https://evil.example'><input></form>"
)


@pytest.fixture
async def browser(github: LoopbackGitHub) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(
        base_url=github.url, headers={"Accept": "text/html"}, follow_redirects=True, trust_env=False
    ) as client:
        yield client


async def proposed(github: LoopbackGitHub) -> PullRequest:
    fixed = {"sums.py": "def add(a, b):\n    return a + b\n"}
    await github.push(fixed, as_user="writer", branch="fix", message="Add")
    return await github.open_pull(as_user="writer", head="fix", title="Fix sums")


async def test_comment_and_label(github: LoopbackGitHub, browser: httpx.AsyncClient) -> None:
    """Whoever is chosen in the form says the words and sets the label."""
    await browser.post("/acme/sums/issues", data={"as": "reader", "title": "Wrong", "body": "1+1"})
    said = {"as": "writer", "body": "/ultracode fix\r\nit"}
    page = await browser.post("/acme/sums/issues/1/comment", data=said)
    assert "/ultracode fix" in page.text
    [comment] = github.issue(1).comments.values()
    assert (comment.user.login, comment.body) == ("wim", "/ultracode fix\nit")
    await browser.post("/acme/sums/issues/1/label", data={"as": "writer", "label": "ultracode"})
    assert [label.name for label in github.issue(1).labels] == ["ultracode"]


async def test_refused_in_githubs_words(github: LoopbackGitHub, browser: httpx.AsyncClient) -> None:
    """An author who approves their own pull request reads why that is refused."""
    pull = await proposed(github)
    page = await browser.post(
        f"/acme/sums/pull/{pull.number}/review", data={"as": "writer", "event": "APPROVE"}
    )
    assert page.status_code == 422
    assert "Can not approve your own pull request" in page.text


async def test_review_and_merge(github: LoopbackGitHub, browser: httpx.AsyncClient) -> None:
    """A reviewer reads the diff, approves the commit the page showed, and merges."""
    pull = await proposed(github)
    files = await browser.get(f"/acme/sums/pull/{pull.number}/files")
    assert "return a + b" in files.text
    commit = re.search(r'name="commit_id" value="([0-9a-f]{40})"', files.text)
    assert commit
    verdict = {"as": "second_writer", "event": "APPROVE", "commit_id": commit[1]}
    await browser.post(f"/acme/sums/pull/{pull.number}/review", data=verdict)
    [review] = pull.reviews.values()
    assert (review.state, review.commit_id) == ("APPROVED", pull.head_sha)
    page = await browser.post(f"/acme/sums/pull/{pull.number}/merge", data={"as": "admin"})
    assert "Merged by ada" in page.text


async def test_thread_on_a_line(github: LoopbackGitHub, browser: httpx.AsyncClient) -> None:
    """A comment on a line opens a thread that can be answered and resolved."""
    pull = await proposed(github)
    where = f"/acme/sums/pull/{pull.number}"
    said = {"as": "second_writer", "path": "sums.py", "line": "2", "body": "Sure?"}
    await browser.post(f"{where}/line", data=said)
    [thread] = pull.threads.values()
    first = thread.comments[0].id
    await browser.post(f"{where}/threads/{first}", data={"as": "writer", "body": "Yes"})
    page = await browser.post(f"{where}/threads/{first}", data={"as": "writer", "resolve": "1"})
    assert "Yes" in page.text
    assert thread.resolved_by is github.person("writer").account


async def test_checks_tab(github: LoopbackGitHub, browser: httpx.AsyncClient) -> None:
    """The Checks tab shows every run, and a run's page offers its buttons."""
    pull = await proposed(github)
    run = await github.check(pull.head_sha, "unit", "failure", as_app=github.other_app)
    run.summary = "**3 failed**"
    run.actions = [{"label": "Cancel", "description": "Stop", "identifier": "cancel"}]
    tab = await browser.get(f"/acme/sums/pull/{pull.number}/checks")
    assert "unit" in tab.text
    assert "<strong>3 failed</strong>" in tab.text
    page = await browser.get(f"/acme/sums/runs/{run.id}")
    assert 'value="cancel"' in page.text
    pressed = await browser.post(
        f"/acme/sums/runs/{run.id}/press", data={"as": "reader", "identifier": "cancel"}
    )
    assert pressed.status_code == 403


@pytest.mark.parametrize("what", ["issues", "pull"])
async def test_hostile_words_do_nothing(
    github: LoopbackGitHub, browser: httpx.AsyncClient, what: str
) -> None:
    """Nothing in what people wrote can run, load or send anything from a page."""
    pull = await proposed(github) if what == "pull" else None
    issue = pull.issue if pull else await github.open_issue(as_user="outsider", title=HOSTILE)
    await github.comment(issue, as_user="outsider", body=HOSTILE)
    page = await browser.get(f"/acme/sums/{what}/{issue.number}")
    for active in ("<script", "<img", "onerror=", 'href="javascript:', "<form action='https"):
        said = page.text.split("<h1>", 1)[1].replace(_escaped_title(), "")
        assert active not in said, active
    assert "<summary>Log</summary>" in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]


def _escaped_title() -> str:
    return str(escape(HOSTILE))


async def test_invisible_characters_show(
    github: LoopbackGitHub, browser: httpx.AsyncClient
) -> None:
    """A bidirectional control in a diff is shown escaped, not obeyed."""
    await github.push({"a.py": "x = '\u202eevil'\n"}, as_user="writer", branch="odd")
    pull = await github.open_pull(as_user="writer", head="odd")
    page = await browser.get(f"/acme/sums/pull/{pull.number}/files")
    assert "\\u{202e}evil" in page.text
    assert "\u202e" not in page.text


async def test_forms_of_other_sites_are_refused(
    github: LoopbackGitHub, browser: httpx.AsyncClient
) -> None:
    """A page of another site cannot act as anybody here."""
    await github.open_issue(as_user="writer", title="One")
    answer = await browser.post(
        "/acme/sums/issues/1/comment",
        data={"as": "admin", "body": "gotcha"},
        headers={"Origin": "https://evil.example"},
    )
    assert answer.status_code == 403
    assert github.issue(1).comments == {}


async def test_other_names_are_refused(github: LoopbackGitHub, browser: httpx.AsyncClient) -> None:
    """A browser led here under another site's name is turned away."""
    answer = await browser.get("/acme/sums", headers={"Host": "evil.example"})
    assert answer.status_code == 421


async def test_every_page_opens(github: LoopbackGitHub, browser: httpx.AsyncClient) -> None:
    """Every address that the API gives people to click on is a page."""
    pull = await proposed(github)
    issue = await github.open_issue(as_user="writer", title="One")
    run = await github.check(pull.head_sha, "unit", None, as_app=github.other_app)
    pages = [
        "/_loopback",
        "/acme/sums",
        f"/acme/sums/issues/{issue.number}",
        f"/acme/sums/issues/{pull.number}",
        f"/acme/sums/pull/{pull.number}",
        f"/acme/sums/pull/{pull.number}/files",
        f"/acme/sums/pull/{pull.number}/checks",
        f"/acme/sums/pull/{pull.number}.diff",
        f"/acme/sums/runs/{run.id}",
        f"/acme/sums/commit/{pull.head_sha}",
        "/acme/sums/blob/fix/sums.py",
        "/_loopback/style.css",
    ]
    for page in pages:
        assert (await browser.get(page)).status_code == 200, page
    assert (await browser.get("/acme/none")).status_code == 404
