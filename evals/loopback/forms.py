"""What a person does on the pages: comment, label, review, merge, close, press a check's button.

In: a form with who acts (`as`) and what. Out: the page again, or GitHub's refusal. Each form obeys
the same rules as the REST API. A form sent from another site's page is refused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import APIRouter, Depends, Request
from fastapi.responses import RedirectResponse, Response

from evals.loopback import checks, issues, pulls, reviews
from evals.loopback.auth import Actor
from evals.loopback.errors import GitHubError, forbidden
from evals.loopback.pages import REMEMBERED, repository_of, show_refusal
from evals.loopback.reviews import LineComment
from evals.loopback.state import (
    Issue,
    PullRequest,
    Repository,
)
from evals.loopback.story import story_of
from evals.loopback.world import World

router = APIRouter()


@dataclass(frozen=True)
class Form:
    """One form as it was sent."""

    request: Request
    repository: Repository
    actor: Actor
    fields: dict[str, str]

    @property
    def world(self) -> World:
        """Where it takes effect."""
        return story_of(self.request).world

    def issue(self, number: int) -> Issue:
        """The issue or pull request of the page."""
        return issues.find(self.repository, number)

    def pull(self, number: int) -> PullRequest:
        """The pull request of the page."""
        return pulls.find(self.repository, number)

    async def then(self, act: Callable[[], Awaitable[object]], where: str) -> Response:
        """Do it and show the page `where`, or show why it was refused."""
        try:
            await act()
        except GitHubError as problem:
            return show_refusal(self.request, problem)
        answer = RedirectResponse(f"/{self.repository.full_name}/{where}", 303)
        answer.set_cookie(REMEMBERED, self.fields.get("as", ""), samesite="strict", httponly=True)
        return answer


async def _form(request: Request, owner: str, name: str) -> Form:
    demand_same_site(request)
    sent = await request.form()
    fields = {key: str(value).replace("\r\n", "\n") for key, value in sent.items()}
    story = story_of(request)
    return Form(
        request=request,
        repository=repository_of(story.world, owner, name),
        actor=story.acting(fields.get("as", "")),
        fields=fields,
    )


def demand_same_site(request: Request) -> None:
    """Refuse what another site's page makes a browser send."""
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        raise forbidden("Forms are taken from these pages only.")


Sent = Annotated[Form, Depends(_form)]


def _here(number: int, form: Form) -> str:
    return f"{'pull' if form.issue(number).pull else 'issues'}/{number}"


@router.post("/{owner}/{name}/issues")
async def open_issue(form: Sent) -> Response:
    """Open an issue."""

    async def act() -> None:
        title, body = form.fields.get("title", ""), form.fields.get("body", "")
        issues.open_issue(form.world, form.actor, form.repository, title=title, body=body)

    return await form.then(act, "issues")


@router.post("/{owner}/{name}/issues/{number}/comment")
async def comment(form: Sent, number: int) -> Response:
    """Comment on an issue or pull request."""

    async def act() -> None:
        body = form.fields.get("body", "")
        issues.comment(form.world, form.actor, form.issue(number), body)

    return await form.then(act, _here(number, form))


@router.post("/{owner}/{name}/issues/{number}/label")
async def label(form: Sent, number: int) -> Response:
    """Put a label on, or take it off."""

    async def act() -> None:
        issue, name = form.issue(number), form.fields.get("label", "")
        if form.fields.get("take_off"):
            issues.remove_label(form.world, form.actor, issue, name)
        else:
            issues.add_labels(form.world, form.actor, issue, [name])

    return await form.then(act, _here(number, form))


@router.post("/{owner}/{name}/issues/{number}/state")
async def change_state(form: Sent, number: int) -> Response:
    """Close, or open again."""

    async def act() -> None:
        issue = form.issue(number)
        if issue.state == "open":
            issues.close(form.world, form.actor, issue)
        elif issue.pull is not None:
            await pulls.reopen(form.world, form.actor, issue.pull)
        else:
            issues.reopen(form.world, form.actor, issue)

    return await form.then(act, _here(number, form))


@router.post("/{owner}/{name}/pull/{number}/review")
async def review(form: Sent, number: int) -> Response:
    """Approve, request changes or comment, at the head that the page showed."""

    async def act() -> None:
        await reviews.create(
            form.world,
            form.actor,
            form.pull(number),
            event=form.fields.get("event", ""),
            body=form.fields.get("body", ""),
            commit_id=form.fields.get("commit_id") or None,
        )

    return await form.then(act, f"pull/{number}")


@router.post("/{owner}/{name}/pull/{number}/line")
async def comment_on_line(form: Sent, number: int) -> Response:
    """Comment on one line of the new version of a file."""

    async def act() -> None:
        pull, line = form.pull(number), form.fields.get("line", "")
        if not line.isdecimal():
            raise GitHubError(422, "A line is a number.")
        path, body = form.fields.get("path", ""), form.fields.get("body", "")
        wanted = LineComment(path, body, int(line))
        await reviews.comment_on_line(form.world, form.actor, pull, wanted, pull.head_sha)

    return await form.then(act, f"pull/{number}")


@router.post("/{owner}/{name}/pull/{number}/threads/{first}")
async def answer_thread(form: Sent, number: int, first: int) -> Response:
    """Answer in a thread, or mark it resolved."""

    async def act() -> None:
        pull = form.pull(number)
        if form.fields.get("resolve"):
            thread = reviews.find_comment(pull, first).thread
            resolved = thread.resolved_by is None
            reviews.resolve(form.world, form.actor, thread, resolved=resolved)
        else:
            body = form.fields.get("body", "")
            await reviews.reply(form.world, form.actor, pull, first, body)

    return await form.then(act, f"pull/{number}")


@router.post("/{owner}/{name}/pull/{number}/merge")
async def merge(form: Sent, number: int) -> Response:
    """Press the merge button."""

    async def act() -> None:
        method = form.fields.get("method", "merge")
        await pulls.merge(form.world, form.actor, form.pull(number), method=method)

    return await form.then(act, f"pull/{number}")


@router.post("/{owner}/{name}/pull/{number}/draft")
async def toggle_draft(form: Sent, number: int) -> Response:
    """Mark ready for review, or a draft again."""

    async def act() -> None:
        pull = form.pull(number)
        await pulls.set_draft(form.world, form.actor, pull, draft=not pull.draft)

    return await form.then(act, f"pull/{number}")


@router.post("/{owner}/{name}/runs/{number}/press")
async def press(form: Sent, number: int) -> Response:
    """Press a check run's own button, or "Re-run"."""

    async def act() -> None:
        run = checks.find_run(form.repository, number)
        identifier = form.fields.get("identifier", "")
        if identifier:
            checks.press(form.world, form.actor, form.repository, run, identifier)
        else:
            checks.rerequest_run(form.world, form.actor, form.repository, run)

    return await form.then(act, f"runs/{number}")
