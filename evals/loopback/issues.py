"""What may be done with issues, comments, labels and reactions, and which events follow.

In: an actor and a wish. Out: the changed record, or a refusal; the webhook is published on the way.
Pull requests pass through here for all they share with issues.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from evals.loopback import shapes
from evals.loopback.auth import Actor, demand, may
from evals.loopback.errors import forbidden, invalid, invalid_field, not_found
from evals.loopback.shapes.issues import REACTIONS
from evals.loopback.state import (
    Account,
    Comment,
    Issue,
    Json,
    Label,
    Reaction,
    Repository,
    ReviewComment,
)
from evals.loopback.world import World

BODY_LIMIT = 65_536  # characters
_CLOSING = re.compile(
    r"\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?):?\s+(?:([\w.-]+/[\w.-]+))?#(\d+)\b", re.IGNORECASE
)


def closed_by_text(text: str, repository: Repository) -> list[int]:
    """Numbers that closing keywords in a text name, in that repository."""
    found = _CLOSING.findall(text)
    here = repository.full_name.casefold()
    return [int(number) for where, number in found if not where or where.casefold() == here]


def publish(world: World, actor: Actor, issue: Issue, action: str, **more: Json) -> None:
    """Publish an `issues` event, or its `pull_request` counterpart for a pull request."""
    if issue.pull is not None:
        content = {"number": issue.number, "pull_request": shapes.pull_event(world, issue.pull)}
        event = "pull_request"
    else:
        content, event = {"issue": shapes.issue(world, issue)}, "issues"
    world.webhooks.publish(
        event, action, {**content, **more}, repository=issue.repository, sender=actor.who()
    )


# --- issues ---


def open_issue(
    world: World,
    actor: Actor,
    repository: Repository,
    *,
    title: str,
    body: str | None = None,
    labels: Sequence[str] = (),
) -> Issue:
    """Open an issue; labels count only from those who may set them."""
    demand(world, actor, repository, "issues", "write", "read")
    issue = new_issue(world, actor, repository, title=title, body=body)
    if may(world, actor, repository, "issues", "write", "triage"):
        issue.labels = [label_named(world, repository, name) for name in labels]
    publish(world, actor, issue, "opened")
    for label in issue.labels:
        publish(world, actor, issue, "labeled", label=shapes.label(world, repository, label))
    return issue


def new_issue(
    world: World, actor: Actor, repository: Repository, *, title: str, body: str | None
) -> Issue:
    """The record of an issue or pull request with the next number; publishes nothing."""
    if not title.strip():
        raise invalid_field("Issue", "title", "missing_field")
    _check_length("Issue", body)
    repository.last_number += 1
    now = world.now()
    issue = Issue(
        id=world.next_id(),
        repository=repository,
        number=repository.last_number,
        title=title,
        body=body,
        user=actor.who(),
        app=actor.app,
        created_at=now,
        updated_at=now,
    )
    repository.issues[issue.number] = issue
    return issue


def find(repository: Repository, number: int) -> Issue:
    """The issue or pull request of that number; 404 without one."""
    issue = repository.issues.get(number)
    if issue is None:
        raise not_found()
    return issue


def demand_edit(world: World, actor: Actor, issue: Issue) -> None:
    """Authors may edit and close their own; everybody else needs triage."""
    own = actor.installation is None and actor.account is issue.user
    demand(world, actor, issue.repository, _permission(issue), "write", "read" if own else "triage")


def edit(world: World, actor: Actor, issue: Issue, *, title: str | None, body: str | None) -> None:
    """Change title or body, remembering what was there for the event."""
    demand_edit(world, actor, issue)
    _check_length("Issue", body)
    changes: Json = {}
    if title is not None and title != issue.title:
        changes["title"], issue.title = {"from": issue.title}, title
    if body is not None and body != issue.body:
        changes["body"], issue.body = {"from": issue.body or ""}, body
    if changes:
        issue.last_editor = actor.who()
        issue.last_edited_at = issue.updated_at = world.now()
        publish(world, actor, issue, "edited", changes=changes)


def close(world: World, actor: Actor, issue: Issue, reason: str | None = None) -> None:
    """Close an open issue or pull request; closed ones stay as they are."""
    demand_edit(world, actor, issue)
    set_closed(world, actor, issue, reason)


def set_closed(world: World, actor: Actor, issue: Issue, reason: str | None = None) -> None:
    """Close without asking for permission: GitHub itself does so after a merge."""
    if issue.state == "closed":
        return
    issue.state, issue.closed_at, issue.closed_by = "closed", world.now(), actor.who()
    issue.state_reason = None if issue.pull else reason or "completed"
    issue.updated_at = issue.closed_at
    publish(world, actor, issue, "closed")


def reopen(world: World, actor: Actor, issue: Issue) -> None:
    """Open a closed issue again."""
    demand_edit(world, actor, issue)
    if issue.state == "open":
        return
    issue.state, issue.closed_at, issue.closed_by = "open", None, None
    issue.state_reason = None if issue.pull else "reopened"
    issue.updated_at = world.now()
    publish(world, actor, issue, "reopened")


def lock(world: World, actor: Actor, issue: Issue, reason: str | None = None) -> None:
    """Only people with write may comment from now on."""
    demand(world, actor, issue.repository, _permission(issue), "write", "write")
    issue.locked, issue.lock_reason = True, reason
    publish(world, actor, issue, "locked")


def unlock(world: World, actor: Actor, issue: Issue) -> None:
    """Everybody may comment again."""
    demand(world, actor, issue.repository, _permission(issue), "write", "write")
    issue.locked, issue.lock_reason = False, None
    publish(world, actor, issue, "unlocked")


def delete(world: World, actor: Actor, issue: Issue) -> None:
    """Remove an issue for good; its number is not used again."""
    demand(world, actor, issue.repository, "administration", "write", "admin")
    del issue.repository.issues[issue.number]
    publish(world, actor, issue, "deleted")


def transfer(world: World, actor: Actor, issue: Issue, to: Repository) -> Issue:
    """Move an issue to another repository, where it gets a new number."""
    demand(world, actor, issue.repository, "issues", "write", "write")
    demand(world, actor, to, "issues", "write", "write")
    here = issue.repository
    moved = new_issue(world, actor, to, title=issue.title, body=issue.body)
    moved.user, moved.comments = issue.user, issue.comments
    del here.issues[issue.number]
    changes = {
        "new_issue": shapes.issue(world, moved),
        "new_repository": shapes.repository(world, to),
    }
    publish(world, actor, issue, "transferred", changes=changes)
    return moved


# --- comments ---


def comment(world: World, actor: Actor, issue: Issue, body: str) -> Comment:
    """Say something on an issue or pull request."""
    _demand_comment(world, actor, issue)
    if not body.strip():
        raise invalid_field("IssueComment", "body", "missing_field")
    _check_length("IssueComment", body)
    now = world.now()
    record = Comment(
        id=world.next_id(),
        issue=issue,
        user=actor.who(),
        app=actor.app,
        body=body,
        created_at=now,
        updated_at=now,
    )
    issue.comments[record.id] = record
    issue.updated_at = now
    _publish_comment(world, actor, record, "created")
    return record


def find_comment(repository: Repository, number: int) -> Comment:
    """A comment by its id, on any issue of the repository; 404 without one."""
    for issue in repository.issues.values():
        if number in issue.comments:
            return issue.comments[number]
    raise not_found()


def edit_comment(world: World, actor: Actor, record: Comment, body: str) -> None:
    """Authors may edit their own, people with write everybody's."""
    own = actor.account is record.user
    repository = record.issue.repository
    demand(world, actor, repository, _permission(record.issue), "write", "read" if own else "write")
    _check_length("IssueComment", body)
    changes = {"body": {"from": record.body}}
    record.body, record.updated_at = body, world.now()
    _publish_comment(world, actor, record, "edited", changes=changes)


