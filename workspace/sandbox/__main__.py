"""The sandbox on the command line: for operators, and for whoever attacks it.

    python -m workspace.sandbox selftest [--json]
    python -m workspace.sandbox run --workspace DIR [limits] -- COMMAND [ARGUMENT ...]

`selftest` tries to break every guarantee and says which hold (exit code 1 when one does not). `run`
runs one command and prints how it ended as JSON.
"""

import argparse
import asyncio
import json
import re
import sys
from pathlib import Path

from workspace.sandbox.backend import Job, Limits, Sandbox, SandboxError
from workspace.sandbox.bubblewrap import BubblewrapSandbox
from workspace.sandbox.container import DEFAULT_IMAGE, ContainerSandbox
from workspace.sandbox.guarantees import GUARANTEES
from workspace.sandbox.local import LocalSandbox
from workspace.sandbox.selftest import selftest

_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_DEFAULTS = Limits()


def _size(text: str) -> int:
    found = re.fullmatch(r"(\d+)\s*([kmg]?)(?:i?b)?", text.strip().lower())
    if not found:
        raise argparse.ArgumentTypeError(f"not a size such as 512M or 2GiB: {text}")
    return int(found[1]) * _UNITS[found[2]]


def _variable(text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not found:
        raise argparse.ArgumentTypeError(f"not NAME=VALUE: {text}")
    return name, value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m workspace.sandbox", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    commands = parser.add_subparsers(dest="action", required=True)
    test = commands.add_parser("selftest", help="try to break every guarantee")
    test.add_argument("--json", action="store_true", help="one object: guarantee → true or false")
    run = commands.add_parser("run", help="run one command and print how it ended")
    run.add_argument("--workspace", type=Path, required=True, metavar="DIR")
    run.add_argument("--read-only", action="store_true", help="throw away what is written")
    run.add_argument("--workdir", default=".", help="where to start, below the workspace")
    run.add_argument("--deps", type=Path, help="shown read-only at /deps")
    run.add_argument("--out", type=Path, help="receives the files left in /out")
    run.add_argument("--toolchain", type=Path, action="append", default=[], metavar="DIR")
    run.add_argument("--env", type=_variable, action="append", default=[], metavar="NAME=VALUE")
    _add_limits(run)
    run.add_argument("command", nargs="+", metavar="COMMAND")
    for command in (test, run):
        backends = ("bubblewrap", "container", "local")
        command.add_argument("--sandbox", choices=backends, default="bubblewrap")
        command.add_argument("--image", default=DEFAULT_IMAGE, help="of the container sandbox")
        command.add_argument("--runtime", help="of the container sandbox, such as runsc")
    return parser


def _add_limits(run: argparse.ArgumentParser) -> None:
    limits = run.add_argument_group("limits", "sizes as 512M or 2GiB; --memory is short enough")
    for name in Limits.__slots__:
        default = getattr(_DEFAULTS, name)
        kind = float if isinstance(default, float) else _size if name.endswith("_bytes") else int
        option = "--" + name.replace("_", "-")
        limits.add_argument(option, type=kind, dest=name, default=default, metavar="N")


def _sandbox(asked: argparse.Namespace) -> Sandbox:
    name = asked.sandbox
    if name == "container":
        return ContainerSandbox(image=asked.image, runtime=asked.runtime)
    return LocalSandbox() if name == "local" else BubblewrapSandbox()


async def _run(asked: argparse.Namespace) -> dict[str, object]:
    limits = Limits(**{name: getattr(asked, name) for name in Limits.__slots__})
    job = Job(
        command=tuple(asked.command),
        workspace=asked.workspace,
        read_only=asked.read_only,
        workdir=asked.workdir,
        deps=asked.deps,
        scratch=asked.out,
        toolchains=tuple(asked.toolchain),
        env=dict(asked.env),
        limits=limits,
    )
    sandbox = _sandbox(asked)
    try:
        outcome = await sandbox.run(job)
    finally:
        await sandbox.close()
    return {
        "exit_code": outcome.exit_code,
        "termination": outcome.termination,
        "output": outcome.output.decode(errors="replace"),
        "output_size": outcome.output_size,
        "peak_memory_bytes": outcome.peak_memory_bytes,
        "wall_seconds": round(outcome.wall_seconds, 4),
    }


async def _selftest(asked: argparse.Namespace) -> int:
    sandbox = _sandbox(asked)
    try:
        results = await selftest(sandbox)
    finally:
        await sandbox.close()
    if asked.json:
        print(json.dumps({name: result.held for name, result in results.items()}, indent=2))
    else:
        for name, result in results.items():
            print(f"{'holds ' if result.held else 'BROKEN'}  {name}: {GUARANTEES[name]}")
    for name, result in results.items():
        if not result.held:
            print(f"{name}: {result.why}", file=sys.stderr)
    return 0 if all(result.held for result in results.values()) else 1


def main(arguments: list[str] | None = None) -> int:
    """Do what the arguments ask; returns the exit code."""
    asked = _parser().parse_args(arguments)
    try:
        if asked.action == "selftest":
            return asyncio.run(_selftest(asked))
        print(json.dumps(asyncio.run(_run(asked))))
    except (SandboxError, ValueError) as error:
        print(f"sandbox: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
