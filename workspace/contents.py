"""What may not be in a file that a worker adds or changes, judged on the bytes Git stored.

In: a path, its old and new content. Out: reasons to refuse it, in words. Why: text that shows other
than it runs, keys, and blobs where a pointer belongs pass a reviewer's eye and a test suite alike.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from workspace.paths import decode_path
from workspace.secret_scan import find_added_secrets

_SHOWN = 3

#: Characters that reorder what is shown: "Trojan Source", Boucher and Anderson 2021.
_REORDERING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_TAGS = frozenset(chr(code) for code in range(0xE0000, 0xE0080))
#: The flags of England, Scotland and Wales are the only ordinary use of tag characters.
_FLAGS = re.compile(
    "\U0001f3f4\U000e0067\U000e0062(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074"
    "|\U000e0077\U000e006c\U000e0073)\U000e007f"
)
_LFS_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(ext-\d-[^\n]+\n)*"
    rb"oid sha256:[0-9a-f]{64}\nsize \d+\n"
)
_WINDOWS_RESERVED = re.compile(r"^(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])( *\.|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Content:
    """One file, or a link's target, before (empty when new) and after."""

    path: bytes
    old: bytes
    new: bytes
    demands_lfs: bool = False


def reasons_to_refuse(content: Content) -> list[str]:
    """Return why this content may not be in a candidate; empty when it may."""
    return [*_hidden(content), *_secrets(content), *_raw_for_lfs(content)]


def name_reason(path: bytes) -> str | None:
    """Return why this name may not be added, or None."""
    if any(character in _REORDERING or character in _TAGS for character in decode_path(path)):
        return "a name with invisible or reordering characters"
    for _, kind in find_added_secrets(b"", path):
        return f"a name with what looks like a secret ({kind})"
    return None


def windows_warning(path: bytes) -> str | None:
    """Return why Windows cannot hold a name, or None."""
    for part in decode_path(path).split("/"):
        if any(ord(character) < 0x20 or character in '<>:"|?*\\' for character in part):  # noqa: PLR2004
            return "holds a character that Windows does not allow"
        if part.endswith((" ", ".")):
            return "ends with a dot or space, which Windows drops"
        if _WINDOWS_RESERVED.match(part):
            return "is a device's name on Windows"
    return None


def _hidden(content: Content) -> Iterator[str]:
    """Bidirectional controls and tag characters that were not there before."""
    before, after = _count_hidden(content.old), _count_hidden(content.new)
    added = after - before
    if added:
        names = ", ".join(f"U+{ord(character):04X}" for character in sorted(added)[:_SHOWN])
        yield f"adds characters that reorder or hide text ({names})"


def _count_hidden(content: bytes) -> Counter[str]:
    if _is_binary(content):
        return Counter()
    text = content.decode("utf-8", "ignore")
    if text.isascii():
        return Counter()
    text = _FLAGS.sub("", text)
    return Counter(character for character in text if character in _REORDERING | _TAGS)


def _is_binary(content: bytes) -> bool:
    """Neither text to Git (a NUL in what it looks at) nor to anything that reads UTF-8.

    Bytes that happen to spell such a character mislead nobody there. Text with one byte broken on
    purpose still counts as text. Source: `buffer_is_binary` in Git's xdiff-interface.c.
    """
    if b"\0" not in content[:8000]:
        return False
    try:
        content.decode()
    except UnicodeDecodeError:
        return True
    return False


def _secrets(content: Content) -> Iterator[str]:
    for line, kind in find_added_secrets(content.old, content.new)[:_SHOWN]:
        yield f"adds what looks like a secret ({kind}, line {line})"


def _raw_for_lfs(content: Content) -> Iterator[str]:
    if content.demands_lfs and not _LFS_POINTER.fullmatch(content.new):
        yield "not an LFS pointer, which the repository's attributes demand; LFS is not run here"
