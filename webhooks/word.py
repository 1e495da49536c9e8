"""The word that calls the bot, and a cheap search for it. In: bytes. Out: may it be there?

The web process asks this of every comment on every repository, and knows nothing of Markdown.
"""

import re

WORD = "/ultracode"

_WORD_IN_JSON = re.compile(
    rb"(?:\\?/|\\u002f)"
    + b"".join(
        rb"(?:%c|\\u00%02x|\\u00%02x)" % (letter, letter, letter - 32)
        for letter in WORD.removeprefix("/").encode()
    ),
    re.IGNORECASE,
)


def may_hold_command(raw: bytes) -> bool:
    """Whether these bytes, JSON or text, hold the word at all, however JSON may spell it.

    A cheap search without false negatives, for the door: most comments are not for the bot.
    """
    return _WORD_IN_JSON.search(raw) is not None
