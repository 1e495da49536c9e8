from datetime import UTC, datetime
from typing import Any, get_args

import orjson
import pytest

from tests.unit.webhooks.payloads import (
    ADA,
    BOT,
    ISSUE,
    NO_SHA,
    OTHER_SHA,
    PULL_REQUEST,
    REPOSITORY,
    SHA,
    WHERE,
    check_run,
    comment,
    installation,
    issue_comment,
    review,
)
from webhooks import events
from webhooks.events import Event
from webhooks.parser import Ignored, NotJson, Routing, Unparsed, parse_event, read_routing


def parse(name: str, payload: object) -> Event | Ignored | Unparsed:
    return parse_event(name, orjson.dumps(payload))


def test_comment_carries_what_the_bot_needs() -> None:
    """A comment comes with who wrote it, where, when, on what, and its words as typed."""
    body = "/ultracode fix\u200b it \U0001f680\r\n"
    event = parse("issue_comment", issue_comment(body))
    assert isinstance(event, events.IssueCommentCreated)
    assert event.comment.body == body
    assert event.comment.id == 5005
    assert event.comment.author is not None
    assert event.comment.author.id == 7
    assert event.comment.created_at == datetime(2026, 11, 2, 9, tzinfo=UTC)
    assert (event.issue.number, event.issue.title, event.issue.body) == (3, "It leaks", "")
    assert event.issue.author is None
    assert not event.issue.is_pull_request
    assert [label.name for label in event.issue.labels] == ["bug"]
    assert (event.repository_id, event.installation_id) == (42, 99)
    assert event.repository.owner.id == 5
    assert event.repository.default_branch == "main"
    assert Routing.of(event) == Routing("created", events.InstallationId(99), event.repository.id)


def test_comment_on_a_pull_request_says_so() -> None:
    """A pull request's conversation is told apart from an issue's."""
    payload = issue_comment() | {"issue": ISSUE | {"pull_request": {"url": "https://a.example"}}}
    event = parse("issue_comment", payload)
    assert isinstance(event, events.IssueCommentCreated)
    assert event.issue.is_pull_request


def test_reply_in_a_thread_carries_file_and_line() -> None:
    """A command in a review thread brings the place it speaks of."""
    reply = comment(
        "/ultracode use a set",
        path="src/a.py",
        line=12,
        commit_id=SHA,
        in_reply_to_id=5004,
        pull_request_review_id=6006,
    )
    payload = {"action": "created", "comment": reply, "pull_request": PULL_REQUEST, **WHERE}
    event = parse("pull_request_review_comment", payload)
    assert isinstance(event, events.ReviewCommentCreated)
    assert (event.comment.path, event.comment.line) == ("src/a.py", 12)
    assert (event.comment.in_reply_to_id, event.comment.review_id) == (5004, 6006)
    assert event.pull_request.number == 4


def test_review_carries_what_the_gate_is_woken_by() -> None:
    """A review comes with its state in one spelling, its commit and its time."""
    event = parse("pull_request_review", review("APPROVED"))
    assert isinstance(event, events.ReviewSubmitted)
    assert (event.review.state, event.review.commit_id, event.review.body) == ("approved", SHA, "")
    assert event.review.submitted_at == datetime(2026, 11, 2, 9, 30, tzinfo=UTC)


def test_review_by_a_deleted_account_is_read() -> None:
    """A review whose author is gone is an event all the same; the gate gives it no weight."""
    event = parse("pull_request_review", review(user=None, commit_id=None, submitted_at=None))
    assert isinstance(event, events.ReviewSubmitted)
    assert event.review.author is None


def test_merge_by_a_person_is_told() -> None:
    """A closed pull request says whether, by whom and as what it was merged."""
    event = parse("pull_request", {"action": "closed", "pull_request": PULL_REQUEST, **WHERE})
    assert isinstance(event, events.PullRequestClosed)
    pull_request = event.pull_request
    assert pull_request.is_merged
    assert pull_request.merged_by is not None
    assert (pull_request.merged_by.login, pull_request.merge_commit_sha) == ("ada", SHA)
    assert (pull_request.head.ref, pull_request.base.sha) == ("ultracode/3-x", OTHER_SHA)


