"""The command line: `ultracode …`. In: words and the environment. Out: text, or JSON with --json.

Everything heavy is imported inside its command, so that `ultracode --help` answers at once.
"""

from __future__ import annotations

import asyncio
import functools
import json
import re
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from bot.errors import BotError

if TYPE_CHECKING:
    from bot.proof import StoredProof
    from workspace.verification import Verdict

T = TypeVar("T")
#: A run id, or a commit, whole or its beginning.
WANTED = re.compile(r"[0-9a-z]{7,40}")
FULL_SHA = re.compile(r"[0-9a-f]{40}")
RunId = Annotated[str, typer.Argument(help="As `runs list` and the status comment show it.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

app = typer.Typer(no_args_is_help=True, add_completion=False, help="The Ultracode bot.")
database = typer.Typer(no_args_is_help=True, help="The bot's PostgreSQL database.")
runs = typer.Typer(no_args_is_help=True, help="Look at runs, or stop one.")
policy = typer.Typer(no_args_is_help=True, help="A repository's policy file.")
app.add_typer(database, name="db")
app.add_typer(runs, name="runs")
app.add_typer(policy, name="policy")


@app.command()
def serve(
    *,
    role: Annotated[str, typer.Option(help="all, web or worker.")] = "all",
    host: Annotated[str, typer.Option(help="Address the web role listens on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port the web role listens on.")] = 8000,
    agentos: Annotated[
        bool, typer.Option("--agentos", help="Record traces; show runs over AgentOS's API.")
    ] = False,
) -> None:
    """Run the server: everything in one process tree, or one role of it."""
    match role:
        case "all":
            from bot.serve import serve_all

            raise typer.Exit(asyncio.run(serve_all(host=host, port=port, agentos=agentos)))
        case "web":
            import uvloop

            from bot.app import serve_web

            uvloop.run(serve_web(host=host, port=port, agentos=agentos))
        case "worker":
            from bot.worker import serve_worker

            asyncio.run(serve_worker(agentos=agentos))
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
    from bot.store.tables import RunState

    known = [str(each) for each in RunState]
    if state is not None and state not in known:
        raise BotError(f"There is no state {state}; there are {', '.join(known)}.")
    show(with_database(lambda store: shown_runs(store, state)), as_json=as_json)


@runs.command("show")
def show_run(run_id: RunId, *, as_json: Json = False) -> None:
    """Show one run: where it stands, what it proved, how it ended."""
    from bot.shown import shown_run

    show(with_database(lambda store: shown_run(store, run_id)), as_json=as_json)


@runs.command("cancel")
def cancel(run_id: RunId) -> None:
    """Stop a run, as `/ultracode cancel` does on its issue."""
    from bot.operating import cancel_run

    print(with_queue(lambda store, queue: cancel_run(store, queue, run_id)))


@app.command()
def redeliver(
    guid: Annotated[str, typer.Argument(help="The id GitHub shows beside a delivery.")],
) -> None:
    """Take a delivery again whose outcome is failed or unparsed."""
    from bot.operating import redeliver

    print(with_queue(lambda store, queue: redeliver(store, queue, guid)))


@app.command()
def gc(
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    as_json: Json = False,
) -> None:
    """Delete what ended runs left behind and nobody needs to keep any more.

    Policy says how long a repository's runs are kept (`retention`), ULTRACODE_RETENTION how long at
    most. Workers do the same every hour. What was asked, and how it ended, stays.
    """
    from bot.observability import configure_logging
    from bot.operating import collect_garbage
    from bot.settings import load_settings

    settings = load_settings()
    configure_logging()
    gone = with_database(lambda store: collect_garbage(settings, store, dry_run=dry_run))
    if as_json:
        show({"runs": gone.runs, "deliveries": gone.deliveries}, as_json=True)
    else:
        print(f"{'Would forget' if dry_run else 'Forgot'} {gone}.")


@app.command()
def setup(
    public_url: Annotated[str, typer.Option(help="Where GitHub and people reach the server.")],
    *,
    organization: Annotated[str | None, typer.Option(help="Who owns the App; else you.")] = None,
    name: Annotated[str, typer.Option(help="The App's name, unique on GitHub.")] = "Ultracode",
    env_file: Annotated[str, typer.Option(help="A new file for its secrets.")] = "ultracode.env",
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; 0 takes a free one.")] = 0,
) -> None:
    """Register the GitHub App from its manifest, with your browser and your consent."""
    from pathlib import Path

    from bot.settings import load_settings
    from bot.setup_app import Wish, set_up

    wish = Wish(
        api_url=load_settings().github_api_url,
        public_url=public_url,
        name=name,
        organization=organization,
        file=Path(env_file),
        port=port,
    )
    say = functools.partial(print, flush=True)
    if not asyncio.run(set_up(wish, say=say, ask=typer.confirm)):
        raise typer.Exit(1)


@app.command()
def doctor(
    repository: Annotated[str | None, typer.Argument(help="owner/name, to look at it too.")] = None,
    *,
    as_json: Json = False,
) -> None:
    """Look at settings, App, webhook, database, model and sandbox; say what to do."""
    from bot.doctor.examine import examine
    from bot.doctor.findings import exit_code, findings_object, shown_findings

    findings = asyncio.run(examine(repository))
    print(json.dumps(findings_object(findings)) if as_json else shown_findings(findings))
    raise typer.Exit(exit_code(findings))


@policy.command("check")
def check_policy(
    path: Annotated[str, typer.Argument(help="The file.")] = ".github/ultracode.yml",
) -> None:
    """Check a policy file; every problem is named with its line."""
    from bot.policy import parse_policy

    parse_policy(Path(path).read_bytes())
    print(f"{path} is a valid policy.")


@app.command()
def bundle(
    wanted: Annotated[str, typer.Argument(metavar="RUN|SHA", help="A run id or a commit.")],
    out: Annotated[Path, typer.Option(help="Where to write the file.")],
) -> None:
    """Write the evidence bundle of a run or commit: all that a stranger needs to verify it."""
    proof = stored_proof(wanted)
    out.write_bytes(proof.bundle)
    print(f"{out}: the evidence of {proof.expected.candidate_sha}")


@app.command()
def verify(
    wanted: Annotated[str, typer.Argument(metavar="BUNDLE|SHA", help="A file, run or commit.")],
    *,
    key: Annotated[
        Path | None, typer.Option(help="Trust this public key, or keys file, and no other.")
    ] = None,
    repository: Annotated[int | None, typer.Option(help="Its id on GitHub must be this.")] = None,
    run: Annotated[str | None, typer.Option(help="The run must be this.")] = None,
    base: Annotated[str | None, typer.Option(help="The base must be this: refs/heads/…")] = None,
    candidate: Annotated[str | None, typer.Option(help="The commit must be this.")] = None,
    as_json: Json = False,
) -> None:
    """Recompute every digest of a bundle: a file offline, a run or commit from this server's store.

    Exit code 0: valid, signed by a key that --key names. 1: a link is broken, and is named.
    3: consistent, with nobody known to vouch for it.
    """
    from bot.proof import verify_file, verify_proof
    from workspace.verification import Expectation

    file = Path(wanted)
    if not file.is_file() and not WANTED.fullmatch(wanted):
        raise BotError(f"There is no file {wanted}, and no run or commit has such a name.")
    if not file.is_file() and any(each is not None for each in (repository, run, base, candidate)):
        raise BotError("--repository, --run, --base and --candidate are about a file.")
    if candidate is not None and not FULL_SHA.fullmatch(candidate):
        raise BotError("--candidate is a commit's full SHA: 40 hexadecimal digits.")
    if file.is_file():
        about = Expectation(
            repository_id=repository, run_id=run, base_ref=base, candidate_sha=candidate
        )
        verdict = verify_file(file, key, about)
    else:
        verdict = verify_proof(stored_proof(wanted), key)
    if as_json:
        print(verdict.model_dump_json())
    else:
        print("\n".join(shown_verdict(verdict)))
    raise typer.Exit({"valid": 0, "broken": 1, "consistent": 3}[verdict.status])


# --- inside -------------------------------------------------------------------------------------


def with_database(look: Callable[[Any], Awaitable[T]]) -> T:
    """Open the database for one look."""

    async def opened() -> T:
        from bot.settings import load_settings
        from bot.store.database import Database
        from bot.store.opened import reach_database

        async with reach_database(load_settings()) as url, Database(url, pool_size=1) as store:
            return await look(store)

    from sqlalchemy.exc import SQLAlchemyError

    try:
        return asyncio.run(opened())
    except SQLAlchemyError as error:
        raise BotError(
            f"The database does not answer, or does not have our tables ({type(error).__name__}). "
            "`ultracode db upgrade` makes them."
        ) from None


def stored_proof(wanted: str) -> StoredProof:
    """Return the bundle of a run or commit out of the store."""
    from bot.proof import artifacts_of, load_proof
    from bot.settings import load_settings

    artifacts = artifacts_of(load_settings())
    return with_database(lambda store: load_proof(store, artifacts, wanted))


def shown_verdict(verdict: Verdict) -> list[str]:
    """Return a verdict for people: first what it is, then what it is about."""
    from workspace.paths import show_text

    if verdict.status == "broken":
        return [show_text(f"broken: {verdict.link}: {verdict.sentence}")]
    claims = verdict.claims or {}
    about = ("repositoryId", "runId", "baseRef", "originalBaseSha", "evidenceDigest", "sandbox")
    head = "valid: every link holds" if verdict.status == "valid" else verdict.sentence
    signer = [f"{'signed by key':<20}{verdict.key_id}"] if verdict.key_id else []
    return [head, *signer, *(show_text(f"{name:<20}{claims[name]}") for name in about)]


def with_queue(act: Callable[[Any, Any], Awaitable[T]]) -> T:
    """Open database and queue for one act."""
    from bot.queue import Queue

    async def acted(store: Any) -> T:
        async with Queue(store.conninfo, pool_size=1) as queue:
            return await act(store, queue)

    return with_database(acted)


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
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        print(f"ultracode: {error.filename}: {error.strerror}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
