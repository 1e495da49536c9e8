"""Where the embedded PostgreSQL lives and as whom it runs. In: the data folder. Out: a `Home`.

Why: three facts of the machine decide it: whether we are root (then the server gets a numeric user
of its own), whether that user can reach the data folder (else the cluster lives in /var/lib, and a
note in the data folder says so), and how long the path is (a socket's path holds 107 bytes).
Folders that were there before are never changed.
"""

import grp
import hashlib
import logging
import os
import pwd
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bot.errors import EmbeddedDatabaseError

_LOG: Final = logging.getLogger(__name__)

#: Neither Debian nor systemd gives these numbers to anybody
#: (https://systemd.io/UIDS-GIDS/: 60706 to 61183 are unused), and they exist in containers too.
_UIDS: Final = range(60706, 61184)
_ELSEWHERE: Final = Path("/var/lib/ultracode-postgres")
_LONGEST_SOCKET_FOLDER: Final = 107 - len("/.s.PGSQL.5432.lock")


@dataclass(frozen=True)
class Home:
    """The folders of one embedded server, and the user it runs as."""

    root: Path
    uid: int
    gid: int
    moved_note: Path

    @property
    def as_root(self) -> bool:
        """Whether we are root and the server therefore runs as another user."""
        return os.geteuid() == 0

    @property
    def cluster(self) -> Path:
        """PostgreSQL's data directory; its name is the major version."""
        return self.root / "18"

    @property
    def run(self) -> Path:
        """The server's own folder for its log and, where the path is short enough, its socket."""
        return self.root / "run"

    @property
    def log(self) -> Path:
        """What the server wrote."""
        return self.run / "postgres.log"

    @property
    def configuration(self) -> Path:
        """postgresql.conf, beside pg_hba.conf and pg_ident.conf, where the server cannot write."""
        return self.root / "postgresql.conf"

    @property
    def socket_folder(self) -> Path:
        """The folder of the socket: in the home, or in /tmp where that path is too long."""
        if len(os.fsencode(self.run)) <= _LONGEST_SOCKET_FOLDER:
            return self.run
        return Path("/tmp") / f"ultracode-postgres-{_fingerprint(self.root)}"  # noqa: S108 - 0700, checked

    @property
    def nobody_uid(self) -> int:
        """A user who has a name, for initdb."""
        return pwd.getpwnam("nobody").pw_uid if self.as_root else self.uid


def locate_home(data_dir: Path, can_enter: Callable[[Home, Path], bool]) -> Home:
    """Find or choose the home of the server of `data_dir`, and create its top folder.

    Args:
        data_dir: The bot's data folder; created if missing.
        can_enter: Tells whether the server's user can reach a folder.

    Raises:
        EmbeddedDatabaseError: The cluster there belongs to somebody else.
    """
    data_dir.mkdir(parents=True, exist_ok=True)
    data_dir = data_dir.resolve()
    note = data_dir / "postgres.moved"
    beside = _home_in(data_dir / "postgres", note)
    if beside.cluster.exists() or os.geteuid() != 0:
        home = beside
    elif note.exists() or not can_enter(beside, data_dir):
        home = _home_in(_ELSEWHERE / _fingerprint(data_dir), note)
        _say_moved(home, data_dir)
    else:
        home = beside
    _create_root(home)
    return home


def create_folders(home: Home) -> None:
    """Create the server's own folders: mode 0700, owned by its user.

    Raises:
        EmbeddedDatabaseError: Somebody else made a folder of that name first.
    """
    for folder in {home.run, home.socket_folder}:
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            _demand_private(folder, home)
        else:
            if home.as_root:
                os.chown(folder, home.uid, home.gid)


def write_configuration(home: Home, options: Mapping[str, str]) -> None:
    """Write the server's configuration: a socket for its starter, nothing else.

    Raises:
        EmbeddedDatabaseError: The user who runs us has no name, which peer authentication needs.
    """
    chosen = {
        "data_directory": str(home.cluster),
        "hba_file": str(home.root / "pg_hba.conf"),
        "ident_file": str(home.root / "pg_ident.conf"),
        "listen_addresses": "",
        "unix_socket_directories": f'"{home.socket_folder}"',
        "unix_socket_permissions": "0700",
        "max_connections": "200",
        "log_min_error_statement": "panic",  # statements may hold people's words
        "log_parameter_max_length_on_error": "0",
        "timezone": "UTC",
        "log_timezone": "UTC",
        **options,
    }
    lines = (f"{name} = {_quoted(value)}\n" for name, value in chosen.items())
    _write(home, home.configuration, "".join(lines))
    _write(home, home.root / "pg_hba.conf", "local all all peer map=starter\n")
    me = _own_name().replace('"', '""')
    roles = ("postgres", "ultracode")
    _write(
        home,
        home.root / "pg_ident.conf",
        "".join(f'starter "{me}" {role}\n' for role in roles),
    )


