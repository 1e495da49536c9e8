"""Tries to break every guarantee of a sandbox, in about a second.

In: a sandbox. Out: for each guarantee whether it held, and if not, why. Half of the checks run
inside (`probe`), half look from outside at what the host's kernel says about the processes of a
job. A check that could not be made counts as a guarantee that does not hold.
"""

import asyncio
import json
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from workspace.sandbox import probe
from workspace.sandbox.backend import (
    MIB,
    Job,
    Limits,
    Outcome,
    Sandbox,
    SandboxError,
    WorkspaceNotKept,
)
from workspace.sandbox.environment import PATH, fixed_environment
from workspace.sandbox.guarantees import GUARANTEES
from workspace.sandbox.leftovers import own_folder
from workspace.sandbox.witness import load_processes, new_token, until

Why = dict[str, str]
"""Guarantee → "" when it held, else what went wrong."""

_ROOT = Path(__file__).resolve().parents[2]
_PROBE = Path(probe.__file__).read_text()
_DEATH_SECONDS = 5.0
_STUBBORN = """
trap '' TERM HUP INT
(setsid sh -c 'trap "" TERM HUP INT; : TOKEN; sleep 300; :' &)
sh -c ': TOKEN; sleep 300; :' &
: TOKEN; sleep 300; :
"""
_HUNGRY = """
import os, time
for _ in range(6):
    if not os.fork():
        kept = bytearray(b"x") * (24 << 20)
        time.sleep(60)
os.wait()
"""
_GREEDY = """
import errno, json, os, signal, time
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
def refusal(action):
    try:
        action()
    except OSError as error:
        return errno.errorcode[error.errno]
    return ""
def grow(name, megabytes):
    with open(name, "wb", buffering=0) as file:
        for _ in range(megabytes):
            if file.write(bytes(1 << 20)) < 1 << 20:
                file.write(bytes(1 << 20))
def fill():
    for number in range(16):
        grow(f"part{number}", 3)
def multiply():
    for _ in range(100):
        if not os.fork():
            time.sleep(60)
found = {"file": refusal(lambda: grow("big", 8)), "disk": refusal(fill)}
print(json.dumps(found | {"processes": refusal(multiply)}))
"""
_BUSY = """
while :; do :; done & one=$!
while :; do :; done & two=$!
sleep 0.6
kill -9 $one $two
wait
times
"""


@dataclass(frozen=True, slots=True)
class Result:
    """Whether a guarantee held, and why not."""

    held: bool
    why: str


@dataclass(frozen=True, slots=True)
class _Bench:
    """The sandbox under test and where to test it."""

    sandbox: Sandbox
    folder: Path
    python: tuple[str, ...]
    toolchains: tuple[Path, ...]

    def job(self, *command: str, **limits: float) -> Job:
        return Job(
            command=command,
            workspace=Path(tempfile.mkdtemp(dir=self.folder)),
            toolchains=self.toolchains,
            limits=Limits(**({"wall_seconds": 30.0} | limits)),  # type: ignore[arg-type]
        )

    async def run(self, *command: str, **limits: float) -> Outcome:
        return await self.sandbox.run(self.job(*command, **limits))


async def selftest(sandbox: Sandbox) -> dict[str, Result]:
    """Try to break everything the sandbox promises."""
    with own_folder() as folder:
        folder.chmod(0o711)  # so that it is the sandbox that hides what lies in it
        bench = _Bench(sandbox, folder, *_interpreter(sandbox))
        found = await asyncio.gather(*(_tried(attempt, bench) for attempt in _ATTEMPTS))
    reasons = {name: why for attempt in found for name, why in attempt.items()}
    return {
        name: Result(held=not (why := reasons.get(name, "not checked")), why=why)
        for name in GUARANTEES
    }


def _interpreter(sandbox: Sandbox) -> tuple[tuple[str, ...], tuple[Path, ...]]:
    """The Python of the bot itself, shown to the sandbox; a container brings its own."""
    options = ("-I", "-S", "-c")
    if sandbox.name == "container":
        return ("python3", *options), ()
    base = Path(sys.base_prefix).resolve()
    executable = base / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    return (str(executable), *options), () if base == Path("/usr") else (base,)


