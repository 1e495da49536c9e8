"""Attacks on the host from inside: its files, environment, processes, sockets and devices."""

import ctypes
import os
import re
import socket
from pathlib import Path

import pytest

from tests.integration.sandbox.conftest import PYTHON_BASE, Run, running
from workspace.sandbox.backend import Limits
from workspace.sandbox.witness import load_processes, new_token, until

pytestmark = pytest.mark.sandbox

REFUSED = """
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def refusal(result):
    return errno.errorcode[ctypes.get_errno()] if result < 0 else "POSSIBLE"
def call(number, *arguments):
    return refusal(libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments)))
"""


async def test_host_files_cannot_be_read(run: Run, outside: Path) -> None:
    """A world-readable file of the host is nowhere to be found, by any road through /proc."""
    (outside / "secret").write_text("the secret of the host")
    outcome = await run(
        'for root in "" /proc/1/root /proc/self/root /proc/1/cwd/../.. ../../..; do'
        ' cat "$root$1"; done; ls -a /root /home/* /var /run /srv /mnt /opt /boot',
        str(outside / "secret"),
    )
    assert b"the secret" not in outcome.output


async def test_accounts_of_the_host_cannot_be_read(run: Run) -> None:
    """Neither password hashes nor the host's list of users show."""
    outcome = await run("cat /etc/shadow; cut -d: -f1 /etc/passwd")
    assert outcome.output.split()[-3:] == [b"root", b"sandbox", b"nobody"]
    assert b"No such file" in outcome.output


