"""Check suites and check runs: who may make them, and GitHub's limits.

In: an actor and the request's values. Out: the record, or a 422 that names the limit. Only Apps
make check runs, and change only their own; people press buttons
(`rerequested`, `requested_action`).
Limits: https://docs.github.com/rest/checks/runs#create-a-check-run
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from evals.loopback import shapes
from evals.loopback.auth import Actor, allows, demand
from evals.loopback.errors import forbidden, invalid, invalid_field, not_found
from evals.loopback.state import (
    App,
    CheckRun,
    CheckSuite,
    Json,
    Repository,
)
from evals.loopback.world import World

STATUSES = ("queued", "in_progress", "completed", "waiting", "requested", "pending")
CONCLUSIONS = (
    "action_required",
    "cancelled",
    "failure",
    "neutral",
    "success",
    "skipped",
    "stale",
    "timed_out",
)
ANNOTATIONS_A_REQUEST = 50
TEXT_BYTES = 65_535
ACTIONS = 3
_ACTION_CHARACTERS = {"label": 20, "description": 40, "identifier": 20}
_ANNOTATION_LEVELS = ("notice", "warning", "failure")


# --- suites ---


def suite_of(
    world: World, repository: Repository, app: App, sha: str, branch: str | None = None
) -> CheckSuite:
    """The App's suite on that commit, made when there is none."""
    for suite in repository.suites.values():
        if suite.app is app and suite.head_sha == sha:
            suite.head_branch = suite.head_branch or branch
            return suite
    now = world.now()
    suite = CheckSuite(
        id=world.next_id(),
        app=app,
        head_sha=sha,
        head_branch=branch,
        before=None,
        created_at=now,
        updated_at=now,
    )
    repository.suites[suite.id] = suite
    return suite


async def request_suites(
    world: World, repository: Repository, actor: Actor, sha: str, *, branch: str, before: str | None
) -> None:
    """After a push GitHub makes a suite for every App that may write checks, and asks it to run."""
    for installation in list(world.installations.values()):
        able = allows(installation.permissions, "checks", "write")
        if installation.covers(repository) and able and installation.suspended_at is None:
            suite = suite_of(world, repository, installation.app, sha, branch)
            suite.before = suite.before or before
            await publish_suite(world, repository, actor, suite, "requested")


async def publish_suite(
    world: World, repository: Repository, actor: Actor, suite: CheckSuite, action: str
) -> None:
    """A `check_suite` event; requests go to the suite's own App only."""
    head = await repository.git.commit(suite.head_sha)
    shown = shapes.check_suite(world, repository, suite, head)
    own = action in ("requested", "rerequested")
    world.webhooks.publish(
        "check_suite",
        action,
        {"check_suite": shown},
        repository=repository,
        sender=actor.who(),
        only=suite.app if own else None,
    )


def find_suite(repository: Repository, number: int) -> CheckSuite:
    """A suite by its id; 404 without one."""
    if number not in repository.suites:
        raise not_found()
    return repository.suites[number]


async def rerequest_suite(
    world: World, actor: Actor, repository: Repository, suite: CheckSuite
) -> None:
    """Ask an App to run all its checks again."""
    demand(world, actor, repository, "checks", "write", "write")
    await publish_suite(world, repository, actor, suite, "rerequested")


# --- runs ---


async def create_run(world: World, actor: Actor, repository: Repository, wanted: Json) -> CheckRun:
    """Make a check run on a commit of the repository; only Apps may."""
    app = _app_acting(world, actor, repository)
    name, sha = wanted.get("name"), wanted.get("head_sha")
    if not isinstance(name, str) or not name:
        raise invalid_field("CheckRun", "name", "missing_field")
    if not isinstance(sha, str) or await repository.git.resolve(sha) != sha:
        raise invalid(f"No commit found for SHA: {sha}", message="No commit found for SHA")
    _check_values(wanted)
    suite = suite_of(world, repository, app, sha, await _branch_at(repository, sha))
    run = CheckRun(
        id=world.next_id(),
        suite=suite,
        name=name,
        status="queued",
        conclusion=None,
        external_id="",
        details_url=None,
        started_at=world.now(),
    )
    _apply(world, run, wanted)
    suite.runs.append(run)
    _publish_run(world, actor, repository, run, "created")
    if run.status == "completed":
        _publish_run(world, actor, repository, run, "completed")
    await _after_change(world, actor, repository, run)
    return run


