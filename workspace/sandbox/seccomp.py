"""The system call filter: what no command under test needs, and what escapes are made of.

In: nothing. Out: a BPF program for `bwrap --seccomp`, built by libseccomp for this machine's own
architecture; calls made through any other one kill the caller.
"""

import errno
import functools
import os
import socket
import stat
from collections.abc import Iterator

import pyseccomp
from pyseccomp import EQ, GE, MASKED_EQ, NE, Arg

_REFUSED = [
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "process_madvise",
    "pidfd_getfd",
    "kcmp",
    "bpf",
    "perf_event_open",
    "userfaultfd",
    "keyctl",
    "add_key",
    "request_key",
    "mount",
    "umount2",
    "pivot_root",
    "move_mount",
    "open_tree",
    "open_tree_attr",
    "mount_setattr",
    "fsopen",
    "fsmount",
    "fsconfig",
    "fspick",
    "unshare",
    "setns",
    "chroot",
    "init_module",
    "finit_module",
    "delete_module",
    "kexec_load",
    "kexec_file_load",
    "reboot",
    "swapon",
    "swapoff",
    "acct",
    "quotactl",
    "quotactl_fd",
    "open_by_handle_at",
    "fanotify_init",
    "lookup_dcookie",
    "syslog",
    "iopl",
    "ioperm",
    "modify_ldt",
    "settimeofday",
    "clock_settime",
    "clock_adjtime",
    "adjtimex",
    "sethostname",
    "setdomainname",
    "vhangup",
    "move_pages",
    "migrate_pages",
]
# Their arguments lie in memory, where no filter sees them, or they repeat an older call's power;
# callers fall back to the older call, which is filtered.
_ABSENT = [
    "clone3",
    "openat2",
    "fchmodat2",
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
]
_NUMBERS = {  # newer than libseccomp 2.5.4 (Debian 12); the same on every architecture
    "fchmodat2": 452,
    "open_tree_attr": 467,
}
_NEW_NAMESPACE = (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)
_MODE_ARGUMENT = {
    "chmod": 1, "fchmod": 1, "fchmodat": 2, "creat": 1, "open": 2, "openat": 3, "mknod": 1,
    "mknodat": 2,
}  # fmt: skip
_FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)
_TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
_FILE_KIND = 0o170000  # S_IFMT
_RLIMIT_CORE = 4
_INT = 0xFFFFFFFF

Rule = tuple[int, str, tuple[Arg, ...]]


@functools.cache
def load_program() -> bytes:
    """The filter as a BPF program.

    Raises:
        OSError: libseccomp refuses a rule.
    """
    compiled = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    for action, name, arguments in _rules():
        number = pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name)
        number = _NUMBERS.get(name, -1) if number == -1 else number
        if number >= 0:  # else this architecture never had the call
            compiled.add_rule(action, number, *arguments)
    with os.fdopen(os.memfd_create("seccomp"), "rb") as file:
        compiled.export_bpf(file)
        file.seek(0)
        return file.read()


def _rules() -> Iterator[Rule]:
    refuse = pyseccomp.ERRNO(errno.EPERM)
    for name in _REFUSED:
        yield refuse, name, ()
    for name in _ABSENT:
        yield pyseccomp.ERRNO(errno.ENOSYS), name, ()
    for bit in _NEW_NAMESPACE:
        yield refuse, "clone", (Arg(0, MASKED_EQ, bit, bit),)
    for request in _TERMINAL_INPUT:
        yield refuse, "ioctl", (Arg(1, MASKED_EQ, _INT, request),)
    yield from _mode_rules(refuse)
    yield from _socket_rules(refuse)
    yield from _core_dump_rules()


def _mode_rules(refuse: int) -> Iterator[Rule]:
    """No set-user-id, no set-group-id, no device nodes."""
    for name, argument in _MODE_ARGUMENT.items():
        for bit in (stat.S_ISUID, stat.S_ISGID):
            yield refuse, name, (Arg(argument, MASKED_EQ, bit, bit),)
    for name in ("mknod", "mknodat"):
        for kind in (stat.S_IFCHR, stat.S_IFBLK):
            mode = Arg(_MODE_ARGUMENT[name], MASKED_EQ, _FILE_KIND, kind)
            yield refuse, name, (mode,)


def _socket_rules(refuse: int) -> Iterator[Rule]:
    """Only UNIX, INET, INET6 and, of NETLINK, only the routing tables that libc asks for."""
    last = max(_FAMILIES)
    for name in ("socket", "socketpair"):
        yield refuse, name, (Arg(0, GE, last + 1),)
        for family in set(range(last)) - set(_FAMILIES):
            yield refuse, name, (Arg(0, EQ, family),)
        yield refuse, name, (Arg(0, EQ, int(socket.AF_NETLINK)), Arg(2, NE, 0))


def _core_dump_rules() -> Iterator[Rule]:
    """Setting the core limit succeeds and changes nothing.

    It stands at 1, the one value at which the kernel neither writes a file nor starts the host's
    core handler (at 0 it does start the handler: man 5 core, fs/coredump.c).
    """
    pretend = pyseccomp.ERRNO(0)
    yield pretend, "setrlimit", (Arg(0, EQ, _RLIMIT_CORE),)
    yield pretend, "prlimit64", (Arg(1, EQ, _RLIMIT_CORE), Arg(2, NE, 0))
