"""The command line: `ultracode …`. In: words and the environment. Out: text, or JSON with --json.

Everything heavy is imported inside its command, so that `ultracode --help` answers at once.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

import typer

from bot.errors import BotError

T = TypeVar("T")
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

app = typer.Typer(no_args_is_help=True, add_completion=False, help="The Ultracode bot.")
database = typer.Typer(no_args_is_help=True, help="The bot's PostgreSQL database.")
runs = typer.Typer(no_args_is_help=True, help="Look at runs.")
policy = typer.Typer(no_args_is_help=True, help="A repository's policy file.")
app.add_typer(database, name="db")
app.add_typer(runs, name="runs")
app.add_typer(policy, name="policy")


@app.command()
def serve(
    role: Annotated[str, typer.Option(help="all, web or worker.")] = "all",
    host: Annotated[str, typer.Option(help="Address the web role listens on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port the web role listens on.")] = 8000,
) -> None:
    """Run the server: everything in one process tree, or one role of it."""
    match role:
        case "all":
            from bot.serve import serve_all

            raise typer.Exit(asyncio.run(serve_all(host=host, port=port)))
        case "web":
            from bot.app import serve_web

            asyncio.run(serve_web(host=host, port=port))
        case "worker":
            from bot.worker import serve_worker

            asyncio.run(serve_worker())
        case _:
            raise typer.BadParameter(f"{role!r} is no role: all, web or worker")


@database.command("upgrade")
def upgrade() -> None:
    """Bring the database's tables up to date."""
    from bot.settings import load_settings
    from bot.store.opened import open_database

    async def opened() -> None:
        async with open_database(load_settings()):
            pass

    asyncio.run(opened())
    print("The database is up to date.")


@runs.command("list")
def list_runs(
    *,
    state: Annotated[str | None, typer.Option(help="Only runs in this state.")] = None,
    as_json: Json = False,
) -> None:
    """List runs, newest first."""
    from bot.shown import shown_runs

    show(with_database(lambda store: shown_runs(store, state)), as_json=as_json)


@runs.command("show")
def show_run(run_id: str, *, as_json: Json = False) -> None:
    """Show one run: where it stands, what it proved, how it ended."""
    from bot.shown import shown_run

    show(with_database(lambda store: shown_run(store, run_id)), as_json=as_json)


@policy.command("check")
def check_policy(path: str = ".github/ultracode.yml") -> None:
    """Check a policy file; every problem is named with its line."""
    from pathlib import Path

    from bot.policy import parse_policy

    parse_policy(Path(path).read_bytes())
    print(f"{path} is a valid policy.")


# --- inside -------------------------------------------------------------------------------------


def with_database(look: Callable[[Any], Awaitable[T]]) -> T:
    """Open the database for one look."""

    async def opened() -> T:
        from bot.settings import load_settings
        from bot.store.database import Database
        from bot.store.opened import reach_database

        async with reach_database(load_settings()) as url, Database(url, pool_size=1) as store:
            return await look(store)

    return asyncio.run(opened())


def show(value: Any, *, as_json: bool) -> None:
    """Print a value for programs or for people."""
    if as_json:
        print(json.dumps(value, default=str))
        return
    for row in value if isinstance(value, list) else [value]:
        print("\n".join(f"{name:<20}{shown}" for name, shown in row.items()), end="\n\n")


def main() -> None:
    """Run the command line; what is expected to go wrong is one line, never a traceback."""
    try:
        app()
    except BotError as error:
        print(f"ultracode: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
