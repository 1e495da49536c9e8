"""Finding and limiting control groups, from what /proc says on three kinds of systems."""

from pathlib import Path

import pytest

from workspace.sandbox.cgroup import CgroupMissing, Hierarchy, Place, limits_of, parse_hierarchies

V2 = (
    "0::/system.slice/ultracode.service\n",
    "30 23 0:26 / CGROUP rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n",
)
V1 = (
    "4:memory:/bot\n3:cpu,cpuacct:/bot\n2:pids:/\n1:name=systemd:/\n",
    (
        "31 30 0:27 / CGROUP/memory rw - cgroup cgroup rw,memory\n"
        "32 30 0:28 / CGROUP/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        "33 30 0:29 / CGROUP/pids rw - cgroup cgroup rw,pids\n"
    ),
)
HYBRID = (V1[0] + "0::/\n", V1[1] + "34 30 0:30 / CGROUP/unified rw - cgroup2 cgroup2 rw\n")
IN_A_CONTAINER = (
    "0::/docker/abc/inner\n",
    "30 23 0:26 /docker/abc CGROUP ro - cgroup2 cgroup rw\n",
)


def parsed(tmp_path: Path, texts: tuple[str, str], *folders: str) -> list[Hierarchy]:
    for folder in folders:
        (tmp_path / folder).mkdir(parents=True)
    for folder in [tmp_path, *tmp_path.rglob("*")]:
        (folder / "cgroup.controllers").write_text("cpu io memory pids\n")
    groups, mounts = texts
    return parse_hierarchies(groups, mounts.replace("CGROUP", str(tmp_path)))


def test_v2_is_one_hierarchy_with_all_controllers(tmp_path: Path) -> None:
    """On a current system everything is in one place, below the service's own group."""
    [found] = parsed(tmp_path, V2, "system.slice/ultracode.service")
    assert found.version == 2
    assert found.controllers == {"memory", "pids", "cpu"}
    assert found.folder == tmp_path / "system.slice/ultracode.service"


def test_v1_is_one_hierarchy_per_controller(tmp_path: Path) -> None:
    """On an old system each controller has its own place, and others are ignored."""
    found = parsed(tmp_path, V1, "memory/bot", "cpu,cpuacct/bot", "pids")
    assert {(h.version, *sorted(h.controllers), h.folder) for h in found} == {
        (1, "memory", tmp_path / "memory/bot"),
        (1, "cpu", tmp_path / "cpu,cpuacct/bot"),
        (1, "pids", tmp_path / "pids"),
    }


def test_a_hybrid_has_both(tmp_path: Path) -> None:
    """Between the two, v1 limits and v2 kills."""
    found = parsed(tmp_path, HYBRID, "memory/bot", "cpu,cpuacct/bot", "pids", "unified")
    assert sorted(h.version for h in found) == [1, 1, 1, 2]


def test_a_container_sees_only_its_own_part(tmp_path: Path) -> None:
    """Where only a part of the tree is mounted, paths are taken from there."""
    [found] = parsed(tmp_path, IN_A_CONTAINER, "inner")
    assert found.folder == tmp_path / "inner"


def test_a_missing_controller_is_named(tmp_path: Path) -> None:
    """What the system does not offer is said by name."""
    found = parsed(tmp_path, V1, "memory/bot")
    with pytest.raises(CgroupMissing, match="no pids, cpu"):
        Place.of(found)


def test_a_group_that_is_not_ours_is_said_to_be_so(tmp_path: Path) -> None:
    """A hierarchy in which this user may make no group is named."""
    found = parsed(tmp_path, V2, "system.slice/ultracode.service")
    elsewhere = [Hierarchy(2, found[0].controllers, Path("/proc/1"))]
    with pytest.raises(CgroupMissing, match="/proc/1 "):
        Place.of(elsewhere)


@pytest.mark.parametrize(
    ("version", "written"),
    [
        (2, {"memory.max": "1000", "pids.max": "7", "cpu.max": "150000 100000"}),
        (
            1,
            {
                "memory.limit_in_bytes": "1000",
                "pids.max": "7",
                "cpu.cfs_period_us": "100000",
                "cpu.cfs_quota_us": "150000",
            },
        ),
    ],
)
def test_limits_are_written_as_each_version_wants_them(
    version: int, written: dict[str, str]
) -> None:
    """The same limits, in each version's own files and units."""
    hierarchy = Hierarchy(version, frozenset({"memory", "pids", "cpu"}), Path("/"))
    assert dict(limits_of(hierarchy, memory_bytes=1000, processes=7, cpus=1.5)) == written
