"""Keeping head and tail of what is printed."""

from hypothesis import given
from hypothesis import strategies as st

from workspace.sandbox.output import Capture


@given(chunks=st.lists(st.binary(max_size=40), max_size=30), kept=st.integers(1, 100))
def test_head_and_tail_are_the_commands_own(chunks: list[bytes], kept: int) -> None:
    """Whatever the chunks, what is kept begins and ends as the whole did, with the gap counted."""
    capture = Capture(kept)
    for chunk in chunks:
        capture.add(chunk)
    whole, text = b"".join(chunks), capture.text()
    assert capture.size == len(whole)
    if len(whole) <= kept:
        assert text == whole
    else:
        head, tail = kept - kept // 2, kept // 2
        note = b"\n[... %d bytes left out ...]\n" % (len(whole) - kept)
        assert text == whole[:head] + note + whole[len(whole) - tail :]


def test_a_flood_costs_no_memory() -> None:
    """However much is printed, only so much is held."""
    capture = Capture(1000)
    for _ in range(10_000):
        capture.add(b"x" * 1000)
    assert len(capture.text()) < 1100
    assert capture.size == 10_000_000
