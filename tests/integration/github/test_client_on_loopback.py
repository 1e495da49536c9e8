"""Every method of the port, against the loopback GitHub."""

from datetime import UTC, datetime, timedelta

import pytest

from bot.github.client import GitHubClient
from bot.github.port import (
    AccessLost,
    CheckAction,
    CheckOutput,
    CheckRunWrite,
    GitHubRefused,
    GitHubRepository,
    GitHubUnavailable,
    NotFound,
    Permission,
    RateLimited,
    ReactionTarget,
)
from evals.loopback import LoopbackGitHub
from evals.loopback.faults import Fault
from evals.loopback.state import Protection

BRANCH = "ultracode/1-abcdef"


async def candidate(github: LoopbackGitHub) -> str:
    return await github.push(
        {"sums.py": "def add(a, b):\n    return a + b\n"}, as_user=github.app, branch=BRANCH
    )


async def test_the_app_knows_itself_and_where_it_is_installed(
    github: LoopbackGitHub, client: GitHubClient
) -> None:
    """The App's facts, its installations and their repositories are read."""
    app = await client.app()
    assert (app.id, app.slug, app.bot_login) == (github.app.id, "ultracode", "ultracode[bot]")
    assert app.permissions["contents"] == "write"
    assert [i.id for i in await client.installations()] == [github.installation.id]
    found = await client.installation(github.installation.id)
    assert found is not None
    assert (found.account.login, found.suspended) == ("acme", False)
    assert await client.installation(1) is None
    [covered] = await client.installed_repositories(github.installation.id)
    assert covered.full_name == "acme/sums"


async def test_the_repository_is_read_by_its_number(
    github: LoopbackGitHub, repository: GitHubRepository
) -> None:
    """Facts, files and refs come from the repository with that id, whatever it is called now."""
    assert (await repository.facts()).default_branch == "main"
    await github.edit_repository(name="renamed")
    assert await repository.branch_sha("main") == await github.tip()
    assert (await repository.facts()).full_name == "acme/renamed"


async def test_files_and_commits(github: LoopbackGitHub, repository: GitHubRepository) -> None:
    """Files come as bytes, folders and missing files as None, commits with tree and parents."""
    assert await repository.read_file("docs/a b.md", "main") == b"text\n"
    assert await repository.read_file("docs", "main") is None
    assert await repository.read_file("nothing", "main") is None
    assert set(await repository.list_files("main")) == {"sums.py", "docs/a b.md"}
    assert await repository.branch_sha("nothing") is None
    sha = await candidate(github)
    commit = await repository.commit(sha)
    assert commit is not None
    assert commit.parents == (await github.tip(),)
    assert await repository.commit("0" * 40) is None


@pytest.mark.parametrize(
    ("who", "expected"),
    [
        ("admin", Permission.ADMIN),
        ("maintainer", Permission.MAINTAIN),
        ("writer", Permission.WRITE),
        ("triager", Permission.TRIAGE),
        ("reader", Permission.READ),
        ("outsider", Permission.READ),  # the repository is public
    ],
)
async def test_permission(
    github: LoopbackGitHub, repository: GitHubRepository, who: str, expected: Permission
) -> None:
    """What somebody may do is read by id, with or without a login at hand."""
    person = github.person(who)
    assert await repository.permission(person.id, person.login) is expected
    assert await repository.permission(person.id) is expected
    assert await repository.permission(person.id, github.person("admin").login) is expected


async def test_a_deleted_account_may_nothing(
    github: LoopbackGitHub, repository: GitHubRepository
) -> None:
    """Whoever is gone has no permission."""
    person = github.person("writer")
    github.delete_user("writer")
    assert await repository.permission(person.id, person.login) is Permission.NONE


async def test_issues_say_who_wrote_and_who_changed_them(
    github: LoopbackGitHub, repository: GitHubRepository
) -> None:
    """Author, labels and the last editor of an issue are known."""
    made = await github.open_issue(as_user="reader", title="Sums", body="1+1=0")
    await github.label(made, "bug", as_user="writer")
    issue = await repository.issue(made.number)
    assert issue is not None
    assert issue.author is not None
    assert (issue.author.login, issue.edited, issue.last_editor) == ("rene", False, None)
    assert (issue.labels, issue.is_pull, issue.state) == (("bug",), False, "open")
    await github.edit_issue(made, as_user="admin", body="1+1=1")
    issue = await repository.issue(made.number)
    assert issue is not None
    assert issue.last_editor is not None
    assert (issue.body, issue.edited, issue.last_editor.login) == ("1+1=1", True, "ada")
    assert await repository.issue(999) is None
    await github.close_issue(made, as_user="writer")
    closer = await repository.closed_by(made.number)
    assert closer is not None
    assert closer.login == "wim"


