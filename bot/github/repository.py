"""One repository on GitHub. In: a `Door`, through which requests go. Out: the port's methods.

Why apart from the door and the client: here stands what is asked, there how it is asked safely.
Addresses and bodies: GitHub's REST description, version 2022-11-28, and its GraphQL schema.
"""

from __future__ import annotations

import asyncio
import base64
from typing import Any, Final, Literal
from urllib.parse import quote

from bot.github.access import Json, Purpose
from bot.github.door import Door
from bot.github.port import (
    Account,
    BranchProtection,
    CheckRun,
    CheckRunWrite,
    ClassicProtection,
    Comment,
    CommitFacts,
    CommitStatus,
    GitHubRefused,
    IssueFacts,
    LineComment,
    NotFound,
    Permission,
    PullFacts,
    Reaction,
    ReactionTarget,
    RepositoryFacts,
    Review,
    ReviewSummary,
    Rule,
)
from bot.github.wire import (
    parse_account,
    parse_check_run,
    parse_classic,
    parse_comment,
    parse_commit,
    parse_issue,
    parse_line_comment,
    parse_permission,
    parse_pull,
    parse_review,
    parse_rule,
    parse_statuses,
)

#: GitHub takes this many annotations in one request; more would be appended on every retry.
MAX_ANNOTATIONS: Final = 50
WORK_IN_PROGRESS: Final = "WIP: "


