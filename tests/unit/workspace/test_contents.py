"""What may not be in a file."""

import base64

import pytest

from workspace.contents import Content, name_reason, reasons_to_refuse, windows_warning
from workspace.paths import fold_path, reads_as_git, show_text
from workspace.secret_scan import find_added_secrets, mask_secrets

KEYS = {
    "AWS Access Key": "AKIAIOSFODNN7EXAMPLF",
    "GitHub Token": "ghp_" + "a1B2" * 9,
    "Private Key": "-----BEGIN OPENSSH PRIVATE KEY-----",
    "Slack Token": "xoxb-123456789012-123456789012-abcdefghijkl",
    "Stripe Access Key": "sk_live_" + "a1B2c3" * 4,
}


@pytest.mark.parametrize(("kind", "key"), KEYS.items())
def test_keys_are_found_by_their_form(kind: str, key: str) -> None:
    """A key is found, its kind and line are named, and it is not repeated."""
    found = reasons_to_refuse(Content(b"a.py", b"", f"x = 1\nkey = '{key}'\n".encode()))
    assert found == [f"adds what looks like a secret ({kind}, line 2)"]


def test_an_excusing_comment_excuses_nothing() -> None:
    """A worker cannot wave a key through."""
    line = f"key = '{KEYS['AWS Access Key']}'  # pragma: allowlist secret\n"
    assert find_added_secrets(b"", line.encode())


def test_ordinary_code_holds_no_secret() -> None:
    """Hashes, ids and long words are not mistaken for keys."""
    text = b"sha = 'da39a3ee5e6b4b0d3255bfef95601890afd80709'\npassword = input('password: ')\n"
    assert find_added_secrets(b"", text) == []


def test_a_key_in_a_very_long_line_is_found() -> None:
    """A minified line hides nothing."""
    content = b"x" * 9_990 + b" " + KEYS["GitHub Token"].encode() + b" " + b"y" * 50_000
    assert find_added_secrets(b"", content) == [(1, "GitHub Token")]


BODY = "A1b2C3d4E5" * 10


@pytest.mark.parametrize(
    "secret",
    [
        f"github_pat_{BODY[:22]}_{BODY[:59]}",
        f"sk-ant-api03-{BODY[:92]}A",
        f"AIza{BODY[:35]}",
        f"hf_{'AbCdEfGhIj' * 3}AbCd",
        "AGE-SECRET-KEY-1" + "QPZRY9X8" * 7 + "QP",
        "-----BEGIN ENCRYPTED PRIVATE KEY-----",
        f"ghp_{BODY[:36]}",
    ],
    ids=lambda secret: secret[:11],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_keys_told_by_their_form_are_found_in_every_width(secret: str, encoding: str) -> None:
    """A key is found on its line whether a character takes one byte, two or four."""
    content = f"first\nkey = {secret}\n".encode(encoding)
    assert {line for line, _ in find_added_secrets(b"", content)} == {2}
    assert find_added_secrets(content, content) == []


def test_another_key_of_a_known_kind_is_added() -> None:
    """A file that held one key may keep it; a second of the same kind is found."""
    one, other = f"ghp_{BODY[:36]}\n".encode(), f"ghp_{BODY[1:37]}\n".encode()
    assert find_added_secrets(one, one + other) == [(2, "GitHub Token")]
    assert find_added_secrets(one, b"moved\n" + one) == []


def test_a_deeply_nested_token_is_none() -> None:
    """What looks like a web token and nests without end stops nobody."""
    part = base64.urlsafe_b64encode(b'{"a":' + b"[" * 2800).decode()
    assert find_added_secrets(b"", f"{part}.{part[:40]}\n".encode()) == []


def test_a_name_that_is_a_key_is_refused_and_not_repeated() -> None:
    """A key in a name is refused; where refused names are shown it is covered."""
    name = f"src/né/ghp_{BODY[:36]}.txt"
    assert "secret" in (name_reason(name.encode()) or "")
    assert mask_secrets(name) == "src/né/***.txt"


def test_a_pointer_is_no_raw_content() -> None:
    """Where LFS is demanded only a whole pointer passes."""
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 3\n"
    assert reasons_to_refuse(Content(b"a", b"", pointer, demands_lfs=True)) == []
    assert reasons_to_refuse(Content(b"a", b"", pointer + b"x", demands_lfs=True))
    assert reasons_to_refuse(Content(b"a", b"", b"raw", demands_lfs=False)) == []


def test_flags_are_no_hiding_place() -> None:
    """Tag characters pass in the three known flags and nowhere else, not even behind a flag."""
    flag = "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f"
    assert reasons_to_refuse(Content(b"a", b"", flag.encode())) == []
    hidden = "\U0001f3f4" + "".join(chr(0xE0000 + ord(c)) for c in "ignore this") + "\U000e007f"
    assert reasons_to_refuse(Content(b"a", b"", hidden.encode()))


def test_names_that_reorder_are_refused() -> None:
    """A name that shows other than it is is refused."""
    assert name_reason("gpj.\u202eexe".encode()) is not None
    assert name_reason("né.txt".encode()) is None


@pytest.mark.parametrize("name", [b"con", b"a/NUL.txt", b"x.", b"y ", b"a:b", b"q?", b"a\\b"])
def test_names_windows_cannot_hold(name: bytes) -> None:
    """Such names are pointed out."""
    assert windows_warning(name) is not None


@pytest.mark.parametrize("name", [b"console.py", b"a b", b"...x", b"COM10"])
def test_names_windows_can_hold(name: bytes) -> None:
    """Names that merely look like those are not."""
    assert windows_warning(name) is None


@pytest.mark.parametrize("name", [b".git", b".GIT ", b".git...", b"git~1", b".git::$INDEX"])
def test_names_that_read_as_git(name: bytes) -> None:
    """What NTFS or HFS+ takes for .git is known."""
    assert reads_as_git(name)
    assert reads_as_git(".gi\u200dt".encode())
    assert not reads_as_git(b".github")


def test_invisible_characters_are_shown() -> None:
    """What cannot be seen, or reorders, is shown by its number; line ends and tabs stay."""
    assert show_text("a\u202eb\u200b\x1b[0m\r\n\tc") == "a\\u{202e}b\\u{200b}\\u{1b}[0m\\u{d}\n\tc"
    assert show_text(b"\xff".decode("utf-8", "surrogateescape")) == "\\xff"
    assert show_text("é 漢 😀") == "é 漢 😀"


def test_folding_joins_case_and_form() -> None:
    """Two names that a forgiving file system cannot tell apart fold to one."""
    assert fold_path("E\u0301.TXT") == fold_path("é.txt")
    assert fold_path("Straße") == fold_path("STRASSE")
