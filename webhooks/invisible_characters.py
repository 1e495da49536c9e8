"""Characters that take no place on the page. In: text. Out: the text without them, and how many.

Tag characters and variation selectors smuggle whole sentences to a model, bidirectional controls
show a text in another order than it has, zero-width characters break words that a filter looks for.
Joiners and variation selectors stay where a word or an emoji needs them.

Source for the ranges: Unicode 15.1, general categories Cc, Cf, Cs, Zl, Zp and the property
Default_Ignorable_Code_Point.
"""

import re
import unicodedata
from collections import Counter
from typing import Literal, TypeAlias

CharacterKind: TypeAlias = Literal["tag", "bidi", "joiner", "variation", "zero_width", "control"]

_RANGES: dict[CharacterKind, str] = {
    "tag": "\U000e0000-\U000e007f",
    "bidi": "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069",
    "joiner": "\u200c\u200d",
    "variation": "\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef",
    "zero_width": (
        "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180e\u200b\u2060-\u2065\u206a-\u206f\u3164\ufeff"
        "\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0080-\U000e00ff"
        "\U000e01f0-\U000e0fff"
    ),
    "control": "\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029\ud800-\udfff",
}
_INVISIBLE = re.compile("|".join(f"(?P<{kind}>[{chars}])" for kind, chars in _RANGES.items()))
_LINE_BREAKS = "\u000b\u000c\u0085\u2028\u2029"
_TEXT_OR_EMOJI_STYLE = "\ufe0e\ufe0f"
_SKIN_TONES = "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
_ANY = re.compile("[" + "".join(_RANGES.values()) + "]")


def remove_invisible_characters(text: str) -> tuple[str, Counter[CharacterKind]]:
    """The text without invisible characters (tab and line feed stay), and what was removed."""
    removed: Counter[CharacterKind] = Counter()

    def replace(match: re.Match[str]) -> str:
        character, start, end = match[0], match.start(), match.end()
        before, after = text[max(0, start - 1) : start], text[end : end + 1]
        if _is_needed(character, before, after):
            return character
        for kind in _RANGES:
            if match[kind]:
                removed[kind] += 1
        return "\n" if character in _LINE_BREAKS else ""

    return _INVISIBLE.sub(replace, text), removed


def holds_invisible_characters(text: str) -> bool:
    """Whether any character of the text takes no place on the page."""
    return _ANY.search(text) is not None


def _is_needed(character: str, before: str, after: str) -> bool:
    """Whether this joiner or variation selector belongs to the word or emoji around it."""
    if not before:
        return False
    if character in "\u200c\u200d":
        return _joins_word(before, after) or (character == "\u200d" and _joins_emoji(before, after))
    if character in _TEXT_OR_EMOJI_STYLE:
        return unicodedata.category(before)[0] in "SNP" or before in "\u2139\u24c2"
    if "\U000e0100" <= character <= "\U000e01ef" or "\u180b" <= character <= "\u180f":
        return unicodedata.category(before) == "Lo"
    return False


def _joins_word(before: str, after: str) -> bool:
    return bool(after) and all(unicodedata.category(each)[0] in "LM" for each in before + after)


def _joins_emoji(before: str, after: str) -> bool:
    """An emoji, perhaps with its style or skin tone, and another one."""
    starts = before in _TEXT_OR_EMOJI_STYLE + _SKIN_TONES or unicodedata.category(before) == "So"
    return starts and bool(after) and unicodedata.category(after) == "So"
