"""Reviews of pull requests: submitting, dismissing, line comments and their threads.

In: an actor and a wish. Out: the record or a refusal; webhooks are published on the way. GitHub's
rules that the bot leans on: nobody approves their own pull request, a review carries the commit it
was made at (the head when not said), a dismissal needs a reason.
"""

from __future__ import annotations

from dataclasses import dataclass

from evals.loopback import shapes
from evals.loopback.auth import Actor, demand
from evals.loopback.errors import GitHubError, invalid, invalid_field, not_found
from evals.loopback.state import (
    Json,
    PullRequest,
    Review,
    ReviewComment,
    ReviewState,
    ReviewThread,
    Role,
    node_id,
)
from evals.loopback.world import World

PERMISSION = "pull_requests"
_STATES: dict[str, ReviewState] = {
    "APPROVE": "APPROVED",
    "REQUEST_CHANGES": "CHANGES_REQUESTED",
    "COMMENT": "COMMENTED",
}


@dataclass(frozen=True)
class LineComment:
    """A comment somebody wants on a line of the diff."""

    path: str
    body: str
    line: int | None = None
    side: str = "RIGHT"
    start_line: int | None = None


async def create(
    world: World,
    actor: Actor,
    pull: PullRequest,
    *,
    event: str | None,
    body: str = "",
    commit_id: str | None = None,
    comments: list[LineComment] | None = None,
) -> Review:
    """Make a review; without an event it stays pending and only its author sees it."""
    demand(world, actor, pull.repository, PERMISSION, "write", "read")
    who = actor.who()
    commit = await _reviewed_commit(pull, commit_id)
    if event is not None:
        _check_submission(actor, pull, event, body, has_comments=bool(comments))
    if event is None and any(r.state == "PENDING" and r.user is who for r in _all(pull)):
        raise invalid("User can only have one pending review per pull request")
    review = Review(
        id=world.next_id(),
        pull=pull,
        user=who,
        app=actor.app,
        state="PENDING",
        body=body,
        commit_id=commit,
        submitted_at=None,
    )
    pull.reviews[review.id] = review
    for wanted in comments or []:
        await _add_comment(world, review, wanted)
    if event is not None:
        _submit(world, actor, review, event)
    return review


async def submit(world: World, actor: Actor, review: Review, *, event: str, body: str) -> None:
    """Send a pending review off."""
    demand(world, actor, review.pull.repository, PERMISSION, "write", "read")
    if review.state != "PENDING" or review.user is not actor.account:
        raise not_found()
    comments = any(c.review is review for c in review.pull.review_comments())
    _check_submission(actor, review.pull, event, body, has_comments=comments)
    review.body = body or review.body
    _submit(world, actor, review, event)


def _check_submission(
    actor: Actor, pull: PullRequest, event: str, body: str, *, has_comments: bool
) -> None:
    if event not in _STATES:
        raise invalid(f"Variable $event of type PullRequestReviewEvent was invalid: {event}")
    own = actor.account is pull.issue.user
    if own and event != "COMMENT":
        verb = "approve" if event == "APPROVE" else "request changes on"
        raise invalid(f"Can not {verb} your own pull request", message="Unprocessable Entity")
    if event == "REQUEST_CHANGES" and not body.strip():
        raise invalid("Body can not be blank", message="Unprocessable Entity")
    if event == "COMMENT" and not body.strip() and not has_comments:
        raise invalid("Body can not be blank", message="Unprocessable Entity")


def _submit(world: World, actor: Actor, review: Review, event: str) -> None:
    review.state, review.submitted_at = _STATES[event], world.now()
    pull = review.pull
    pull.requested_reviewers = [a for a in pull.requested_reviewers if a is not review.user]
    pull.issue.updated_at = review.submitted_at
    publish(world, actor, review, "submitted")
    for comment in pull.review_comments():
        if comment.review is review:
            _publish_comment(world, actor, comment, "created")