async def _tried(attempt: Callable[[_Bench], Awaitable[Why]], bench: _Bench) -> Why:
    try:
        return await attempt(bench)
    except (SandboxError, OSError, ValueError, KeyError) as error:
        return dict.fromkeys(_ATTEMPTS[attempt], f"the check itself failed: {error}")


async def _look_inside(bench: _Bench) -> Why:
    with _listeners() as (port, abstract):
        secret = bench.folder / "secret"
        secret.write_text("secret")
        bait = {
            "port": port,
            "abstract": abstract,
            "secret": str(secret),
            "process_reversed": "workspace.sandbox.launcher"[::-1],
            "environment": sorted(fixed_environment(home="")),
            "read_only": [str(path) for path in bench.toolchains],
        }
        outcome = await bench.run(*bench.python, _PROBE, json.dumps(bait))
    if outcome.exit_code:
        raise SandboxError(outcome.output[-500:].decode(errors="replace"))
    found: Why = json.loads(outcome.output)
    return found


@contextmanager
def _listeners() -> Iterator[tuple[int, str]]:
    """Services of the host that no command may reach: a port, an abstract name."""
    abstract = "ultracode-" + secrets.token_hex(8)
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        unix.bind("\0" + abstract)
        unix.listen()
        yield tcp.getsockname()[1], abstract


async def _look_from_outside(bench: _Bench) -> Why:
    """What the host's kernel says about a job's processes; then cancel it."""
    token = new_token()
    job = bench.job("sh", "-c", _STUBBORN.replace("TOKEN", token))
    task = asyncio.create_task(bench.sandbox.run(job))
    try:
        up = await until(lambda: task.done() or _is_up(token))
        found = [status for status in load_processes(token).values() if _is_inside(status)]
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    if not up or not found:
        raise SandboxError("the job was not seen to run")
    return {
        "not_root": _unless("a process is root's", all("0" not in f["Uid"].split() for f in found)),
        "no_capabilities": _unless("one is held", not any(_capabilities(f) for f in found)),
        "no_new_privileges": _unless("not set", all(f["NoNewPrivs"] == "1" for f in found)),
        "tree_dies_on_cancel": await _nothing_left(token),
    }


def _is_up(token: str) -> bool:
    return sum(map(_is_inside, load_processes(token).values())) >= 3  # noqa: PLR2004 - the shells of _STUBBORN


def _is_inside(status: dict[str, str]) -> bool:
    """Whether a process has a number in a namespace of its own, unlike an engine's client."""
    return len(status["NSpid"].split()) > 1


