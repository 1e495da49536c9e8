"""What a command sees of the file system, prepared in a mount namespace that dies with the command.

In: host folders. Out: a stage below /tmp of that namespace, from which bubblewrap binds: everything
the command can write lies in one sized tmpfs, and the workspace is an overlay whose upper layer
lies there too, so that one cap holds for all of it. As nothing is mounted outside the namespace,
nothing can be left behind, and no host folder needs to be readable for the command's user.

The workspace's files keep their owner on disk: an ID-mapped mount (below an overlay since Linux
5.19) shows them as the command's own. Where the kernel or the file system offers no such overlay,
the workspace is copied into the tmpfs instead.
"""

import contextlib
import errno
import os
import signal
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from workspace.sandbox import syscalls
from workspace.sandbox.writeback import Copier, Held, Snapshot, opened, take_snapshot

STAGE = "/tmp"  # noqa: S108 - of the namespace: covered by our own tmpfs before anything is put there
_COPIED_FROM_ETC = (
    "ld.so.cache", "mime.types", "protocols", "services", "ssl/openssl.cnf",
    "ssl/certs/ca-certificates.crt",
)  # fmt: skip
_LINKS_FROM_ETC = "alternatives"
_MADE_FOR_ETC = {
    "passwd": "root:x:0:0::/nonexistent:/usr/sbin/nologin\n"
    "sandbox:x:1000:1000::/home/sandbox:/bin/sh\nnobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n",
    "group": "root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost\n::1 localhost\n127.0.1.1 sandbox\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the command runs as on the host, and who owns the files it is given."""

    uid: int
    gid: int
    is_slot: bool
    """Started as root, so that `uid` is a slot's; otherwise it is the bot's own user."""


@dataclass(slots=True)
class Stage:
    """The prepared layers of one command."""

    workspace: int
    """The workspace on the host, open."""
    owner: tuple[int, int]
    opaque: str
    """The attribute with which this overlay marks a folder that hides what was there before; the
    command cannot set it itself (kernel documentation, overlayfs, "userxattr")."""
    copied: Snapshot | None = None
    """Set when the workspace was copied instead of overlaid."""
    mounts: list[str] = field(default_factory=list)
    """Stage paths of the read-only sources, in the order they were asked for."""


def enter_namespace(identity: Identity) -> None:
    """Give this process a mount namespace of its own, with the right to mount in it.

    Raises:
        OSError: the kernel or its security modules forbid it to this user.
    """
    if identity.is_slot:
        syscalls.unshare(syscalls.CLONE_NEWNS)
    else:
        syscalls.unshare(syscalls.CLONE_NEWUSER | syscalls.CLONE_NEWNS)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{identity.uid} {identity.uid} 1")
        Path("/proc/self/gid_map").write_text(f"{identity.gid} {identity.gid} 1")
    syscalls.mount("none", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE)


_FLAGS = syscalls.MS_NOSUID | syscalls.MS_NODEV
_FOLDERS = {
    "tmp": 0o1777,
    "shm": 0o1777,
    "home": 0o700,
    "out": 0o755,
    "ws": 0o755,
    "upper": 0o755,
    "work": 0o755,
    "lower": 0o755,
}


def build_stage(identity: Identity) -> int:
    """A tmpfs with what every command finds in it, mounted nowhere yet: its root, open.

    Raises:
        OSError: the kernel refuses.
    """
    root = syscalls.make_tmpfs(mode="0755")
    for name, mode in _FOLDERS.items():
        os.mkdir(name, mode, dir_fd=root)
        os.chmod(name, mode, dir_fd=root)
        if identity.is_slot:
            os.chown(name, identity.uid, identity.gid, dir_fd=root)
    for name in ("mounts", "etc", "etc/ssl", "etc/ssl/certs", f"etc/{_LINKS_FROM_ETC}"):
        os.mkdir(name, 0o755, dir_fd=root)
    for name, text in _MADE_FOR_ETC.items():
        _write(root, f"etc/{name}", text.encode())
    for name in _COPIED_FROM_ETC:
        with contextlib.suppress(OSError):
            _write(root, f"etc/{name}", Path("/etc", name).read_bytes())
    for link in Path("/etc", _LINKS_FROM_ETC).glob("[!.]*[!z]"):  # without manual pages (.gz)
        with contextlib.suppress(OSError):  # a file among the links is of no use here
            os.symlink(link.readlink(), f"etc/{_LINKS_FROM_ETC}/{link.name}", dir_fd=root)
    return root


def _write(root: int, name: str, content: bytes) -> None:
    with open(os.open(name, os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=root), "wb") as file:
        file.write(content)


def mount_stage(identity: Identity, root: int, workspace: int, sources: Iterable[str]) -> Stage:
    """Mount the stage, with the read-only sources in place.

    Raises:
        OSError: a source is missing, or the kernel refuses a mount.
    """
    opened = [os.open(source, os.O_PATH | os.O_CLOEXEC) for source in sources]
    syscalls.attach(root, STAGE)
    found = os.fstat(workspace)
    opaque = "trusted.overlay.opaque" if identity.is_slot else "user.overlay.opaque"
    stage = Stage(workspace, (found.st_uid, found.st_gid), opaque)
    for number, source in enumerate(opened):
        stage.mounts.append(_show(source, f"{STAGE}/mounts/{number}"))
    return stage


def limit(*, size: int, files: int) -> None:
    """Leave room on the stage for so many more bytes and files than it holds now.

    Raises:
        OSError: the kernel refuses.
    """
    own = os.statvfs(STAGE)
    size += (own.f_blocks - own.f_bfree) * own.f_frsize
    files += own.f_files - own.f_ffree
    options = f"size={size},nr_inodes={files}"
    syscalls.mount("tmpfs", STAGE, "tmpfs", _FLAGS | syscalls.MS_REMOUNT, options)


def _show(source: int, target: str) -> str:
    if stat.S_ISDIR(os.fstat(source).st_mode):
        os.mkdir(target)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o444))
    syscalls.bind(source, target)
    os.close(source)
    return target


