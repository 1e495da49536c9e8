import asyncio
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest

from bot.errors import EmbeddedDatabaseError
from bot.store import embedded
from bot.store.database import libpq_url, sqlalchemy_url
from bot.store.embedded_home import Home, locate_home

pytestmark = pytest.mark.postgres

_FAST = {"fsync": "off"}
_AS_ROOT = os.geteuid() == 0


@contextmanager
def folder_for_servers() -> Iterator[Path]:
    """A folder that anybody may enter, as a data folder's parent usually is."""
    folder = Path(tempfile.mkdtemp(prefix="ultracode-embedded-"))
    folder.chmod(0o755)
    yield folder
    for each in folder.iterdir():
        embedded.remove(each)
    shutil.rmtree(folder)


@pytest.fixture
def parent() -> Iterator[Path]:
    with folder_for_servers() as folder:
        yield folder


@pytest.fixture
def data_dir(parent: Path) -> Path:
    return parent / "data"


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[Path, str]]:
    """A data folder whose server runs, and its URL, for tests that only look."""
    with folder_for_servers() as folder:
        yield folder / "data", embedded.start(folder / "data", options=_FAST)


def home_of(data_dir: Path) -> Home:
    return locate_home(data_dir, lambda _home, _folder: True)


def modes(folder: Path) -> dict[Path, int]:
    """Mode and owner of a folder and all its parents."""
    each = [folder, *folder.parents]
    return {path: (path.stat().st_mode << 32) + path.stat().st_uid for path in each}


def server_pid(data_dir: Path) -> int:
    return int((home_of(data_dir).cluster / "postmaster.pid").read_text().split("\n")[0])


def connect(url: str) -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(libpq_url(url), autocommit=True)


def test_data_survives_a_stop(data_dir: Path) -> None:
    """What was written is there when the server is started again."""
    url = embedded.start(data_dir, options=_FAST)
    with closing(connect(url)) as connection:
        connection.execute("create table kept (word text)")
    embedded.stop(data_dir)
    with pytest.raises(psycopg.OperationalError):
        connect(url)
    assert embedded.start(data_dir, options=_FAST) == url
    with closing(connect(url)) as connection:
        assert connection.execute("select count(*) from kept").fetchone() == (0,)


def test_starting_twice_is_starting_once(running: tuple[Path, str]) -> None:
    """Whoever finds the server running uses it."""
    data_dir, url = running
    pid = server_pid(data_dir)
    assert embedded.start(data_dir, options=_FAST) == url
    assert server_pid(data_dir) == pid


def test_the_bot_is_no_superuser(running: tuple[Path, str]) -> None:
    """The bot's role owns its database and can neither read files nor start programs."""
    with closing(connect(running[1])) as connection:
        connection.execute("create table own (word text)")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("copy own from program 'id'")


def test_no_folder_that_was_there_is_changed(parent: Path) -> None:
    """Starting changes neither mode nor owner of the data folder or of any of its parents."""
    data_dir = parent / "deep" / "data"
    data_dir.mkdir(parents=True)
    data_dir.chmod(0o751)
    before = modes(data_dir)
    embedded.start(data_dir, options=_FAST)
    assert modes(data_dir) == before
    embedded.remove(data_dir)


@pytest.mark.skipif(not _AS_ROOT, reason="only root has folders its server cannot enter")
def test_a_folder_the_server_cannot_enter_is_left_alone(parent: Path) -> None:
    """Below a private folder the cluster lives in /var/lib, and a note in the data folder says so.

    The private folder stays private.
    """
    private = parent / "private"
    data_dir = private / "data"
    data_dir.mkdir(parents=True)
    private.chmod(0o700)
    before = modes(data_dir)
    url = embedded.start(data_dir, options=_FAST)
    try:
        with closing(connect(url)) as connection:
            connection.execute("select 1")
        assert modes(data_dir) == before
        (note,) = data_dir.iterdir()
        elsewhere = sqlalchemy_url(url).query["host"]
        assert str(Path(str(elsewhere)).parent) in note.read_text()
        embedded.stop(data_dir)
        assert embedded.start(data_dir, options=_FAST) == url
    finally:
        embedded.remove(data_dir)
    assert list(data_dir.iterdir()) == []


def test_a_long_path_gets_a_short_private_socket_folder(parent: Path) -> None:
    """Where a socket's path would be too long, it lies in a private folder under /tmp."""
    data_dir = parent / ("long" * 20) / "data"
    data_dir.mkdir(parents=True)
    url = embedded.start(data_dir, options=_FAST)
    folder = Path(str(sqlalchemy_url(url).query["host"]))
    with closing(connect(url)) as connection:
        connection.execute("select 1")
    assert folder.parent == Path("/tmp")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    embedded.remove(data_dir)
    assert not folder.exists()


def test_a_socket_folder_somebody_else_made_is_refused(parent: Path) -> None:
    """A folder under the name we need, but open to others, is never used."""
    data_dir = parent / ("long" * 20) / "data"
    data_dir.mkdir(parents=True)
    planted = home_of(data_dir).socket_folder
    planted.mkdir(mode=0o777)
    planted.chmod(0o777)
    try:
        with pytest.raises(EmbeddedDatabaseError, match="mode 0700"):
            embedded.start(data_dir, options=_FAST)
    finally:
        planted.rmdir()
        embedded.remove(data_dir)