def delete_comment(world: World, actor: Actor, record: Comment) -> None:
    """Remove a comment; nothing of it is left but the event."""
    own = actor.account is record.user
    repository = record.issue.repository
    demand(world, actor, repository, _permission(record.issue), "write", "read" if own else "write")
    del record.issue.comments[record.id]
    _publish_comment(world, actor, record, "deleted")


def _publish_comment(
    world: World, actor: Actor, record: Comment, action: str, **more: Json
) -> None:
    content = {"issue": shapes.issue(world, record.issue), "comment": shapes.comment(world, record)}
    world.webhooks.publish(
        "issue_comment",
        action,
        {**content, **more},
        repository=record.issue.repository,
        sender=actor.who(),
    )


def _demand_comment(world: World, actor: Actor, issue: Issue) -> None:
    demand(world, actor, issue.repository, _permission(issue), "write", "read")
    actor.who()
    if issue.locked and not _writer(world, actor, issue.repository):
        raise forbidden("Unable to create comment because issue is locked.")


def _writer(world: World, actor: Actor, repository: Repository) -> bool:
    return may(world, actor, repository, "issues", "write", "write")


# --- labels ---


def label_named(world: World, repository: Repository, name: str) -> Label:
    """The label of that name, made on first use as GitHub does."""
    if not name.strip():
        raise invalid_field("Label", "name")
    key = name.casefold()
    if key not in repository.labels:
        repository.labels[key] = Label(id=world.next_id(), name=name)
    return repository.labels[key]


