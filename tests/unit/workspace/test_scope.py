"""Scopes of a plan, and the paths nobody may claim."""

import pytest

from workspace.contracts import Scope, WriteRules
from workspace.globs import parse_glob
from workspace.scope import decide_scopes, inside, load_denials, outside_reason

TREE = [b"src/a.py", b"src/b.py", b"tests/test_a.py", b".github/workflows/ci.yml", b"conftest.py"]
NOTHING = load_denials(WriteRules())


def scope(task: str, *globs: str) -> Scope:
    return Scope(task_id=task, read_only=not globs, write_globs=globs)


def test_disjoint_scopes_are_sound() -> None:
    """Tasks that cannot meet are accepted, read-only ones among them."""
    scopes = [scope("a", "src/**"), scope("b", "tests/**", "docs/*.md"), scope("c")]
    assert decide_scopes(scopes, NOTHING, TREE) == ()


def test_overlap_names_the_files() -> None:
    """An overlap on existing files names them."""
    (problem,) = decide_scopes([scope("a", "src/**"), scope("b", "**/a.py")], NOTHING, TREE)
    assert problem.startswith("Tasks a and b overlap (src/** and **/a.py): src/a.py.")


def test_would_be_overlap_names_a_file_that_both_could_make() -> None:
    """An overlap on a file that does not exist yet is rejected as well."""
    (problem,) = decide_scopes([scope("a", "new/*.py"), scope("b", "new/x*")], NOTHING, TREE)
    assert "could be made by both" in problem


@pytest.mark.parametrize(
    "path",
    [
        "CODEOWNERS",
        "docs/CODEOWNERS",
        "docs/codeowners",
        ".github/workflows/ci.yml",
        ".GITHUB/workflows/x.yml",
        "vendor/.github/x",
        "src/.gitattributes",
        ".gitmodules",
        ".lfsconfig",
        "AGENTS.md",
        "pkg/Claude.md",
        ".claude/settings.json",
        ".vscode/tasks.json",
        ".devcontainer/devcontainer.json",
        "tests/conftest.py",
        "pytest.ini",
        "Makefile",
        "sitecustomize.py",
        "lib/evil.pth",
        "jest.config.ts",
    ],
)
def test_denied_at_any_depth_and_in_any_case(path: str) -> None:
    """What steers reviews, agents or runners is denied wherever it stands."""
    assert NOTHING.reason(path) is not None


@pytest.mark.parametrize(
    "path",
    [
        ".windsurfrules",
        ".clinerules",
        ".clinerules/a.md",
        ".junie/guidelines.md",
        ".opencode/x",
        "opencode.json",
        ".agents/skills/x",
        ".agents",
        ".kiro/x",
        ".roo/rules",
        ".amazonq/x",
        ".continue/x",
        ".aider.conf.yml",
        ".husky/pre-commit",
        ".gitlab-ci.yml",
        "Jenkinsfile",
        ".circleci/config.yml",
        ".cursorrules",
        "pkg/GEMINI.md",
    ],
)
def test_rules_of_agents_and_ci_are_denied(path: str) -> None:
    """What other agents, Git hooks and CI services are told is denied as well."""
    assert "steers" in (NOTHING.reason(path) or "")


@pytest.mark.parametrize(
    ("one", "other", "shown"),
    [
        ("Docs/**", "docs/**", "docs/x could be made by both"),
        ("SRC/a.py", "src/a.py", ": src/a.py."),
        ("é/*", "e\u0301/*", "could be made by both"),
    ],
)
def test_names_that_only_case_or_form_tells_apart_overlap(one: str, other: str, shown: str) -> None:
    """Two tasks whose files no candidate could hold together are rejected at the plan."""
    (problem,) = decide_scopes([scope("a", one), scope("b", other)], NOTHING, TREE)
    assert "where case or Unicode form is folded" in problem
    assert shown in problem


def test_a_glob_that_grows_when_folded_is_refused_in_words() -> None:
    """A glob within the limit that folding makes longer is a sentence, not a crash."""
    (problem,) = decide_scopes([scope("a", "ß" * 200)], NOTHING, TREE)
    assert "1 to 300 characters" in problem


@pytest.mark.parametrize("path", [".gitignore", "src/a.py", "github/x", "docs/agents.txt"])
def test_ordinary_paths_are_not_denied(path: str) -> None:
    """Names that merely look similar are fine."""
    assert NOTHING.reason(path) is None


def test_policy_denies_more_and_lifts() -> None:
    """`deny` adds to the list, `allow` takes from the built-in part and from nothing else."""
    rules = load_denials(WriteRules(deny=("migrations/**",), allow=("conftest.py", "migrations/x")))
    assert rules.reason("migrations/1.py") is not None
    assert rules.reason("migrations/x") is not None
    assert rules.reason("conftest.py") is None
    assert rules.reason("tests/conftest.py") is not None


@pytest.mark.parametrize("glob", [".github/**", "**/CODEOWNERS", "conftest.py", ".github/*/*.yml"])
def test_a_glob_for_denied_paths_only_is_rejected(glob: str) -> None:
    """A claim that could only ever be refused is refused at the plan."""
    (problem,) = decide_scopes([scope("a", glob)], NOTHING, TREE)
    assert "names only denied paths" in problem


@pytest.mark.parametrize("glob", ["**", "src/**", "*.py", ".git*"])
def test_a_wider_glob_is_not_rejected(glob: str) -> None:
    """A glob that also names denied paths is fine: those are refused at freeze."""
    assert decide_scopes([scope("a", glob)], NOTHING, TREE) == ()


def test_what_policy_lifts_can_be_claimed() -> None:
    """A lifted path can be claimed by name."""
    rules = load_denials(WriteRules(allow=(".github/workflows/ci.yml",)))
    assert rules.path_left(parse_glob(".github/workflows/*")) == ".github/workflows/ci.yml"
    assert decide_scopes([scope("a", ".github/workflows/ci.yml")], rules, TREE) == ()


def test_a_folder_claimed_as_a_file_is_explained() -> None:
    """A glob that names a folder would match nothing; the sentence says what to write."""
    (problem,) = decide_scopes([scope("a", "src")], NOTHING, TREE)
    assert "write src/**" in problem


def test_read_only_and_globs_must_agree() -> None:
    """A read-only task has no globs, and any other has some."""
    both = Scope(task_id="a", read_only=True, write_globs=("x",))
    none = Scope(task_id="b", read_only=False)
    assert len(decide_scopes([both, none], NOTHING, TREE)) == 2


def test_the_reason_names_the_scope() -> None:
    """Who is refused sees what would have been allowed."""
    assert inside(scope("a", "src/**"), "src/x/y.py")
    assert not inside(scope("a", "src/**"), "src")
    assert outside_reason(scope("a", "src/**")) == "outside the scope of a: src/**"
    assert "read-only" in outside_reason(scope("a"))
