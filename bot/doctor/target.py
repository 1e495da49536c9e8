"""The doctor's look at one repository: access, policy, protection, and workflows that would run.

In: `owner/name`. Out: findings. What is judged here is what `bot.intake.start` refuses a run for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from bot.doctor.findings import Finding, fail, ok, warn
from bot.doctor.workflows import decide_triggers, is_workflow
from bot.errors import Refusal
from bot.github.messages.answers import problem_message
from bot.github.port import (
    AppFacts,
    BranchProtection,
    GitHubApp,
    GitHubRepository,
    InstallationFacts,
    RepositoryFacts,
)
from bot.github.protection import (
    PlannedCommit,
    decide_bypass,
    decide_promotable,
    demands_reviews,
)
from bot.live_run import commit_email
from bot.policy import POLICY_PATH, Policy, parse_policy

WORK_BRANCH_EXAMPLE: Final = "ultracode/1-example"
_SUBJECT_EXAMPLE: Final = "Do what the issue asks for (#1)"
_MOST_BRANCHES: Final = 20


async def check_repository(github: GitHubApp, app: AppFacts, full_name: str) -> list[Finding]:
    """Look at everything that would be asked before a run starts in this repository."""
    installation = await github.installation_of(full_name)
    if installation is None:
        remedy = f"Install it, or add the repository to its selection: {app.html_url}."
        return [fail(full_name, "The App is not installed there.", remedy)]
    facts = await _covered(github, installation, full_name)
    if facts is None:
        return [fail(full_name, "The installation does not show it.", "Look at its selection.")]
    if facts.archived or facts.disabled:
        return [fail(full_name, "It is archived or disabled.", "Nothing can be pushed to it.")]
    repository = github.repository(installation.id, facts.id)
    policy, found = await _policy(repository, facts)
    for branch in _branches(policy, facts.default_branch):
        found += await _branch(repository, app, branch)
    found += await _workflows(repository, facts, policy)
    return [
        ok(full_name, f"The App is installed; the default branch is {_default(facts)}."),
        *found,
    ]


def _default(facts: RepositoryFacts) -> str:
    return facts.default_branch


async def _covered(
    github: GitHubApp, installation: InstallationFacts, full_name: str
) -> RepositoryFacts | None:
    covered = await github.installed_repositories(installation.id)
    return next((r for r in covered if r.full_name.casefold() == full_name.casefold()), None)


# --- policy -------------------------------------------------------------------------------------


async def _policy(
    repository: GitHubRepository, facts: RepositoryFacts
) -> tuple[Policy | None, list[Finding]]:
    content = await repository.read_file(POLICY_PATH, facts.default_branch)
    if content is None:
        remedy = "Write `/ultracode help` on an issue to be shown one filled in, or see README.md."
        return None, [fail("policy", f"{facts.default_branch} has no {POLICY_PATH}.", remedy)]
    try:
        policy = parse_policy(content)
    except Refusal as refusal:
        said = " ".join(str(refusal).split())
        return None, [fail("policy", said, "`ultracode policy check` shows every line.")]
    required = [suite.id for suite in policy.required_suites(facts.default_branch)]
    if not required:
        said = f"No suite is required for {facts.default_branch}."
        return policy, [fail("policy", said, "Make one of the suites required there.")]
    return policy, [ok("policy", f"It is valid; {', '.join(required)} must pass.")]


def _branches(policy: Policy | None, default: str) -> list[str]:
    """Return the branches to look at: the default one, and those that policy names outright."""
    named = policy.bases or () if policy else ()
    literal = [branch for branch in named if not set(branch) & set("*?[")]
    return list(dict.fromkeys([default, *literal]))[:_MOST_BRANCHES]


# --- protection ---------------------------------------------------------------------------------


async def _branch(repository: GitHubRepository, app: AppFacts, branch: str) -> list[Finding]:
    if await repository.branch_sha(branch) is None:
        return [warn(f"branch {branch}", "It does not exist.", "Take it out of `bases`.")]
    base = await repository.protection(branch)
    work = await repository.protection(WORK_BRANCH_EXAMPLE)
    return list(decide_branch(branch, base, work, app))


def decide_branch(
    branch: str, base: BranchProtection, work: BranchProtection, app: AppFacts
) -> Iterator[Finding]:
    """Judge whether the App can move a branch, and whether it could move it too easily."""
    subject = f"branch {branch}"
    email = commit_email(app.bot_login)
    planned = PlannedCommit(
        message=_SUBJECT_EXAMPLE,
        author_email=email,
        committer_email=email,
        work_branch=WORK_BRANCH_EXAMPLE,
    )
    obstacles = decide_promotable(base, work, planned, app_id=app.id)
    for problem in obstacles:
        remedy = "Change that setting; until then every run here is refused."
        yield fail(subject, f"It cannot be promoted: {problem_message(problem)}", remedy)
    bypasses = decide_bypass(base, app_id=app.id)
    for problem in bypasses:
        remedy = "Take the App off that list: the rule does not hold for it."
        yield fail(subject, f"The App may bypass protection: {problem_message(problem)}", remedy)
    if not demands_reviews(base):
        remedy = "Demand a review there, so that GitHub holds to it what the bot holds itself to."
        yield warn(subject, "No rule demands a review: the bot's own gate is the only one.", remedy)
    if not obstacles and not bypasses:
        yield ok(subject, "An approved candidate can be fast-forwarded.")


# --- workflows ----------------------------------------------------------------------------------


async def _workflows(
    repository: GitHubRepository, facts: RepositoryFacts, policy: Policy | None
) -> list[Finding]:
    base = facts.default_branch
    paths = [path for path in await repository.list_files(base) if is_workflow(path)]
    started: dict[str, tuple[str, ...] | None] = {}
    for path in paths:
        content = await repository.read_file(path, base) or b""
        started[path] = decide_triggers(content, work_branch=WORK_BRANCH_EXAMPLE, base=base)
    return list(decide_workflows(started, policy))


def decide_workflows(
    started: dict[str, tuple[str, ...] | None], policy: Policy | None
) -> Iterator[Finding]:
    """Say which workflows run, with the repository's secrets, on what the bot pushes."""
    held = policy is not None and policy.publish.rounds == "on_go"
    for path, events in started.items():
        if events is None:
            yield warn("workflows", f"{path} is not readable as YAML.", "Look at it yourself.")
        elif events:
            yield _would_run(path, events, held=held)
    if not any(events is None or events for events in started.values()):
        yield ok("workflows", "None would run on what the bot pushes.")


def _would_run(path: str, events: Sequence[str], *, held: bool) -> Finding:
    said = f"{path} runs on {', '.join(events)}"
    if held:
        return ok("workflows", f"{said}, after somebody's `/ultracode go`.")
    remedy = "`publish: {rounds: on_go}` holds pushes until a person has read the candidate."
    return warn("workflows", f"{said}, before a person has read the candidate.", remedy)
