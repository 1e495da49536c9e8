"""Where symbolic links lead."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workspace.links import escaping_links


@pytest.mark.parametrize("target", [b"v2", b"../x/y", b"./a/./b", b"deep/../../z"])
def test_links_within_the_tree_stay(target: bytes) -> None:
    """A link that ends inside is fine, whether or not something is there."""
    assert escaping_links({b"docs/latest": target}) == frozenset()


@pytest.mark.parametrize(
    "target", [b"/etc/passwd", b"../../x", b"a/../../../x", b"../.git/config", b"../.GIT"]
)
def test_links_that_leave_are_found(target: bytes) -> None:
    """Absolute targets, too many `..` and Git's own folder count as leaving."""
    assert escaping_links({b"docs/latest": target}) == {b"docs/latest"}


def test_links_are_followed_through_links() -> None:
    """A link that leaves only through another is found."""
    links = {b"a/b/up": b"../..", b"out": b"a/b/up/../x"}
    assert escaping_links(links) == {b"out"}


def test_a_circle_counts_as_leaving() -> None:
    """What no kernel can resolve is refused."""
    assert escaping_links({b"a": b"b", b"b": b"a"}) == {b"a", b"b"}


_NAME = st.sampled_from(["a", "b", "c"])
_TARGET = st.lists(st.sampled_from(["a", "b", "c", "..", "."]), min_size=1, max_size=5)


@given(st.dictionaries(st.lists(_NAME, min_size=1, max_size=3).map("/".join), _TARGET, max_size=3))
def test_no_link_called_safe_leads_a_kernel_out(
    tmp_path_factory: pytest.TempPathFactory, links: dict[str, list[str]]
) -> None:
    """What is called safe is still inside when the kernel resolves it."""
    root = tmp_path_factory.mktemp("links").resolve() / "inner" / "root"
    root.mkdir(parents=True)
    made: dict[bytes, bytes] = {}
    for path, parts in sorted(links.items()):
        where = root / path
        try:
            where.parent.mkdir(parents=True, exist_ok=True)
            where.symlink_to("/".join(parts))
        except OSError:
            continue
        if where.parent.resolve() == where.parent:  # in a tree no path leads through a link
            made[path.encode()] = "/".join(parts).encode()
    escaping = escaping_links(made)
    for path in made:
        if path not in escaping:
            resolved = Path(os.path.realpath(root / path.decode()))
            assert resolved == root or root in resolved.parents