async def test_comments_reactions_and_labels(
    github: LoopbackGitHub, repository: GitHubRepository
) -> None:
    """Only comments of this App are its own; edits and deletions reach GitHub, twice as once."""
    issue = await github.open_issue(as_user="reader", title="Sums", labels=["ultracode"])
    theirs = await github.comment(issue, as_user="writer", body="<!-- ultracode -->")
    await github.comment(issue, as_user=github.other_app, body="another App")
    made = await repository.create_comment(issue.number, "working")
    await repository.edit_comment(made.id, "done")
    [own] = await repository.own_comments(issue.number)
    assert (own.id, own.body) == (made.id, "done")
    first = await repository.react(ReactionTarget(kind="comment", id=theirs.id), "eyes")
    again = await repository.react(ReactionTarget(kind="comment", id=theirs.id), "eyes")
    assert first == again
    await repository.unreact(ReactionTarget(kind="comment", id=theirs.id), first)
    await repository.react(ReactionTarget(kind="issue", id=issue.number), "rocket")
    for _ in range(2):
        await repository.delete_comment(made.id)
        await repository.remove_label(issue.number, "ultracode")
    assert await repository.own_comments(issue.number) == ()
    with pytest.raises(NotFound):
        await repository.edit_comment(made.id, "too late")


async def test_a_pull_request_from_draft_to_closed(
    github: LoopbackGitHub, repository: GitHubRepository
) -> None:
    """A draft is opened, found by its branch, changed, made ready, made a draft again, closed."""
    sha = await candidate(github)
    pull = await repository.create_draft_pull(head=BRANCH, base="main", title="T", body="B")
    assert (pull.draft, pull.head_sha, pull.base_ref) == (True, sha, "main")
    assert [p.number for p in await repository.pulls_of_branch(BRANCH)] == [pull.number]
    with pytest.raises(GitHubRefused, match="already exists"):
        await repository.create_draft_pull(head=BRANCH, base="main", title="T", body="B")
    await repository.set_draft(pull, draft=False)
    await repository.update_pull(pull.number, title="New", body="Text")
    shown = await repository.pull(pull.number)
    assert shown is not None
    assert (shown.draft, shown.title, shown.body) == (False, "New", "Text")
    await repository.set_draft(pull, draft=True)
    await repository.update_pull(pull.number, state="closed")
    shown = await repository.pull(pull.number)
    assert shown is not None
    assert (shown.draft, shown.state, shown.merged) == (True, "closed", False)
    assert await repository.pull(999) is None
    for _ in range(2):
        await repository.delete_branch(BRANCH)
    assert await repository.branch_sha(BRANCH) is None


async def test_check_runs_are_recognised_by_their_app(
    github: LoopbackGitHub, repository: GitHubRepository
) -> None:
    """Our check runs are found by App and external id; a namesake of another App is not ours."""
    sha = await candidate(github)
    await github.check(sha, "ultracode/review", "success", as_app=github.other_app)
    wanted = CheckRunWrite(
        name="ultracode/review",
        head_sha=sha,
        external_id="run:0:review",
        conclusion="action_required",
        output=CheckOutput(title="Waiting", summary="for a review"),
        actions=(CheckAction(label="Cancel", description="Stop", identifier="cancel"),),
    )
    made = await repository.create_check_run(wanted)
    [own] = await repository.own_check_runs(sha, "ultracode/review")
    assert (own.id, own.external_id, own.conclusion) == (made, "run:0:review", "action_required")
    done = CheckRunWrite(
        name="ultracode/review",
        head_sha=sha,
        external_id="run:0:review",
        conclusion="success",
        output=CheckOutput(title="Approved", summary="by rosa"),
    )
    await repository.update_check_run(made, done)
    checks = {check.app_id: check.conclusion for check in await repository.check_runs(sha)}
    assert checks == {github.app.id: "success", github.other_app.id: "success"}


async def test_statuses_show_the_latest_and_the_app_behind_it(
    github: LoopbackGitHub, repository: GitHubRepository
) -> None:
    """The newest status of a context counts, and one set by an App names that App."""
    sha = await candidate(github)
    await github.status(sha, "ci", "pending", as_user=github.other_app)
    await github.status(sha, "ci", "success", as_user=github.other_app)
    await github.status(sha, "lint", "failure", as_user="writer")
    found = {s.context: (s.state, s.app_id) for s in await repository.statuses(sha)}
    assert found == {"ci": ("success", github.other_app.id), "lint": ("failure", None)}


async def test_reviews_of_every_page(github: LoopbackGitHub, repository: GitHubRepository) -> None:
    """A change request behind a hundred comments is not missed."""
    await candidate(github)
    pull = await github.open_pull(as_user=github.app, head=BRANCH)
    for _ in range(101):
        await github.review(pull, as_user="reader", event="COMMENT", body="hm")
    await github.review(pull, as_user="writer", event="REQUEST_CHANGES", body="No")
    reviews = await repository.reviews(pull.number)
    assert len(reviews) == 102
    assert reviews[-1].state == "CHANGES_REQUESTED"
    github.delete_user("writer")
    assert (await repository.reviews(pull.number))[-1].author is None


