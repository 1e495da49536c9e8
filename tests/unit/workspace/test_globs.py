"""The glob dialect, and what can be said of two patterns."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from wcmatch import glob as wc

from workspace.globs import GlobError, common_path, parse_glob, path_outside

_COMPONENT = st.text(alphabet="ab.*?", min_size=1, max_size=4).filter(
    lambda text: "**" not in text and text not in {".", ".."}
)
_GLOB = (
    st.lists(st.one_of(_COMPONENT, st.just("**")), min_size=1, max_size=4)
    .filter(lambda parts: parts.count("**") <= 2)
    .map("/".join)
)
_PATH = st.lists(
    st.text(alphabet="ab.", min_size=1, max_size=3).filter(lambda t: t not in {".", ".."}),
    min_size=1,
    max_size=4,
).map("/".join)


def wcmatch_says(path: str, glob: str) -> bool:
    flags = wc.GLOBSTAR | wc.DOTGLOB | wc.CASE | wc.FORCEUNIX
    return bool(wc.globmatch(path, glob, flags=flags))


@given(_PATH, _GLOB)
@example("src", "src/**")
@example("a/b", "**")
@example("a", "**/a")
@example("a", "**/**")
def test_matching_agrees_with_wcmatch(path: str, glob: str) -> None:
    """A glob matches what an independent implementation says it does."""
    if glob.endswith("/**") and wcmatch_says(path + "/", glob):
        return  # wcmatch lets `src/**` name the folder itself; only files matter here
    assert parse_glob(glob).matches(path) == wcmatch_says(path, glob)


@given(_GLOB, _GLOB, _PATH)
def test_overlap_is_never_missed_and_its_witness_is_real(one: str, other: str, path: str) -> None:
    """Where a path matches both globs an overlap is found, and the path given matches both."""
    first, second = parse_glob(one), parse_glob(other)
    common = common_path(first, second)
    if first.matches(path) and second.matches(path):
        assert common is not None
    if common is not None:
        assert first.matches(common)
        assert second.matches(common)


@given(_GLOB, st.lists(_GLOB, max_size=3), _PATH)
def test_a_path_outside_is_never_missed(glob: str, others: list[str], path: str) -> None:
    """A path that only the first glob names is found where there is one."""
    denied = [parse_glob(other) for other in others]
    outside = path_outside(parse_glob(glob), denied)
    if parse_glob(glob).matches(path) and not any(other.matches(path) for other in denied):
        assert outside is not None
    if outside is not None:
        assert parse_glob(glob).matches(outside)
        assert not any(other.matches(outside) for other in denied)


def test_brackets_and_braces_are_literal() -> None:
    """Names as some frameworks use them need no escape."""
    assert parse_glob("app/[slug]/*.tsx").matches("app/[slug]/page.tsx")
    assert parse_glob("{{name}}/**").matches("{{name}}/a.py")
    assert not parse_glob("app/[slug]/*.tsx").matches("app/s/page.tsx")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "1 to 300"),
        ("x" * 301, "1 to 300"),
        ("/etc/passwd", "relative"),
        ("../x", "relative"),
        ("a//b", "relative"),
        ("src/", "src/**"),
        ("a**b", "stands alone"),
        ("**/a/**/b/**", "at most 2"),
        ("src/{a,b}.py", "one glob for each"),
        ("a\\b", "backslash"),
        ("a\u202eb", "invisible"),
        ("a\nb", "invisible"),
    ],
)
def test_what_is_no_glob_is_refused_with_what_to_write(text: str, says: str) -> None:
    """A refused glob comes with a reason a planner can act on."""
    with pytest.raises(GlobError, match=says.replace("*", r"\*")):
        parse_glob(text)


def test_entangled_patterns_are_decided() -> None:
    """Patterns made to blow up a matcher are decided all the same."""
    one = parse_glob("**/" + "*a" * 100 + "/**")
    other = parse_glob("**/" + "*b" * 100 + "?/**")
    common = common_path(one, other)
    assert common is not None
    assert common.count("a") >= 100
    assert common.count("b") >= 100
