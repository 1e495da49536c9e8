import contextlib
import hashlib
import json
import typing

import jsonschema_rs
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from bot.policy import (
    SCHEMA_FILE,
    Policy,
    PolicyError,
    parse_policy,
    policy_digest,
    policy_schema,
)
from bot.policy_proposal import propose_policy
from workspace.registries import REGISTRIES, RegistryName, rules_of

FULL = b"""\
version: 1
requesters: write                     # write | maintain | admin
label: ultracode
bases: [main, "release/*"]
suites:
  unit: {run: "python -m pytest -q --junitxml=$ULTRACODE_JUNIT", required: true, timeout: 10m}
  lint: {run: "ruff check .", required: false, paths: ["**/*.py"], bases: [main]}
setup: {run: "pip install -r requirements.txt", inputs: [requirements.txt], network: [python]}
writes: {deny: ["migrations/**"], allow: []}
review: {approvals: 1, from: write, contributors_may_approve: auto,
         on_changes_requested: revise, expires: 7d}
plan_approval: false
refresh: {when_behind: false}
retention: 30d
publish: {rounds: every}
limits: {workers: 4, rounds: 3, minutes: 60, tokens: 2000000, cost: null,
         concurrent_runs: 2, revisions: 3}
sandbox: {image: null, memory: 2GiB, cpus: 2, disk: 2GiB}
"""
LEAST = b"version: 1\nsuites: {unit: {run: make test}}\n"


def problems(raw: bytes) -> list[str]:
    with pytest.raises(PolicyError) as caught:
        parse_policy(raw)
    return [str(problem) for problem in caught.value.problems]


def test_every_documented_key_is_understood() -> None:
    """The documented file parses, with durations in seconds and sizes in bytes."""
    policy = parse_policy(FULL)
    assert policy.review.expires_seconds == 7 * 86400
    assert policy.retention_seconds == 30 * 86400
    assert policy.suites["unit"].timeout_seconds == 600
    assert policy.sandbox_limits().memory_bytes == 2 * 1024**3
    assert policy.write_rules().deny == ("migrations/**",)
    setup = policy.setup_step()
    assert setup is not None
    assert setup.network == ("python",)


def test_the_documented_values_are_the_defaults() -> None:
    """A file with suites only means the same as one that writes every default out."""
    full = parse_policy(FULL).model_dump(exclude={"suites", "setup", "bases", "writes"})
    least = parse_policy(LEAST).model_dump(exclude={"suites", "setup", "bases", "writes"})
    assert least == full


def test_suites_apply_to_the_bases_they_name() -> None:
    """A suite bound to main does not run for a release branch; required ones come first."""
    policy = parse_policy(FULL)
    assert [suite.id for suite in policy.suites_for("main")] == ["unit", "lint"]
    assert [suite.id for suite in policy.suites_for("release/1.x")] == ["unit"]
    assert policy.suites_for("main")[0].junit


def test_an_optional_suite_is_added_when_its_paths_are_touched() -> None:
    """Touching a Python file, a hidden folder included, adds the linter; a text file does not."""
    policy = parse_policy(FULL)
    assert [s.id for s in policy.suites_touched("main", ("docs/a.md", ".ci/x.py"))] == ["lint"]
    assert policy.suites_touched("main", ("docs/a.md",)) == ()


