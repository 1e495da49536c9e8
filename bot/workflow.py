"""The one scheduler: an Agno Workflow of four steps.

    Plan (may pause) -> Loop "Implementation and Review" (<= 3 rounds) [ Execute Round ]
         -> Review Candidate Envelope (pauses) -> Finalize

In: a `LiveRun`. Out: `PlanPaused` when policy wants the plan seen first, `Paused` with the envelope
that waits for a person, or `Ended` with the ending that Finalize reached. Agno's own state is
display only: steps are memoised over `pieces`, so calling `drive` again after any crash replays to
where the run was without repeating a stored piece.
What was measured about Agno, and why each argument is as it is: ARCHITECTURE.md, "Agno".
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeAlias

from agno.db.postgres import AsyncPostgresDb
from agno.run.base import RunContext, RunStatus
from agno.run.workflow import WorkflowRunOutput
from agno.workflow import Loop, OnError, OnReject, Step, Workflow
from agno.workflow.types import HumanReview, StepInput, StepOutput
from sqlalchemy import text

from bot.agents.spans import run_span
from bot.contracts import MAX_ROUNDS, CandidateEnvelope, Ending, RoundResult
from bot.errors import BotError
from bot.live import LiveRun
from bot.steps.finalize import finalize
from bot.steps.plan import make_plan, plan_waits
from bot.steps.review import final_result, needs_review
from bot.steps.round import execute_round
from bot.store.database import Database, create_engine
from bot.store.fence import install_fence
from bot.tracing import span

WorkflowStore: TypeAlias = AsyncPostgresDb

WORKFLOW_ID = "ultracode"
AGNO_SCHEMA = "agno"
PLAN_STEP = "Plan"
REVIEW_STEP = "Review Candidate Envelope"


@dataclass(frozen=True)
class PlanPaused:
    """The plan waits for somebody's `go`."""


@dataclass(frozen=True)
class Paused:
    """The candidate waits for a review on GitHub."""

    envelope: CandidateEnvelope


@dataclass(frozen=True)
class Ended:
    """Finalize ran to its end."""

    ending: Ending


class WorkflowLost(BotError):
    """Agno's record of a run is not what the run needs; trying again replays it."""


class Conductor:
    """Runs one `LiveRun` through the workflow, in this process, for as long as it does not wait."""

    def __init__(self, live: LiveRun, db: AsyncPostgresDb) -> None:
        self._live = live
        self._results: list[RoundResult] = []
        self._ending: Ending | None = None
        self._failure: BaseException | None = None
        self._plan_waits = True
        self._workflow = build_workflow(
            db,
            plan=self._guard("plan", self._plan),
            execute_round=self._guard("round", self._round),
            review=self._guard("review", self._review),
            finalize=self._guard("finalize", self._finalize),
            rounds=live.max_rounds,
            plan_waits=lambda _: self._plan_waits,
        )

    async def drive(self) -> PlanPaused | Paused | Ended:
        """Start, continue or replay until the run pauses for a person or ends.

        Raises whatever a step raised: Agno would turn it into a status.
        """
        shown = await self._stored()
        if shown is not None and shown.is_paused and shown.paused_step_name == PLAN_STEP:
            return await self._continue_from_plan(shown)
        started = self._workflow.arun(
            input=self._live.run_id,
            run_id=self._live.run_id,
            session_id=self._live.run_id,
            user_id=self._live.user_id,
            session_state={"run": self._live.run_id},
        )
        return await self._outcome(await self._unwrapped(started))

    async def _continue_from_plan(self, output: WorkflowRunOutput) -> PlanPaused | Paused | Ended:
        """Go on behind the plan when somebody said go, and go on waiting otherwise."""
        if await plan_waits(self._live):
            return PlanPaused()
        (output.step_requirements or [])[-1].confirm()
        return await self._outcome(await self._unwrapped(self._workflow.acontinue_run(output)))

    async def resume(self) -> Ended:
        """Confirm the pause and run Finalize; valid however far an earlier attempt came."""
        output = await self._paused_output()
        output.status = RunStatus.paused
        requirement = (output.step_requirements or [])[-1]
        if requirement.confirmed is None:
            requirement.confirm()
        continued = await self._unwrapped(self._workflow.acontinue_run(output))
        outcome = await self._outcome(continued)
        if not isinstance(outcome, Ended):
            raise WorkflowLost("Agno paused again after the review was confirmed.")
        return outcome

    async def reject(self, reason: str) -> None:
        """Tell Agno that the envelope was rejected, so that its own record agrees."""
        output = await self._stored()
        if output is None or not output.is_paused:
            return
        (output.step_requirements or [])[-1].reject(feedback=reason)
        await self._workflow.acontinue_run(output)

    # --- Agno ------------------------------------------------------------------------------------

    async def _stored(self) -> WorkflowRunOutput | None:
        run_id = self._live.run_id
        return await self._workflow.aget_run_output(
            run_id=run_id, session_id=run_id, user_id=self._live.user_id
        )

    async def _paused_output(self) -> WorkflowRunOutput:
        """Return the stored run that paused at the review step, replaying it when there is none."""
        output = await self._stored()
        if output is None or output.paused_step_name != REVIEW_STEP:
            await self.drive()
            output = await self._stored()
        if output is None or output.paused_step_name != REVIEW_STEP:
            raise WorkflowLost("The paused workflow run could not be read back from the database.")
        return output

    async def _unwrapped(self, running: Awaitable[WorkflowRunOutput]) -> WorkflowRunOutput:
        """Await Agno, and raise what a step raised instead of what Agno made of it."""
        self._failure = None
        try:
            with (
                span("workflow"),
                run_span(self._live.run_id, self._live.user_id, WORKFLOW_ID),
            ):
                output = await running
        except BaseException as raised:
            if self._failure is not None and self._failure is not raised:
                raise self._failure from raised
            raise
        if self._failure is not None:
            raise self._failure
        return output

    async def _outcome(self, output: WorkflowRunOutput) -> PlanPaused | Paused | Ended:
        if output.is_paused:
            stored = await self._stored()
            if stored is None or stored.paused_step_name not in {PLAN_STEP, REVIEW_STEP}:
                raise WorkflowLost("The paused workflow run is not in the database.")
            if stored.paused_step_name == PLAN_STEP:
                return PlanPaused()
            return Paused((await final_result(self._live)).reviewable)
        if self._ending is None:
            raise WorkflowLost(f"The workflow ended as {output.status} without an ending.")
        return Ended(self._ending)

    def _guard(self, name: str, step: Callable[[], Awaitable[StepOutput]]) -> Callable[..., object]:
        """Keep what a step raised: Agno only keeps its text."""

        async def executor(step_input: StepInput, run_context: RunContext) -> StepOutput:
            del step_input, run_context  # truth is in `pieces`, never in Agno's state
            try:
                with span(f"step {name}"):
                    return await step()
            except BaseException as failure:
                self._failure = failure
                raise

        return executor

    # --- the four steps --------------------------------------------------------------------------

    async def _plan(self) -> StepOutput:
        plan = await make_plan(self._live)
        self._plan_waits = await plan_waits(self._live)
        return StepOutput(content=f"{len(plan.tasks)} work item(s)")

    async def _round(self) -> StepOutput:
        result = await execute_round(self._live, tuple(self._results))
        self._results.append(result)
        return StepOutput(content="passed" if result.passed else result.failure)

    async def _review(self) -> StepOutput:
        return StepOutput(content=(await final_result(self._live)).model_dump_json())

    async def _finalize(self) -> StepOutput:
        self._ending = await finalize(self._live)
        return StepOutput(content=self._ending.outcome)


