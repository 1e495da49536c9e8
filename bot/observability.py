"""Logs for operators: one JSON object a line, with run, delivery, round and task where known.

In: structlog's context variables, bound by whoever works. Out: standard error. A job binds what it
is about (`bot.queue`), a run its round (`bot.steps.round`), a worker its task; whatever is started
from there has them too. Nothing here adds repository text, and nothing that is logged may hold a
token: values of settings are SecretStr.
"""

from __future__ import annotations

import logging
import sys
from typing import Final

import orjson
import structlog

#: What lines about a job or run are found by.
IDS: Final = ("delivery_id", "run_id", "round", "task_id")


def configure_logging(level: int = logging.INFO) -> None:
    """Set up structlog, and send the standard library's loggers the same way."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[_with_ids_of_job, *shared],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(
                    serializer=lambda event, **_: orjson.dumps(event, default=str).decode()
                ),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    agno = logging.getLogger("agno")  # it would print through rich, and with repository text
    agno.setLevel(logging.WARNING)
    agno.handlers, agno.propagate = [], True
    for noisy in ("httpx", "httpcore", "sqlalchemy.engine", "alembic", "urllib3"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def _with_ids_of_job(
    _logger: object, _level: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Give procrastinate's lines about a job, written before and after it, the job's ids."""
    job = getattr(event["_record"], "job", None)
    given = job.get("task_kwargs") if isinstance(job, dict) else None
    ids = {name: given[name] for name in IDS if name in given} if isinstance(given, dict) else {}
    return ids | dict(event)
