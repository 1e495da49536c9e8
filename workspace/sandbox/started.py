"""When a process started, so that its number cannot be mistaken for that of a later one."""

from pathlib import Path

_START_TIME = 19  # of the fields after the name, man 5 proc_pid_stat


def started_at(pid: int) -> int | None:
    """Clock ticks from boot to the start of a process; None when there is no such process."""
    try:
        line = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(line.rpartition(")")[2].split()[_START_TIME])