class Repository:
    """`GitHubRepository`, through a door."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self.installation_id = door.installation_id
        self.repository_id = door.repository_id

    # --- what is --------------------------------------------------------------------------------

    async def facts(self) -> RepositoryFacts:
        """See the port."""
        return await self._door.facts()

    async def permission(self, user_id: int, login: str = "") -> Permission:
        """See the port."""
        if login and (found := await self._permission_of(user_id, login)):
            return found
        user = await self._door.get(f"/user/{user_id}")
        if user is None or user["login"].lower() == login.lower():
            return Permission.NONE
        return await self._permission_of(user_id, user["login"]) or Permission.NONE

    async def _permission_of(self, user_id: int, login: str) -> Permission | None:
        answer = await self._door.get(f"collaborators/{_quoted(login)}/permission")
        if answer is None or (answer["user"] or {}).get("id") != user_id:
            return None
        return parse_permission(answer)

    async def issue(self, number: int) -> IssueFacts | None:
        """See the port."""
        raw = await self._door.get(f"issues/{number}")
        if raw is None:
            return None
        kind = "pullRequest" if "pull_request" in raw else "issue"
        edits = await self._door.query(_EDITS % kind, number=number)
        return parse_issue(raw, edits["edited"])

    async def closed_by(self, number: int) -> Account | None:
        """See the port."""
        raw = await self._door.get(f"issues/{number}")
        return parse_account(raw.get("closed_by")) if raw and raw["state"] == "closed" else None

    async def read_file(self, path: str, ref: str) -> bytes | None:
        """See the port."""
        raw = await self._door.get(f"contents/{_quoted(path, '/')}", ref=ref)
        if not isinstance(raw, dict) or raw.get("type") != "file":
            return None
        if raw["encoding"] != "base64":
            raise GitHubRefused(f"{path} is larger than GitHub shows in one answer", status=413)
        return base64.b64decode(raw["content"])

    async def list_files(self, ref: str) -> tuple[str, ...]:
        """See the port."""
        raw = await self._door.get(f"git/trees/{_quoted(ref)}", recursive=1)
        entries = raw["tree"] if raw else []
        return tuple(entry["path"] for entry in entries if entry["type"] == "blob")

    async def branch_sha(self, branch: str) -> str | None:
        """See the port."""
        raw = await self._door.get(f"git/ref/heads/{_quoted(branch, '/')}")
        return str(raw["object"]["sha"]) if raw else None

    async def commit(self, sha: str) -> CommitFacts | None:
        """See the port."""
        raw = await self._door.get(f"git/commits/{_quoted(sha)}")
        return parse_commit(raw) if raw else None

    async def protection(self, branch: str) -> BranchProtection:
        """See the port."""
        (classic, queue), rules = await asyncio.gather(self._classic(branch), self._rules(branch))
        return BranchProtection(classic=classic, rules=rules, merge_queue=queue)

    async def _classic(self, branch: str) -> tuple[ClassicProtection | None, bool]:
        raw = await self._offered(f"branches/{_quoted(branch, '/')}/protection")
        if raw is None:
            return None, False
        more = await self._door.query(_CLASSIC_MORE, branch=branch, ref=f"refs/heads/{branch}")
        rule = (more["ref"] or {}).get("branchProtectionRule") or {}
        deployments = bool(rule.get("requiresDeployments"))
        return parse_classic(raw, required_deployments=deployments), more["mergeQueue"] is not None

    async def _rules(self, branch: str) -> tuple[Rule, ...]:
        try:
            raws = await self._door.pages(f"rules/branches/{_quoted(branch, '/')}")
        except GitHubRefused as refused:
            if _not_in_plan(refused):
                return ()
            raise
        ids = sorted({raw["ruleset_id"] for raw in raws if raw.get("ruleset_id")})
        rulesets = await asyncio.gather(*(self._door.get(f"rulesets/{number}") for number in ids))
        found = zip(ids, rulesets, strict=True)
        bypass = {n: (r or {}).get("current_user_can_bypass") or "never" for n, r in found}
        return tuple(parse_rule(raw, bypass) for raw in raws)

    async def _offered(self, path: str) -> Any | None:
        """Read what GitHub offers only in some plans; None where it does not."""
        try:
            return await self._door.get(path)
        except GitHubRefused as refused:
            if _not_in_plan(refused):
                return None
            raise

    async def own_comments(self, number: int) -> tuple[Comment, ...]:
        """See the port."""
        comments = map(parse_comment, await self._door.pages(f"issues/{number}/comments"))
        return tuple(comment for comment in comments if comment.app_id == self._door.app_id)

    async def pull(self, number: int) -> PullFacts | None:
        """See the port."""
        raw = await self._door.get(f"pulls/{number}")
        return parse_pull(raw) if raw else None

    async def pulls_of_branch(self, branch: str) -> tuple[PullFacts, ...]:
        """See the port."""
        facts = await self._door.facts()
        head = f"{facts.owner.login}:{branch}"
        raws = await self._door.pages("pulls", head=head, state="all")
        return tuple(
            pull
            for pull in map(parse_pull, raws)
            if pull.head_ref == branch and pull.head_repository_id == self.repository_id
        )

    async def reviews(self, number: int) -> tuple[Review, ...]:
        """See the port."""
        return tuple(map(parse_review, await self._door.pages(f"pulls/{number}/reviews")))

    async def line_comments(self, number: int) -> tuple[LineComment, ...]:
        """See the port."""
        return tuple(map(parse_line_comment, await self._door.pages(f"pulls/{number}/comments")))

    async def review_summary(self, number: int) -> ReviewSummary:
        """See the port."""
        decision, unresolved, after = None, 0, None
        while True:
            answer = await self._door.query(_REVIEW_SUMMARY, number=number, after=after)
            pull = answer["pullRequest"]
            decision, threads = pull["reviewDecision"], pull["reviewThreads"]
            unresolved += sum(1 for thread in threads["nodes"] if not thread["isResolved"])
            if not threads["pageInfo"]["hasNextPage"]:
                return ReviewSummary(decision=decision, unresolved_threads=unresolved)
            after = threads["pageInfo"]["endCursor"]

    async def check_runs(self, sha: str) -> tuple[CheckRun, ...]:
        """See the port."""
        raws = await self._door.pages(f"commits/{_quoted(sha)}/check-runs", "check_runs")
        return tuple(map(parse_check_run, raws))

    async def own_check_runs(self, sha: str, name: str | None = None) -> tuple[CheckRun, ...]:
        """See the port."""
        query: dict[str, str | int] = {"filter": "all", "app_id": self._door.app_id}
        if name is not None:
            query["check_name"] = name
        path = f"commits/{_quoted(sha)}/check-runs"
        checks = map(parse_check_run, await self._door.pages(path, "check_runs", **query))
        own = (check for check in checks if check.app_id == self._door.app_id)
        return tuple(sorted(own, key=lambda check: check.id))

    async def statuses(self, sha: str) -> tuple[CommitStatus, ...]:
        """See the port."""
        raws = await self._door.pages(f"commits/{_quoted(sha)}/statuses")
        bots = {
            raw["creator"]["login"] for raw in raws if (raw["creator"] or {}).get("type") == "Bot"
        }
        app_ids = {bot: await self._door.app_id_of(bot) for bot in sorted(bots)}
        return parse_statuses(raws, {bot: app for bot, app in app_ids.items() if app is not None})

    # --- what is done ---------------------------------------------------------------------------

    async def react(self, target: ReactionTarget, reaction: Reaction) -> int:
        """See the port."""
        raw = await self._door.send("POST", _reactions(target), {"content": reaction})
        return int(raw["id"])

    async def unreact(self, target: ReactionTarget, reaction_id: int) -> None:
        """See the port."""
        await self._quietly("DELETE", f"{_reactions(target)}/{reaction_id}")

    async def create_comment(self, number: int, body: str) -> Comment:
        """See the port."""
        return parse_comment(
            await self._door.send("POST", f"issues/{number}/comments", {"body": body})
        )

    async def edit_comment(self, comment_id: int, body: str) -> None:
        """See the port."""
        await self._door.send("PATCH", f"issues/comments/{comment_id}", {"body": body})

    async def delete_comment(self, comment_id: int) -> None:
        """See the port."""
        await self._quietly("DELETE", f"issues/comments/{comment_id}")

    async def reply_in_thread(self, pull_number: int, comment_id: int, body: str) -> int:
        """See the port."""
        path = f"pulls/{pull_number}/comments/{comment_id}/replies"
        return int((await self._door.send("POST", path, {"body": body}))["id"])

    async def remove_label(self, number: int, label: str) -> None:
        """See the port."""
        await self._quietly("DELETE", f"issues/{number}/labels/{_quoted(label)}")

    async def create_draft_pull(self, *, head: str, base: str, title: str, body: str) -> PullFacts:
        """See the port."""
        wanted = {"head": head, "base": base, "title": title, "body": body}
        try:
            raw = await self._door.send("POST", "pulls", {**wanted, "draft": True})
        except GitHubRefused as refused:
            if "draft" not in refused.message.lower():
                raise
            wanted["title"] = WORK_IN_PROGRESS + title
            raw = await self._door.send("POST", "pulls", wanted)
        return parse_pull(raw)

    async def update_pull(
        self,
        number: int,
        *,
        title: str | None = None,
        body: str | None = None,
        state: Literal["open", "closed"] | None = None,
    ) -> None:
        """See the port."""
        given = {"title": title, "body": body, "state": state}
        changes = {name: value for name, value in given.items() if value is not None}
        await self._door.send("PATCH", f"pulls/{number}", changes)

    async def set_draft(self, pull: PullFacts, *, draft: bool) -> None:
        """See the port."""
        await self._door.mutate(_TO_DRAFT if draft else _READY, id=pull.node_id)

    async def create_check_run(self, check: CheckRunWrite) -> int:
        """See the port."""
        raw = await self._door.send("POST", "check-runs", _check_body(check))
        return int(raw["id"])

    async def update_check_run(self, check_run_id: int, check: CheckRunWrite) -> None:
        """See the port."""
        body = {name: value for name, value in _check_body(check).items() if name != "head_sha"}
        await self._door.send("PATCH", f"check-runs/{check_run_id}", body)

    async def delete_branch(self, branch: str) -> None:
        """See the port."""
        path = f"git/refs/heads/{_quoted(branch, '/')}"
        try:
            await self._quietly("DELETE", path, purpose=Purpose.CODE)
        except GitHubRefused as refused:  # GitHub says 422 for a ref that is gone
            if "does not exist" not in refused.message:
                raise

    async def _quietly(self, method: str, path: str, *, purpose: Purpose = Purpose.TALK) -> None:
        try:
            await self._door.send(method, path, purpose=purpose)
        except NotFound:
            return


def _quoted(text: str, safe: str = "") -> str:
    return quote(text, safe=safe)


def _reactions(target: ReactionTarget) -> str:
    match target.kind:
        case "issue":
            return f"issues/{target.id}/reactions"
        case "comment":
            return f"issues/comments/{target.id}/reactions"
        case "review_comment":
            return f"pulls/comments/{target.id}/reactions"


def _not_in_plan(refused: GitHubRefused) -> bool:
    """GitHub's words for private repositories of plans without protection (status 403)."""
    return refused.status == 403 and "Upgrade to" in refused.message  # noqa: PLR2004 - forbidden


