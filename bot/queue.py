"""Jobs. In: "handle this delivery", "advance this run", "clean this run up". Out: that, once more.

Why: whatever takes longer than a moment happens in a job, in a worker that may die at any time. A
job lasts seconds to minutes and never waits for a person. It carries an id, and what its log lines
and spans are found by (the delivery that led to it, the trace it continues), and nothing else: what
is to be done stands in our tables, so a job that runs twice finds nothing to do the second time.
That is why jobs are never deduplicated: a job that is waiting may be fetched just before the
caller's transaction commits, and would miss what it was to see.

procrastinate keeps the jobs in PostgreSQL; a caller's transaction (`tx`) can hold the write and the
job that follows from it. What procrastinate leaves to us is here: rescuing the jobs of dead workers
(within 8 s), giving up on a job that fails or kills its worker again and again, and going on after
the database was away.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol, Self, TypeVar

import psycopg
import structlog
from procrastinate import App, BaseRetryStrategy, JobContext, PsycopgConnector, RetryDecision
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import DeleteJobCondition, Job, Status

from bot.errors import RetryLater, StaleEpoch
from bot.store.database import Transaction, driver_connection, libpq_url
from bot.store.job_names import ADVANCE_RUN, CLEAN_UP_RUN, HANDLE_DELIVERY, QUICK, WORK
from bot.store.jobs import OwnedJobManager
from bot.tracing import span, traceparent

_LOG: Final = logging.getLogger(__name__)

#: What each task is about: the argument its handler is given.
_ABOUT: Final = {
    HANDLE_DELIVERY: "delivery_id",
    ADVANCE_RUN: "run_id",
    CLEAN_UP_RUN: "run_id",
}

_CLEAN_UP_PRIORITY: Final = 10  # before whatever else waits for the same run
#: After whatever else there is for the same run: a job that waits must hold up none that need not.
_WAITING_PRIORITY: Final = -1
_QUICK_JOBS: Final = 8
_MAX_ATTEMPTS: Final = 8
_LONGEST_BACKOFF_SECONDS: Final = 60
_REMEMBER_HOURS: Final = 7 * 24


class Handlers(Protocol):
    """What the worker does; injected, so that the queue knows nothing of workflow or GitHub.

    Each must be safe to call again after it was interrupted anywhere. An error it raises puts the
    job back with a growing delay; RetryLater puts it back with the delay asked for.
    """

    async def handle_delivery(self, delivery_id: str) -> None:
        """Handle a stored delivery."""

    async def advance_run(self, run_id: str) -> None:
        """Bring a run as far as it goes without a person."""

    async def clean_up_run(self, run_id: str) -> None:
        """Bring a cancelled run to its end."""

    async def give_up(self, task: str, argument: str, reason: str) -> None:
        """A job failed, or killed its worker, too often: say so where people see it."""


@dataclass(frozen=True, slots=True)
class Timing:
    """How fast the loss of a worker is noticed, in seconds. `grace + heartbeat < stall`."""

    poll: float = 1.0
    heartbeat: float = 2.0
    stall: float = 6.0
    grace: float = 3.0


@dataclass(frozen=True, slots=True)
class Depth:
    """How many jobs wait and run, for metrics."""

    waiting: int
    running: int
    failed: int


class Backoff(BaseRetryStrategy):
    """Eight attempts, 2 s to 60 s apart, spread so that what failed together does not return so."""

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
        """When to try again; at once when the worker was told to stop, never after the last."""
        if isinstance(exception, asyncio.CancelledError):
            return RetryDecision(retry_in={"seconds": 0})
        if job.attempts + 1 >= _MAX_ATTEMPTS:
            return None
        longest = min(_LONGEST_BACKOFF_SECONDS, 2 ** (job.attempts + 1))
        seconds = random.randint(longest // 2, longest)  # noqa: S311 - it spreads load
        return RetryDecision(retry_in={"seconds": seconds})


class Queue:
    """The jobs of one database. `async with` opens its connections; `serve` is the worker."""

    def __init__(self, url: str, *, timing: Timing | None = None, pool_size: int = 4) -> None:
        """Open nothing yet.

        Args:
            url: The bot's database.
            timing: Other times than the usual ones, for tests.
            pool_size: Connections; a worker needs one per queue to listen and a few to work.
        """
        self._timing = timing or Timing()
        self._app = App(
            connector=PsycopgConnector(
                conninfo=libpq_url(url),
                min_size=1,
                max_size=pool_size,
                kwargs={"connect_timeout": 10},
            ),
            periodic_defaults={"max_delay": 0},  # what was missed while we were down is not made up
        )
        self._app.job_manager = OwnedJobManager(self._app.connector)
        self._handlers: Handlers | None = None
        self._add_tasks()

    async def __aenter__(self) -> Self:
        await self._app.open_async()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._app.close_async()

    # --- putting jobs in -------------------------------------------------------------------------

    async def defer_delivery(self, delivery_id: str, *, tx: Transaction | None = None) -> None:
        """Have a stored delivery handled; new ones get their job from the inbox."""
        await self._defer(
            HANDLE_DELIVERY, QUICK, f"delivery:{delivery_id}", tx, delivery_id=delivery_id
        )

    async def defer_advance(
        self,
        run_id: str,
        *,
        quick: bool = False,
        delay_seconds: float = 0,
        tx: Transaction | None = None,
    ) -> None:
        """Have a run advanced.

        Args:
            run_id: The run; jobs of one run never overlap.
            quick: Whether no agent will work: gate evaluations and promotions do not wait behind
                runs that do.
            delay_seconds: Not before so many seconds from now. Later jobs of the same run do not
                wait for it: an approval is looked at while GitHub's rate limit delays another job.
            tx: The caller's transaction.
        """
        await self._defer(
            ADVANCE_RUN, QUICK if quick else WORK, run_id, tx, delay_seconds, run_id=run_id
        )

    async def defer_clean_up(self, run_id: str, *, tx: Transaction | None = None) -> None:
        """Have a cancelled run brought to its end, before any other job of it."""
        await self._defer(CLEAN_UP_RUN, QUICK, run_id, tx, run_id=run_id)

    async def abort_run(self, run_id: str) -> None:
        """Cancel the tasks that advance this run, wherever they run, and the jobs that wait to.

        Tasks learn of it within milliseconds, as asyncio.CancelledError.
        """
        manager = self._app.job_manager
        for status in (Status.TODO, Status.DOING):
            for job in await manager.list_jobs_async(
                lock=run_id, task=ADVANCE_RUN, status=status.value
            ):
                if job.id is not None:
                    await manager.cancel_job_by_id_async(job.id, abort=True)

    async def depth(self) -> Depth:
        """How many jobs wait, run, and have been given up."""
        counts = dict.fromkeys(Status, 0)
        for row in await self._app.connector.execute_query_all_async(
            "select status, count(*) as jobs from procrastinate_jobs group by status"
        ):
            counts[Status(row["status"])] = row["jobs"]
        return Depth(counts[Status.TODO], counts[Status.DOING], counts[Status.FAILED])

    async def forget_old_jobs(self, *, hours: int) -> None:
        """Delete jobs that failed or were cancelled so many hours ago; others go when they end."""
        await self._app.job_manager.delete_old_jobs(
            nb_hours=hours, include_failed=True, include_cancelled=True, include_aborted=True
        )

    async def _defer(
        self,
        task: str,
        queue: str,
        lock: str,
        tx: Transaction | None,
        delay_seconds: float = 0,
        **arguments: str,
    ) -> None:
        options: dict[str, Any] = {"queue": queue, "lock": lock}
        if tx is not None:
            options["connection"] = await driver_connection(tx)
        if delay_seconds > 0:
            options["schedule_in"] = {"seconds": delay_seconds}
            options["priority"] = _WAITING_PRIORITY
        if task == CLEAN_UP_RUN:
            options["priority"] = _CLEAN_UP_PRIORITY
        await self._app.configure_task(task, **options).defer_async(**(_led_to(lock) | arguments))

    # --- taking jobs out -------------------------------------------------------------------------

    async def serve(self, handlers: Handlers, *, jobs: int, stop: asyncio.Event) -> None:
        """Work until `stop` is set; then let jobs finish for `Timing.grace`, and give them back.

        Args:
            handlers: What to do.
            jobs: How many runs are advanced side by side.
            stop: Set by the signal handlers of the process.
        """
        self._handlers = handlers
        async with asyncio.TaskGroup() as group:
            rescuing = group.create_task(self._rescue_stalled_jobs())
            serving = [
                group.create_task(self._serve_queue(QUICK, _QUICK_JOBS, stop)),
                group.create_task(self._serve_queue(WORK, jobs, stop)),
            ]
            await asyncio.wait(serving)
            rescuing.cancel()

    async def _serve_queue(self, queue: str, jobs: int, stop: asyncio.Event) -> None:
        """Keep one of procrastinate's workers going: it ends when the database goes away."""
        while not stop.is_set():
            worker = asyncio.create_task(
                self._app.run_worker_async(
                    queues=[queue],
                    name=queue,
                    concurrency=jobs,
                    fetch_job_polling_interval=self._timing.poll,
                    abort_job_polling_interval=self._timing.poll,
                    shutdown_graceful_timeout=self._timing.grace,
                    update_heartbeat_interval=self._timing.heartbeat,
                    stalled_worker_timeout=self._timing.stall,
                    delete_jobs=DeleteJobCondition.SUCCESSFUL,
                    install_signal_handlers=False,
                )
            )
            stopping = asyncio.create_task(stop.wait())
            try:
                await asyncio.wait({worker, stopping}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                stopping.cancel()
                worker.cancel()
                await _ended(worker)
            if not stop.is_set():
                _LOG.warning("the worker of queue %s ended by itself and is started again", queue)
                await _sleep_unless(stop, self._timing.poll)

    async def _rescue_stalled_jobs(self) -> None:
        """Give the jobs of dead workers back, every second, on every replica."""
        while True:
            try:
                for job in await self._app.job_manager.get_stalled_jobs(
                    seconds_since_heartbeat=self._timing.stall
                ):
                    await self._rescue(job)
            except (ConnectorException, psycopg.Error) as error:
                _LOG.warning("stalled jobs could not be looked for: %s", type(error).__name__)
            await asyncio.sleep(self._timing.poll)

    async def _rescue(self, job: Job) -> None:
        if job.attempts + 1 < _MAX_ATTEMPTS:
            about = {"job": job.log_context()}  # bot.observability finds the ids in it
            _LOG.warning("job %s lost its worker and is given back", job.id, extra=about)
            await self._app.job_manager.retry_job(job)
            return
        await self._app.job_manager.finish_job(job, Status.FAILED, delete_job=False)
        await self._give_up(job, "its worker died each time")

    # --- tasks -----------------------------------------------------------------------------------

    def _add_tasks(self) -> None:
        def add(name: str, queue: str, handle: Callable[[Handlers], _Handle]) -> None:
            async def task(context: JobContext, /, **arguments: str) -> None:
                await self._perform(context.job, handle(self._ready_handlers()), arguments)

            self._app.task(name=name, queue=queue, retry=Backoff(), pass_context=True)(task)

        add(HANDLE_DELIVERY, QUICK, lambda handlers: handlers.handle_delivery)
        add(ADVANCE_RUN, WORK, lambda handlers: handlers.advance_run)
        add(CLEAN_UP_RUN, QUICK, lambda handlers: handlers.clean_up_run)

        # procrastinate's monitor of a worker's side tasks ends with the first of them that ends,
        # and without a periodic task one ends at once: then nobody would notice that the heartbeat
        # or the listener died with a connection (procrastinate 3.10, Worker._monitor_side_tasks).
        @self._app.periodic(cron="17 3 * * *")
        @self._app.task(name="forget_old_jobs", queue=QUICK, retry=Backoff())
        async def forget_old_jobs(timestamp: int) -> None:  # noqa: ARG001 - given by procrastinate
            await self.forget_old_jobs(hours=_REMEMBER_HOURS)

    async def _perform(self, job: Job, handle: "_Handle", arguments: dict[str, str]) -> None:
        """Do one job under its ids, and below the span that led to it."""
        ids = {name: arguments[name] for name in _ABOUT.values() if name in arguments}
        with (
            structlog.contextvars.bound_contextvars(**ids),
            span(
                f"job {job.task_name}",
                kind="consumer",
                parent=arguments.get("traceparent"),
                queue=job.queue,
                job_id=job.id or 0,
                attempt=job.attempts + 1,
            ),
        ):
            await self._judged(job, handle, _ABOUT[job.task_name], arguments)

    async def _judged(
        self, job: Job, handle: "_Handle", about: str, arguments: dict[str, str]
    ) -> None:
        """Do one job, and decide what its error means."""
        try:
            await handle(arguments[about])
        except BaseException as error:
            if (stale := _first(error, StaleEpoch)) is not None:
                _LOG.info("job %s stopped: %s", job.id, stale)
                return
            if (later := _first(error, RetryLater)) is not None:
                lock = job.lock or ""
                again = {about: arguments[about]}
                await self._defer(job.task_name, job.queue, lock, None, later.seconds, **again)
                return
            if isinstance(error, Exception) and job.attempts + 1 >= _MAX_ATTEMPTS:
                await self._give_up(job, getattr(error, "sentence", type(error).__name__))
            raise

    async def _give_up(self, job: Job, reason: str) -> None:
        _LOG.error("job %s (%s) was given up: %s", job.id, job.task_name, reason)
        argument = str(job.task_kwargs.get(_ABOUT[job.task_name], ""))
        try:
            await self._ready_handlers().give_up(job.task_name, argument, reason)
        except Exception:  # noqa: BLE001 - whatever it is, the other jobs go on
            _LOG.exception("giving up job %s failed; the reconciler will see to it", job.id)

    def _ready_handlers(self) -> Handlers:
        if self._handlers is None:
            raise RuntimeError("only `serve` runs jobs")
        return self._handlers


def _led_to(lock: str) -> dict[str, str]:
    """What a job takes along of whoever defers it; nothing of another run's work."""
    bound = structlog.contextvars.get_contextvars()
    if bound.get("run_id", lock) != lock:
        return {}
    known = {"delivery_id": bound.get("delivery_id"), "traceparent": traceparent()}
    return {name: value for name, value in known.items() if value}


_Handle = Callable[[str], Awaitable[None]]
_Kind = TypeVar("_Kind", bound=BaseException)


async def _ended(task: "asyncio.Task[None]") -> None:
    """Wait for a worker to end. The database's absence is no error here: it is what we outlast."""
    try:
        await task
    except asyncio.CancelledError:
        if (current := asyncio.current_task()) is not None and current.cancelling():
            raise
    except (ConnectorException, psycopg.Error) as error:
        _LOG.warning("a worker lost the database: %s", type(error).__name__)


async def _sleep_unless(stop: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)


def _first(error: BaseException, kind: type[_Kind]) -> _Kind | None:
    """The error itself if it is of this kind, or the first such that a task group gathered."""
    if isinstance(error, kind):
        return error
    if not isinstance(error, BaseExceptionGroup):
        return None
    found = (_first(inner, kind) for inner in error.exceptions)
    return next((each for each in found if each is not None), None)
