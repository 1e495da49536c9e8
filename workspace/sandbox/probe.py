"""What the self-test runs inside: each check tries to break one guarantee and says whether it held.

In: one JSON object on the command line (what the host laid out as bait). Out: one JSON object, name
of the guarantee → "" when it held, else what went wrong. Standard library only, as it is passed to
any Python as source text.
"""

import ctypes
import errno
import json
import os
import resource
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

_VSOCK = 40
_NEW_USER = 0x10000000
_TIOCSTI = 0x5412
_PTRACE_ATTACH = 16
_KEYCTL = {"x86_64": 250, "aarch64": 219}
_PTRACE = {"x86_64": 101, "aarch64": 117}
_SET_BY_SHELLS_AND_ENGINES = ("PWD", "OLDPWD", "SHLVL", "_", "HOSTNAME", "TERM", "container")
_libc = ctypes.CDLL(None, use_errno=True)


def _refused(action: Callable[[], Any], *expected: int) -> str:
    """Whether an action fails with one of the expected errors."""
    try:
        result = action()
    except OSError as error:
        return "" if error.errno in expected else f"failed otherwise: {error}"
    return f"was possible: {result!r}"


def _call(number: int, *arguments: int) -> int:
    result: int = _libc.syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def _connected(family: int, address: Any) -> str:
    with socket.socket(family, socket.SOCK_STREAM) as client:
        client.settimeout(0.5)
        try:
            client.connect(address)
        except OSError:
            return ""
    return f"connected to {address!r}"


def _network_denied(_: dict[str, Any]) -> str:
    names = [name for _, name in socket.if_nameindex() if name != "lo"]
    return f"interfaces {names}" if names else _connected(socket.AF_INET, ("192.0.2.1", 80))


def _host_loopback_denied(bait: dict[str, Any]) -> str:
    return _connected(socket.AF_INET, ("127.0.0.1", bait["port"]))


def _abstract_sockets_denied(bait: dict[str, Any]) -> str:
    return _connected(socket.AF_UNIX, "\0" + bait["abstract"])


def _vsock_denied(_: dict[str, Any]) -> str:
    refusals = (errno.EPERM, errno.EAFNOSUPPORT)
    return _refused(lambda: socket.socket(_VSOCK, socket.SOCK_STREAM), *refusals)


def _only_workspace_writable(bait: dict[str, Any]) -> str:
    places = ["/", "/usr", "/etc", "/var", "/run", "/root", "/proc", "/sys", *bait["read_only"]]
    return "".join(_written(place) for place in places if os.path.isdir(place))


def _root_read_only(_: dict[str, Any]) -> str:
    return _written("/") + _written("/usr") + _written("/usr/lib")


def _dev_read_only(_: dict[str, Any]) -> str:
    known = {"console", "fd", "full", "null", "ptmx", "pts", "random", "shm"}
    known |= {"stderr", "stdin", "stdout", "tty", "urandom", "zero", "core", "mqueue"}
    strange = set(os.listdir("/dev")) - known
    return _written("/dev") or (f"/dev holds {sorted(strange)}" if strange else "")


def _written(folder: str) -> str:
    path = os.path.join(folder, "ultracode-probe")
    try:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
    except OSError:
        return ""
    return f"{path} could be written; "


def _host_files_hidden(bait: dict[str, Any]) -> str:
    seen = [path for path in (bait["secret"], "/proc/1/root" + bait["secret"]) if _exists(path)]
    return f"seen: {seen}" if seen else ""


def _exists(path: str) -> bool:
    with suppress(OSError):
        os.stat(path)
        return True
    return False


def _host_processes_hidden(bait: dict[str, Any]) -> str:
    wanted = bait["process_reversed"][::-1].encode()  # so that our own words do not hold it
    seen = [pid for pid, words in _processes() if wanted in words]
    return f"seen: {seen}" if seen else ""


def _processes() -> Iterator[tuple[str, bytes]]:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if int(pid) != os.getpid():
            with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
                yield pid, file.read()


def _host_environment_hidden(bait: dict[str, Any]) -> str:
    extra = set(os.environ) - {*bait["environment"], *_SET_BY_SHELLS_AND_ENGINES}
    return f"seen: {sorted(extra)}" if extra else ""


def _no_user_namespaces(_: dict[str, Any]) -> str:
    def attempt() -> None:
        if _libc.unshare(_NEW_USER):
            raise OSError(ctypes.get_errno(), "unshare")

    return _refused(attempt, errno.EPERM, errno.ENOSPC)


def _seccomp(_: dict[str, Any]) -> str:
    machine = os.uname().machine
    if machine not in _KEYCTL:
        return ""
    found = _refused(lambda: _call(_KEYCTL[machine], 0, -3, 0), errno.EPERM)
    return found or _refused(lambda: _call(_PTRACE[machine], _PTRACE_ATTACH, 1, 0, 0), errno.EPERM)


def _no_tiocsti(_: dict[str, Any]) -> str:
    import fcntl  # noqa: PLC0415 - kept beside its only use

    master, slave = os.openpty()
    del master
    return _refused(lambda: fcntl.ioctl(slave, _TIOCSTI, b"x"), errno.EPERM, errno.EIO)


def _no_core_dumps(_: dict[str, Any]) -> str:
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    limits = resource.getrlimit(resource.RLIMIT_CORE)
    if max(limits) > 1:
        return f"the limit is {limits}"
    if not os.fork():
        os.abort()
    status = os.wait()[1]
    return "a core was dumped" if os.WCOREDUMP(status) else ""


CHECKS = (
    _network_denied, _host_loopback_denied, _abstract_sockets_denied, _vsock_denied,
    _only_workspace_writable, _root_read_only, _dev_read_only, _host_files_hidden,
    _host_processes_hidden, _host_environment_hidden, _no_user_namespaces, _seccomp, _no_tiocsti,
    _no_core_dumps,
)  # fmt: skip


def main() -> None:
    """Run every check."""
    bait = json.loads(sys.argv[1])
    print(json.dumps({check.__name__.removeprefix("_"): _tried(check, bait) for check in CHECKS}))


def _tried(check: Callable[[dict[str, Any]], str], bait: dict[str, Any]) -> str:
    try:
        return check(bait)
    except Exception as error:  # noqa: BLE001 - a check that fails has not shown that its guarantee holds
        return f"the check itself failed: {error!r}"


if __name__ == "__main__":
    main()
