"""Carts: what a customer pays."""


def discounted(cents: int, percent: int) -> int:
    """Return the price less a discount, rounded half up to whole cents."""
    return int(cents * (100 - percent) / 100)


def total(lines: list[tuple[int, int]], percent: int = 0) -> int:
    """Return the sum of (cents, quantity) lines less a discount on the whole."""
    return discounted(sum(cents * quantity for cents, quantity in lines), percent)