async def _reviewed_commit(pull: PullRequest, commit_id: str | None) -> str:
    if commit_id is None:
        return pull.head_sha
    known = await pull.repository.git.resolve(commit_id)
    if known is None or known != commit_id:
        raise invalid(f"commit_id {commit_id} is not part of the pull request")
    return commit_id


def dismiss(world: World, actor: Actor, review: Review, message: str) -> None:
    """Make an approval or change request count no more; needs write."""
    demand(world, actor, review.pull.repository, PERMISSION, "write", "write")
    if not message.strip():
        raise invalid_field("PullRequestReview", "message", "missing_field")
    if review.state not in ("APPROVED", "CHANGES_REQUESTED"):
        raise invalid("Can not dismiss a commented pull request review")
    set_dismissed(world, actor, review)


def set_dismissed(world: World, actor: Actor, review: Review) -> None:
    """Dismiss without asking: GitHub itself does so when stale approvals are not kept."""
    review.state = "DISMISSED"
    publish(world, actor, review, "dismissed")


def publish(world: World, actor: Actor, review: Review, action: str) -> None:
    """A `pull_request_review` event, whose `state` is in lower case there, and only there."""
    shown = shapes.review(world, review)
    shown["state"] = review.state.lower()
    shown["updated_at"] = shown.get("submitted_at")
    content = {"review": shown, "pull_request": shapes.pull(world, review.pull)}
    world.webhooks.publish(
        "pull_request_review",
        action,
        content,
        repository=review.pull.repository,
        sender=actor.who(),
    )


def find(pull: PullRequest, number: int) -> Review:
    """A review by its id; 404 without one."""
    if number not in pull.reviews:
        raise not_found()
    return pull.reviews[number]


def visible(actor: Actor, pull: PullRequest) -> list[Review]:
    """Reviews in the order they were made; pending ones only to their author."""
    return [r for r in _all(pull) if r.state != "PENDING" or r.user is actor.account]


def _all(pull: PullRequest) -> list[Review]:
    return list(pull.reviews.values())


# --- line comments ---


async def comment_on_line(
    world: World, actor: Actor, pull: PullRequest, wanted: LineComment, commit_id: str
) -> ReviewComment:
    """A single line comment, which GitHub wraps into a review of its own."""
    review = await create(
        world, actor, pull, event="COMMENT", commit_id=commit_id, comments=[wanted]
    )
    return next(c for c in pull.review_comments() if c.review is review)


async def reply(world: World, actor: Actor, pull: PullRequest, to: int, body: str) -> ReviewComment:
    """Answer in a thread; the answer belongs to a review of its own, too."""
    demand(world, actor, pull.repository, PERMISSION, "write", "read")
    first = find_comment(pull, to)
    if not body.strip():
        raise invalid_field("PullRequestReviewComment", "body", "missing_field")
    review = Review(
        id=world.next_id(),
        pull=pull,
        user=actor.who(),
        app=actor.app,
        state="COMMENTED",
        body="",
        commit_id=pull.head_sha,
        submitted_at=world.now(),
    )
    pull.reviews[review.id] = review
    wanted = LineComment(first.path, body, first.line, first.side, first.start_line)
    answer = _comment_record(world, review, wanted, first.thread, first.diff_hunk)
    answer.in_reply_to = first.thread.comments[0].id
    first.thread.comments.append(answer)
    publish(world, actor, review, "submitted")
    _publish_comment(world, actor, answer, "created")
    return answer


def find_comment(pull: PullRequest, number: int) -> ReviewComment:
    """A line comment by its id; 404 without one."""
    for comment in pull.review_comments():
        if comment.id == number:
            return comment
    raise not_found()


def edit_comment(world: World, actor: Actor, record: ReviewComment, body: str) -> None:
    """Authors may edit their own, people with write everybody's."""
    role: Role = "read" if actor.account is record.user else "write"
    demand(world, actor, record.review.pull.repository, PERMISSION, "write", role)
    changes = {"body": {"from": record.body}}
    record.body, record.updated_at = body, world.now()
    _publish_comment(world, actor, record, "edited", changes=changes)