def test_bases_decide_what_may_be_targeted() -> None:
    """Patterns admit whole branch names; without `bases` only the default branch is admitted."""
    policy = parse_policy(FULL)
    assert policy.admits_base("release/1.x", default_branch="main")
    assert not policy.admits_base("release/1/x", default_branch="main")
    assert not policy.admits_base("mainly", default_branch="main")
    least = parse_policy(LEAST)
    assert least.admits_base("trunk", default_branch="trunk")
    assert not least.admits_base("main", default_branch="trunk")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("limits: {tokns: 3}", "line 3: unknown key `limits.tokns`; did you mean `tokens`?"),
        ("reviews: {}", "line 3: unknown key `reviews`; did you mean `review`?"),
        ("review: {from: wirte}", "did you mean `write`?"),
        ("review: {approvals: 0}", "line 3: `review.approvals` must be at least 1"),
        ("plan_approval: 'yes'", "line 3: `plan_approval` must be true or false"),
        ("limits: {workers: 5}", "line 3: `limits.workers` must be at most 4"),
        ("limits: {workers: 2.5}", "line 3: `limits.workers` must be a whole number"),
        ("retention: 30", "line 3: `retention` is not right: give a number with its unit"),
        ("review: {expires: 0s}", "line 3: `review.expires` is not right: give between 1m and 90d"),
        ("sandbox: {memory: 2GB}", "line 3: `sandbox.memory` is not right"),
        ("sandbox: {cpus: .inf}", "line 3: `sandbox.cpus` must be a number"),
        ("bases: []", "line 3: `bases` must not be empty"),
        ("bases: ['a[b]']", "line 3: `bases.0` is not right: a pattern is made of letters"),
        ("writes: {deny: ['../x']}", "relative to the root"),
        ("writes: {deny: ['/x']}", "relative to the root"),
        ("writes: {deny: ['a**']}", "`**` stands alone between slashes"),
        ("writes: {deny: ['**/a/**/b/**']}", "at most twice"),
        ("setup: {run: x, inputs: ['*.txt']}", "name files, not patterns"),
        ("setup: {run: x, network: [pyton]}", "did you mean `python`?"),
        ("version: 1", "line 3: `version` stands twice (first on line 1)"),
        ("label: &x ultracode", "line 3: anchors and aliases"),
        ("label: !!str ultracode", "line 3: tags (`!`) are not allowed"),
        ("---", "line 3: one document only"),
        ("label: [", "not valid YAML"),
        ("[a]: b", "line 3: a key must be a word"),
        ("refresh: true", "line 3: `refresh` must be a mapping"),
        ("writes: {deny: [" + "a," * 51 + "]}", "must have at most 50 entries"),
        ('label: "\\ud800"', "line 3: not valid YAML"),
    ],
)
def test_every_mistake_is_named_with_its_line(line: str, sentence: str) -> None:
    """A wrong line is refused with its number, what is wrong, and the nearest right word."""
    found = problems(LEAST + line.encode() + b"\n")
    assert len(found) == 1
    assert sentence in found[0]


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (b"", "line 1: the file must be a mapping that starts `version: 1`"),
        (b"- version: 1", "line 1: the file must be a mapping"),
        (b"version: 2\n" + LEAST[11:], "line 1: `version` must be 1"),
        (b"version: 1\nsuites: {}", "line 2: `suites` must not be empty"),
        (b"version: 1", "line 1: `suites` is missing"),
        (b"version: 1\nsuites: {'u v': {run: x}}", "line 2: `suites.u v` is not a usable name"),
        (b"version: 1\nsuites: {u: {}}", "line 2: `suites.u.run` is missing"),
        (b'version: 1\nsuites: {u: {run: "a\\0b"}}', "line 2: `suites.u.run` is not right"),
        (b"version: 1\nsuites: {u: {run: 5}}", "line 2: `suites.u.run` must be text; quote it"),
        (b"version: 1\nsuites: {u: {run: x, paths: [a]}}", "a required suite always runs"),
        (b"version: 1\nsuites: {u: {run: x, required: false}}", "at least one suite"),
        (b"version: 1\n# \xff\n", "line 2: the file is not UTF-8 text"),
        (b"a: \x00", "characters YAML forbids"),
        (b"#" * 70_000, "line 1: the file is larger than 64 KiB"),
        (b"[" * 11 + b"]" * 11, "line 1: nested deeper than 10 levels"),
    ],
)
def test_a_file_that_is_no_policy_is_refused(raw: bytes, sentence: str) -> None:
    """What cannot be a policy is refused in words, not with a traceback."""
    assert sentence in "\n".join(problems(raw))


def test_unknown_keys_are_found_at_every_depth() -> None:
    """A key that only another section knows is unknown here, and the ones known are listed."""
    [found] = problems(b"version: 1\nsuites:\n  u:\n    run: x\n    tokens: 5\n")
    assert found.startswith("line 5: unknown key `suites.u.tokens`; known here: bases, paths, ")


def test_problems_are_bounded_and_printable() -> None:
    """A hostile file gets at most ten problems, without its control characters."""
    raw = b"".join(b'"k%d\\x1b[31m`": 1\n' % number for number in range(100))
    found = problems(raw)
    assert len(found) == 10
    assert all(text.isprintable() for text in found)


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_bytes_cause_a_traceback(raw: bytes) -> None:
    """Any bytes give a policy or a PolicyError, nothing else."""
    with contextlib.suppress(PolicyError):
        parse_policy(raw)


def test_the_digest_is_that_of_the_file_in_git() -> None:
    """Anybody can recompute the policy digest with sha256sum."""
    assert policy_digest(FULL) == hashlib.sha256(FULL).hexdigest()


def test_every_registry_of_the_proxy_can_be_named() -> None:
    """Policy and proxy speak of the same registries: what one names, the other knows."""
    assert typing.get_args(RegistryName) == tuple(REGISTRIES)
    names = ", ".join(REGISTRIES)
    setup = parse_policy(LEAST + f"setup: {{run: x, network: [{names}]}}".encode()).setup_step()
    assert setup is not None
    assert rules_of(setup.network)


def test_the_published_schema_is_current_and_accepts_the_documented_file() -> None:
    """`python -m bot.policy` has been run, and editors accept and reject what the parser does."""
    published = json.loads(SCHEMA_FILE.read_text())
    assert published == policy_schema()
    validator = jsonschema_rs.validator_for(published)
    assert validator.is_valid(yaml.safe_load(FULL))
    assert not validator.is_valid(yaml.safe_load(LEAST + b"limits: {tokns: 3}"))
    assert not validator.is_valid(yaml.safe_load(LEAST + b"retention: 30"))


@pytest.mark.parametrize(
    ("files", "contents", "command"),
    [
        (["pyproject.toml"], {"pyproject.toml": b"[tool.ruff]\n"}, "pytest"),
        (["requirements.txt", "setup.py"], {}, "pip install -r requirements.txt"),
        (
            ["package.json", "package-lock.json"],
            {"package.json": b'{"scripts":{"lint":""}}'},
            "npm ci",
        ),
        (["package.json"], {"package.json": b"["}, "npm test"),
        (["go.mod", "go.sum"], {}, "go test ./..."),
        (["Cargo.toml"], {}, "cargo test"),
        (["Makefile"], {"Makefile": b"all:\n\ncheck: all\n"}, "make check"),
        (["README.md"], {}, "put your command"),
        ([], {}, "put your command"),
    ],
)
def test_a_repository_without_a_file_gets_one_to_copy(
    files: list[str], contents: dict[str, bytes], command: str
) -> None:
    """The proposal names the commands of the tool chain found, and is itself a valid policy."""
    proposal = propose_policy(files, contents)
    assert command in proposal
    assert isinstance(parse_policy(proposal.encode()), Policy)
