"""What reviewers are shown of a changed image, from patches that Git made."""

import hashlib
import random
from pathlib import Path

import pytest

from tests.integration.proof.repository import GitRepository
from workspace.readable_diff import readable_diff

NOISE = random.Random(7).randbytes(300_000)
OTHER_NOISE = random.Random(8).randbytes(200_000)
TOUCHED = NOISE[:150_000] + b"touched" + NOISE[150_000:]


def blob_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


@pytest.mark.parametrize(
    ("before", "after", "sizes"),
    [
        pytest.param(NOISE, OTHER_NOISE, "300000 bytes before, 200000 bytes now", id="replaced"),
        pytest.param(NOISE, TOUCHED, "300000 bytes before, 300007 bytes now", id="touched"),
        pytest.param(TOUCHED, NOISE, "300007 bytes before, 300000 bytes now", id="taken back"),
        pytest.param(None, NOISE, "0 bytes before, 300000 bytes now", id="added"),
        pytest.param(NOISE, None, "300000 bytes before, 0 bytes now", id="deleted"),
        pytest.param(b"\0", b"\0\0", "1 bytes before, 2 bytes now", id="tiny"),
    ],
)
def test_an_image_is_shown_by_name_sizes_and_digests(
    tmp_path: Path, before: bytes | None, after: bytes | None, sizes: str
) -> None:
    """Of a binary change path, both sizes and both blob ids are shown, and no content."""
    shown = readable_diff(patch(tmp_path, {"logo.png": before}, {"logo.png": after})).decode()
    assert "diff --git a/logo.png b/logo.png" in shown
    assert f"\nBinary content, not shown: {sizes}\n" in shown
    ids = [blob_id(content) if content else "0" * 40 for content in (before, after)]
    assert f"\nindex {'..'.join(ids)}" in shown
    assert len(shown) < 500


def test_text_between_images_is_shown_as_it_is(tmp_path: Path) -> None:
    """What surrounds binary content stays, a text that imitates a binary patch included."""
    fake = b"GIT binary patch\nliteral 3\nabc\n\n-\n"
    text = readable_diff(patch(tmp_path, {}, {"b.txt": fake}))
    mixed = patch(tmp_path, {}, {"a.png": NOISE, "b.txt": fake, "c.png": OTHER_NOISE})
    shown = readable_diff(mixed)
    assert text == patch(tmp_path, {}, {"b.txt": fake})
    assert text in shown
    assert shown.count(b"Binary content, not shown") == 2


def patch(folder: Path, before: dict[str, bytes | None], after: dict[str, bytes | None]) -> bytes:
    repository = GitRepository(folder / "repository.git")
    old, new = (
        repository.commit({"kept": b"", **{n: c for n, c in files.items() if c is not None}})
        for files in (before, after)
    )
    return repository.diff(old, new)