def delete_comment(world: World, actor: Actor, record: ReviewComment) -> None:
    """Remove a line comment, and its thread with the last one."""
    role: Role = "read" if actor.account is record.user else "write"
    demand(world, actor, record.review.pull.repository, PERMISSION, "write", role)
    record.thread.comments.remove(record)
    if not record.thread.comments:
        del record.review.pull.threads[record.thread.id]
    _publish_comment(world, actor, record, "deleted")


async def _add_comment(world: World, review: Review, wanted: LineComment) -> ReviewComment:
    pull = review.pull
    base = await pull.repository.git.merge_base(pull.base_sha, review.commit_id)
    files = await pull.repository.git.changes(base or pull.base_sha, review.commit_id)
    file = next((f for f in files if f.path == wanted.path), None)
    if file is None:
        raise GitHubError(422, "Validation Failed", errors=["Path could not be resolved"])
    hunk = _hunk_at(file.patch or "", wanted)
    thread = ReviewThread(id=world.next_id(), pull=pull)
    comment = _comment_record(world, review, wanted, thread, hunk)
    thread.comments.append(comment)
    pull.threads[thread.id] = thread
    return comment


def _comment_record(
    world: World, review: Review, wanted: LineComment, thread: ReviewThread, hunk: str
) -> ReviewComment:
    now = world.now()
    return ReviewComment(
        id=world.next_id(),
        review=review,
        thread=thread,
        user=review.user,
        body=wanted.body,
        path=wanted.path,
        line=wanted.line,
        side=wanted.side,
        start_line=wanted.start_line,
        commit_id=review.commit_id,
        original_commit_id=review.commit_id,
        diff_hunk=hunk,
        created_at=now,
        updated_at=now,
    )


def _hunk_at(patch: str, wanted: LineComment) -> str:
    """The hunk up to the line that is commented on; 422 when the diff does not show that line."""
    if wanted.line is None:
        return patch.split("\n@@ ", 1)[0]
    shown: list[str] = []
    numbers = {"LEFT": 0, "RIGHT": 0}
    for line in patch.split("\n"):
        if line.startswith("@@ "):
            shown = [line]
            old, new = line.split(" ")[1:3]
            numbers = {"LEFT": int(old[1:].split(",")[0]), "RIGHT": int(new[1:].split(",")[0])}
            continue
        shown.append(line)
        sides = {"-": ("LEFT",), "+": ("RIGHT",), " ": ("LEFT", "RIGHT")}.get(line[:1], ())
        if wanted.side in sides and numbers[wanted.side] == wanted.line:
            return "\n".join(shown)
        for side in sides:
            numbers[side] += 1
    raise GitHubError(422, "Validation Failed", errors=["Line could not be resolved"])


def _publish_comment(
    world: World, actor: Actor, record: ReviewComment, action: str, **more: Json
) -> None:
    pull = record.review.pull
    content = {
        "comment": shapes.review_comment(world, record),
        "pull_request": shapes.pull(world, pull),
    }
    world.webhooks.publish(
        "pull_request_review_comment",
        action,
        {**content, **more},
        repository=pull.repository,
        sender=actor.who(),
    )


# --- threads ---


def resolve(world: World, actor: Actor, thread: ReviewThread, *, resolved: bool) -> None:
    """Mark a conversation resolved or open again; the author may, and whoever has write."""
    pull = thread.pull
    own = actor.installation is None and actor.account is pull.issue.user
    demand(world, actor, pull.repository, PERMISSION, "write", "read" if own else "write")
    if (thread.resolved_by is not None) == resolved:
        return
    thread.resolved_by = actor.who() if resolved else None
    content = {
        "pull_request": shapes.pull(world, pull),
        "thread": {
            "node_id": node_id("PRRT", thread.id),
            "comments": [shapes.review_comment(world, c) for c in thread.comments],
        },
    }
    world.webhooks.publish(
        "pull_request_review_thread",
        "resolved" if resolved else "unresolved",
        content,
        repository=pull.repository,
        sender=actor.who(),
    )
