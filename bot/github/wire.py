"""GitHub's JSON into our facts. In: one decoded object of an answer. Out: a frozen value.

Why by hand and narrow: GitHub adds fields and leaves out others (41 of 116 of its own examples fail
a full parser), so each function takes what is needed and trips over nothing else. Shapes: GitHub's
REST description, API version 2022-11-28. A shape that is not met raises GitHubError.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final, ParamSpec, TypeVar

from bot.github.port import (
    Account,
    AppFacts,
    CheckRun,
    ClassicProtection,
    Comment,
    CommitFacts,
    CommitStatus,
    GitHubError,
    HookDelivery,
    InstallationFacts,
    IssueFacts,
    LineComment,
    Permission,
    PullFacts,
    PushAllowance,
    RepositoryFacts,
    RequiredCheck,
    Review,
    Rule,
    WebhookConfig,
)

Json = dict[str, Any]
_Given = ParamSpec("_Given")
_Fact = TypeVar("_Fact")

#: The account GitHub shows in place of deleted ones (https://github.com/ghost).
_GHOST_ID: Final = 10137


def _narrow(parse: Callable[_Given, _Fact]) -> Callable[_Given, _Fact]:
    """Turn a shape that is not met into the port's error."""

    @functools.wraps(parse)
    def parse_or_say(*args: _Given.args, **kwargs: _Given.kwargs) -> _Fact:
        try:
            return parse(*args, **kwargs)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            sentence = f"GitHub's answer was not understood ({parse.__name__}: {error!r})"
            raise GitHubError(sentence) from error

    return parse_or_say


@_narrow
def parse_account(raw: Json | None) -> Account | None:
    """A user object, or None for a deleted account."""
    if not raw or raw["id"] == _GHOST_ID:
        return None
    return _account(raw)


@_narrow
def parse_actor(raw: Json | None) -> Account | None:
    """A GraphQL actor with `__typename`, `login` and, for users and bots, `databaseId`."""
    if not raw or "databaseId" not in raw or raw["databaseId"] == _GHOST_ID:
        return None
    return Account(id=raw["databaseId"], login=raw["login"], kind=raw["__typename"])


@_narrow
def parse_app(raw: Json) -> AppFacts:
    """The answer to `GET /app`."""
    return AppFacts(
        id=raw["id"],
        slug=raw["slug"],
        name=raw["name"],
        owner=_account(raw["owner"]),
        html_url=raw["html_url"],
        permissions=dict(raw.get("permissions") or {}),
        events=tuple(raw.get("events") or ()),
    )


@_narrow
def parse_installation(raw: Json) -> InstallationFacts:
    """An installation object."""
    return InstallationFacts(
        id=raw["id"],
        account=_account(raw["account"]),
        suspended=raw.get("suspended_at") is not None,
        permissions=dict(raw.get("permissions") or {}),
        events=tuple(raw.get("events") or ()),
    )


@_narrow
def parse_webhook_config(raw: Json) -> WebhookConfig:
    """The answer to `GET /app/hook/config`; a secret that is set is shown as asterisks."""
    return WebhookConfig(
        url=raw.get("url") or None,
        content_type=raw.get("content_type") or "form",
        signed=bool(raw.get("secret")),
        verifies_tls=str(raw.get("insecure_ssl", "0")) == "0",
    )


@_narrow
def parse_delivery(raw: Json) -> HookDelivery:
    """An item of `GET /app/hook/deliveries`."""
    return HookDelivery(
        id=raw["id"],
        guid=raw["guid"],
        delivered_at=parse_time(raw["delivered_at"]),
        redelivery=raw["redelivery"],
        status=raw["status"],
        status_code=raw["status_code"],
        event=raw["event"],
        action=raw["action"],
        installation_id=raw["installation_id"],
        repository_id=raw["repository_id"],
    )


@_narrow
def parse_repository(raw: Json) -> RepositoryFacts:
    """A repository object."""
    return RepositoryFacts(
        id=raw["id"],
        owner=_account(raw["owner"]),
        name=raw["name"],
        default_branch=raw["default_branch"],
        private=raw["private"],
        archived=raw["archived"],
        disabled=raw["disabled"],
        clone_url=raw["clone_url"],
        html_url=raw["html_url"],
    )