def test_everything_of_the_server_is_private(running: tuple[Path, str]) -> None:
    """Nobody but the server's user reads its files; configuration is out of its own reach."""
    home = home_of(running[0])
    for folder in (home.cluster, home.run, home.socket_folder):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(home.root.stat().st_mode) & 0o007 == 0
    assert home.configuration.stat().st_uid == os.geteuid()
    if _AS_ROOT:
        assert home.cluster.stat().st_uid not in {0, pwd.getpwnam("nobody").pw_uid}
        with pytest.raises(KeyError):
            pwd.getpwuid(home.cluster.stat().st_uid)


def test_the_server_listens_on_no_network(running: tuple[Path, str]) -> None:
    """There is a socket in a folder, and no TCP port."""
    data_dir, url = running
    with closing(connect(url)) as connection:
        assert connection.execute("show listen_addresses").fetchone() == ("",)
    tables = ["/proc/net/tcp", "/proc/net/tcp6"]
    descriptors = Path(f"/proc/{server_pid(data_dir)}/fd").iterdir()
    inodes = {str(descriptor.readlink()) for descriptor in descriptors}
    for table in tables:
        for line in Path(table).read_text().splitlines()[1:]:
            assert f"socket:[{line.split()[9]}]" not in inodes


@pytest.mark.skipif(not _AS_ROOT, reason="only root can try as somebody else")
@pytest.mark.parametrize("role", ["ultracode", "postgres"])
def test_nobody_else_can_connect(running: tuple[Path, str], role: str) -> None:
    """Another user can neither reach the socket nor, if it could, be let in by the server."""
    data_dir, url = running
    home = home_of(data_dir)
    assert "Permission denied" in try_as_nobody(home, role)
    with opened_wide(home):
        assert "Peer authentication failed" in try_as_nobody(home, role)
    with closing(connect(url)) as connection:
        connection.execute("select 1")


@contextmanager
def opened_wide(home: Home) -> Iterator[None]:
    """The socket as if its folders let everybody in."""
    paths = (home.root, home.run, home.run / ".s.PGSQL.5432")
    before = [stat.S_IMODE(path.stat().st_mode) for path in paths]
    for path in paths:
        path.chmod(0o777)
    yield
    for path, mode in zip(paths, before, strict=True):
        path.chmod(mode)


def try_as_nobody(home: Home, role: str) -> str:
    nobody = pwd.getpwnam("nobody")
    psql = embedded._binary(home, "psql")
    tried = subprocess.run(
        [psql, "-h", home.socket_folder, "-U", role, "-d", "postgres", "-c", "select 1"],
        user=nobody.pw_uid,
        group=nobody.pw_gid,
        extra_groups=[],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert tried.returncode != 0
    return tried.stderr


def test_a_killed_server_is_started_again(data_dir: Path) -> None:
    """After the server was killed, its stale pid file stands in nobody's way."""
    url = embedded.start(data_dir, options=_FAST)
    with closing(connect(url)) as connection:
        connection.execute("create table kept (word text)")
    os.kill(server_pid(data_dir), signal.SIGKILL)
    assert embedded.start(data_dir, options=_FAST) == url
    with closing(connect(url)) as connection:
        connection.execute("select * from kept")


def test_a_pid_file_from_another_life_is_removed(data_dir: Path) -> None:
    """A pid that another process of the same user has by now, as after a container's restart."""
    url = embedded.start(data_dir, options=_FAST)
    home = home_of(data_dir)
    pid_file = home.cluster / "postmaster.pid"
    lines = pid_file.read_text().split("\n")
    embedded.stop(data_dir)
    user, group = (home.uid, home.gid) if _AS_ROOT else (None, None)
    with subprocess.Popen(["sleep", "600"], cwd="/", user=user, group=group) as sleeper:
        pid_file.write_text("\n".join([str(sleeper.pid), *lines[1:]]))
        pid_file.chmod(0o600)
        os.chown(pid_file, home.uid, home.gid)
        try:
            assert embedded.start(data_dir, options=_FAST) == url
        finally:
            sleeper.kill()


def test_stopping_what_does_not_run_is_fine(data_dir: Path) -> None:
    """Stopping twice, or before the first start, does nothing."""
    embedded.stop(data_dir)
    embedded.start(data_dir, options=_FAST)
    embedded.stop(data_dir)
    embedded.stop(data_dir)


async def test_the_last_one_out_stops_the_server(data_dir: Path) -> None:
    """While anybody holds the server it runs; when the last one leaves it stops."""
    async with embedded.embedded(data_dir, options=_FAST) as url:
        async with embedded.embedded(data_dir, options=_FAST) as same:
            assert same == url
        connect(url).close()
    with pytest.raises(psycopg.OperationalError):
        connect(url)


async def test_processes_share_one_server(data_dir: Path) -> None:
    """Web and worker started at the same moment use one server; a killed one does not keep it."""
    program = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from bot.store.embedded import embedded\n"
        "async def main():\n"
        "    async with embedded(Path(sys.argv[1])) as url:\n"
        "        print(url, flush=True)\n"
        "        await asyncio.to_thread(sys.stdin.read)\n"
        "asyncio.run(main())\n"
    )
    pipe = asyncio.subprocess.PIPE
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, str(data_dir), stdin=pipe, stdout=pipe
        )
        for _ in range(3)
    ]
    urls = set()
    for process in processes:
        assert process.stdout is not None
        urls.add((await process.stdout.readline()).decode().strip())
    (url,) = urls
    processes[0].kill()
    await processes[0].wait()
    await processes[1].communicate(b"")
    connect(url).close()
    await processes[2].communicate(b"")
    assert [process.returncode for process in processes] == [-signal.SIGKILL, 0, 0]
    with pytest.raises(psycopg.OperationalError):
        connect(url)
