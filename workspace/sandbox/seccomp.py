"""The system call filter: what no command under test needs, and what escapes are made of.

In: nothing. Out: a BPF program for `bwrap --seccomp`, built by libseccomp for this machine's own
architecture (calls made through any other one kill the caller), and the same rules as a profile for
container engines.
"""

import errno
import functools
import json
import os
import socket
import stat
from collections.abc import Iterator
from typing import Literal, NamedTuple

import pyseccomp

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

_COMPARISONS = {
    "EQ": pyseccomp.EQ,
    "NE": pyseccomp.NE,
    "GE": pyseccomp.GE,
    "MASKED_EQ": pyseccomp.MASKED_EQ,
}


class _When(NamedTuple):
    """A condition on one argument; for MASKED_EQ `value` is the mask."""

    argument: int
    comparison: Literal["EQ", "NE", "GE", "MASKED_EQ"]
    value: int
    value_two: int = 0


class _Rule(NamedTuple):
    """A call that fails with an error (0: succeeds without effect) when all conditions hold."""

    error: int
    name: str
    when: tuple[_When, ...] = ()


@functools.cache
def load_program() -> bytes:
    """The filter as a BPF program.

    Raises:
        OSError: libseccomp refuses a rule.
    """
    compiled = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    for rule in _rules():
        number = pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, rule.name)
        number = _NUMBERS.get(rule.name, -1) if number == -1 else number
        if number >= 0:  # else this architecture never had the call
            conditions = (
                pyseccomp.Arg(w.argument, _COMPARISONS[w.comparison], w.value, w.value_two)
                for w in rule.when
            )
            compiled.add_rule(pyseccomp.ERRNO(rule.error), number, *conditions)
    with os.fdopen(os.memfd_create("seccomp"), "rb") as file:
        compiled.export_bpf(file)
        file.seek(0)
        return file.read()


def container_profile() -> str:
    """The filter as a profile for `--security-opt seccomp=` of Docker and Podman."""
    calls = [
        {
            "names": [rule.name],
            "action": "SCMP_ACT_ERRNO",
            "errnoRet": rule.error,
            "args": [
                {
                    "index": when.argument,
                    "value": when.value,
                    "valueTwo": when.value_two,
                    "op": f"SCMP_CMP_{when.comparison}",
                }
                for when in rule.when
            ],
        }
        for rule in _rules()
    ]
    return json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": calls})


def _rules() -> Iterator[_Rule]:
    for name in _REFUSED:
        yield _Rule(errno.EPERM, name)
    for name in _ABSENT:
        yield _Rule(errno.ENOSYS, name)
    for bit in _NEW_NAMESPACE:
        yield _Rule(errno.EPERM, "clone", (_When(0, "MASKED_EQ", bit, bit),))
    for request in _TERMINAL_INPUT:
        yield _Rule(errno.EPERM, "ioctl", (_When(1, "MASKED_EQ", _INT, request),))
    yield from _mode_rules()
    yield from _socket_rules()
    yield from _core_dump_rules()


def _mode_rules() -> Iterator[_Rule]:
    """No set-user-id, no set-group-id, no device nodes."""
    for name, argument in _MODE_ARGUMENT.items():
        for bit in (stat.S_ISUID, stat.S_ISGID):
            yield _Rule(errno.EPERM, name, (_When(argument, "MASKED_EQ", bit, bit),))
    for name in ("mknod", "mknodat"):
        for kind in (stat.S_IFCHR, stat.S_IFBLK):
            mode = _When(_MODE_ARGUMENT[name], "MASKED_EQ", _FILE_KIND, kind)
            yield _Rule(errno.EPERM, name, (mode,))


def _socket_rules() -> Iterator[_Rule]:
    """Only UNIX, INET, INET6 and, of NETLINK, only the routing tables that libc asks for."""
    last = max(_FAMILIES)
    for name in ("socket", "socketpair"):
        yield _Rule(errno.EPERM, name, (_When(0, "GE", last + 1),))
        for family in set(range(last)) - set(_FAMILIES):
            yield _Rule(errno.EPERM, name, (_When(0, "EQ", family),))
        others = (_When(0, "EQ", int(socket.AF_NETLINK)), _When(2, "NE", 0))
        yield _Rule(errno.EPERM, name, others)


def _core_dump_rules() -> Iterator[_Rule]:
    """Setting the core limit succeeds and changes nothing.

    It stands at 1, the one value at which the kernel neither writes a file nor starts the host's
    core handler (at 0 it does start the handler: man 5 core, fs/coredump.c).
    """
    core = _When(0, "EQ", _RLIMIT_CORE)
    yield _Rule(0, "setrlimit", (core,))
    yield _Rule(0, "prlimit64", (core._replace(argument=1), _When(2, "NE", 0)))