def test_head_of_a_deleted_fork_is_read() -> None:
    """A pull request whose fork is gone has a head without a repository."""
    orphan = PULL_REQUEST | {"head": PULL_REQUEST["head"] | {"repo": None}}
    event = parse("pull_request", {"action": "reopened", "pull_request": orphan, **WHERE})
    assert isinstance(event, events.PullRequestReopened)
    assert event.pull_request.head.repository is None


def test_retargeting_tells_the_old_base() -> None:
    """An edit that moved the pull request to another base names the branch it left."""
    payload = {"action": "edited", "pull_request": PULL_REQUEST, **WHERE}
    retargeted = parse("pull_request", payload | {"changes": {"base": {"ref": {"from": "dev"}}}})
    retitled = parse("pull_request", payload | {"changes": {"title": {"from": "x"}}})
    assert isinstance(retargeted, events.PullRequestEdited)
    assert isinstance(retitled, events.PullRequestEdited)
    assert (retargeted.old_base_ref, retitled.old_base_ref) == ("dev", None)


def test_button_of_a_check_run_is_named() -> None:
    """A pressed button comes with its identifier and the check run it belongs to."""
    payload = check_run("requested_action", requested_action={"identifier": "cancel"})
    event = parse("check_run", payload)
    assert isinstance(event, events.CheckRunActionRequested)
    assert (event.identifier, event.check_run.external_id) == ("cancel", "run-1")
    assert event.check_run.app is not None
    assert (event.check_run.app.id, event.check_run.suite_id) == (11, 7000)


def test_push_tells_how_the_branch_moved() -> None:
    """A push says which branch, from where to where, and whether history was rewritten."""
    payload = {"ref": "refs/heads/release/1.x", "before": SHA, "after": NO_SHA, **WHERE}
    event = parse("push", payload | {"deleted": True, "forced": True})
    assert isinstance(event, events.Pushed)
    assert (event.branch, event.before, event.after) == ("release/1.x", SHA, NO_SHA)
    assert event.deleted
    assert event.forced
    assert not event.created
    tag = parse("push", payload | {"ref": "refs/tags/v1"})
    assert isinstance(tag, events.Pushed)
    assert tag.branch is None


def test_moves_tell_where_from_and_where_to() -> None:
    """Renamed and transferred things are found again by their ids."""
    renamed = parse(
        "repository",
        {"action": "renamed", "changes": {"repository": {"name": {"from": "old"}}}, **WHERE},
    )
    assert isinstance(renamed, events.RepositoryRenamed)
    assert renamed.old_name == "old"
    transferred = parse(
        "repository",
        {"action": "transferred", "changes": {"owner": {"from": {"user": ADA}}}, **WHERE},
    )
    assert isinstance(transferred, events.RepositoryTransferred)
    assert transferred.old_owner_user is not None
    assert transferred.old_owner_user.id == 7
    moved = parse(
        "issues",
        {
            "action": "transferred",
            "issue": ISSUE,
            "changes": {"new_issue": {"id": 1, "number": 2}, "new_repository": REPOSITORY},
            **WHERE,
        },
    )
    assert isinstance(moved, events.IssueTransferred)
    assert (moved.new_issue_id, moved.new_number, moved.new_repository.id) == (1, 2, 42)


def test_installation_has_no_repository_of_its_own() -> None:
    """An installation's events carry the account and the repositories it may be used for."""
    payload = installation("created", repositories=[REPOSITORY])
    event = parse("installation", payload)
    assert isinstance(event, events.InstallationCreated)
    assert (event.installation_id, event.repository_id) == (99, None)
    assert event.installation.account.id == 5
    assert event.installation.permissions == {"contents": "write"}
    assert [repository.id for repository in event.repositories] == [42]


def test_enterprise_s_installation_is_read() -> None:
    """An enterprise has a slug in place of a login."""
    payload = installation("suspend")
    payload["installation"] |= {"account": {"id": 1, "slug": "acme", "name": "Acme"}}
    event = parse("installation", payload)
    assert isinstance(event, events.InstallationSuspended)
    assert event.installation.account.login == "acme"


