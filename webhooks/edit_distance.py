"""The nearest of a few known words. In: a word and the known ones. Out: the nearest, or None."""

from collections.abc import Iterable

MAX_EDITS = 2


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word within two edits of `word`, the first of the nearest ones.

    An edit inserts, removes or replaces a letter, or swaps two neighbours (optimal string
    alignment).
    A word that shares no letter with the known one is not a misspelling of it, however short.
    """
    related = [each for each in known if set(each) & set(word)]
    distances = {each: edit_distance(word, each) for each in related}
    best = min(distances, key=lambda each: distances[each], default=None)
    return best if best is not None and distances[best] <= MAX_EDITS else None


def edit_distance(word: str, other: str) -> int:
    """The number of edits between two words, counted up to one more than `MAX_EDITS`."""
    if abs(len(word) - len(other)) > MAX_EDITS:
        return MAX_EDITS + 1
    before_previous: list[int] = []
    previous = list(range(len(other) + 1))
    for i, letter in enumerate(word, 1):
        current = [i]
        for j, wanted in enumerate(other, 1):
            cost = min(previous[j] + 1, current[-1] + 1, previous[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and word[i - 2 : i] == other[j - 2 : j][::-1]:
                cost = min(cost, before_previous[j - 2] + 1)
            current.append(cost)
        before_previous, previous = previous, current
    return min(previous[-1], MAX_EDITS + 1)
