"""One execution of one suite in the sandbox.

In: a suite, a folder with the files to run it on, and dependencies. Out: what was observed, with
the raw log and JUnit file. The folder is only a lower layer: what the suite writes is thrown away.
"""

import asyncio
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from workspace.contracts import SandboxLimits, Sha256, Suite, TestOutcome
from workspace.environment import JUNIT_NAME, suite_environment
from workspace.judging import Observation
from workspace.junit import MAX_BYTES, JUnitUnreadable, parse_junit
from workspace.sandbox.backend import Job, Limits, Sandbox


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """What one execution did, and what it left."""

    observation: Observation
    log: bytes
    """Standard output and error, head and tail where they were long."""
    junit: bytes | None
    """The file at $ULTRACODE_JUNIT, where the suite declares one and it can be read."""
    seconds: float


async def execute_suite(
    sandbox: Sandbox,
    suite: Suite,
    workspace: Path,
    *,
    scratch: Path,
    run_key: Sha256,
    deps: Path,
    limits: SandboxLimits,
    cpus: float,
) -> Execution:
    """Run a suite's command once and read what it left in `scratch`, an empty folder.

    Raises:
        SandboxError: The sandbox failed, so nothing is known about the suite.
    """
    outcome = await sandbox.run(
        Job(
            command=("/bin/sh", "-c", suite.run),
            workspace=workspace,
            read_only=True,
            env=suite_environment(),
            deps=deps,
            scratch=scratch,
            image=limits.image,
            limits=Limits(
                wall_seconds=suite.timeout_seconds,
                memory_bytes=limits.memory_bytes,
                cpus=cpus,
                disk_bytes=limits.disk_bytes,
            ),
        )
    )
    junit, problem = (
        await asyncio.to_thread(_read_report, scratch / JUNIT_NAME) if suite.junit else (None, "")
    )
    outcomes: tuple[TestOutcome, ...] = ()
    if junit is not None:
        outcomes, problem = await asyncio.to_thread(read_outcomes, junit)
    return Execution(
        observation=Observation(
            run_key=run_key,
            termination=outcome.termination,
            exit_code=outcome.exit_code,
            outcomes=outcomes,
            junit_problem=problem,
        ),
        log=outcome.output,
        junit=junit,
        seconds=outcome.wall_seconds,
    )


def _read_report(path: Path) -> tuple[bytes | None, str]:
    """Read a file that hostile code may have put there: never a link, a pipe, or too much."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None, "it wrote no JUnit file"
    except OSError:
        return None, "what it left as a JUnit file is no regular file"
    with open(handle, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            return None, "what it left as a JUnit file is no regular file"
        if status.st_size > MAX_BYTES:
            return None, f"its JUnit file is larger than {MAX_BYTES} bytes"
        return file.read(MAX_BYTES), ""


def read_outcomes(junit: bytes) -> tuple[tuple[TestOutcome, ...], str]:
    """Return the outcomes in a JUnit file, or why there are none."""
    try:
        return parse_junit(junit), ""
    except JUnitUnreadable as error:
        return (), str(error)