@_narrow
def parse_permission(raw: Json) -> Permission:
    """The answer of the collaborator-permission endpoint, by its `permissions` flags.

    Its `permission` field folds maintain into write and triage into read; roles have any name.
    """
    flags: Mapping[str, bool] = raw["user"]["permissions"]
    for flag, permission in (
        ("admin", Permission.ADMIN),
        ("maintain", Permission.MAINTAIN),
        ("push", Permission.WRITE),
        ("triage", Permission.TRIAGE),
        ("pull", Permission.READ),
    ):
        if flags.get(flag) is True:
            return permission
    return Permission.NONE


@_narrow
def parse_issue(raw: Json, edits: Json | None) -> IssueFacts:
    """An issue object, and what GraphQL says of its edits (`lastEditedAt`, `editor`)."""
    edits = edits or {}
    return IssueFacts(
        number=raw["number"],
        title=raw["title"],
        body=raw["body"] or "",
        author=parse_account(raw["user"]),
        edited=edits.get("lastEditedAt") is not None,
        last_editor=parse_actor(edits.get("editor")),
        state=raw["state"],
        locked=raw["locked"],
        is_pull="pull_request" in raw,
        labels=tuple(
            label if isinstance(label, str) else label["name"] or "" for label in raw["labels"]
        ),
        html_url=raw["html_url"],
    )


@_narrow
def parse_comment(raw: Json) -> Comment:
    """An issue comment object."""
    app = raw.get("performed_via_github_app")
    return Comment(
        id=raw["id"],
        author=parse_account(raw["user"]),
        app_id=app["id"] if app else None,
        body=raw["body"] or "",
        html_url=raw["html_url"],
        created_at=parse_time(raw["created_at"]),
    )


@_narrow
def parse_pull(raw: Json) -> PullFacts:
    """A pull request object, whole or as it stands in lists."""
    head, base = raw["head"], raw["base"]
    return PullFacts(
        number=raw["number"],
        node_id=raw["node_id"],
        title=raw["title"],
        body=raw["body"] or "",
        author=parse_account(raw["user"]),
        state=raw["state"],
        draft=bool(raw.get("draft")),
        merged=raw["merged_at"] is not None,
        merged_by=parse_account(raw.get("merged_by")),
        merge_commit_sha=raw["merge_commit_sha"],
        head_ref=head["ref"],
        head_sha=head["sha"],
        head_repository_id=head["repo"]["id"] if head["repo"] else None,
        base_ref=base["ref"],
        base_sha=base["sha"],
        html_url=raw["html_url"],
        requested_reviewers=tuple(user["login"] for user in raw["requested_reviewers"] or ()),
        requested_teams=tuple(team["slug"] for team in raw["requested_teams"] or ()),
    )


@_narrow
def parse_review(raw: Json) -> Review:
    """A review object."""
    submitted = raw.get("submitted_at")
    return Review(
        id=raw["id"],
        author=parse_account(raw["user"]),
        state=raw["state"],
        commit_id=raw["commit_id"],
        submitted_at=parse_time(submitted) if submitted else None,
        body=raw["body"] or "",
        html_url=raw["html_url"],
    )


@_narrow
def parse_line_comment(raw: Json) -> LineComment:
    """A pull request review comment object."""
    return LineComment(
        id=raw["id"],
        review_id=raw.get("pull_request_review_id"),
        author=parse_account(raw["user"]),
        path=raw["path"],
        line=raw.get("line") or raw.get("original_line"),
        body=raw["body"] or "",
    )


@_narrow
def parse_check_run(raw: Json) -> CheckRun:
    """A check run object."""
    app = raw["app"]
    return CheckRun(
        id=raw["id"],
        name=raw["name"],
        app_id=app["id"] if app else None,
        external_id=raw["external_id"] or "",
        head_sha=raw["head_sha"],
        status=raw["status"],
        conclusion=raw["conclusion"],
        html_url=raw["html_url"] or "",
    )