def _check_body(check: CheckRunWrite) -> Json:
    output = check.output
    body: Json = {
        "name": check.name,
        "head_sha": check.head_sha,
        "external_id": check.external_id,
        "status": "completed" if check.conclusion else "in_progress",
        "output": {"title": output.title, "summary": output.summary, "text": output.text},
        "actions": [
            {"label": a.label, "description": a.description, "identifier": a.identifier}
            for a in check.actions
        ],
    }
    if output.annotations:
        body["output"]["annotations"] = [
            {
                "path": a.path,
                "start_line": a.line,
                "end_line": a.line,
                "annotation_level": a.level,
                "title": a.title,
                "message": a.message,
            }
            for a in output.annotations[:MAX_ANNOTATIONS]
        ]
    if check.conclusion:
        body["conclusion"] = check.conclusion
    if check.details_url:
        body["details_url"] = check.details_url
    return body


# --- what only GraphQL knows --------------------------------------------------------------------

_EDITS: Final = """
query($owner: String!, $name: String!, $number: Int!) {
  repository(owner: $owner, name: $name) {
    edited: %s(number: $number) {
      lastEditedAt
      editor { __typename login ... on User { databaseId } ... on Bot { databaseId } }
    }
  }
}"""
_REVIEW_SUMMARY: Final = """
query($owner: String!, $name: String!, $number: Int!, $after: String) {
  repository(owner: $owner, name: $name) {
    pullRequest(number: $number) {
      reviewDecision
      reviewThreads(first: 100, after: $after) {
        nodes { isResolved }
        pageInfo { hasNextPage endCursor }
      }
    }
  }
}"""
_CLASSIC_MORE: Final = """
query($owner: String!, $name: String!, $branch: String!, $ref: String!) {
  repository(owner: $owner, name: $name) {
    mergeQueue(branch: $branch) { id }
    ref(qualifiedName: $ref) { branchProtectionRule { requiresDeployments } }
  }
}"""
_READY: Final = """
mutation($id: ID!) {
  markPullRequestReadyForReview(input: {pullRequestId: $id}) { pullRequest { isDraft } }
}"""
_TO_DRAFT: Final = """
mutation($id: ID!) {
  convertPullRequestToDraft(input: {pullRequestId: $id}) { pullRequest { isDraft } }
}"""
