"""Runs the scripted model alone: ``python -m evals.scripted_model --script FILE``.

Prints the base URL and the key a client needs (with ``--json`` as one line), then serves until
interrupted.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from evals.scripted_model import Script, ScriptError, load_script, running


def main(
    script: Annotated[Path, typer.Option(help="The YAML script to play.")],
    port: Annotated[int, typer.Option(help="0 takes a free port.")] = 0,
    api_key: Annotated[str | None, typer.Option(help="The key to accept.")] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON.")] = False,
) -> None:
    """Serve a script as OpenAI's Responses API on loopback."""
    try:
        loaded = load_script(script)
    except ScriptError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from error
    asyncio.run(_serve(loaded, port, api_key, as_json=as_json))


async def _serve(script: Script, port: int, api_key: str | None, *, as_json: bool) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    async with running(script, port=port, api_key=api_key) as model:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stopped.set)
        access = {"base_url": model.base_url, "api_key": model.api_key}
        line = json.dumps(access) if as_json else "\n".join(f"{k}: {v}" for k, v in access.items())
        print(line, flush=True)
        await stopped.wait()


if __name__ == "__main__":
    typer.run(main)