def lay_over(stage: Stage, identity: Identity, own: int | None) -> None:
    """Show the workspace at `ws`, with every write going to the upper layer.

    `own` is what `map_owner` made ahead of time for files that belong to the bot's own user.

    Raises:
        OSError: this kernel or file system cannot; `copy_in` always can.
    """
    options = f"lowerdir={STAGE}/lower,upperdir={STAGE}/upper,workdir={STAGE}/work"
    if identity.is_slot:
        if own is None or stage.owner != (os.geteuid(), os.getegid()):
            own = map_owner(stage.owner, identity)
        syscalls.bind_idmapped(stage.workspace, f"{STAGE}/lower", own)
    else:
        os.setxattr(f"{STAGE}/upper", "user.ultracode", b"")  # tmpfs has them since Linux 6.6
        options += ",userxattr"
        syscalls.bind(stage.workspace, f"{STAGE}/lower")
    syscalls.mount("overlay", f"{STAGE}/ws", "overlay", _FLAGS, options)


def copy_in(stage: Stage, identity: Identity) -> None:
    """Copy the workspace to `ws` and remember what was copied.

    Raises:
        OSError: it does not fit, or cannot be read.
    """
    copier = Copier(owner=(identity.uid, identity.gid))
    with opened(f"{STAGE}/ws") as target:
        copier.copy_folder(stage.workspace, target)
        stage.copied = take_snapshot(target)


def write_back(stage: Stage, before_each: Callable[[], None]) -> Held:
    """Bring what was written to `ws` into the workspace; says by how much it grew.

    Raises:
        OSError, TooDeep: the workspace is now neither what it was nor what it should be.
    """
    if stage.copied is None:
        copier = Copier(owner=stage.owner, before_each=before_each, opaque=stage.opaque)
        with opened(f"{STAGE}/upper") as source:
            copier.copy_folder(source, stage.workspace)
        return copier.held
    copier = Copier(owner=stage.owner, before_each=before_each, unchanged=stage.copied)
    with opened(f"{STAGE}/ws") as source:
        copier.copy_folder(source, stage.workspace)
    copier.remove_missing(stage.workspace, stage.copied)
    return copier.held


def hand_out(scratch: int, before_each: Callable[[], None]) -> None:
    """Copy the regular files of `out` to an open folder of the host.

    Raises:
        OSError, TooDeep: not everything could be copied.
    """
    found = os.fstat(scratch)
    with opened(f"{STAGE}/out") as source:
        copier = Copier(
            owner=(found.st_uid, found.st_gid), before_each=before_each, only_files=True
        )
        copier.copy_folder(source, scratch)


def map_owner(owner: tuple[int, int], identity: Identity) -> int:
    """A user namespace (its descriptor) in which the owner's files are the command's own.

    Raises:
        OSError: the kernel refuses.
    """
    ready, told = os.pipe()
    keeper = os.getpid()
    pid = os.fork()
    if not pid:
        with contextlib.suppress(OSError):
            syscalls.unshare(syscalls.CLONE_NEWUSER)
            syscalls.die_with_parent(keeper)  # or it would wait for ever after one that was killed
            os.write(told, b"1")
            signal.pause()
        os._exit(1)
    os.close(told)
    try:
        if not os.read(ready, 1):
            raise OSError(errno.EPERM, "no user namespace can be made")
        for file, outside, inside in zip(
            ("uid_map", "gid_map"), owner, (identity.uid, identity.gid), strict=True
        ):
            Path(f"/proc/{pid}/{file}").write_text(f"{outside} {inside} 1")
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(ready)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
