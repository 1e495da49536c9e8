"""The few Linux calls the sandbox needs and Python does not offer, with errors as `OSError`.

Numbers of the newer calls are the same on every architecture (man 2 syscalls). Used only in the
launcher's own processes, never in the bot's.
"""

import ctypes
import os

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38

_SYS_OPEN_TREE = 428
_SYS_MOVE_MOUNT = 429
_SYS_FSOPEN = 430
_SYS_FSCONFIG = 431
_SYS_FSMOUNT = 432
_SYS_MOUNT_SETATTR = 442
_FSOPEN_CLOEXEC = 1
_FSMOUNT_CLOEXEC = 1
_FSCONFIG_SET_STRING = 1
_FSCONFIG_CMD_CREATE = 6
_MOUNT_ATTR_NOSUID = 0x2
_MOUNT_ATTR_NODEV = 0x4
_OPEN_TREE_CLONE = 1
_MOVE_MOUNT_F_EMPTY_PATH = 4
_AT_EMPTY_PATH = 0x1000
_AT_FDCWD = -100
_MOUNT_ATTR_IDMAP = 0x00100000

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
_libc.mount.argtypes = [*[ctypes.c_char_p] * 3, ctypes.c_ulong, ctypes.c_char_p]


class _MountAttributes(ctypes.Structure):
    """`struct mount_attr` of man 2 mount_setattr."""

    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def unshare(flags: int) -> None:
    """Give this process new namespaces."""
    _checked(_libc.unshare(flags), "unshare")


def mount(source: str, target: str, kind: str, flags: int = 0, options: str = "") -> None:
    """Mount or remount; see man 2 mount."""
    arguments = (os.fsencode(source), os.fsencode(target), kind.encode())
    _checked(_libc.mount(*arguments, flags, options.encode()), f"mount {kind or 'bind'} {target}")


def make_tmpfs(**options: str) -> int:
    """A tmpfs that is mounted nowhere yet: the descriptor of its root (Linux 5.2).

    Raises:
        OSError: the kernel refuses.
    """
    context = _syscall("fsopen", _SYS_FSOPEN, b"tmpfs", _FSOPEN_CLOEXEC)
    try:
        for name, value in options.items():
            words = (_FSCONFIG_SET_STRING, name.encode(), value.encode(), 0)
            _syscall(f"fsconfig {name}", _SYS_FSCONFIG, context, *words)
        _syscall("fsconfig", _SYS_FSCONFIG, context, _FSCONFIG_CMD_CREATE, None, None, 0)
        attributes = _MOUNT_ATTR_NOSUID | _MOUNT_ATTR_NODEV
        return _syscall("fsmount", _SYS_FSMOUNT, context, _FSMOUNT_CLOEXEC, attributes)
    finally:
        os.close(context)


def attach(mount_fd: int, target: str) -> None:
    """Mount a file system or copied tree that is mounted nowhere yet at `target`."""
    _syscall(
        "move_mount",
        _SYS_MOVE_MOUNT,
        mount_fd,
        b"",
        _AT_FDCWD,
        os.fsencode(target),
        _MOVE_MOUNT_F_EMPTY_PATH,
    )


def bind(source_fd: int, target: str) -> None:
    """Show what `source_fd` (opened with O_PATH in this mount namespace) is at `target` as well."""
    mount(f"/proc/self/fd/{source_fd}", target, "", MS_BIND | MS_REC)


def bind_idmapped(source_fd: int, target: str, user_namespace: int) -> None:
    """As `bind`, with owners translated as that user namespace maps them (Linux 5.12)."""
    tree = _syscall("open_tree", _SYS_OPEN_TREE, source_fd, b"", _OPEN_TREE_CLONE | _AT_EMPTY_PATH)
    try:
        attributes = _MountAttributes(attr_set=_MOUNT_ATTR_IDMAP, userns_fd=user_namespace)
        _syscall(
            "mount_setattr",
            _SYS_MOUNT_SETATTR,
            tree,
            b"",
            _AT_EMPTY_PATH,
            ctypes.byref(attributes),
            ctypes.sizeof(attributes),
        )
        attach(tree, target)
    finally:
        os.close(tree)


def _syscall(name: str, number: int, *arguments: object) -> int:
    typed = (ctypes.c_long(a) if isinstance(a, int) else a for a in arguments)
    return _checked(_libc.syscall(ctypes.c_long(number), *typed), name)


def die_with_parent(parent: int) -> None:
    """Be killed when the parent ends, also when it already has."""
    _prctl(_PR_SET_PDEATHSIG, 9)
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def forbid_new_privileges() -> None:
    """From here on, no program started gains privileges from set-uid bits or file capabilities."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def _prctl(option: int, value: int) -> None:
    _checked(_libc.prctl(option, value, 0, 0, 0), "prctl")
