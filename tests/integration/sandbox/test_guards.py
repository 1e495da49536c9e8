"""Every guard of the sandbox, taken away: the attack it holds off must then succeed.

Each row names a guard, how a copy of the code loses it, and the tests that turn red. Where two
guards hold off one attack, both go, since that is what it takes. This table is the answer to "which
test shows that this line matters"; ARCHITECTURE.md refers to it.
"""

from pathlib import Path

import pytest

from tests.integration.guards import Edit, Guard, copied, still_passing, take_away

pytestmark = [pytest.mark.sandbox, pytest.mark.guards]

SOURCE = Path("workspace", "sandbox")
TESTS = Path("tests", "integration", "sandbox")


def view(*options: str) -> tuple[Edit, ...]:
    """Bubblewrap without these options."""
    return tuple(Edit("view.py", option) for option in options)


NO_CGROUP_KILL = (
    Edit(
        "running.py",
        "while time.monotonic() < deadline:",
        "while deadline:\n            return True",
    ),
    Edit("cgroup.py", "self.kill()\n                    time.sleep(0.001)", "return"),
)
NO_MEMORY_LIMIT = (
    Edit(
        "cgroup.py",
        'if "memory" in hierarchy.controllers:\n        name =',
        "if False:\n        name =",
    ),
    Edit(
        "cgroup.py", 'if "memory" in hierarchy.controllers and hierarchy.version == 1:', "if False:"
    ),
)
NO_OOM_WATCH = (
    Edit("running.py", 'if usage and usage.oom_kills and ending == "exit":', "if False:"),
    Edit("running.py", "if self._group and self._group.usage().oom_kills:", "if False:"),
    Edit("cgroup.py", '("memory.oom.group", "1"),'),
)
DEAF_TO_THE_BOT = (
    Edit(
        "running.py",
        "for descriptor in (self.job.fileno(), self.stopping, *others)",
        "for descriptor in others",
    ),
    Edit("running.py", 'return "killed" if self.stopping in ready else None', "return None"),
)
FOLLOWING_LINKS = (
    Edit("writeback.py", "os.O_DIRECTORY | os.O_NOFOLLOW", "os.O_DIRECTORY"),
    Edit("writeback.py", "dir_fd=folder, follow_symlinks=False).st_mode", "dir_fd=folder).st_mode"),
)

