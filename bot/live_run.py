"""Opens a claimed run: from its row to a `LiveRun` with everything its steps need.

In: a claim. Out: a `LiveRun` of that epoch. Policy and request come from the row, as they were
pinned at intake; nothing is read from the repository again.
"""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import TypeVar

from bot.agents.budget import Allowance, RunBudget
from bot.agents.run import AgentDeps
from bot.agents.turns import PieceTurns
from bot.clock import now
from bot.contracts import CodingRequest
from bot.github.messages import commit_message
from bot.github.publisher import Publisher
from bot.live import LiveRun
from bot.policy import Policy, parse_policy
from bot.run_pieces import RunPieces
from bot.services import Services
from bot.spending import RunLedger
from bot.store.runs import Claim, Run
from workspace.contracts import CommitTemplate, RepoRef, RunPin, Suite

Number = TypeVar("Number", int, Decimal)


async def open_run(services: Services, claim: Claim) -> LiveRun:
    """Return the run of a claim, ready to be moved on."""
    run = claim.run
    request = CodingRequest.model_validate(run.request["coding_request"])
    policy = parse_policy(str(run.request["policy"]).encode())
    services.credentials.covers(run.repository_id, run.installation_id)
    repository = services.github.repository(run.installation_id, run.repository_id)
    facts = await repository.facts()
    app = await services.github.app()
    pin = pin_of(run, request, policy, clone_url=facts.clone_url, app_login=app.bot_login)
    pieces = RunPieces(services.pieces, run.run_id, claim.epoch)
    required, optional = suites_of(policy, request, request.base_ref.removeprefix("refs/heads/"))
    return LiveRun(
        run=run,
        epoch=claim.epoch,
        request=request,
        policy=policy,
        pin=pin,
        required=required,
        optional=optional,
        runs=services.runs,
        pieces=pieces,
        workshop=services.workshop,
        github=repository,
        publisher=Publisher(
            run_id=run.run_id,
            epoch=claim.epoch,
            request=request,
            policy=policy,
            pin=pin,
            branch=work_branch(run),
            app_id=app.id,
            repository=repository,
            runs=services.runs,
            pieces=pieces,
            effects=services.effects,
            marks=services.marks,
            workshop=services.workshop,
            public_url=services.settings.public_url,
            previous_sha=previous_sha(run),
        ),
        parent=None
        if run.parent_run_id is None
        else RunPieces(services.pieces, run.parent_run_id, claim.epoch),
        agents=AgentDeps(
            models=services.models,
            budget=budget_of(services, claim, policy),
            run_id=run.run_id,
            user_id=f"github:{request.requester.id}",
            turns=PieceTurns(services.pieces, run.run_id, claim.epoch),
        ),
    )


def previous_sha(run: Run) -> str | None:
    """Return what the run's branch holds before its first push, where another run made it."""
    sha = run.request.get("previous_sha")
    return str(sha) if sha else None


def work_branch(run: Run) -> str:
    """Return the branch that holds the run's candidates."""
    return run.branch or f"ultracode/{run.issue_number}-{run.run_id[-6:]}"


def pin_of(
    run: Run, request: CodingRequest, policy: Policy, *, clone_url: str, app_login: str
) -> RunPin:
    """Return what stays the same for the run; the commit it names is a function of the run."""
    return RunPin(
        run_id=run.run_id,
        repo=RepoRef(id=request.repository_id, url=clone_url),
        base_ref=request.base_ref,
        original_base_sha=request.base_sha,
        commit=commit_template(run, request, app_login),
        writes=policy.write_rules(),
        setup=policy.setup_step(),
        sandbox=policy.sandbox_limits(),
    )


def commit_template(run: Run, request: CodingRequest, app_login: str) -> CommitTemplate:
    """Return who and what the candidate's commit says; people's words enter it escaped."""
    return CommitTemplate(
        author_name=app_login,
        author_email=commit_email(app_login),
        committed_at=int(run.created_at.timestamp()),
        message=commit_message(request, run_id=run.run_id),
    )


def commit_email(app_login: str) -> str:
    """Return the address under which the App commits."""
    return f"{app_login}@users.noreply.github.com"


def suites_of(
    policy: Policy, request: CodingRequest, branch: str
) -> tuple[tuple[Suite, ...], tuple[Suite, ...]]:
    """Return the required and the optional suites, as they were resolved at intake.

    A suite that a person asked for is required of this run, whatever policy says of others.
    """
    by_id = {suite.id: suite for suite in policy.suites_for(branch)}
    required = tuple(
        by_id[suite].model_copy(update={"required": True}) for suite in request.required_suites
    )
    return required, tuple(by_id[suite] for suite in request.optional_suites)


def budget_of(services: Services, claim: Claim, policy: Policy) -> RunBudget:
    """Return the run's budget: policy's limits, clamped by the operator's ceilings."""
    ceilings, limits = services.settings.ceilings, policy.limits
    cost = None if limits.cost is None else Decimal(str(limits.cost))
    return RunBudget(
        RunLedger(services.runs, claim),
        (
            Allowance(
                scope="run",
                tokens=lowest(limits.tokens, ceilings.tokens_per_run),
                cost=lowest(cost, ceilings.cost_per_run),
            ),
            Allowance(
                scope="repository-day",
                tokens=ceilings.tokens_per_repository_day,
                cost=ceilings.cost_per_repository_day,
            ),
            Allowance(
                scope="installation-day",
                tokens=ceilings.tokens_per_installation_day,
                cost=ceilings.cost_per_installation_day,
            ),
        ),
        services.prices,
        ends_at=now() + timedelta(minutes=limits.minutes),
    )


def lowest(*limits: Number | None) -> Number | None:
    """Return the lowest of the limits that are set."""
    given = [limit for limit in limits if limit is not None]
    return min(given) if given else None