async def test_review_summary_and_protection(
    github: LoopbackGitHub, repository: GitHubRepository
) -> None:
    """Classic protection and rulesets are both read, and GitHub's own verdict with them."""
    await candidate(github)
    pull = await github.open_pull(as_user=github.app, head=BRANCH)
    assert (await repository.review_summary(pull.number)).decision is None
    free = await repository.protection("main")
    assert (free.classic, free.rules, free.merge_queue) == (None, (), False)
    checks = {"strict": True, "checks": [{"context": "ci", "app_id": github.other_app.id}]}
    reviews = {"required_approving_review_count": 1, "require_code_owner_reviews": True}
    github.protect(
        Protection(
            branch="main",
            status_checks=checks,
            reviews=reviews,
            conversation_resolution=True,
            signatures=True,
            deployments=True,
            restrictions={"users": [], "teams": [], "apps": [github.app.slug]},
        )
    )
    github.add_ruleset([{"type": "deletion"}, {"type": "merge_queue"}])
    guarded = await repository.protection("main")
    classic = guarded.classic
    assert classic is not None
    assert [(c.context, c.app_id) for c in classic.required_checks] == [("ci", github.other_app.id)]
    assert (classic.approvals, classic.code_owners, classic.signed_commits) == (1, True, True)
    assert (classic.conversation_resolution, classic.required_deployments) == (True, True)
    assert classic.push_allowance is not None
    assert classic.push_allowance.app_ids == (github.app.id,)
    assert {(rule.type, rule.bypass) for rule in guarded.rules} == {
        ("deletion", "never"),
        ("merge_queue", "never"),
    }
    assert (await repository.review_summary(pull.number)).decision == "REVIEW_REQUIRED"
    await github.review(pull, as_user="writer")
    assert (await repository.review_summary(pull.number)).decision == "APPROVED"


async def test_git_tokens(github: LoopbackGitHub, client: GitHubClient) -> None:
    """Git gets its own token, for reading or for writing."""
    number, installation = github.repository().id, github.installation.id
    reading = await client.token(number, installation, write=False)
    writing = await client.token(number, installation, write=True)
    assert reading.get_secret_value() != writing.get_secret_value()
    again = await client.token(number, installation, write=True)
    assert again.get_secret_value() == writing.get_secret_value()


async def test_a_suspended_installation_is_lost(
    github: LoopbackGitHub, client: GitHubClient, repository: GitHubRepository
) -> None:
    """After suspension, calls with an old token and a new one end as lost access."""
    await repository.facts()
    github.suspend(github.app)
    with pytest.raises(AccessLost):
        await client.token(github.repository().id, github.installation.id, write=True)
    with pytest.raises(GitHubRefused):
        await repository.create_comment(1, "hello")


async def test_deliveries_can_be_asked_for_again(
    github: LoopbackGitHub, client: GitHubClient
) -> None:
    """Deliveries that failed are listed with their status and sent again on request."""
    github.set_webhook_url("http://127.0.0.1:9/nobody")
    await github.open_issue(as_user="reader", title="Sums")
    await github.settle()
    since = datetime.now(UTC) - timedelta(hours=1)
    delivery = (await client.deliveries(since=since))[0]
    assert (delivery.event, delivery.action, delivery.delivered) == ("issues", "opened", False)
    assert await client.deliveries(since=datetime.now(UTC) + timedelta(hours=1)) == ()
    await client.redeliver(delivery.id)
    await github.settle()
    newest = (await client.deliveries(since=since))[0]
    assert (newest.guid, newest.redelivery) == (delivery.guid, True)
    config = await client.webhook_config()
    assert (config.url, config.signed) == ("http://127.0.0.1:9/nobody", True)
    assert (config.content_type, config.verifies_tls) == ("json", True)


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault(kind="error", method="POST"), GitHubUnavailable),
        (Fault(kind="error_after", method="POST"), GitHubUnavailable),
        (Fault(kind="reset", method="POST"), GitHubUnavailable),
        (Fault(kind="reset_after", method="POST"), GitHubUnavailable),
        (Fault(kind="rate_limited", method="POST", seconds=7), RateLimited),
        (Fault(kind="secondary_limit", method="POST", seconds=7), RateLimited),
        (Fault(kind="secondary_limit_bare", method="POST"), RateLimited),
    ],
)
async def test_a_write_is_sent_at_most_once(
    github: LoopbackGitHub, repository: GitHubRepository, fault: Fault, error: type[Exception]
) -> None:
    """Whatever goes wrong with a write, it is reported and not repeated here."""
    issue = await github.open_issue(as_user="reader", title="Sums")
    await repository.create_comment(issue.number, "first")
    github.go_wrong(fault)
    with pytest.raises(error):
        await repository.create_comment(issue.number, "second")
    shown = [c.body for c in await repository.own_comments(issue.number)]
    assert shown in (["first"], ["first", "second"])
    assert fault.hits == 1


async def test_a_read_survives_one_broken_connection(
    github: LoopbackGitHub, repository: GitHubRepository
) -> None:
    """A reset or a 502 in a read goes unnoticed."""
    await repository.facts()
    for kind in ("reset", "error"):
        github.go_wrong(Fault(kind=kind, method="GET"))
        assert await repository.branch_sha("main") == await github.tip()