def add_labels(world: World, actor: Actor, issue: Issue, names: Iterable[str]) -> None:
    """Put labels on; each new one is an event of its own."""
    demand(world, actor, issue.repository, _permission(issue), "write", "triage")
    for name in names:
        label = label_named(world, issue.repository, name)
        if label not in issue.labels:
            issue.labels.append(label)
            shown = shapes.label(world, issue.repository, label)
            publish(world, actor, issue, "labeled", label=shown)


def remove_label(world: World, actor: Actor, issue: Issue, name: str) -> None:
    """Take a label off; 404 when it is not there."""
    demand(world, actor, issue.repository, _permission(issue), "write", "triage")
    label = next((x for x in issue.labels if x.name.casefold() == name.casefold()), None)
    if label is None:
        raise not_found_label()
    issue.labels.remove(label)
    publish(world, actor, issue, "unlabeled", label=shapes.label(world, issue.repository, label))


def not_found_label() -> Exception:
    """GitHub's own words for a label that is not on the issue."""
    error = not_found()
    error.message = "Label does not exist"
    return error


def set_labels(world: World, actor: Actor, issue: Issue, names: Sequence[str]) -> None:
    """Make exactly these the labels."""
    wanted = {name.casefold() for name in names}
    for label in [x for x in issue.labels if x.name.casefold() not in wanted]:
        remove_label(world, actor, issue, label.name)
    add_labels(world, actor, issue, names)


# --- reactions ---


def react(
    world: World, actor: Actor, on: Issue | Comment | ReviewComment, content: str
) -> tuple[Reaction, bool]:
    """React; the second value says whether the reaction is new."""
    if content not in REACTIONS:
        raise invalid(f"content {content!r} is not one of {', '.join(REACTIONS)}")
    repository, permission = _place(on)
    demand(world, actor, repository, permission, "write", "read")
    who = actor.who()
    for old in on.reactions:
        if old.user is who and old.content == content:
            return old, False
    reaction = Reaction(id=world.next_id(), user=who, content=content, created_at=world.now())
    on.reactions.append(reaction)
    return reaction, True


def unreact(world: World, actor: Actor, on: Issue | Comment | ReviewComment, number: int) -> None:
    """Take back one's own reaction."""
    repository, permission = _place(on)
    demand(world, actor, repository, permission, "write", "read")
    mine = [r for r in on.reactions if r.id == number and r.user is actor.account]
    if not mine:
        raise not_found()
    on.reactions.remove(mine[0])


def _place(on: Issue | Comment | ReviewComment) -> tuple[Repository, tuple[str, ...]]:
    if isinstance(on, ReviewComment):
        return on.review.pull.repository, ("pull_requests",)
    issue = on if isinstance(on, Issue) else on.issue
    return issue.repository, _permission(issue)


def _permission(issue: Issue) -> tuple[str, ...]:
    """Which permissions admit an App: conversations of pull requests know two."""
    return ("issues", "pull_requests") if issue.pull else ("issues",)


def _check_length(resource: str, body: str | None) -> None:
    if body is not None and len(body) > BODY_LIMIT:
        message = f"body is too long (maximum is {BODY_LIMIT} characters)"
        raise invalid_field(resource, "body", "custom", message=message)


def latest_editor(issue: Issue) -> Account:
    """Whose words an issue's text is now."""
    return issue.last_editor or issue.user
