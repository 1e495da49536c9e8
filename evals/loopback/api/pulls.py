"""Pull requests, reviews and line comments: https://docs.github.com/rest/pulls."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from evals.loopback import issues, pulls, reviews, shapes
from evals.loopback.api.call import At, Repo
from evals.loopback.errors import invalid_field, not_found
from evals.loopback.reviews import LineComment
from evals.loopback.state import Json, PullRequest, ReviewComment

router = APIRouter()
_AT = "/repos/{owner}/{name}/pulls"


def _find(at: At, number: int) -> PullRequest:
    at.demand("pull_requests", "read")
    return pulls.find(at.repository, number)


async def _full(at: At, pull: PullRequest) -> Json:
    return shapes.pull(at.world, pull, await pulls.facts(at.world, pull))


@router.get(_AT)
async def list_pulls(at: Repo) -> JSONResponse:
    """Pull requests, newest first; open ones unless asked otherwise."""
    at.demand("pull_requests", "read")
    state, base, head = at.filter("state", "open"), at.filter("base"), at.filter("head")
    found = [
        pull
        for pull in reversed(at.repository.pulls())
        if state in ("all", pull.issue.state)
        and base in ("", pull.base_ref)
        and (not head or pulls.matches_head(pull, head))
    ]
    return at.paged(found, lambda pull: shapes.pull(at.world, pull))


@router.post(_AT, status_code=201)
async def create_pull(at: Repo) -> Json:
    """Open a pull request."""
    values = await at.values()
    wanted = pulls.Proposal(
        title=values.text("title"),
        body=values.maybe_text("body"),
        base=values.text("base"),
        head=values.text("head"),
        draft=values.flag("draft"),
        maintainer_can_modify=values.flag("maintainer_can_modify"),
    )
    pull = await pulls.open_pull(at.world, at.actor, at.repository, wanted)
    return await _full(at, pull)


@router.get(_AT + "/comments")
async def list_all_comments(at: Repo) -> JSONResponse:
    """Every line comment of the repository."""
    at.demand("pull_requests", "read")
    every = [comment for pull in at.repository.pulls() for comment in pull.review_comments()]
    return at.paged(every, lambda comment: shapes.review_comment(at.world, comment))


@router.get(_AT + "/{number}")
async def get_pull(at: Repo, number: int) -> Response:
    """One pull request; as a diff by `Accept`."""
    pull = _find(at, number)
    if "application/vnd.github.diff" in at.request.headers.get("accept", ""):
        git = at.repository.git
        start = await git.merge_base(pull.base_sha, pull.head_sha) or pull.base_sha
        return PlainTextResponse(await git.text("diff", start, pull.head_sha))
    return JSONResponse(await _full(at, pull))


@router.patch(_AT + "/{number}")
async def edit_pull(at: Repo, number: int) -> Json:
    """Change title, body, base or state."""
    values = await at.values()
    pull = _find(at, number)
    await pulls.edit(
        at.world,
        at.actor,
        pull,
        title=values.maybe_text("title"),
        body=values.maybe_text("body"),
        base=values.maybe_text("base"),
    )
    state = values.maybe_text("state")
    if state == "closed":
        issues.close(at.world, at.actor, pull.issue)
    elif state == "open" and not pull.open:
        await pulls.reopen(at.world, at.actor, pull)
    elif state not in (None, "open"):
        raise invalid_field("PullRequest", "state")
    return await _full(at, pull)


@router.get(_AT + "/{number}/files")
async def list_files(at: Repo, number: int) -> JSONResponse:
    """What the pull request changes."""
    pull, git = _find(at, number), at.repository.git
    start = await git.merge_base(pull.base_sha, pull.head_sha) or pull.base_sha
    files = await git.changes(start, pull.head_sha)
    return at.paged(
        files, lambda file: shapes.file_change(at.world, at.repository, file, pull.head_sha)
    )


@router.get(_AT + "/{number}/commits")
async def list_commits(at: Repo, number: int) -> JSONResponse:
    """The commits of the pull request, oldest first."""
    pull, git = _find(at, number), at.repository.git
    start = await git.merge_base(pull.base_sha, pull.head_sha)
    commits = [await git.commit(sha) for sha in await git.between(start, pull.head_sha)]
    return at.paged(commits, lambda commit: shapes.commit(at.world, at.repository, commit))


@router.get(_AT + "/{number}/merge", status_code=204)
async def is_merged(at: Repo, number: int) -> Response:
    """204 when merged, 404 when not."""
    if _find(at, number).merged_at is None:
        raise not_found()
    return Response(status_code=204)


@router.put(_AT + "/{number}/merge")
async def merge_pull(at: Repo, number: int) -> Json:
    """Press the merge button."""
    values = await at.values()
    sha = await pulls.merge(
        at.world,
        at.actor,
        _find(at, number),
        method=values.maybe_text("merge_method") or "merge",
        sha=values.maybe_text("sha"),
        message=values.maybe_text("commit_message"),
    )
    return {"sha": sha, "merged": True, "message": "Pull Request successfully merged"}


@router.put(_AT + "/{number}/update-branch", status_code=202)
async def update_branch(at: Repo, number: int) -> Json:
    """Merge the base into the pull request's branch."""
    values, pull = await at.values(), _find(at, number)
    expected = values.maybe_text("expected_head_sha")
    await pulls.update_branch(at.world, at.actor, pull, expected=expected)
    return {"message": "Updating pull request branch.", "url": shapes.pull(at.world, pull)["url"]}


# --- requested reviewers ---


@router.get(_AT + "/{number}/requested_reviewers")
async def list_requested(at: Repo, number: int) -> Json:
    """Who was asked and has not answered."""
    return shapes.requested_reviewers(at.world, _find(at, number))