GUARDS = (
    Guard(
        "only named folders are shown",
        (
            Edit(
                "view.py",
                '"--ro-bind", "/usr", "/usr"',
                '"--ro-bind", "/usr", "/usr", "--ro-bind", "/var", "/var"',
            ),
        ),
        ("test_attack_host.py::test_host_files_cannot_be_read",),
    ),
    Guard(
        "buffers of sockets count as memory",
        (Edit("cgroup.py", '("memory.kmem.tcp.limit_in_bytes", ', '("none", '),),
        ("test_attack_limits.py::test_buffers_of_sockets_count_as_memory",),
    ),
    Guard(
        "a made-up /etc",
        (Edit("view.py", 'f"{STAGE}/etc", "/etc"', '"/etc", "/etc"'),),
        ("test_attack_host.py::test_accounts_of_the_host_cannot_be_read",),
    ),
    Guard(
        "an environment of its own",
        (
            *view(', "--clearenv"'),
            Edit(
                "bubblewrap.py",
                'env={"LC_ALL": "C.UTF-8", "PATH": PATH} | (session',
                "env=None and (session",
            ),
            Edit(
                "running.py",
                "os.execve(words[0], words, {})",
                "os.execve(words[0], words, os.environ)",
            ),
        ),
        ("test_attack_host.py::test_the_bots_environment_is_not_passed_on",),
    ),
    Guard(
        "a process namespace",
        view(' "--unshare-pid",'),
        ("test_attack_host.py::test_host_processes_cannot_be_seen_or_signalled",),
    ),
    Guard(
        "a network namespace",
        view(' "--unshare-net",'),
        (
            "test_attack_host.py::test_services_on_the_hosts_loopback_cannot_be_reached",
            "test_attack_host.py::test_abstract_sockets_of_the_host_cannot_be_reached",
            "test_attack_host.py::test_the_network_has_no_way_out",
        ),
    ),
    Guard(
        "an IPC namespace",
        view(' "--unshare-ipc",'),
        ("test_attack_host.py::test_shared_memory_of_the_host_cannot_be_attached",),
    ),
    Guard(
        "socket families",
        (Edit("seccomp.py", "yield from _socket_rules()", "pass"),),
        ("test_attack_host.py::test_uncommon_sockets_cannot_be_opened",),
    ),
    Guard(
        "read-only / and /dev",
        view('*("--remount-ro", "/dev", "--remount-ro", "/"),'),
        ("test_attack_host.py::test_nothing_but_the_workspace_can_be_written",),
    ),
    Guard(
        "read-only dependencies",
        (
            Edit(
                "view.py",
                'found += ["--ro-bind", staged, inside]',
                'found += ["--bind", staged, inside]',
            ),
        ),
        ("test_attack_host.py::test_nothing_but_the_workspace_can_be_written",),
    ),
    Guard(
        "a user of its own",
        (Edit("running.py", "if identity.is_slot:", "if False:"),),
        ("test_attack_host.py::test_a_process_is_nobody_on_the_host",),
    ),
    Guard(
        "no set-id bits: refused, and masked when files come back",
        (
            Edit("seccomp.py", "yield from _mode_rules()", "pass"),
            Edit(
                "writeback.py", "status.st_mode & 0o777 | least", "status.st_mode & 0o7777 | least"
            ),
        ),
        (
            "test_attack_host.py::test_no_set_uid_file_can_be_left",
            "test_attack_host.py::test_set_uid_bits_cannot_be_set_at_all",
        ),
    ),
    Guard(
        "refused calls",
        (Edit("seccomp.py", "yield _Rule(errno.EPERM, name)\n", "pass\n"),),
        (
            "test_attack_host.py::test_kernel_attack_surface_is_closed",
            "test_attack_host.py::test_no_process_can_be_traced",
            "test_attack_host.py::test_file_systems_cannot_be_mounted_or_left",
        ),
    ),
    Guard(
        "absent calls",
        (Edit("seccomp.py", "yield _Rule(errno.ENOSYS, name)", "pass"),),
        ("test_attack_host.py::test_user_namespaces_cannot_be_made",),
    ),
    Guard(
        "no user namespaces: by limit and by filter",
        (
            *view(' "--disable-userns",'),
            Edit("seccomp.py", "for bit in _NEW_NAMESPACE:", "for bit in ():"),
            Edit("seccomp.py", '"unshare",'),
        ),
        ("test_attack_host.py::test_user_namespaces_cannot_be_made",),
    ),
    Guard(
        "the filter, and with it the one architecture",
        view('"--seccomp", str(PROGRAM), '),
        ("test_attack_host.py::test_the_filter_cannot_be_passed_by_another_architecture",),
    ),
    Guard(
        "terminal input",
        (Edit("seccomp.py", "for request in _TERMINAL_INPUT:", "for request in ():"),),
        ("test_attack_host.py::test_no_keystrokes_can_be_pushed_into_a_terminal",),
    ),
    Guard(
        "the init's memory",
        (Edit("view.py", "*_guarded_init(),"),),
        ("test_attack_host.py::test_the_memory_of_bubblewraps_init_cannot_be_written",),
    ),
    Guard(
        "no core dumps",
        (Edit("seccomp.py", "yield from _core_dump_rules()", "pass"),),
        ("test_attack_host.py::test_crashes_leave_no_core_and_start_no_handler",),
    ),
    Guard(
        "memory limit",
        NO_MEMORY_LIMIT,
        (
            "test_attack_limits.py::test_one_greedy_process_is_ended",
            "test_attack_limits.py::test_many_small_processes_count_together",
            "test_attack_limits.py::test_memory_cannot_be_hidden_in_files",
            "test_attack_limits.py::test_anonymous_files_count_as_memory",
        ),
    ),
    Guard(
        "one memory death ends all",
        NO_OOM_WATCH,
        (
            "test_attack_limits.py::test_a_parent_that_shrugs_off_a_lost_child_is_ended_too",
            "test_attack_survival.py::test_nothing_outlives_a_memory_death",
        ),
    ),
    Guard(
        "process limit",
        (Edit("cgroup.py", 'yield "pids.max", str(processes)', "pass"),),
        (
            "test_attack_limits.py::test_a_fork_bomb_stops_at_the_limit",
            "test_attack_limits.py::test_threads_count_as_processes",
        ),
    ),
    Guard(
        "processor limit",
        (
            Edit("cgroup.py", 'yield "cpu.cfs_quota_us", quota', "pass"),
            Edit("cgroup.py", 'yield "cpu.max", f"{quota} {_PERIOD_MICROSECONDS}"', "pass"),
        ),
        ("test_attack_limits.py::test_processor_time_is_shared",),
    ),
    Guard(
        "a sized tmpfs for everything that can be written",
        (Edit("layers.py", 'f"size={size},nr_inodes={files}"', 'f"nr_inodes={files}"'),),
        (
            "test_attack_limits.py::test_the_disk_does_not_fill",
            "test_attack_limits.py::test_all_places_share_one_cap",
            "test_attack_limits.py::test_preallocation_is_counted",
        ),
    ),
    Guard(
        "a tmpfs with counted files",
        (Edit("layers.py", 'f"size={size},nr_inodes={files}"', 'f"size={size}"'),),
        ("test_attack_limits.py::test_empty_files_are_counted",),
    ),
    Guard(
        "what the workspace holds already counts",
        (
            Edit("keeper.py", "order.disk_bytes - held.size", "order.disk_bytes"),
            Edit("keeper.py", "order.files - held.files", "order.files"),
        ),
        (
            "test_attack_limits.py::test_the_cap_holds_over_many_commands",
            "test_attack_limits.py::test_the_number_of_files_holds_over_many_commands",
        ),
    ),
    Guard(
        "file size limit",
        (Edit("running.py", "(resource.RLIMIT_FSIZE, file_bytes),"),),
        (
            "test_attack_limits.py::test_one_file_does_not_grow_beyond_its_limit",
            "test_attack_limits.py::test_limits_of_the_process_cannot_be_raised",
            "test_attack_limits.py::test_sparse_files_neither_pass_the_limit_nor_swell",
        ),
    ),
    Guard(
        "holes stay holes",
        (
            Edit(
                "writeback.py",
                "start = os.lseek(descriptor, position, os.SEEK_DATA)",
                "start = position",
            ),
        ),
        ("test_attack_limits.py::test_sparse_files_neither_pass_the_limit_nor_swell",),
    ),
    Guard(
        "output cap",
        (Edit("bubblewrap.py", "if pipe.done.done() and not pipe.done.result():", "if False:"),),
        ("test_attack_limits.py::test_a_flood_of_output_is_stopped",),
    ),
    Guard(
        "wall clock",
        (
            Edit(
                "running.py", "(left := deadline - time.monotonic()) > 0", "(left := 1.0) and time"
            ),
        ),
        ("test_attack_limits.py::test_time_runs_out_for_everybody",),
    ),
    Guard(
        "depth of folders",
        (Edit("writeback.py", "MOST_DEEP = 200", "MOST_DEEP = 1 << 30"),),
        ("test_attack_limits.py::test_folders_nested_without_end_do_no_harm",),
    ),
    Guard(
        "the tree is killed when its command has ended",
        (*view(' "--unshare-pid",'), *NO_CGROUP_KILL),
        ("test_attack_survival.py::test_nothing_outlives_a_command_that_ended",),
    ),
    Guard(
        "keepers listen to the bot",
        DEAF_TO_THE_BOT,
        (
            "test_attack_survival.py::test_nothing_outlives_a_cancellation",
            "test_attack_survival.py::test_nothing_outlives_the_bot",
            "test_attack_survival.py::test_nothing_outlives_closing",
        ),
    ),
    Guard(
        "keepers die with the launcher",
        (
            Edit(
                "running.py", 'return "killed" if self.stopping in ready else None', "return None"
            ),
            Edit("keeper.py", "syscalls.die_with_parent(settings.launcher)"),
        ),
        ("test_attack_survival.py::test_nothing_outlives_the_launcher",),
    ),
    Guard(
        "bubblewrap dies with its keeper",
        (
            *view('"--die-with-parent", '),
            Edit("running.py", "syscalls.die_with_parent(keeper)"),
            Edit("launcher.py", "self._settings.place.group(name).remove()", "pass"),
        ),
        ("test_attack_survival.py::test_nothing_outlives_its_keeper",),
    ),
    Guard(
        "groups of killed keepers are removed",
        (Edit("launcher.py", "self._settings.place.group(name).remove()", "pass"),),
        ("test_attack_survival.py::test_a_killed_keeper_leaves_no_group",),
    ),
    Guard(
        "groups of killed launchers are removed at the next start",
        (Edit("launcher.py", "_remove_orphans(place)\n    except", "pass\n    except"),),
        ("test_attack_survival.py::test_a_killed_launcher_leaves_no_group_for_long",),
    ),
    Guard(
        "links are never followed when files come back",
        FOLLOWING_LINKS,
        ("test_attack_files.py::test_a_planted_link_is_not_followed_when_files_come_back",),
    ),
    Guard(
        "only regular files come out of /out",
        (Edit("layers.py", "only_files=True", "only_files=False"),),
        ("test_attack_files.py::test_a_link_in_the_out_folder_does_not_come_out",),
    ),
    Guard(
        "the overlay's own attribute",
        (Edit("layers.py", '"trusted.overlay.opaque" if', '"user.overlay.opaque" if'),),
        ("test_attack_files.py::test_deletion_markers_cannot_be_forged",),
    ),
    Guard(
        "the owner can read everything",
        (Edit("writeback.py", "status.st_mode & 0o777 | least", "status.st_mode & 0o777"),),
        ("test_attack_files.py::test_nothing_is_left_that_its_owner_cannot_read",),
    ),
)


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_an_attack_succeeds_once_its_guard_is_gone(guard: Guard, tmp_path: Path) -> None:
    """Each of the tests named for a guard fails, or hangs, without it."""
    with copied(tmp_path, TESTS) as copy:
        take_away(guard, copy / SOURCE)
        assert not still_passing(guard, copy / TESTS)
