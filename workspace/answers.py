"""What tools answer: text of bounded length in which nothing invisible is shown as nothing.

In: contents, paths, outcomes. Out: the words a model reads. Why: an answer that floods a model's
context, or shows other than stands in the file, misleads it as well as any attack.
"""

from collections.abc import Iterable, Sequence

from workspace.files import shown
from workspace.globs import Glob
from workspace.paths import decode_path, show_text
from workspace.sandbox.backend import Outcome

MOST_ANSWER = 32_000
MOST_LINE = 1_000
MOST_LISTED = 500
MOST_HITS = 100
MOST_STRAYS = 10
CR = b"\r"
_BINARY_LOOK = 8192


def is_binary(content: bytes) -> bool:
    """Whether Git would call it binary: a NUL near its beginning."""
    return b"\0" in content[:_BINARY_LOOK]


def numbered(content: bytes, start_line: int, line_count: int) -> str:
    """Return lines of a file with their numbers, and what a reader must know about them."""
    if is_binary(content):
        return f"A binary file of {len(content)} bytes."
    lines = content.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    first = max(1, start_line)
    picked = lines[first - 1 : first - 1 + max(1, line_count)]
    if not picked:
        return f"The file has {len(lines)} lines."
    crlf = sum(line.endswith(CR) for line in lines) * 2 > len(lines)
    shown_lines = [
        f"{number:6}\t{_line(line.removesuffix(CR) if crlf else line)}"
        for number, line in enumerate(picked, start=first)
    ]
    notes = ["(line ends are CRLF)"] * crlf
    last = first + len(picked) - 1
    if first > 1 or last < len(lines):
        notes.append(f"(lines {first} to {last} of {len(lines)})")
    return cut("\n".join([*shown_lines, *notes]))


def listing(paths: Iterable[bytes]) -> str:
    """Return paths, sorted and counted where there are too many."""
    found = sorted(paths)
    more = len(found) - MOST_LISTED
    lines = [shown(path) for path in found[:MOST_LISTED]]
    if more > 0:
        lines.append(f"… and {more} more; use a narrower pattern.")
    return "\n".join(lines) or "No file matches."


def hits(found: Iterable[tuple[bytes, int, bytes]], glob: Glob | None) -> str:
    """Return found lines as `path:number: text`."""
    lines: list[str] = []
    for path, number, line in found:
        if glob is not None and not glob.matches(decode_path(path)):
            continue
        if len(lines) == MOST_HITS:
            lines.append("… more; use a longer text or a narrower pattern.")
            break
        lines.append(f"{shown(path)}:{number}: {_line(line.rstrip(CR))}")
    return cut("\n".join(lines)) or "Nothing found."


def ended(outcome: Outcome) -> str:
    """Return how a command ended and what it printed."""
    causes = {
        "timeout": "killed: it took too long",
        "oom": "killed: out of memory",
        "output_limit": "killed: it printed too much",
        "killed": "killed from outside",
    }
    how = causes.get(outcome.termination, f"exit code {outcome.exit_code}")
    output = show_text(outcome.output.decode("utf-8", "replace").replace("\r\n", "\n"))
    return f"{how}\n{cut(output)}"


def _line(raw: bytes) -> str:
    text = show_text(raw[: MOST_LINE * 4].decode("utf-8", "surrogateescape"))
    if len(text) > MOST_LINE:
        return f"{text[:MOST_LINE]}… (line cut)"
    return text


def strays(paths: Sequence[bytes]) -> str:
    """Return the warning that goes with files outside the scope; empty when there are none."""
    if not paths:
        return ""
    more = len(paths) - MOST_STRAYS
    listed = ", ".join(shown(path) for path in paths[:MOST_STRAYS])
    rest = f" and {more} more" if more > 0 else ""
    return (
        f"\n(Changed outside the scope: {listed}{rest}. "
        "Undo this, or all of the work will be refused.)"
    )


def cut(text: str) -> str:
    """Keep the head and the tail of what is too long."""
    if len(text) <= MOST_ANSWER:
        return text
    half = MOST_ANSWER // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n… {left_out} characters left out …\n{text[-half:]}"


def tree_map(paths: Sequence[str], limit: int) -> str:
    """Return a tree in at most `limit` lines: paths, or folders with counts as deep as fits."""
    lines = [show_text(path) for path in paths]
    depth = max((path.count("/") for path in paths), default=0)
    while len(lines) > limit and depth > 0:
        counts: dict[str, int] = {}
        for path in paths:
            parts = path.split("/")
            shown = path if len(parts) <= depth else "/".join(parts[:depth]) + "/"
            counts[shown] = counts.get(shown, 0) + 1
        lines = [
            f"{show_text(path)} ({count} files)" if path.endswith("/") else show_text(path)
            for path, count in sorted(counts.items())
        ]
        depth -= 1
    more = len(lines) - limit
    if more > 0:
        lines = [*lines[: limit - 1], f"… and {more + 1} more"]
    return "\n".join(lines)