def test_every_event_of_the_union_has_its_own_name_and_action() -> None:
    """No two classes wait for the same delivery."""
    keys = [
        (model.event_name, model.model_fields["action"].annotation) for model in get_args(Event)
    ]
    assert len(keys) == len(set(keys)) == 41


@pytest.mark.parametrize(
    ("name", "payload"),
    [
        ("star", {"action": "created"}),
        ("issue_comment", issue_comment() | {"action": "edited"}),
        ("issue_comment", issue_comment() | {"action": "deleted"}),
        ("issue_comment", issue_comment("a fine day")),
        ("issue_comment", issue_comment("see ultracode/src")),
        ("issue_comment", issue_comment(user=BOT)),
        ("issue_comment", issue_comment(user=None)),
        ("issue_comment", issue_comment(performed_via_github_app={"id": 12, "slug": "other"})),
        ("pull_request", {"action": "unlabeled"}),
        ("", {}),
    ],
)
def test_what_is_none_of_the_bot_s_business_is_ignored(name: str, payload: object) -> None:
    """Other events and actions, comments without the word, of bots or through Apps: nothing."""
    assert isinstance(parse(name, payload), Ignored)


@pytest.mark.parametrize(
    ("name", "payload", "reason"),
    [
        ("issue_comment", [], "not an object"),
        ("issue_comment", {}, "action: missing"),
        ("issue_comment", {"action": 5}, "action: missing"),
        ("issue_comment", {"action": "created"}, "comment: Field required"),
        ("issue_comment", issue_comment(id="5005"), "comment.id: Input should be a valid integer"),
        ("issue_comment", issue_comment(id=True), "comment.id"),
        ("issue_comment", issue_comment(id=2**63), "comment.id"),
        ("issue_comment", issue_comment(id=-1), "comment.id"),
        ("issue_comment", issue_comment() | {"issue": ISSUE | {"number": 2**31}}, "issue.number"),
        ("issue_comment", issue_comment(node_id="a\0b"), "comment.node_id"),
        ("issue_comment", issue_comment(created_at="2026-11-02T09:00:00"), "comment.created_at"),
        ("issue_comment", issue_comment() | {"repository": None}, "repository"),
        ("pull_request_review", review(commit_id="main"), "review.commit_id"),
        ("push", WHERE | {"ref": "refs/heads/x"}, "before: Field required"),
    ],
)
def test_known_event_that_does_not_fit_says_where(name: str, payload: object, reason: str) -> None:
    """What the models do not expect is named by its place, so that somebody can mend it."""
    event = parse(name, payload)
    assert isinstance(event, Unparsed)
    assert reason in event.reason


def test_reason_quotes_nothing() -> None:
    """The reason is stored and logged, so it holds no stranger's words and stays short."""
    event = parse("issue_comment", issue_comment(created_at="<script>", node_id=["secret"] * 100))
    assert isinstance(event, Unparsed)
    assert "script" not in event.reason
    assert "secret" not in event.reason
    many: dict[str, Any] = installation("added", repositories_added=[{}] * 1000)
    flood = parse("installation_repositories", many)
    assert isinstance(flood, Unparsed)
    assert len(flood.reason) <= 500


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'{"a":NaN}', b"[" * 100_000, b'"\\ud800"'])
def test_what_is_no_json_is_told_apart(body: bytes) -> None:
    """Bytes that are no JSON are not a known event that does not fit."""
    assert isinstance(parse_event("issue_comment", body), NotJson)


def test_routing_is_read_as_far_as_it_goes() -> None:
    """A payload that fits no model is still filed under its repository and installation."""
    full = orjson.dumps({"action": "created", **WHERE})
    assert read_routing(full) == Routing(
        "created", events.InstallationId(99), events.RepositoryId(42)
    )
    for body in (b"", b"[]", b'{"action":1,"repository":5,"installation":{"id":true}}'):
        assert read_routing(body) == Routing()
