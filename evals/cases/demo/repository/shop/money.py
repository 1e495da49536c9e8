"""Prices: from what people type to cents."""


def to_cents(price: str) -> int:
    """Return the cents of a price such as "4.35"."""
    return int(float(price) * 100)