async def test_the_bots_environment_is_not_passed_on(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A secret in the bot's environment is in no environment a command can read."""
    monkeypatch.setenv("ULTRACODE_TEST_SECRET", "environment-secret")
    outcome = await run("env; cat /proc/*/environ | tr '\\0' '\\n'")
    assert b"environment-secret" not in outcome.output
    assert b"ULTRACODE" not in outcome.output


async def test_a_commands_environment_does_not_reach_bubblewrap(run: Run) -> None:
    """Variables that steer the dynamic linker act inside, never on bubblewrap outside."""
    outcome = await run("true", env={"LD_SHOW_AUXV": "1"})
    assert b"AT_EXECFN" in outcome.output
    assert b"bwrap" not in outcome.output


async def test_host_processes_cannot_be_seen_or_signalled(run: Run) -> None:
    """/proc shows the command's own processes only; a signal to all reaches nobody else."""
    outcome = await run("cat /proc/[0-9]*/cmdline | tr '\\0' ' '; ls -d /proc/[0-9]*; kill -9 -1")
    assert b"pytest" not in outcome.output
    assert b"workspace.sandbox.launcher" not in outcome.output
    assert len(re.findall(rb"^/proc/[0-9]+$", outcome.output, re.MULTILINE)) < 10
    assert (await run("echo still here")).output == b"still here\n"


async def test_services_on_the_hosts_loopback_cannot_be_reached(python: Run) -> None:
    """A port open on the host's 127.0.0.1 is closed inside."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        await python(
            "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])), 2)",
            str(server.getsockname()[1]),
        )
        with pytest.raises(BlockingIOError):
            server.accept()


async def test_abstract_sockets_of_the_host_cannot_be_reached(python: Run) -> None:
    """An abstract UNIX socket of the host has no name inside."""
    name = new_token()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0" + name)
        server.listen()
        server.settimeout(0)
        await python(
            "import socket, sys; socket.socket(socket.AF_UNIX).connect('\\0' + sys.argv[1])", name
        )
        with pytest.raises(BlockingIOError):
            server.accept()


async def test_the_network_has_no_way_out(python: Run) -> None:
    """There is no interface but loopback and no route to anywhere."""
    outcome = await python("""
import errno, socket
print([name for _, name in socket.if_nameindex()])
for family, address in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
    with socket.socket(family, socket.SOCK_DGRAM) as client:
        print(errno.errorcode[client.connect_ex((address, 53))])
""")
    assert outcome.output.split() == [b"['lo']", b"ENETUNREACH", b"ENETUNREACH"]


async def test_uncommon_sockets_cannot_be_opened(python: Run) -> None:
    """VSOCK, packet, crypto and Bluetooth sockets and kernel netlink families are refused."""
    outcome = await python("""
import errno, socket
for family, kind, protocol in (
    (40, 1, 0), (17, 3, 3), (38, 5, 0), (31, 3, 1), (16, 3, 9), (16, 3, 15), (16, 3, 12),
    (44, 3, 0), (1 << 32 | 40, 1, 0), (0, 1, 0),
):
    try:
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        result = libc.socket(ctypes.c_long(family), kind, protocol)
        print("OPEN" if result >= 0 else errno.errorcode[ctypes.get_errno()])
    except OSError as error:
        print(errno.errorcode[error.errno])
""")
    assert set(outcome.output.split()) == {b"EPERM"}


async def test_shared_memory_of_the_host_cannot_be_attached(python: Run) -> None:
    """A System V segment of the host has no key inside."""
    libc = ctypes.CDLL(None, use_errno=True)
    key = int.from_bytes(os.urandom(3), "big") + 1
    segment = libc.shmget(key, 4096, 0o1666)
    assert segment >= 0
    try:
        outcome = await python(
            "import ctypes, sys; print(ctypes.CDLL(None).shmget(int(sys.argv[1]), 4096, 0))",
            str(key),
        )
    finally:
        libc.shmctl(segment, 0, None)
    assert outcome.output == b"-1\n"


async def test_nothing_but_the_workspace_can_be_written(python: Run, outside: Path) -> None:
    """/, /usr, /etc, /dev, /proc, toolchains and dependencies refuse every kind of write."""
    (outside / "file").write_text("dependency")
    outcome = await python(
        """
import os, sys
for folder in ["/", "/usr", "/usr/bin", "/etc", "/dev", "/proc", "/proc/sys", "/deps", sys.prefix]:
    for attempt in (
        lambda: open(os.path.join(folder, "planted"), "w").write("x"),
        lambda: os.mkdir(os.path.join(folder, "planted-folder")),
        lambda: os.symlink("/ws", os.path.join(folder, "planted-link")),
        lambda: os.chmod(folder, 0o777),
        lambda: os.utime(folder),
    ):
        try:
            attempt()
            print("WRITTEN", folder)
        except OSError:
            pass
for path, text in (("/proc/sys/kernel/core_pattern", "|/ws/x"), ("/proc/sysrq-trigger", "b"),
                   ("/deps/file", "x"), ("/usr/bin/env", "x"), ("/proc/sys/vm/drop_caches", "1")):
    try:
        open(path, "w").write(text)
        print("WRITTEN", path)
    except OSError:
        pass
""",
        deps=outside,
    )
    assert b"WRITTEN" not in outcome.output
    planted = [Path(f) / "planted" for f in ("/", "/usr", "/usr/bin", "/etc", "/dev", PYTHON_BASE)]
    assert not [path for path in planted if path.exists()]
    assert [path.name for path in outside.iterdir()] == ["file"]
    assert (outside / "file").read_text() == "dependency"


async def test_no_real_device_can_be_reached(run: Run, workspace: Path) -> None:
    """/dev holds no disk, memory or terminal of the host, and no device can be made."""
    outcome = await run(
        "ls /dev; mknod disk b 8 0; mknod mem c 1 1; mknod /tmp/zero c 1 5; ls /tmp"
    )
    names = set(outcome.output.split())
    assert not names & {
        b"mem",
        b"kmsg",
        b"sda",
        b"vda",
        b"kvm",
        b"fuse",
        b"loop0",
        b"net",
        b"zero0",
    }
    assert not list(workspace.iterdir())


async def test_a_process_is_nobody_on_the_host(run: Run) -> None:
    """Outside, every process of a command has an ordinary user, no capability and a filter."""
    token = new_token()
    async with running(run(f"sleep 60; : {token}")):
        assert await until(lambda: "2" in {p["Seccomp"] for p in load_processes(token).values()})
        found = list(load_processes(token).values())
    for status in found:
        assert "0" not in status["Uid"].split() + status["Gid"].split()
        assert status["Groups"] in ("", status["Gid"].split()[0])
        assert not any(int(status[name], 16) for name in ("CapPrm", "CapEff", "CapInh", "CapAmb"))
        assert status["NoNewPrivs"] == "1"


async def test_set_uid_programs_give_nothing(run: Run) -> None:
    """A program that is set-uid root on the host runs as the command's own user."""
    outcome = await run(
        'su -c id 2>&1; passwd -S root 2>&1; sh -c "id -u"; find /usr -perm -4000 | head -1'
    )
    assert b"uid=0" not in outcome.output
    assert b"1000" in outcome.output


async def test_no_set_uid_file_can_be_left(run: Run, workspace: Path) -> None:
    """A set-uid or set-gid file or folder never reaches the host."""
    await run(
        "cp /bin/sh sh; chmod 4755 sh; cp /bin/sh gsh; chmod g+s gsh; mkdir d; chmod 2777 d;"
        " install -m 6755 /bin/sh ish"
    )
    assert {path.name for path in workspace.iterdir()} >= {"sh", "gsh", "d"}
    assert not [path for path in workspace.iterdir() if path.stat().st_mode & 0o6000]


async def test_set_uid_bits_cannot_be_set_at_all(python: Run) -> None:
    """Every call that could set them is refused, so that not even a moment of one exists."""
    outcome = await python("""
import os
open("file", "w").close()
for attempt in (
    lambda: os.chmod("file", 0o4755),
    lambda: os.fchmod(os.open("file", os.O_RDONLY), 0o2755),
    lambda: os.open("new", os.O_CREAT | os.O_WRONLY, 0o4755),
    lambda: os.mknod("node", 0o104755),
):
    try:
        attempt()
        print("SET")
    except PermissionError:
        print("refused")
""")
    assert outcome.output.split() == [b"refused"] * 4


async def test_file_systems_cannot_be_mounted_or_left(python: Run) -> None:
    """Mounting, unmounting, remounting, changing root and new namespaces are refused."""
    outcome = await python(
        REFUSED
        + """
print(refusal(libc.mount(b"none", b"/tmp", b"tmpfs", 0, None)))
print(refusal(libc.mount(b"none", b"/", b"", 0x20, None)))
print(refusal(libc.umount2(b"/proc", 2)))
print(refusal(libc.chroot(b"/ws")))
for flags in (0x20000, 0x10000000, 0x10020000, 0x40000000, 0x20000000, 0x02000000):
    print(refusal(libc.unshare(flags)))
print(refusal(libc.setns(os.open("/proc/1/ns/mnt", os.O_RDONLY), 0)))
"""
    )
    assert set(outcome.output.split()) == {b"EPERM"}


async def test_user_namespaces_cannot_be_made(python: Run) -> None:
    """Neither clone nor clone3 nor unshare makes a namespace in which one would be root."""
    outcome = await python(
        REFUSED
        + """
import signal
number = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
for flags in (0x10000000, 0x50000000, 0x30000000):
    result = libc.syscall(ctypes.c_long(number), ctypes.c_long(flags | signal.SIGCHLD), 0, 0, 0, 0)
    if result == 0:
        os._exit(0)
    print(refusal(result))
print(call(435, 0, 0))
print(refusal(libc.unshare(0x10000000)))
"""
    )
    assert outcome.output.split() == [b"EPERM"] * 3 + [b"ENOSYS", b"EPERM"]


async def test_kernel_attack_surface_is_closed(python: Run) -> None:
    """Calls that escapes are made of are refused: bpf, perf, keys, io_uring, modules and more."""
    outcome = await python(
        REFUSED
        + """
numbers = {
    "x86_64": dict(bpf=321, perf=298, keyctl=250, add_key=248, userfaultfd=323, finit=313,
                   ptrace=101, vm_readv=310, pidfd_getfd=438, kexec=246, handle=304),
    "aarch64": dict(bpf=280, perf=241, keyctl=219, add_key=217, userfaultfd=282, finit=273,
                    ptrace=117, vm_readv=270, pidfd_getfd=438, kexec=104, handle=265),
}[os.uname().machine]
print({name: call(number, 0, 0, 0, 0, 0) for name, number in numbers.items()})
print({call(number, 8, 0) for number in (425, 426, 427, 437, 452)})
"""
    )
    first, second = outcome.output.decode().splitlines()
    assert set(eval(first).values()) == {"EPERM"}  # noqa: S307 - printed by the program above
    assert second == "{'ENOSYS'}"


async def test_the_filter_cannot_be_passed_by_another_architecture(python: Run) -> None:
    """A 32-bit system call, whose numbers mean other calls, ends the process."""
    if os.uname().machine != "x86_64":
        return
    outcome = await python("""
import ctypes, mmap
code = bytes.fromhex("b814000000cd80c3")  # mov eax, 20 (getpid); int 0x80; ret
memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
memory.write(code)
function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
print("PASSED", function())
""")
    assert b"PASSED" not in outcome.output
    assert outcome.exit_code == 128 + 31  # SIGSYS


async def test_no_process_can_be_traced(python: Run) -> None:
    """One process of a command cannot attach to another, nor read its memory by system call."""
    outcome = await python(
        REFUSED
        + """
pid = os.fork()
if not pid:
    import time
    time.sleep(30)
print(refusal(libc.ptrace(16, pid, 0, 0)), refusal(libc.ptrace(0x4206, pid, 0, 0)))
os.kill(pid, 9)
"""
    )
    assert outcome.output.split() == [b"EPERM", b"EPERM"]


async def test_no_keystrokes_can_be_pushed_into_a_terminal(python: Run) -> None:
    """TIOCSTI and TIOCLINUX are refused, also with bits set that the kernel ignores."""
    outcome = await python("""
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
master, slave = os.openpty()
for request in (0x5412, 0x541C, 0x5412 | 1 << 32):
    result = libc.syscall(ctypes.c_long({"x86_64": 16, "aarch64": 29}[os.uname().machine]),
                          slave, ctypes.c_ulong(request), b"x")
    print("PUSHED" if result >= 0 else errno.errorcode[ctypes.get_errno()])
""")
    assert outcome.output.split() == [b"EPERM"] * 3


async def test_a_command_has_no_terminal(run: Run) -> None:
    """There is no controlling terminal to talk to."""
    outcome = await run("echo x > /dev/tty")
    assert outcome.exit_code


async def test_crashes_leave_no_core_and_start_no_handler(python: Run, workspace: Path) -> None:
    """A crash dumps nothing, also after the command raised or lowered its own limit."""
    outcome = await python("""
import os, resource
for limit in ((0, 0), (1 << 30, 1 << 30), (resource.RLIM_INFINITY, resource.RLIM_INFINITY)):
    try:
        resource.setrlimit(resource.RLIMIT_CORE, limit)
    except (OSError, ValueError):
        pass
    print(resource.getrlimit(resource.RLIMIT_CORE))
if not os.fork():
    os.abort()
print(os.WCOREDUMP(os.wait()[1]))
""")
    assert outcome.output.splitlines() == [b"(1, 1)"] * 3 + [b"False"]
    assert not list(workspace.iterdir())


async def test_inherited_descriptors_are_three(run: Run) -> None:
    """A command holds its three streams and nothing else of the bot's or bubblewrap's."""
    outcome = await run("ls /proc/self/fd; readlink /proc/self/fd/0")
    assert outcome.output.split() == [b"0", b"1", b"2", b"3", b"/dev/null"]


async def test_an_exit_code_cannot_be_forged_through_bubblewrap(python: Run) -> None:
    """Writing to whatever bubblewrap's own processes hold open changes nothing in the report."""
    outcome = await python(
        """
import os
for pid in ("1", "2", str(os.getppid())):
    for number in range(300):
        try:
            with open(f"/proc/{pid}/fd/{number}", "wb", buffering=0) as file:
                if number > 2:
                    file.write(b'{"exit-code": 0}\\n' + (1).to_bytes(8, "little"))
        except OSError:
            pass
os._exit(3)
""",
        limits=Limits(wall_seconds=20),
    )
    assert (outcome.exit_code, outcome.termination) == (3, "exit")


async def test_the_memory_of_bubblewraps_init_cannot_be_written(python: Run) -> None:
    """The process that reports the exit code is out of reach, by every road through /proc."""
    outcome = await python("""
import glob, os
for path in ["/proc/1/mem", *glob.glob("/proc/1/task/*/mem"), "/proc/1/cwd/proc/1/mem"]:
    try:
        with open(path, "r+b", buffering=0) as memory:
            start = int(open("/proc/1/maps").read().split("-")[0], 16)
            memory.seek(start)
            if memory.read(4):
                print("REACHED", path)
    except OSError:
        pass
print(open("/proc/self/mem", "r+b").name)
""")
    assert outcome.output == b"/proc/self/mem\n"
