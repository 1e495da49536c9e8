from pydantic import SecretStr

from webhooks.signature import is_signed, sign

SECRET, PREVIOUS = SecretStr("It's a Secret to Everybody"), SecretStr("old")


def test_github_s_own_example_is_accepted() -> None:
    """The example of GitHub's documentation verifies."""
    signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert is_signed(b"Hello, World!", signature, [SECRET])


def test_both_secrets_count_during_rotation() -> None:
    """A delivery signed with the previous secret is not lost while the secret is changed."""
    for secret in (SECRET, PREVIOUS):
        assert is_signed(b"body", sign(b"body", secret), [SECRET, PREVIOUS])
    assert not is_signed(b"body", sign(b"body", PREVIOUS), [SECRET])


def test_what_is_not_signed_is_refused() -> None:
    """Another body, no signature, an odd one, or no secret at all: no."""
    good = sign(b"body", SECRET)
    assert not is_signed(b"Body", good, [SECRET])
    assert not is_signed(b"body", None, [SECRET])
    for signature in ("", "sha256=", good.upper(), good[:-1], good + "0", "sha256=\u00e9\u202e"):
        assert not is_signed(b"body", signature, [SECRET])
    assert not is_signed(b"body", good, [])


def test_empty_secret_signs_nothing() -> None:
    """A secret that was never set does not open the door to everybody."""
    assert not is_signed(b"body", sign(b"body", SecretStr("")), [SecretStr("")])