def _home_in(root: Path, note: Path) -> Home:
    if os.geteuid() != 0:
        _demand_own(root)
        return Home(root=root, uid=os.geteuid(), gid=os.getegid(), moved_note=note)
    uid, gid = _server_user(root)
    return Home(root=root, uid=uid, gid=gid, moved_note=note)


def _server_user(root: Path) -> tuple[int, int]:
    """Whoever owns the cluster; before there is one, whose group may enter the top folder."""
    if (cluster := root / "18").exists():
        found = cluster.stat()
        if found.st_uid == 0:
            raise EmbeddedDatabaseError(f"{cluster} belongs to root. PostgreSQL does not run so.")
        return found.st_uid, found.st_gid
    chosen = root.stat().st_gid if root.exists() else _choose_uid(root)
    return chosen, chosen


def _demand_own(root: Path) -> None:
    if root.exists() and root.stat().st_uid != os.geteuid():
        raise EmbeddedDatabaseError(
            f"{root} belongs to another user (uid {root.stat().st_uid}). Start as that user, set "
            "ULTRACODE_DATA_DIR to a folder of your own, or set DATABASE_URL."
        )


def _choose_uid(root: Path) -> int:
    """The number of a user that nobody is: no name, no group, no process.

    It follows from the folder, so that two servers of one machine do not share a user.
    """
    first = int(_fingerprint(root), 16) % len(_UIDS)
    running = {owner for path in Path("/proc").glob("[0-9]*") if (owner := _uid_of(path))}
    for offset in range(len(_UIDS)):
        uid = _UIDS[(first + offset) % len(_UIDS)]
        if uid not in running and not _has_name(uid):
            return uid
    raise EmbeddedDatabaseError("No user number is free for the embedded PostgreSQL.")


def _uid_of(process: Path) -> int | None:
    try:
        return process.stat().st_uid
    except FileNotFoundError:  # it has just ended
        return None


def _has_name(number: int) -> bool:
    for look_up in (pwd.getpwuid, grp.getgrgid):
        try:
            look_up(number)
        except KeyError:
            continue
        return True
    return False


def _own_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        raise EmbeddedDatabaseError(
            f"The embedded PostgreSQL needs a user with a name, and uid {os.geteuid()} has none "
            "in /etc/passwd. Start as another user, or set DATABASE_URL."
        ) from None


def _create_root(home: Home) -> None:
    """Create the top folder: as root it stays root's, and only the server's group may enter."""
    home.root.parent.mkdir(parents=True, exist_ok=True)
    if home.root.exists():
        return
    new = home.root.with_name(f".{home.root.name}.{os.getpid()}")
    new.mkdir(mode=0o700)
    if home.as_root:
        os.chown(new, 0, home.gid)
        new.chmod(0o710)
    try:
        new.rename(home.root)
    except OSError:  # another process was faster
        new.rmdir()


def _demand_private(folder: Path, home: Home) -> None:
    found = folder.lstat()
    private = stat.S_ISDIR(found.st_mode) and not stat.S_IMODE(found.st_mode) & 0o077
    if not private or found.st_uid != home.uid:
        raise EmbeddedDatabaseError(
            f"{folder} must be a folder of mode 0700 owned by uid {home.uid}, and is not. "
            "Remove it if it is not needed."
        )


def _say_moved(home: Home, data_dir: Path) -> None:
    if home.moved_note.exists():
        return
    sentence = (
        f"The database's user cannot enter {data_dir}, so the embedded PostgreSQL keeps its data "
        f"in {home.root}."
    )
    home.moved_note.write_text(sentence + "\n")
    _LOG.warning(sentence)


def _write(home: Home, path: Path, text: str) -> None:
    """Write a file that the server may read and not write."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.chmod(0o640 if home.as_root else 0o600)
    if home.as_root:
        os.chown(new, 0, home.gid)
    new.rename(path)


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _fingerprint(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:12]
