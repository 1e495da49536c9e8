"""What git prints, as records."""

from evals.loopback.git_output import parse_changes, parse_entry

ZERO = "0" * 40
A, B = "a" * 40, "b" * 40


def raw(*fields: str) -> bytes:
    return "".join(f"{field}\0" for field in fields).encode()


def test_renames_keep_both_names() -> None:
    """A rename has its old name, and its counts are its own."""
    out = raw(
        f":100644 100644 {A} {B} R090",
        "old name",
        "new\tname",
        f":000000 100644 {ZERO} {A} A",
        "added",
        "1\t2\t",
        "old name",
        "new\tname",
        "3\t0\tadded",
    )
    patch = "diff --git x y\n@@ -1 +1 @@\n-a\n+b\ndiff --git z z\n@@ -0,0 +1 @@\n+c"
    renamed, added = parse_changes(out, patch)
    assert (renamed.path, renamed.previous, renamed.status) == ("new\tname", "old name", "renamed")
    assert (renamed.additions, renamed.deletions) == (1, 2)
    assert (added.path, added.sha, added.patch) == ("added", A, "@@ -0,0 +1 @@\n+c")


def test_changed_types_show_both_parts() -> None:
    """A file that becomes a link is one change with the text of both."""
    out = raw(f":100644 120000 {A} {B} T", "f", "1\t1\tf")
    patch = "diff --git f f\n@@ -1 +0,0 @@\n-a\ndiff --git f f\n@@ -0,0 +1 @@\n+b"
    [change] = parse_changes(out, patch)
    assert change.status == "changed"
    assert change.patch == "@@ -1 +0,0 @@\n-a\n@@ -0,0 +1 @@\n+b"


def test_binary_files_have_no_text() -> None:
    """A binary file has no patch and counts nothing."""
    out = raw(f":100644 100644 {A} {B} M", "logo.png", "-\t-\tlogo.png")
    [change] = parse_changes(out, "diff --git logo.png logo.png\nBinary files differ")
    assert (change.additions, change.patch) == (0, None)


def test_odd_paths_in_trees() -> None:
    """A path may hold tabs and line ends; a folder has no size."""
    entry = parse_entry(f"040000 tree {A}       -\ta\tb\nc".encode())
    assert (entry.path, entry.size, entry.type) == ("a\tb\nc", None, "tree")