async def update_run(
    world: World, actor: Actor, repository: Repository, run: CheckRun, wanted: Json
) -> None:
    """Change a check run; only the App that made it may."""
    app = _app_acting(world, actor, repository)
    if run.suite.app is not app:
        raise forbidden(
            f"Invalid app_id `{app.id}` - check run can only be modified by the GitHub App "
            "that created it."
        )
    _check_values(wanted)
    was_completed = run.status == "completed"
    _apply(world, run, wanted)
    if run.status == "completed" and not was_completed:
        _publish_run(world, actor, repository, run, "completed")
    await _after_change(world, actor, repository, run)


def find_run(repository: Repository, number: int) -> CheckRun:
    """A check run by its id; 404 without one."""
    for run in repository.check_runs():
        if run.id == number:
            return run
    raise not_found()


def rerequest_run(world: World, actor: Actor, repository: Repository, run: CheckRun) -> None:
    """Somebody presses "Re-run" on a check run."""
    demand(world, actor, repository, "checks", "write", "write")
    _publish_run(world, actor, repository, run, "rerequested", only=run.suite.app)


def press(
    world: World, actor: Actor, repository: Repository, run: CheckRun, identifier: str
) -> None:
    """Somebody presses one of a run's own buttons; there is no REST call for it on GitHub."""
    demand(world, actor, repository, "checks", "write", "write")
    if identifier not in [action["identifier"] for action in run.actions]:
        raise not_found()
    _publish_run(
        world,
        actor,
        repository,
        run,
        "requested_action",
        only=run.suite.app,
        requested_action={"identifier": identifier},
    )


def _app_acting(world: World, actor: Actor, repository: Repository) -> App:
    demand(world, actor, repository, "checks", "write", "read")
    if actor.installation is None:
        raise forbidden("You must authenticate via a GitHub App.")
    return actor.installation.app


async def _branch_at(repository: Repository, sha: str) -> str | None:
    for ref, tip in (await repository.git.refs("refs/heads/")).items():
        if tip == sha:
            return ref.removeprefix("refs/heads/")
    return None


def _publish_run(
    world: World,
    actor: Actor,
    repository: Repository,
    run: CheckRun,
    action: str,
    *,
    only: App | None = None,
    **more: Json,
) -> None:
    shown = shapes.check_run_event(world, repository, run)
    world.webhooks.publish(
        "check_run",
        action,
        {"check_run": shown, **more},
        repository=repository,
        sender=actor.who(),
        only=only,
    )


async def _after_change(world: World, actor: Actor, repository: Repository, run: CheckRun) -> None:
    suite = run.suite
    suite.updated_at = world.now()
    if all(other.status == "completed" for other in suite.runs):
        await publish_suite(world, repository, actor, suite, "completed")


# --- what a request may say ---


def _check_values(wanted: Json) -> None:
    _choice(wanted, "status", STATUSES)
    _choice(wanted, "conclusion", CONCLUSIONS)
    _text(wanted, "name")
    _text(wanted, "external_id")
    if wanted.get("status") == "completed" and not wanted.get("conclusion"):
        raise invalid_field("CheckRun", "conclusion", "missing_field")
    _check_actions(wanted.get("actions") or [])
    output = wanted.get("output")
    if output is not None:
        _check_output(output)


