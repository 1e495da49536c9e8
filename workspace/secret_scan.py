"""Finds credentials in files, by the rules of a maintained scanner.

In: the bytes of a file before and after. Out: where a credential was added, and of which kind;
never the credential. Why: pushing a candidate publishes it; no key may ever reach a branch.

The rules are those of detect-secrets (Yelp) for keys that can be told by their form. Its guesses by
entropy and variable name are left out: they stop honest work. Its comments that excuse a line are
not honoured either, as a worker could write one.
"""

import functools
from collections.abc import Sequence

from detect_secrets.plugins.artifactory import ArtifactoryDetector
from detect_secrets.plugins.aws import AWSKeyDetector
from detect_secrets.plugins.azure_storage_key import AzureStorageKeyDetector
from detect_secrets.plugins.base import RegexBasedDetector
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


def _scan(content: bytes) -> list[tuple[int, str, str]]:
    """Every credential with its line, kind and text."""
    found = []
    for number, line in enumerate(content.decode("latin-1").splitlines(), start=1):
        for piece in _pieces(line):
            for detector in _detectors():
                found += [
                    (number, str(detector.secret_type), str(secret))
                    for secret in detector.analyze_string(piece)
                ]
    return found


def _pieces(line: str) -> Sequence[str]:
    """A line, cut into overlapping pieces when it is too long for slow patterns."""
    if len(line) <= _LONGEST_LINE:
        return (line,)
    return [
        line[start : start + _LONGEST_LINE]
        for start in range(0, len(line), _LONGEST_LINE - _OVERLAP)
    ]


@functools.cache
def _detectors() -> tuple[RegexBasedDetector, ...]:
    return tuple(detector() for detector in _DETECTORS)
