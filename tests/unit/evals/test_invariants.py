"""Every invariant catches its violation: sound facts say nothing, one change says one sentence."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from evals.facts import Facts
from evals.invariants import repeated_questions, violations

NAME, BOT, BASE, SHA = "acme/sums", "ultracode[bot]", "b" * 40, "c" * 40
MARK = f"<!-- ultracode {'0' * 32} -->"
BRANCH = "ultracode/1-abc"
Change = Callable[[Facts], Facts | None]


def sound() -> Facts:
    """Return what is there after a run whose candidate was approved and landed."""
    pull = {
        "head": BRANCH, "head_sha": SHA, "merged": True, "draft": False,
        "reviews": [{"by": "rosa", "state": "APPROVED", "commit_id": SHA}],
    }  # fmt: skip
    comments = [{"by": "ada", "body": "/ultracode Do it."}, {"by": BOT, "body": f"Done. {MARK}"}]
    check = {
        "name": "ultracode/suite/unit", "head_sha": SHA, "external_id": "r1:0:unit",
        "status": "completed", "conclusion": "success",
    }  # fmt: skip
    held = {
        "id": 7, "default_branch": "main", "refs": ["refs/heads/main"], "check_runs": [check],
        "issues": [
            {"number": 1, "state": "open", "comments": comments, "pull": None},
            {"number": 2, "state": "closed", "comments": [], "pull": pull},
        ],
    }  # fmt: skip
    run = {
        "run_id": "r1", "repository_id": 7, "issue_number": 1, "trigger_kind": "comment",
        "state": "promoted", "branch": BRANCH,
    }  # fmt: skip
    return Facts(
        bot=BOT,
        github={NAME: held},
        deliveries=[{"guid": "g1", "status_code": 202}],
        received=frozenset({"g1"}),
        histories={
            NAME: [
                {"sha": SHA, "parents": [BASE], "by": BOT},
                {"sha": BASE, "parents": [], "by": "ada"},
            ]
        },
        parents={SHA: [BASE]},
        runs=[run],
        steps=[{"run_id": "r1", "to": "working", "epoch": 1}],
        status_marks={"r1": MARK},
    )


def held(facts: Facts) -> Any:
    return facts.github[NAME]


def pull(facts: Facts) -> Any:
    return held(facts)["issues"][1]["pull"]


def _twice(things: list[Any], **changes: Any) -> None:
    things.append(deepcopy(things[-1]) | changes)


def _not_landed(facts: Facts) -> None:
    held(facts)["issues"][1].update(state="open")
    pull(facts).update(merged=False)
    facts.histories[NAME].pop(0)


CHANGES: list[tuple[str, Change]] = [
    ("the status comment of #1 stands", lambda f: _twice(held(f)["issues"][0]["comments"])),
    ("has 2 pull requests", lambda f: _twice(held(f)["issues"], number=3)),
    ("stands 2 times on", lambda f: _twice(held(f)["check_runs"])),
    ("is still open", lambda f: held(f)["check_runs"][0].update(status="in_progress")),
    ("which is not ours", lambda f: _twice(held(f)["check_runs"], head_sha=BASE)),
    ("nobody approved exactly that", lambda f: pull(f)["reviews"][0].update(commit_id=BASE)),
    ("no suite passed", lambda f: held(f)["check_runs"][0].update(conclusion="failure")),
    ("no pull request was reviewed", lambda f: held(f)["issues"].pop()),
    ("added more than one commit", lambda f: f.histories[NAME][0].update(parents=["d" * 40])),
    ("was promoted 2 times", lambda f: f.histories[NAME].insert(0, f.histories[NAME][0])),
    ("does not land", _not_landed),
    ("belongs to no run", lambda f: held(f)["refs"].append("refs/heads/ultracode/9-zzz")),
    ("outlived its run", lambda f: held(f)["refs"].append(f"refs/heads/{BRANCH}")),
    ("was answered 202 and is gone", lambda f: replace(f, received=frozenset())),
    ("an old claim wrote", lambda f: replace(f, stale_writes=["r1 plan"])),
    ("has no job", lambda f: replace(f, jobless=["r1"])),
    ("by an old claim", lambda f: _twice(f.steps, epoch=0, to="planning")),
    ("more than anybody asked for", lambda f: f.runs.extend([f.runs[0], f.runs[0]])),
    ("is still lent", lambda f: replace(f, leases=["w"])),
    ("a process is left", lambda f: replace(f, processes=["9 sleep"])),
    ("control group of a dead worker", lambda f: replace(f, groups=["g"])),
]


def test_sound_facts_say_nothing() -> None:
    """A story that went well violates nothing."""
    assert violations(sound()) == []


@pytest.mark.parametrize(("sentence", "change"), CHANGES, ids=[s for s, _ in CHANGES])
def test_a_violation_is_told(sentence: str, change: Change) -> None:
    """One thing that is wrong is told, whatever else is well."""
    facts = sound()
    changed = change(facts)
    told = violations(changed if isinstance(changed, Facts) else facts)
    assert any(sentence in each for each in told), told


def test_too_many_runs_at_once_are_told() -> None:
    """More runs of a repository at work than its limit allows are told."""
    told = violations(sound(), runs_per_repository=0)
    assert told == ["1 runs of repository 7 worked at once"]


def test_repeated_questions_are_told() -> None:
    """A question put to the model twice is told, unless it was in flight when a worker died."""
    asked = [{"input": "a"}, {"input": "a"}]
    assert list(repeated_questions(asked, allowed=1)) == []
    assert len(list(repeated_questions(asked, allowed=0))) == 1
