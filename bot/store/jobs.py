"""Ending a job only by the worker that has it. In: a job. Out: its new status, or nothing.

Why: procrastinate lets any worker finish any job. A worker that was suspended and wakes up after
its job was given to another would finish it under that one's hands, and two rescuers at once would
give it to two. Here the row must still belong to the worker that the caller saw.
"""

import logging
from datetime import datetime
from typing import Final

from procrastinate import utils
from procrastinate.jobs import Job, Status
from procrastinate.manager import JobManager

_LOG: Final = logging.getLogger(__name__)

_OWNED: Final = (
    " from procrastinate_jobs where id = %(job_id)s and status = 'doing'"
    " and worker_id is not distinct from %(worker_id)s for update"
)
_FINISH: Final = (
    "select procrastinate_finish_job_v1("
    "%(job_id)s, %(status)s::procrastinate_job_status, %(delete_job)s)" + _OWNED
)
_RETRY: Final = (
    "select procrastinate_retry_job_v2(%(job_id)s, %(retry_at)s, %(priority)s::integer,"
    " %(queue)s::varchar, %(lock)s::varchar)" + _OWNED
)


class OwnedJobManager(JobManager):
    """procrastinate's job manager, with the check of ownership that it lacks."""

    async def finish_job(self, job: Job, status: Status, delete_job: bool) -> None:  # noqa: FBT001 - procrastinate's signature
        """Finish a job, unless another worker has it by now."""
        done = await self.connector.execute_query_all_async(
            _FINISH,
            job_id=job.id,
            worker_id=job.worker_id,
            status=status.value,
            delete_job=delete_job,
        )
        if not delete_job:  # a row that is deleted on the way is not returned
            _say_if_lost(job, found=bool(done))

    async def retry_job(
        self,
        job: Job,
        retry_at: datetime | None = None,
        priority: int | None = None,
        queue: str | None = None,
        lock: str | None = None,
    ) -> None:
        """Give a job back, unless another worker has it by now."""
        done = await self.connector.execute_query_all_async(
            _RETRY,
            job_id=job.id,
            worker_id=job.worker_id,
            retry_at=retry_at or utils.utcnow(),
            priority=priority,
            queue=queue,
            lock=lock,
        )
        _say_if_lost(job, found=bool(done))


def _say_if_lost(job: Job, *, found: bool) -> None:
    if not found:
        about = {"job": job.log_context()}  # bot.observability finds the ids in it
        _LOG.info("job %s was taken over by another worker", job.id, extra=about)
