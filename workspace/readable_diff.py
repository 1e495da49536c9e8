"""A patch as people and models read it: binary content left out, its sizes said instead.

In: the bytes of `git diff-tree -p --binary --full-index`. Out: the same patch, where each `GIT
binary patch` has become one line. Path, modes and both blob ids stand in the lines above it. Why:
nobody reads base 85, and a changed image would otherwise use up what a reviewer can be shown. The
whole patch stays the artifact that digests name.
Format: https://git-scm.com/docs/diff-format and Git's apply.c (`parse_binary_hunk`).
"""

import base64
import string
import zlib
from collections.abc import Iterator
from itertools import takewhile
from typing import Final

_BINARY: Final = b"GIT binary patch"
_LENGTHS: Final = (string.ascii_uppercase + string.ascii_lowercase).encode()
_VARINT_BITS: Final = 7
_MORE: Final = 0x80
_HEAD_BYTES: Final = 32
"""Two sizes at the head of a delta need at most twenty bytes."""


def readable_diff(diff: bytes) -> bytes:
    """Return a patch with a line about its sizes in the place of each binary content.

    Lines of text content start with a blank, `+`, `-` or a backslash, and odd names are quoted, so
    no content can pass itself off as the head of a binary patch.
    """
    lines = iter(diff.split(b"\n"))
    return b"\n".join(_sizes_in_words(lines) if line == _BINARY else line for line in lines)


def _sizes_in_words(lines: Iterator[bytes]) -> bytes:
    """Read past the two hunks of a binary patch: the new content, then the old."""
    new, old = _result_size(lines), _result_size(lines)
    return b"Binary content, not shown: %s before, %s now" % (old, new)


def _result_size(lines: Iterator[bytes]) -> bytes:
    """Read past one hunk, which ends with an empty line; return how much it unpacks to."""
    head, *content = takewhile(bool, lines)
    kind, _, size = head.partition(b" ")
    return b"%s bytes" % (size if kind == b"literal" else _target_size(content))


def _target_size(content: list[bytes]) -> bytes:
    """Return the size of what a delta makes, which stands second at its head."""
    packed = b"".join(
        base64.b85decode(line[1:])[: _LENGTHS.index(line[:1]) + 1] for line in content
    )
    head = iter(zlib.decompressobj().decompress(packed, _HEAD_BYTES))
    _varint(head)
    return b"%d" % _varint(head)


def _varint(content: Iterator[int]) -> int:
    """Read a number in groups of seven bits, the lowest first; the last has no high bit."""
    number = 0
    for place, byte in enumerate(content):
        number |= (byte & ~_MORE) << place * _VARINT_BITS
        if not byte & _MORE:
            break
    return number
