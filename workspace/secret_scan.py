"""Finds credentials in files, by the rules of a maintained scanner.

In: the bytes of a file, link target or name, before and after. Out: where a credential was added,
and of which kind; never the credential. Why: pushing a candidate publishes it; no key that can be
told by its form may reach a branch. Text is read as it stands and, for UTF-16 and UTF-32, without
its NUL bytes; what is encoded (base64, gzip) is not unpacked.

The rules are those of detect-secrets (Yelp) for keys that can be told by their form. Its guesses by
entropy and variable name are left out: they stop honest work. Its comments that excuse a line are
not honoured either, as a worker could write one. `_OWN` holds the kinds it does not know yet, after
the forms that their issuers publish for scanners.
"""

import functools
import re
from collections.abc import Iterator, Sequence

from detect_secrets.plugins.artifactory import ArtifactoryDetector
from detect_secrets.plugins.aws import AWSKeyDetector
from detect_secrets.plugins.azure_storage_key import AzureStorageKeyDetector
from detect_secrets.plugins.discord import DiscordBotTokenDetector
from detect_secrets.plugins.github_token import GitHubTokenDetector
from detect_secrets.plugins.gitlab_token import GitLabTokenDetector
from detect_secrets.plugins.jwt import JwtTokenDetector
from detect_secrets.plugins.mailchimp import MailchimpDetector
from detect_secrets.plugins.npm import NpmDetector
from detect_secrets.plugins.openai import OpenAIDetector
from detect_secrets.plugins.private_key import PrivateKeyDetector
from detect_secrets.plugins.pypi_token import PypiTokenDetector
from detect_secrets.plugins.sendgrid import SendGridDetector
from detect_secrets.plugins.slack import SlackDetector
from detect_secrets.plugins.square_oauth import SquareOAuthDetector
from detect_secrets.plugins.stripe import StripeDetector
from detect_secrets.plugins.telegram_token import TelegramBotTokenDetector
from detect_secrets.plugins.twilio import TwilioKeyDetector

_DETECTORS = (
    ArtifactoryDetector, AWSKeyDetector, AzureStorageKeyDetector, DiscordBotTokenDetector,
    GitHubTokenDetector, GitLabTokenDetector, JwtTokenDetector, MailchimpDetector, NpmDetector,
    OpenAIDetector, PrivateKeyDetector, PypiTokenDetector, SendGridDetector, SlackDetector,
    SquareOAuthDetector, StripeDetector, TelegramBotTokenDetector, TwilioKeyDetector,
)  # fmt: skip
_OWN = {
    kind: re.compile(pattern)
    for kind, pattern in (
        (
            "GitHub fine-grained token",
            r"(?<![A-Za-z0-9])github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}",
        ),
        ("Anthropic key", r"(?<![A-Za-z0-9])sk-ant-[a-z]{2,12}[0-9]{2}-[A-Za-z0-9_-]{80,120}"),
        ("Google API key", r"(?<![A-Za-z0-9])AIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])"),
        ("Hugging Face token", r"(?<![A-Za-z0-9])hf_[A-Za-z0-9]{34}(?![A-Za-z0-9])"),
        ("age key", r"(?i)AGE-SECRET-KEY-1[02-9AC-HJ-NP-Z]{58}"),
        ("encrypted private key", r"BEGIN ENCRYPTED PRIVATE KEY"),
    )
}
_LONGEST_LINE = 4000
_OVERLAP = 400  # longer than any credential that is told by its form

Finding = tuple[int, str]


def find_added_secrets(old: bytes, new: bytes) -> list[Finding]:
    """Return (line number, kind) of every credential in `new` that `old` did not hold."""
    found = _scan(new)
    if not found:
        return []
    known = {(kind, secret) for _, kind, secret in _scan(old)}
    return [(line, kind) for line, kind, secret in found if (kind, secret) not in known]


def mask_secrets(text: str) -> str:
    """Return text, such as a refused name, with each credential in it as `***`."""
    raw = text.encode("utf-8", "surrogateescape").decode("latin-1")
    for _, _, secret in _scan(raw.encode("latin-1")):
        raw = raw.replace(secret, "***")
    return raw.encode("latin-1").decode("utf-8", "surrogateescape")


def _scan(content: bytes) -> list[tuple[int, str, str]]:
    """Every credential with its line, kind and text."""
    found = _scan_text(content.decode("latin-1"))
    if b"\0" in content:
        seen = {(kind, secret) for _, kind, secret in found}
        wide = _scan_text(content.replace(b"\0", b"").decode("latin-1"))
        found += [finding for finding in wide if finding[1:] not in seen]
    return found


def _scan_text(text: str) -> list[tuple[int, str, str]]:
    return [
        (number, kind, secret)
        for number, line in enumerate(text.splitlines(), start=1)
        for piece in _pieces(line)
        for kind, secret in _scan_piece(piece)
    ]


def _scan_piece(piece: str) -> Iterator[tuple[str, str]]:
    """Kind and whole text: a detector's own answer may be a part that all keys of a kind share."""
    for kind, pattern in _patterns():
        for match in pattern.finditer(piece):
            if kind != JwtTokenDetector.secret_type or _is_web_token(match[0]):
                yield kind, match[0]


def _is_web_token(text: str) -> bool:
    try:
        return JwtTokenDetector.is_formally_valid(text)
    except RecursionError:  # nested as no token is
        return False


def _pieces(line: str) -> Sequence[str]:
    """A line, cut into overlapping pieces when it is too long for slow patterns."""
    if len(line) <= _LONGEST_LINE:
        return (line,)
    return [
        line[start : start + _LONGEST_LINE]
        for start in range(0, len(line), _LONGEST_LINE - _OVERLAP)
    ]


@functools.cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    known = [(str(one.secret_type), pattern) for one in _DETECTORS for pattern in one.denylist]
    return (*known, *_OWN.items())