def _choice(wanted: Json, field: str, choices: tuple[str, ...]) -> None:
    value = wanted.get(field)
    if value is not None and value not in choices:
        message = f"{value!r} is not a member of {list(choices)}."
        raise invalid(message, message="Invalid request.")


def _text(wanted: Json, field: str) -> None:
    value = wanted.get(field)
    if value is not None and not isinstance(value, str):
        raise invalid(f"{field} is not a string.", message="Invalid request.")


def _check_actions(actions: list[Json]) -> None:
    if len(actions) > ACTIONS:
        raise invalid(f"No more than {ACTIONS} actions are allowed.", message="Invalid request.")
    for action in actions:
        for field, limit in _ACTION_CHARACTERS.items():
            value = action.get(field)
            if not isinstance(value, str) or len(value) > limit:
                problem = f"actions: {field} is wanted, at most {limit} characters."
                raise invalid(problem, message="Invalid request.")


def _check_output(output: Json) -> None:
    for field in ("title", "summary"):
        if not isinstance(output.get(field), str):
            raise invalid(f'"output.{field}" wasn\'t supplied.', message="Invalid request.")
    for field in ("title", "summary", "text"):
        if len((output.get(field) or "").encode()) > TEXT_BYTES:
            problem = f"output.{field} exceeds a maximum bytesize of {TEXT_BYTES}."
            raise invalid(problem, message="Invalid request.")
    annotations = output.get("annotations") or []
    if len(annotations) > ANNOTATIONS_A_REQUEST:
        problem = f"No more than {ANNOTATIONS_A_REQUEST} annotations are allowed in a request."
        raise invalid(problem, message="Invalid request.")
    for annotation in annotations:
        _check_annotation(annotation)


def _check_annotation(annotation: Json) -> None:
    for field in ("path", "start_line", "end_line", "annotation_level", "message"):
        if annotation.get(field) is None:
            problem = f'"annotations.{field}" wasn\'t supplied.'
            raise invalid(problem, message="Invalid request.")
    if annotation["annotation_level"] not in _ANNOTATION_LEVELS:
        problem = f"annotation_level is not one of {', '.join(_ANNOTATION_LEVELS)}."
        raise invalid(problem, message="Invalid request.")
    if len(annotation["message"].encode()) > TEXT_BYTES:
        raise invalid("annotations.message is too long.", message="Invalid request.")


def _apply(world: World, run: CheckRun, wanted: Json) -> None:
    """Take over what the request says; a conclusion completes the run, as on GitHub."""
    for field in ("name", "external_id", "details_url", "actions"):
        if wanted.get(field) is not None:
            setattr(run, field, wanted[field])
    run.started_at = _time(wanted.get("started_at")) or run.started_at
    if wanted.get("conclusion"):
        run.status, run.conclusion = "completed", wanted["conclusion"]
        run.completed_at = _time(wanted.get("completed_at")) or world.now()
    elif wanted.get("status") is not None:
        run.status, run.conclusion, run.completed_at = wanted["status"], None, None
    output = wanted.get("output")
    if output is not None:
        run.title, run.summary = output["title"], output["summary"]
        run.text = output.get("text", run.text)
        run.annotations.extend(_annotation(one) for one in output.get("annotations") or [])


def _annotation(given: Json) -> Json:
    optional = ("start_column", "end_column", "title", "raw_details")
    required = ("path", "start_line", "end_line", "annotation_level", "message")
    return {field: given.get(field) for field in (*required, *optional)}


def _time(value: Any) -> datetime | None:
    if not isinstance(value, str):
        return None
    try:
        return datetime.fromisoformat(value)
    except ValueError as problem:
        raise invalid(f"{value!r} is not a date-time.", message="Invalid request.") from problem


def latest_runs(repository: Repository, sha: str) -> list[CheckRun]:
    """The newest run of every name and App on a commit."""
    newest = {
        (run.suite.app.id, run.name): run
        for run in repository.check_runs()
        if run.suite.head_sha == sha
    }
    return list(newest.values())