@router.post(_AT + "/{number}/requested_reviewers", status_code=201)
async def request_reviewers(at: Repo, number: int) -> Json:
    """Ask people and teams."""
    values, pull = await at.values(), _find(at, number)
    people, teams = values.texts("reviewers"), values.texts("team_reviewers")
    pulls.request_reviewers(at.world, at.actor, pull, people, teams)
    return shapes.pull(at.world, pull)


@router.delete(_AT + "/{number}/requested_reviewers")
async def unrequest_reviewers(at: Repo, number: int) -> Json:
    """Take requests back."""
    values, pull = await at.values(), _find(at, number)
    people, teams = values.texts("reviewers"), values.texts("team_reviewers")
    pulls.unrequest_reviewers(at.world, at.actor, pull, people, teams)
    return shapes.pull(at.world, pull)


# --- reviews ---


@router.get(_AT + "/{number}/reviews")
async def list_reviews(at: Repo, number: int) -> JSONResponse:
    """Reviews in the order they were made."""
    found = reviews.visible(at.actor, _find(at, number))
    return at.paged(found, lambda review: shapes.review(at.world, review))


@router.post(_AT + "/{number}/reviews")
async def create_review(at: Repo, number: int) -> Json:
    """Make a review; without `event` it stays pending."""
    values = await at.values()
    review = await reviews.create(
        at.world,
        at.actor,
        _find(at, number),
        event=values.maybe_text("event"),
        body=values.maybe_text("body") or "",
        commit_id=values.maybe_text("commit_id"),
        comments=[_line_comment(one) for one in values.all.get("comments") or []],
    )
    return shapes.review(at.world, review)


def _line_comment(values: Json) -> LineComment:
    path, body = values.get("path"), values.get("body")
    if not isinstance(path, str) or not isinstance(body, str):
        raise invalid_field("PullRequestReviewComment", "path", "missing_field")
    return LineComment(
        path,
        body,
        values.get("line"),
        values.get("side") or "RIGHT",
        values.get("start_line"),
    )


@router.get(_AT + "/{number}/reviews/{review}")
async def get_review(at: Repo, number: int, review: int) -> Json:
    """One review."""
    return shapes.review(at.world, reviews.find(_find(at, number), review))


@router.post(_AT + "/{number}/reviews/{review}/events")
async def submit_review(at: Repo, number: int, review: int) -> Json:
    """Send a pending review off."""
    values = await at.values()
    found = reviews.find(_find(at, number), review)
    event, body = values.text("event"), values.maybe_text("body") or ""
    await reviews.submit(at.world, at.actor, found, event=event, body=body)
    return shapes.review(at.world, found)


@router.put(_AT + "/{number}/reviews/{review}/dismissals")
async def dismiss_review(at: Repo, number: int, review: int) -> Json:
    """Make a review count no more."""
    values = await at.values()
    found = reviews.find(_find(at, number), review)
    reviews.dismiss(at.world, at.actor, found, values.text("message"))
    return shapes.review(at.world, found)


@router.get(_AT + "/{number}/reviews/{review}/comments")
async def list_review_comments(at: Repo, number: int, review: int) -> JSONResponse:
    """The line comments that came with one review."""
    pull = _find(at, number)
    found = [c for c in pull.review_comments() if c.review is reviews.find(pull, review)]
    return at.paged(found, lambda comment: shapes.review_comment(at.world, comment))


# --- line comments ---


@router.get(_AT + "/{number}/comments")
async def list_comments(at: Repo, number: int) -> JSONResponse:
    """The line comments of one pull request."""
    found = _find(at, number).review_comments()
    return at.paged(found, lambda comment: shapes.review_comment(at.world, comment))


@router.post(_AT + "/{number}/comments", status_code=201)
async def create_comment(at: Repo, number: int) -> Json:
    """Comment on a line, or answer (`in_reply_to`)."""
    values, pull = await at.values(), _find(at, number)
    if "in_reply_to" in values.all:
        to, body = values.number("in_reply_to"), values.text("body")
        answer = await reviews.reply(at.world, at.actor, pull, to, body)
        return shapes.review_comment(at.world, answer)
    comment = await reviews.comment_on_line(
        at.world, at.actor, pull, _line_comment(values.all), values.text("commit_id")
    )
    return shapes.review_comment(at.world, comment)


@router.post(_AT + "/{number}/comments/{comment}/replies", status_code=201)
async def reply(at: Repo, number: int, comment: int) -> Json:
    """Answer in a thread."""
    values = await at.values()
    answer = await reviews.reply(
        at.world, at.actor, _find(at, number), comment, values.text("body")
    )
    return shapes.review_comment(at.world, answer)


def _find_comment(at: At, number: int) -> ReviewComment:
    at.demand("pull_requests", "read")
    for pull in at.repository.pulls():
        for comment in pull.review_comments():
            if comment.id == number:
                return comment
    raise not_found()


@router.get(_AT + "/comments/{number}")
async def get_comment(at: Repo, number: int) -> Json:
    """One line comment."""
    return shapes.review_comment(at.world, _find_comment(at, number))


@router.patch(_AT + "/comments/{number}")
async def edit_comment(at: Repo, number: int) -> Json:
    """Change a line comment."""
    values, comment = await at.values(), _find_comment(at, number)
    reviews.edit_comment(at.world, at.actor, comment, values.text("body"))
    return shapes.review_comment(at.world, comment)


@router.delete(_AT + "/comments/{number}", status_code=204)
async def delete_comment(at: Repo, number: int) -> Response:
    """Remove a line comment."""
    reviews.delete_comment(at.world, at.actor, _find_comment(at, number))
    return Response(status_code=204)