@_narrow
def parse_statuses(raws: Iterable[Json], app_ids: Mapping[str, int]) -> tuple[CommitStatus, ...]:
    """Statuses, newest first as GitHub lists them; the newest of each context counts.

    Args:
        raws: Status objects.
        app_ids: App ids by the login of their bot.
    """
    latest: dict[str, CommitStatus] = {}
    for raw in raws:
        creator = parse_account(raw["creator"])
        status = CommitStatus(
            context=raw["context"],
            state=raw["state"],
            app_id=app_ids.get(creator.login) if creator else None,
            creator=creator,
        )
        latest.setdefault(status.context, status)
    return tuple(latest.values())


@_narrow
def parse_commit(raw: Json) -> CommitFacts:
    """A Git commit object (`GET …/git/commits/{sha}`)."""
    return CommitFacts(
        sha=raw["sha"],
        tree=raw["tree"]["sha"],
        parents=tuple(parent["sha"] for parent in raw["parents"]),
    )


@_narrow
def parse_classic(raw: Json, *, required_deployments: bool) -> ClassicProtection:
    """The answer to `GET …/branches/{branch}/protection`."""
    checks = raw.get("required_status_checks")
    reviews = raw.get("required_pull_request_reviews")
    bypass = (reviews or {}).get("bypass_pull_request_allowances") or {}
    return ClassicProtection(
        required_checks=_required_checks(checks or {}),
        strict_checks=bool((checks or {}).get("strict")),
        approvals=reviews.get("required_approving_review_count", 0) if reviews else None,
        code_owners=bool(reviews and reviews.get("require_code_owner_reviews")),
        last_push_approval=bool(reviews and reviews.get("require_last_push_approval")),
        review_bypass_app_ids=_ids(bypass.get("apps")),
        conversation_resolution=_enabled(raw, "required_conversation_resolution"),
        signed_commits=_enabled(raw, "required_signatures"),
        linear_history=_enabled(raw, "required_linear_history"),
        locked=_enabled(raw, "lock_branch"),
        push_allowance=_push_allowance(raw.get("restrictions")),
        enforce_admins=_enabled(raw, "enforce_admins"),
        block_creations=_enabled(raw, "block_creations"),
        allow_force_pushes=_enabled(raw, "allow_force_pushes"),
        required_deployments=required_deployments,
    )


@_narrow
def parse_rule(raw: Json, bypass: Mapping[int, str]) -> Rule:
    """An item of `GET …/rules/branches/{branch}`.

    Args:
        raw: The rule.
        bypass: Whether this App may bypass a ruleset, by the ruleset's id.
    """
    ruleset_id = raw.get("ruleset_id") or 0
    return Rule(
        type=raw["type"],
        parameters=dict(raw.get("parameters") or {}),
        ruleset_id=ruleset_id,
        source=raw.get("ruleset_source") or "",
        bypass=bypass.get(ruleset_id, "never"),
    )


@_narrow
def parse_time(text: str) -> datetime:
    """A moment in ISO 8601, aware."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"a time without zone: {text!r}")
    return moment


def _account(raw: Json) -> Account:
    return Account(id=raw["id"], login=raw["login"], kind=raw.get("type", "User"))


def _required_checks(checks: Json) -> tuple[RequiredCheck, ...]:
    bound = checks.get("checks")
    if bound is None:
        return tuple(RequiredCheck(context=context) for context in checks.get("contexts") or ())
    return tuple(
        RequiredCheck(context=check["context"], app_id=_app_id(check.get("app_id")))
        for check in bound
    )


def _app_id(value: int | None) -> int | None:
    """GitHub says null, or -1, for "any source"."""
    return value if value and value > 0 else None


def _push_allowance(raw: Json | None) -> PushAllowance | None:
    if raw is None:
        return None
    return PushAllowance(
        user_ids=_ids(raw.get("users")),
        team_ids=_ids(raw.get("teams")),
        app_ids=_ids(raw.get("apps")),
    )


def _ids(items: Iterable[Json] | None) -> tuple[int, ...]:
    return tuple(item["id"] for item in items or ())


def _enabled(raw: Json, name: str) -> bool:
    return bool((raw.get(name) or {}).get("enabled"))