def build_workflow(
    db: AsyncPostgresDb,
    *,
    plan: Callable[..., object],
    execute_round: Callable[..., object],
    review: Callable[..., object],
    finalize: Callable[..., object],
    rounds: int = MAX_ROUNDS,
    plan_waits: Callable[[StepOutput], bool] = lambda _: True,
) -> Workflow:
    """Return the workflow over the given executors; the web role builds an inert twin with it.

    `plan_waits` says whether to pause behind the plan; it is total, since Agno goes on without a
    pause when it raises.
    """

    def last_passed(outputs: list[StepOutput]) -> bool:
        return bool(outputs) and outputs[-1].content == "passed"

    return Workflow(
        id=WORKFLOW_ID,
        name="Ultracode",
        db=db,
        telemetry=False,
        store_executor_outputs=False,
        steps=[
            _pausing_step(PLAN_STEP, plan, plan_waits, "Say go on the issue to let it start."),
            Loop(
                name="Implementation and Review",
                steps=[_step("Execute Round", execute_round)],
                max_iterations=rounds,
                end_condition=last_passed,
            ),
            _pausing_step(
                REVIEW_STEP,
                review,
                needs_review,
                "Decide on the pull request: GitHub's reviews count.",
            ),
            _step("Finalize", finalize),
        ],
    )


def _step(name: str, executor: Callable[..., object]) -> Step:
    """Return a step that fails closed: Agno's defaults retry three times, then skip."""
    return Step(
        name=name,
        executor=executor,  # type: ignore[arg-type]
        max_retries=0,
        skip_on_failure=False,
        human_review=HumanReview(on_error=OnError.fail, max_retries=0),
    )


def _pausing_step(
    name: str,
    executor: Callable[..., object],
    waits: Callable[[StepOutput], bool],
    message: str,
) -> Step:
    """Return a step whose output may wait for a person; a rejection cancels, nothing retries."""
    return Step(
        name=name,
        executor=executor,  # type: ignore[arg-type]
        max_retries=0,
        skip_on_failure=False,
        human_review=HumanReview(
            requires_output_review=waits,
            output_review_message=message,
            on_reject=OnReject.cancel,
            on_error=OnError.fail,
            max_retries=0,
        ),
    )


@asynccontextmanager
async def open_workflow_store(database: Database) -> AsyncIterator[WorkflowStore]:
    """Give Agno's own tables on an engine whose transactions are fenced by the run's epoch.

    They are made here, by one process at a time. Left to its first use, Agno would make them in the
    middle of a run, and after one attempt that met an absent database never again in this process:
    the half-made table stays in its metadata (measured, 3.1.10).
    """
    engine = install_fence(create_engine(database.url.render_as_string(hide_password=False)))
    store = AsyncPostgresDb(db_engine=engine, db_schema=AGNO_SCHEMA)
    try:
        async with database.begin() as tx:
            await tx.execute(text("select pg_advisory_xact_lock(hashtextextended('agno', 0))"))
            for kind in ("sessions", "runs"):
                await store._get_table(kind, create_table_if_not_found=True)  # noqa: SLF001 - no public call makes these two alone
        yield store
    finally:
        await store.close()
