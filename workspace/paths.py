"""Names and contents of files as people and file systems see them.

In: raw names and text out of a repository. Out: the forms in which they are compared (`fold_path`,
`decode_path`) and shown (`show_text`). What is stored is always `contracts.git_path`.
"""

import re
import unicodedata


def decode_path(raw: bytes) -> str:
    """Return a raw name as text for matching only; what is not UTF-8 becomes lone surrogates."""
    return raw.decode("utf-8", "surrogateescape")


def fold_path(text: str) -> str:
    """Return a path as a file system that ignores case and Unicode form would see it."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def reads_as_git(name: bytes) -> bool:
    """Whether NTFS or HFS+ would take it for `.git` (git: is_ntfs_dotgit, is_hfs_dotgit)."""
    text = decode_path(name)
    visible = "".join(c for c in text if unicodedata.category(c) != "Cf")
    return re.split(r"[:\\]", visible.casefold(), maxsplit=1)[0].rstrip(" .") in {".git", "git~1"}


def show_text(text: str) -> str:
    r"""Return text with what cannot be seen, or reorders, as `\u{…}`; line ends and tabs stay."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() or character in "\n\t" else _show(character)
        for character in text
    )


def _show(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # noqa: PLR2004 - a byte that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{{{code:x}}}"
