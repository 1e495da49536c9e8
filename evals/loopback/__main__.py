"""The command line: `python -m evals.loopback --repo owner/name=PATH --webhook-url URL --json`.

In: repositories on disk. Out: one line (JSON or for people) with everything another process needs;
then it serves until it is told to stop.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
from pathlib import Path

from evals.loopback.github import LoopbackGitHub, running


def main() -> None:
    """Run a loopback GitHub until SIGINT or SIGTERM."""
    asyncio.run(_serve(_arguments()))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m evals.loopback", description=__doc__)
    parser.add_argument(
        "--repo",
        action="append",
        required=True,
        type=_repository,
        metavar="OWNER/NAME=PATH",
        help="a repository to serve a copy of; may be given more than once",
    )
    parser.add_argument("--port", type=int, default=0, help="on 127.0.0.1; 0 takes a free one")
    parser.add_argument("--webhook-url", help="where the App's webhooks go")
    parser.add_argument("--enterprise", action="store_true", help="REST under /api/v3")
    parser.add_argument("--private", action="store_true", help="repositories are not public")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    return parser.parse_args()


def _repository(text: str) -> tuple[str, Path]:
    name, equals, path = text.partition("=")
    if not equals or name.count("/") != 1:
        raise argparse.ArgumentTypeError("wanted: OWNER/NAME=PATH")
    if not Path(path).exists():
        raise argparse.ArgumentTypeError(f"{path} does not exist")
    return name, Path(path)


async def _serve(options: argparse.Namespace) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with running(
        repos=options.repo,
        webhook_url=options.webhook_url,
        port=options.port,
        enterprise=options.enterprise,
        private=options.private,
    ) as github:
        print(_line(github, as_json=options.json), flush=True)
        await stop.wait()


def _line(github: LoopbackGitHub, *, as_json: bool) -> str:
    if as_json:
        return json.dumps(github.card())
    people = ", ".join(f"{p.login} ({p.key})" for p in github.people.values())
    return f"Loopback GitHub at {github.url} with {people}. Ctrl-C ends it."


main()