def _capabilities(status: dict[str, str]) -> bool:
    return any(int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"))


async def _nothing_left(token: str) -> str:
    gone = await until(lambda: not load_processes(token), _DEATH_SECONDS)
    return _unless(f"still running: {sorted(load_processes(token))}", gone)


def _unless(why: str, held: object) -> str:
    return "" if held else why


async def _outlast(bench: _Bench) -> Why:
    token = new_token()
    outcome = await bench.run("sh", "-c", _STUBBORN.replace("TOKEN", token), wall_seconds=0.5)
    truth = _unless(f"timeout reported as {outcome.termination}", outcome.termination == "timeout")
    return {"wall_time_capped": truth or await _nothing_left(token)}


async def _kill_the_supervisor(bench: _Bench) -> Why:
    """A second bot, killed without warning while it runs a command."""
    token = new_token()
    supervisor = _start_another(bench, "sh", "-c", _STUBBORN.replace("TOKEN", token))
    pid = supervisor.pid
    try:
        up = await until(
            lambda: supervisor.poll() is not None or len(load_processes(token, without=pid)) > 2  # noqa: PLR2004 - as in _is_up
        )
    finally:
        supervisor.send_signal(signal.SIGKILL)
        supervisor.wait()
    if not up or supervisor.returncode != -signal.SIGKILL:
        raise SandboxError("the second bot did not run its command")
    return {"tree_dies_with_supervisor": await _nothing_left(token)}


def _start_another(bench: _Bench, *command: str) -> subprocess.Popen[bytes]:
    run = ["-m", "workspace.sandbox", "run", *bench.sandbox.options]
    workspace = tempfile.mkdtemp(dir=bench.folder)
    return subprocess.Popen(
        [sys.executable, *run, "--workspace", workspace, "--", *command],
        cwd=_ROOT,
        env={"PATH": PATH},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


async def _starve(bench: _Bench) -> Why:
    """Processes that are small each and too large together."""
    outcome = await bench.run(*bench.python, _HUNGRY, memory_bytes=64 * MIB)
    return {
        "memory_capped": _unless(f"ended by {outcome.termination}", outcome.termination == "oom")
    }


async def _take_everything(bench: _Bench) -> Why:
    outcome = await bench.run(
        *bench.python,
        _GREEDY,
        file_bytes=4 * MIB,
        disk_bytes=24 * MIB,
        processes=24,
    )
    found = json.loads(outcome.output.splitlines()[0])
    scattered = await _scatter(bench)
    return {
        "file_size_capped": _unless("a large file was written", found["file"] == "EFBIG"),
        "disk_capped": scattered or _unless(f"ended with {found}", found["disk"] == "ENOSPC"),
        "processes_capped": _unless("a hundred were started", found["processes"] == "EAGAIN"),
    }


async def _scatter(bench: _Bench) -> str:
    """Empty files without end: refused inside, or else when they are to come back."""
    job = bench.job(
        "sh", "-c", 'i=0; while [ $i -lt 3000 ]; do : > "$i"; i=$((i+1)); done', files=500
    )
    with suppress(WorkspaceNotKept):
        await bench.sandbox.run(job)
    count = len(list(job.workspace.iterdir()))
    return _unless(f"{count} files were left on the host, not 500", count < 1000)  # noqa: PLR2004 - a full workspace has some for tidying


async def _hurry(bench: _Bench) -> Why:
    """A tenth of what a busy machine would give two loops is enough to tell."""
    outcome = await bench.run("sh", "-c", _BUSY, cpus=0.05)
    used = sum(map(_seconds, outcome.output.split()[-2:]))
    return {"cpu_capped": _unless(f"{used:.2f} of 0.03 seconds were used", used < 0.08)}  # noqa: PLR2004 - a period's start and the clock's own grain


def _seconds(text: bytes) -> float:
    """What the shell's `times` prints: minutes, m, seconds, s."""
    minutes, _, seconds = text.decode().rstrip("s").partition("m")
    return 60 * float(minutes) + float(seconds)


async def _flood(bench: _Bench) -> Why:
    outcome = await bench.run("sh", "-c", "yes", output_bytes=MIB)
    held = outcome.termination == "output_limit" and outcome.output_size < 4 * MIB
    return {"output_capped": _unless(f"{outcome.output_size} bytes came out", held)}


async def _end(bench: _Bench) -> Why:
    """Exit codes and causes of death, each as it was."""
    seven, killed, asleep = await asyncio.gather(
        bench.run("sh", "-c", "exit 7"),
        bench.run("sh", "-c", "kill -KILL $$"),
        bench.run("sleep", "60", wall_seconds=0.2),
    )
    codes = (seven.exit_code, killed.exit_code, asleep.exit_code)
    causes = (seven.termination, killed.termination, asleep.termination)
    return {
        "exit_code_true": _unless(f"7, 137 and none became {codes}", codes == (7, 137, None)),
        "cause_of_death_true": _unless(
            f"reported: {causes}", causes == ("exit", "exit", "timeout")
        ),
    }


_ATTEMPTS: dict[Callable[[_Bench], Awaitable[Why]], tuple[str, ...]] = {
    _kill_the_supervisor: ("tree_dies_with_supervisor",),
    _look_inside: tuple(check.__name__.removeprefix("_") for check in probe.CHECKS),
    _look_from_outside: (
        "not_root",
        "no_capabilities",
        "no_new_privileges",
        "tree_dies_on_cancel",
    ),
    _outlast: ("wall_time_capped",),
    _starve: ("memory_capped",),
    _take_everything: ("file_size_capped", "disk_capped", "processes_capped"),
    _hurry: ("cpu_capped",),
    _flood: ("output_capped",),
    _end: ("exit_code_true", "cause_of_death_true"),
}
